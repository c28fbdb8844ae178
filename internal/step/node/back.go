package node

import (
	"context"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// comesBack plans an edit that lets pods onto a node again. With proof, the
// node has to be proven healthy first.
func (l node) comesBack(ctx context.Context, in step.Input, n kube.NodeState, proof *proofWith, p nodePayload, words machine.Plan) (machine.Plan, error) {
	var proven []string
	if proof != nil {
		var err error
		if proven, err = l.proven(ctx, words.Step, n, in.Now, *proof); err != nil {
			return machine.Plan{}, err
		}
	}
	p.Judged = true
	plan, err := l.plan(ctx, in, words.Step, n, p)
	if err != nil {
		return machine.Plan{}, err
	}
	// It moves no pods, and lets more come to where these are.
	pods, err := l.n.NodePods(ctx, n.Name)
	if err != nil {
		return machine.Plan{}, err
	}
	locks := plan.Locks
	l.touches(&plan, in.Service, tenants(pods))
	plan.Locks = locks // no pod of the others moves
	plan.Summary, plan.Diff, plan.Undo, plan.Risk, plan.Why = words.Summary, words.Diff, words.Undo, words.Risk, words.Why
	plan.Notes = slices.Concat(proven, plan.Notes, words.Notes)
	plan.Capacity, err = l.untouched(ctx, in.Service)
	return plan, err
}

// forget adds to the edit that it removes the record of why the node went out,
// and to the undo that it restores it: after the edit nothing of Responder's
// keeps pods away.
func (p *nodePayload) forget(n kube.NodeState) {
	was := n.Annotations[kube.GPUsWhenOut]
	if was == "" {
		return
	}
	for edit, text := range map[*kube.NodeEdit]string{&p.Do: "", &p.Back: was} {
		if edit.Annotate == nil {
			edit.Annotate = map[string]string{}
		}
		edit.Annotate[kube.GPUsWhenOut] = text
	}
}
