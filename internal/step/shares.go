package step

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// sharesTimeout bounds the counting of replicas: a slow API server costs a plan these
// figures only, and rules about them then refuse.
const sharesTimeout = 10 * time.Second

// Fleet counts replicas of many workloads at once.
type Fleet interface {
	// Replicas returns the replicas of each workload. A workload that cannot be counted is an error.
	Replicas(ctx context.Context, refs []kube.Ref) (map[kube.Ref]kube.ReplicaCount, error)
}

// share adds to a plan that costs ready replicas of services what they are a share of: the
// replicas of all services in the namespace, and in the catalog.
func (s *Set) share(ctx context.Context, in Input, plan *machine.Plan) {
	if s.deps.Fleet == nil {
		return // rules about shares refuse
	}
	services := s.known(in.Service)
	lost := losses(services, in.Service.Name, plan)
	if len(lost) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sharesTimeout)
	defer cancel()
	for _, namespace := range slices.Sorted(maps.Keys(lost)) {
		share := machine.Share{Namespace: namespace, Lost: lost[namespace]}
		if err := s.count(ctx, services, &share); err != nil {
			share.Unknown = AsError(err).Error()
		}
		plan.Shares = append(plan.Shares, share)
	}
}

// known returns the services of the catalog, and at least the run's own.
func (s *Set) known(own playbook.Service) []playbook.Service {
	var all []playbook.Service
	if s.deps.Services != nil {
		all = s.deps.Services()
	}
	if slices.ContainsFunc(all, func(x playbook.Service) bool { return x.Name == own.Name }) {
		return all
	}
	return append(slices.Clip(all), own)
}

// losses returns how many ready replicas of services a plan costs at worst, by namespace,
// and by the empty name in all; nil: none.
func losses(services []playbook.Service, own string, plan *machine.Plan) map[string]int {
	out := map[string]int{}
	add := func(name string, c machine.Capacity) {
		at := slices.IndexFunc(services, func(x playbook.Service) bool { return x.Name == name })
		if at >= 0 && !c.Unknown && c.Lost() > 0 {
			out[services[at].Namespace] += c.Lost()
			out[""] += c.Lost()
		}
	}
	add(own, plan.Capacity)
	for _, o := range plan.Others {
		add(o.Service, o.Capacity)
	}
	return out
}

// count counts the replicas of a share. A service without a workload has none.
func (s *Set) count(ctx context.Context, services []playbook.Service, share *machine.Share) error {
	var refs []kube.Ref
	for _, x := range services {
		if ref := RefOf(x); x.Workload.Kind != "" && (share.Namespace == "" || share.Namespace == x.Namespace) && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	counts, err := s.deps.Fleet.Replicas(ctx, refs)
	if err != nil {
		return fmt.Errorf("replicas of services: %w", err)
	}
	for _, ref := range refs {
		share.Wanted += counts[ref].Wanted
		share.Missing += max(0, counts[ref].Wanted-counts[ref].Ready)
	}
	return nil
}
