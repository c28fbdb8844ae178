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

// routes maps the levers on live objects to the levers that replace them where
// Git owns the object, and take the same parameters.
var routes = map[string]string{"kube.scale": "gitops.set_replicas"}

// routed plans the change in Git that replaces a refused live change; nil: none
// does. The step of the plan names the lever in Git, which carries the change
// out from then on.
func (s *Set) routed(ctx context.Context, e machine.Effect, in Input, refused error) (*machine.Plan, error) {
	to, known := routes[e.Step]
	if !known || !HasReason(refused, fault.Owned) || s.deps.Workloads == nil || s.deps.Manifests == nil || s.deps.Applications == nil {
		return nil, refused
	}
	w, err := s.deps.Workloads.Workload(ctx, RefOf(in.Service))
	if err != nil {
		return nil, err
	}
	if !inGit(in.Service, w) {
		return nil, refused
	}
	plan, err := s.levers[to].Plan(ctx, in)
	if err != nil {
		return nil, err
	}
	plan.Notes = append([]string{fmt.Sprintf("%s is done as %s, because %s", e.Step, plan.Step, AsError(refused).Message)}, plan.Notes...)
	return &plan, nil
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

// inGit reports whether Git owns the workload and the catalog says where, so
// that a live change has to become a commit.
func inGit(svc playbook.Service, w kube.Workload) bool {
	if svc.GitOps == (playbook.GitOps{}) {
		return false
	}
	return slices.ContainsFunc(w.Owners, func(o kube.Owner) bool { return o.Kind == "ArgoCD" })
}
