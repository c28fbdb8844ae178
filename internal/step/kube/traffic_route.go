package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
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

	release, warmRelease string // what both run, as [releaseOf] has it
	percent              int    // of the requests that the warm revision gets now
	most                 int    // of them that its ready replicas take
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
	out.most = out.takes(svc.Warm.Each)
	if out.release, err = releaseOf(ctx, ws, out.main.Ref); err != nil {
		return out, err
	}
	out.warmRelease, err = releaseOf(ctx, ws, out.warm.Ref)
	return out, err
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
// people say that each takes.
func (s *sides) takes(each float64) int {
	if each > 0 {
		return int(min(100, each*float64(s.warm.Ready)))
	}
	return min(100, 100*s.warm.Ready/max(s.main.Replicas, 1))
}

// unfit returns why no requests may be moved to the warm revision; empty: they may.
func (s *sides) unfit() string {
	w := s.warm
	switch {
	case s.main.Replicas == 0:
		return step.RefText(s.main.Ref) + " is scaled to 0 replicas: nobody wants it to serve"
	case w.Ready == 0:
		return step.RefText(w.Ref) + " has no ready replica: it is not warm"
	case w.RollingOut():
		return step.RefText(w.Ref) + " is in the middle of a rollout"
	case s.most == 0:
		return fmt.Sprintf("%s has too few ready replicas (%d, the service has %d)", step.RefText(w.Ref), w.Ready, s.main.Replicas)
	case s.route.Refused != "" || s.route.Waits != "":
		return step.RefText(s.route.Ref) + " is not carried out: " + cmp.Or(s.route.Refused, s.route.Waits)
	}
	return ""
}

// target returns the percent to set. A relative change stops at what the warm revision
// takes; an absolute one beyond that is refused.
func (s *sides) target(with shiftWith) (to int, note string, err error) {
	refuse := func(r fault.Reason, format string, args ...any) (int, string, error) {
		return 0, "", &fault.Error{Reason: r, Message: shift + ": " + fmt.Sprintf(format, args...)}
	}
	if with.By != nil {
		to = min(100, s.percent+*with.By)
	} else {
		to = *with.Percent
	}
	why := s.unfit()
	switch {
	case to == s.percent || with.Back && to > s.percent:
		return refuse(fault.NothingToDo, "the warm revision gets %d %% of the requests already", s.percent)
	case to < s.percent:
		if to, note, why = s.home(to, with.Left, with.Replicas); why != "" {
			return refuse(fault.OutOfBounds, "%s", why)
		}
		return to, note, nil
	case why != "":
		return refuse(fault.OutOfBounds, "%s", why)
	case s.percent >= s.most:
		return refuse(fault.OutOfBounds, "the warm revision gets %d %% of the requests, and its %d ready replicas take %d %%: add replicas to it first", s.percent, s.warm.Ready, s.most)
	case to > s.most && with.By == nil:
		return refuse(fault.OutOfBounds, "%d %% of the requests are more than the %d %% that the warm revision's %d ready replicas take", to, s.most, s.warm.Ready)
	case to > s.most:
		return s.most, fmt.Sprintf("stops at %d %%, what the warm revision's ready replicas take, instead of %d %%", s.most, to), nil
	}
	return to, "", nil
}

// home returns how many requests the warm revision keeps when others go back to the
// service: no more go back than its ready replicas take. why is not empty if none may.
func (s *sides) home(want int, left string, replicas int) (to int, note, why string) {
	name, n := step.RefText(s.main.Ref), s.main
	switch {
	case n.Ready == 0:
		return s.percent, "", name + " has no ready replica"
	case s.warm.Ready == 0: // whatever the service runs is better than nothing
		return want, step.RefText(s.warm.Ref) + " has no ready replica any more", ""
	case left != "" && left == s.release:
		return s.percent, "", name + " still runs the release that the requests left: take it back or replace it first"
	case n.RollingOut():
		return s.percent, "", name + " is in the middle of a rollout"
	}
	takes := min(100, 100*n.Ready/max(replicas, n.Replicas, 1))
	switch to = max(want, 100-takes); {
	case to >= s.percent:
		return s.percent, "", fmt.Sprintf("%s has %d ready replicas, which take %d %% of the requests, and it gets %d %% already", name, n.Ready, takes, 100-s.percent)
	case to > want:
		note = fmt.Sprintf("%s has %d ready replicas, which take %d %% of the requests: the others stay for now", name, n.Ready, takes)
	}
	return to, note, ""
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

// weightChanges returns the weights that change.
func weightChanges(r kube.Route, to []kube.RouteRule) []machine.FieldChange {
	var out []machine.FieldChange
	for i, rule := range to {
		for j, b := range rule.Backends {
			was := r.Rules[i].Backends[j]
			switch {
			case was == b, r.Ref.Kind == kube.InferenceService && j > 0:
			case r.Ref.Kind == kube.InferenceService:
				from, value := fmt.Sprint(was.Weight), fmt.Sprint(b.Weight)
				if was.Unset {
					from = ""
				}
				if b.Unset {
					value = ""
				}
				out = append(out, machine.FieldChange{Path: rule.Path, From: from, To: value})
			default:
				out = append(out, machine.FieldChange{Path: fmt.Sprintf("%s[%s].weight", rule.Path, b.Name), From: fmt.Sprint(was.Weight), To: fmt.Sprint(b.Weight)})
			}
		}
	}
	return out
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

// releaseOf identifies what a workload runs: a hash of its containers, as the current
// revision has them. A restart and a change of labels leave it as it is.
func releaseOf(ctx context.Context, ws step.Workloads, ref kube.Ref) (string, error) {
	all, err := ws.Revisions(ctx, ref)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(r kube.Revision) bool { return r.Current })
	if at < 0 {
		return "", &fault.Error{Reason: fault.NotFound, Message: step.RefText(ref) + " has no current revision yet"}
	}
	fields := maps.Clone(all[at].Fields)
	maps.DeleteFunc(fields, func(k, _ string) bool { return !strings.HasPrefix(k, "containers[") })
	b, err := json.Marshal(fields) // in the order of the keys
	if err != nil {
		return "", &fault.Error{Reason: fault.Invalid, Message: step.RefText(ref) + ": its containers cannot be encoded", Err: err}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), nil
}
