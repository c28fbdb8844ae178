package step

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// A change that ends pods ends what they know, too: their logs, and their engines'
// counters. So that is read when such a change is planned, and journaled with the
// plan, before anybody approves it. A capture that fails holds nothing up: a node
// whose kubelet is gone shows no logs, and has to be drained all the same. The plan
// then says what is missing.

// ending is a lever whose change ends pods.
type ending interface {
	// Ends returns the pods that a plan ends, as namespace/name. If it ends all of
	// the service's, all is true, and those in trouble are read.
	Ends(plan machine.Plan) (pods []string, all bool)
}

// Bounds of a capture. The checks have their own bounds of what they keep.
const (
	captureWithin   = 20 * time.Second // less than a plan has
	captureServices = 3
	capturePods     = 3 // of each service
	captureLines    = 40
	progressCheck   = "engine.progress"
	captureTold     = 3 // lines of each check that the plan tells
)

// capture reads what the pods that a plan ends would take with them, and adds the
// telling lines to the plan's notes.
func (s *Set) capture(ctx context.Context, e machine.Effect, in Input, plan *machine.Plan) []machine.Gathered {
	l, ok := s.levers[plan.Step].(ending)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, captureWithin)
	defer cancel()
	asks := s.asks(in.Service, plan, l)
	out := make([]machine.Gathered, len(asks))
	var wait sync.WaitGroup
	for i, a := range asks {
		asked := in
		asked.Service = a.service
		wait.Go(func() { out[i] = s.gatherOne(ctx, e, asked, a.Asked) })
	}
	wait.Wait()
	plan.Notes = append(plan.Notes, told(out)...)
	return out
}

// ask is one check of a capture, of one service.
type ask struct {
	machine.Asked
	service playbook.Service
}

// asks returns what is read: of each service that loses pods its events, its
// engine's counters and the logs of those pods.
func (s *Set) asks(own playbook.Service, plan *machine.Plan, l ending) []ask {
	ends, all := l.Ends(*plan)
	services := []playbook.Service{own}
	for _, other := range plan.Others {
		if s.deps.Services == nil {
			break
		}
		catalog := s.deps.Services()
		if at := slices.IndexFunc(catalog, func(x playbook.Service) bool { return x.Name == other.Service }); at >= 0 {
			services = append(services, catalog[at])
		}
	}
	var out []ask
	add := func(svc playbook.Service, kind, what string, with map[string]any) {
		if svc.Name != own.Name {
			what = svc.Name + " " + what
		}
		if _, known := s.checks[kind]; known {
			out = append(out, ask{machine.Asked{Name: what, Step: kind, With: with}, svc})
		}
	}
	for _, svc := range services[:min(len(services), captureServices)] {
		pods := podsOfService(svc, ends)
		switch {
		case all:
			add(svc, "kube.logs", "logs", map[string]any{"lines": int64(captureLines)})
		case len(pods) == 0:
			continue
		}
		for _, pod := range pods[:min(len(pods), capturePods)] {
			add(svc, "kube.logs", "logs of "+pod, map[string]any{"pod": pod, "lines": int64(captureLines)})
		}
		add(svc, "kube.events", "events", nil)
		add(svc, progressCheck, "engines", nil)
	}
	return out
}

// podsOfService returns the names of those pods that a service's workload made, by
// their names.
func podsOfService(svc playbook.Service, ends []string) []string {
	var out []string
	for _, pod := range ends {
		rest, ok := strings.CutPrefix(pod, svc.Namespace+"/"+svc.Workload.Name+"-")
		if made := podNames[svc.Workload.Kind]; ok && (made == nil || made.MatchString(rest)) {
			out = append(out, svc.Workload.Name+"-"+rest)
		}
	}
	return out
}

// podNames match what follows the name of a workload in the names of its pods, by its
// kind: chat-long-6d4b9-x2x9z is a pod of chat-long, and none of chat.
var podNames = map[string]*regexp.Regexp{
	"Deployment":  ofReplicaSet,
	"Rollout":     ofReplicaSet,
	"StatefulSet": regexp.MustCompile(`^[0-9]+(-[0-9]+)?$`), // ordinal; of a group's leader, and the worker's
}

// ofReplicaSet is the end of a pod's name: the hash of the ReplicaSet, which has no vowels, and its own.
var ofReplicaSet = regexp.MustCompile(`^([bcdfghjklmnpqrstvwxz2456789]{5,10}-)?[a-z0-9]+$`)

// told returns the lines about a capture for people.
func told(all []machine.Gathered) []string {
	var out, missing []string
	for _, g := range all {
		if g.Unknown() {
			missing = append(missing, g.Name+": "+g.Why)
			continue
		}
		most := captureTold
		if g.Step == progressCheck {
			most = 1 // the first line has the numbers
		}
		for _, fact := range g.Facts[:min(len(g.Facts), most)] {
			out = append(out, "kept ("+g.Name+"): "+fact)
		}
	}
	if len(missing) > 0 {
		out = append(out, "not kept, and gone with the change: "+FirstOf(missing, captureTold, "; "))
	}
	return out
}
