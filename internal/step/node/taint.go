package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// taintPrefix is what Responder's own taints begin with.
const taintPrefix = "responder.dev/"

// preferNoSchedule is the effect that keeps nobody away.
const preferNoSchedule = "PreferNoSchedule"

// TaintKind declares node.taint.
func TaintKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.taint",
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Puts a taint of Responder's own on a node, so that only pods that tolerate it come there: a diagnosis, say, that a cordon would keep away too.
Undo takes it off, and node.untaint does, when a run ended and left it.

There is no NoExecute: it deletes pods without asking their disruption budgets. To move pods is what node.drain is for. Refused where
node.cordon is.`,
		Idempotent: true,
		With:       step.Fields[taintWith](),
	}
}

type nodeTaint struct{ node }

// NewTaint returns the lever node.taint.
func NewTaint(d step.Deps) step.Lever { return nodeTaint{newNode(d)} }

type taintWith struct {
	nodeWith
	Key    string `json:"key" default:"responder.dev/out" doc:"Key of the taint; it begins with responder.dev/."`
	Value  string `json:"value" doc:"Value of the taint."`
	Effect string `json:"effect" default:"NoSchedule" enum:"NoSchedule,PreferNoSchedule" doc:"What it does to pods that do not tolerate it."`
}

// Plan implements [step.Lever].
func (l nodeTaint) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "node.taint"
	with, err := step.Decode[taintWith](TaintKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if !strings.HasPrefix(with.Key, taintPrefix) || with.Key == taintPrefix {
		return machine.Plan{}, step.Invalid("%s: key is %q; Responder sets only taints of its own, which begin with %s", kind, with.Key, taintPrefix)
	}
	v, err := l.freeView(ctx, kind, with.Node)
	if err != nil {
		return machine.Plan{}, err
	}
	n, taint := v.Node, kube.Taint{Key: with.Key, Value: with.Value, Effect: with.Effect}
	if err := untainted(kind, n, taint); err != nil {
		return machine.Plan{}, err
	}
	var out machine.Plan
	p := nodePayload{Mark: kube.MarkTaint, Judged: true, Do: kube.NodeEdit{Taint: &taint, Annotate: map[string]string{kube.Tainted: taint.String()}}}
	p.Back = kube.NodeEdit{Untaint: &taint, Annotate: map[string]string{kube.Tainted: ""}}
	if keepsAway(taint) {
		p.Pool = takesOut(&out, v)
		maps.Copy(p.Back.Annotate, noted(n))
	}
	plan, err := l.plan(ctx, in, kind, n, p)
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Pool, plan.Locks = out.Pool, append(plan.Locks, out.Locks...)
	l.touches(&plan, in.Service, tenants(v.Pods))
	plan.Summary = fmt.Sprintf("taint node %s with %s", n.Name, taint)
	plan.Diff = []machine.FieldChange{{Path: "spec.taints[" + with.Key + "]", To: taint.String()}}
	plan.Undo = "take the taint off node " + n.Name
	plan.Risk, plan.Why = machine.RiskLow, "keeps pods away that do not tolerate it; those that run there stay"
	plan.Capacity, err = l.untouched(ctx, in.Service)
	return plan, err
}

// untainted refuses a node that has a taint with that key and effect, or
// another taint of Responder's.
func untainted(kind string, n kube.NodeState, taint kube.Taint) error {
	if slices.Contains(n.Taints, taint) {
		return &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: node %s has the taint %s already", kind, n.Name, taint)}
	}
	for _, t := range n.Taints {
		if strings.HasPrefix(t.Key, taintPrefix) {
			return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf(
				"%s: node %s has the taint %s: one of Responder's own at a time, take that off first (node.untaint)", kind, n.Name, t)}
		}
	}
	return nil
}
