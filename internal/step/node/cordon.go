package node

import (
	"context"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// CordonKind declares node.cordon.
func CordonKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.cordon",
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Keeps new pods off a node; those that run there stay. Undo lifts the cordon.

Refused on a node that belongs to somebody else: NVSentinel, medik8s, kured, Karpenter, the cluster autoscaler, a driver upgrade or the MIG
manager of the GPU operator, a person who cordoned it. Refused by the guard ` + "`nodes`" + ` where too many nodes of the pool are out already, whoever took them out.`,
		// On the planned stamp only: a second time is a conflict.
		Idempotent: true,
		With:       step.Fields[nodeWith](),
	}
}

type nodeCordon struct{ node }

// NewCordon returns the lever node.cordon.
func NewCordon(d step.Deps) step.Lever { return nodeCordon{newNode(d)} }

// nodeWith is the parameter that every lever on a node has.
type nodeWith struct {
	Node string `json:"node" required:"true" doc:"Name of the node."`
}

// Plan implements [step.Lever].
func (l nodeCordon) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "node.cordon"
	with, err := step.Decode[nodeWith](CordonKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	v, err := l.freeView(ctx, kind, with.Node)
	if err != nil {
		return machine.Plan{}, err
	}
	n := v.Node
	if n.Unschedulable {
		return machine.Plan{}, &fault.Error{Reason: fault.NothingToDo, Message: kind + ": " + nodeFacts(n) + " already"}
	}
	var out machine.Plan
	p := nodePayload{Mark: kube.MarkCordon, Judged: true, Do: kube.NodeEdit{Cordon: new(true)}, Back: kube.NodeEdit{Cordon: new(false), Annotate: noted(n)}}
	p.Pool = takesOut(&out, v)
	plan, err := l.plan(ctx, in, kind, n, p)
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Pool, plan.Locks = out.Pool, append(plan.Locks, out.Locks...)
	l.touches(&plan, in.Service, tenants(v.Pods))
	plan.Summary = "cordon node " + n.Name
	plan.Diff = []machine.FieldChange{{Path: "spec.unschedulable", From: "false", To: "true"}}
	plan.Undo = "uncordon node " + n.Name
	plan.Risk, plan.Why = machine.RiskLow, "keeps new pods away; those that run there stay"
	plan.Capacity, err = l.untouched(ctx, in.Service)
	return plan, err
}
