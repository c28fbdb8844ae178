package kube

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// sides is how a service's requests are split between its own revision and the warm
// one, and who could take how many.
type sides struct {
	route      kube.Route
	main, warm kube.Workload
	backend    string // the warm revision's, in the route
	rules      []int  // of the route, those that hold the backend
	percent    int    // of the requests that the warm revision gets now
	most       int    // of them that its ready replicas take
}

// warmOf reads the route and both workloads of a service with a warm revision.
func warmOf(ctx context.Context, kind string, ws step.Workloads, rs step.Routes, svc playbook.Service) (sides, error) {
	var out sides
	if svc.Warm == (playbook.Warm{}) {
		return out, &fault.Error{Reason: fault.Invalid, Message: kind + ": service " + svc.Name + " names no warm revision: set warm in its entry of the catalog"}
	}
	var err error
	if out.main, err = ws.Workload(ctx, refIn(svc, svc.Workload)); err != nil {
		return out, err
	}
	if out.route, err = rs.Route(ctx, refIn(svc, svc.Warm.Route)); err != nil {
		return out, err
	}
	out.backend = svc.Warm.Backend
	ref := refIn(svc, svc.Warm.Workload)
	if out.route.Ref.Kind == kube.InferenceService {
		out.backend = out.route.Rules[0].Backends[1].Name
		ref = kube.Ref{Kind: "Deployment", Namespace: svc.Namespace, Name: out.backend + "-deployment"} // as Knative names it
	}
	if out.warm, err = ws.Workload(ctx, ref); err != nil {
		return out, err
	}
	if err := out.share(kind); err != nil {
		return out, err
	}
	out.most = out.takes(svc.Warm.Most)
	return out, nil
}

func refIn(svc playbook.Service, w playbook.Workload) kube.Ref {
	return kube.Ref{Kind: w.Kind, Namespace: svc.Namespace, Name: w.Name}
}

// share finds the rules that hold the warm backend, and what it gets of their requests.
func (s *sides) share(kind string) error {
	refuse := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.OutOfBounds, Message: kind + ": " + step.RefText(s.route.Ref) + ": " + fmt.Sprintf(format, args...)}
	}
	first := 0.0
	for i, rule := range s.route.Rules {
		held := slices.DeleteFunc(slices.Clone(rule.Backends), func(b kube.Backend) bool { return b.Name != s.backend })
		switch {
		case len(held) == 0:
			continue
		case len(held) > 1:
			return refuse("%s has backend %s %d times", rule.Path, s.backend, len(held))
		case len(rule.Backends) == 1:
			return refuse("%s has no backend beside %s: there is nothing to split", rule.Path, s.backend)
		case rule.Total() <= 0:
			return refuse("%s sends requests nowhere: all weights are 0", rule.Path)
		}
		share := float64(held[0].Weight) / float64(rule.Total())
		if len(s.rules) > 0 && math.Abs(share-first) > 1e-9 {
			return refuse("its rules split differently: backend %s gets %.3g %% by %s and %.3g %% by %s; give both the same weights first",
				s.backend, 100*first, s.route.Rules[s.rules[0]].Path, 100*share, rule.Path)
		}
		first, s.rules = share, append(s.rules, i)
	}
	if len(s.rules) == 0 {
		return refuse("no rule has a backend %s: see warm.backend of the service", s.backend)
	}
	s.percent = int(math.Round(100 * first))
	return nil
}

// takes returns the percent of the requests that the warm revision's ready replicas
// take: each as many as a replica of the service has when all of those serve, or what
// people say that they take.
func (s *sides) takes(declared int) int {
	w, of := s.warm, s.main.Replicas
	if declared > 0 {
		return declared * min(w.Ready, w.Replicas) / max(w.Replicas, 1)
	}
	return min(100, 100*w.Ready/max(of, 1))
}

// unfit returns why no requests may be moved to the warm revision; empty: they may.
func (s *sides) unfit() string {
	w := s.warm
	switch {
	case w.Ready == 0:
		return step.RefText(w.Ref) + " has no ready replica: it is not warm"
	case w.RollingOut():
		return step.RefText(w.Ref) + " is in the middle of a rollout"
	case s.most == 0:
		return fmt.Sprintf("%s has too few ready replicas (%d, the service has %d)", step.RefText(w.Ref), w.Ready, s.main.Replicas)
	case s.route.Refused != "":
		return step.RefText(s.route.Ref) + " is not carried out: " + s.route.Refused
	}
	return ""
}

// weighed returns the rules with which the warm backend gets a percent of the
// requests. The others keep their proportions.
func (s *sides) weighed(kind string, percent int) ([]kube.RouteRule, error) {
	out := slices.Clone(s.route.Rules)
	for _, i := range s.rules {
		rule := kube.RouteRule{Path: out[i].Path, Backends: slices.Clone(out[i].Backends)}
		others := int64(0)
		for _, b := range rule.Backends {
			if b.Name != s.backend {
				others += b.Weight
			}
		}
		if others == 0 { // it has everything, so nothing tells the others' proportions
			if len(rule.Backends) > 2 {
				return nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: %s of %s: how the other %d backends shared is not known: set their weights by hand",
					kind, rule.Path, step.RefText(s.route.Ref), len(rule.Backends)-1)}
			}
			others = 1
		}
		for j, b := range rule.Backends {
			switch {
			case b.Name == s.backend:
				b.Weight = int64(percent) * others
			case len(rule.Backends) == 2:
				b.Weight = int64(100-percent) * others
			default:
				b.Weight *= int64(100 - percent)
			}
			rule.Backends[j] = b
		}
		if percent == 100 && len(rule.Backends) > 2 {
			return nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
				"%s: %s of %s has %d other backends, whose proportions 100 %% would lose: move at most 99 %%", kind, rule.Path, step.RefText(s.route.Ref), len(rule.Backends)-1)}
		}
		reduce(rule.Backends)
		for j, b := range rule.Backends {
			rule.Backends[j].Unset = b.Unset && b.Weight == out[i].Backends[j].Weight
		}
		out[i] = rule
	}
	return out, nil
}

// reduce divides weights by what they have in common, to a sum of 100 where they can
// have that.
func reduce(backends []kube.Backend) {
	common, total := int64(0), int64(0)
	for _, b := range backends {
		common, total = gcd(common, b.Weight), total+b.Weight
	}
	if common == 0 {
		return
	}
	if total%100 == 0 && common%(total/100) == 0 {
		common = total / 100
	}
	for j := range backends {
		backends[j].Weight /= common
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sameRelease reports whether both workloads run the same containers: requests that
// are moved would meet the same release.
func sameRelease(ctx context.Context, ws step.Workloads, a, b kube.Ref) (bool, error) {
	var fields [2]map[string]string
	for i, ref := range []kube.Ref{a, b} {
		all, err := ws.Revisions(ctx, ref)
		if err != nil {
			return false, err
		}
		at := slices.IndexFunc(all, func(r kube.Revision) bool { return r.Current })
		if at < 0 {
			return false, &fault.Error{Reason: fault.NotFound, Message: step.RefText(ref) + " has no current revision yet"}
		}
		fields[i] = maps.Clone(all[at].Fields)
		maps.DeleteFunc(fields[i], func(k, _ string) bool { return !strings.HasPrefix(k, "containers[") })
	}
	return len(fields[0]) > 0 && maps.Equal(fields[0], fields[1]), nil
}
