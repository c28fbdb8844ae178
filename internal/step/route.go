package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// route names the levers that replace one on a live object where somebody else owns
// what it would change. They take the same parameters, but for keep, which in Git is the
// number of replicas there are.
type route struct {
	git        string // where Git owns the workload
	autoscaler string // where only an autoscaler owns its replicas, or what makes the workload; empty: none does
}

var routes = map[string]route{
	"kube.scale":      {git: "gitops.set_replicas", autoscaler: "kube.autoscaler"},
	"kube.autoscaler": {git: "gitops.set_replicas"},
}

// routed plans the change that replaces a refused live change; nil: none does. The
// step of the plan names the lever that carries the change out from then on.
func (s *Set) routed(ctx context.Context, e machine.Effect, in Input, refused error) (*machine.Plan, error) {
	by, known := routes[e.Step]
	if !known || !HasReason(refused, fault.Owned) || s.deps.Workloads == nil {
		return nil, refused
	}
	w, err := s.deps.Workloads.Workload(ctx, RefOf(in.Service))
	if err != nil {
		return nil, err
	}
	to, err := s.replacement(ctx, by, in.Service, w)
	if err != nil {
		return nil, err
	}
	if to == "" {
		return nil, refused
	}
	_, keep := in.With["keep"]
	if to == by.git && keep {
		if err := s.keepable(ctx, e.Step, in, w); err != nil {
			return nil, err
		}
		in.With = map[string]any{"replicas": w.Replicas}
	}
	plan, err := s.levers[to].Plan(ctx, in)
	if err == nil && keep && plan.Class == playbook.ClassReturn {
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: Git has more than the %d replicas there: %s", e.Step, w.Replicas, plan.Summary)}
	}
	if err != nil && to == by.autoscaler {
		e := *AsError(err) // it does not say who else is in the way
		e.Message += "; " + AsError(refused).Message
		return nil, &e
	}
	if err != nil {
		return nil, err
	}
	plan.Notes = append([]string{fmt.Sprintf("%s is done as %s, because %s", e.Step, plan.Step, AsError(refused).Message)}, plan.Notes...)
	return &plan, nil
}

// keepable refuses to keep replicas in Git that no bound keeps.
func (s *Set) keepable(ctx context.Context, kind string, in Input, w kube.Workload) error {
	switch {
	case in.With["keep"] != true:
		return &fault.Error{Reason: fault.NothingToDo, Message: kind + ": keep is false"}
	case s.deps.Scalers == nil:
		return NotConfigured("cluster", "kubernetes")
	}
	a, err := s.deps.Scalers.AutoscalerOf(ctx, w.Ref)
	if err != nil {
		return err
	}
	return Keepable(kind, a, w.Replicas)
}

// replacement returns the lever that replaces a refused one; empty: none does. What
// Argo CD or Flux owns is changed in Git: the workload, or its autoscaler.
func (s *Set) replacement(ctx context.Context, by route, svc playbook.Service, w kube.Workload) (string, error) {
	git := svc.GitOps != (playbook.GitOps{}) && s.deps.Manifests != nil && s.deps.Applications != nil
	switch {
	case slices.ContainsFunc(w.Owners, kube.Owner.Deploys) && git:
		return by.git, nil
	case slices.ContainsFunc(w.Owners, kube.Owner.Deploys) || s.deps.Scalers == nil || !autoscaled(w):
		return "", nil
	}
	a, err := s.deps.Scalers.AutoscalerOf(ctx, w.Ref)
	if err != nil {
		return "", err
	}
	if git && ownedBy(a.Owners, kube.ArgoCD, kube.Flux) {
		return by.git, nil
	}
	return by.autoscaler, nil
}

// autoscaled reports whether the replicas are those of an autoscaler, or of what makes the
// workload.
func autoscaled(w kube.Workload) bool {
	return ownedBy(w.Owners, kube.HPA, kube.ScaledObject) || slices.ContainsFunc(w.Owners, func(o kube.Owner) bool { return kube.Makes(o.Kind) })
}

// ownedBy reports whether one of the owners is of one of these kinds.
func ownedBy(owners []kube.Owner, kinds ...string) bool {
	return slices.ContainsFunc(owners, func(o kube.Owner) bool { return slices.Contains(kinds, o.Kind) })
}

// leverOf returns the lever of an effect: the one that made the plan.
func (s *Set) leverOf(e machine.Effect) (Lever, bool) {
	if e.Plan != nil && e.Plan.Step != "" {
		l, ok := s.levers[e.Plan.Step]
		return l, ok
	}
	l, ok := s.levers[e.Step]
	return l, ok
}
