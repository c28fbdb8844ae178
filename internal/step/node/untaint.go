package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// UntaintKind declares node.untaint.
func UntaintKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.untaint",
		Role: playbook.RoleLever, Class: playbook.ClassRepaired,
		Doc: `Takes a taint of Responder's own off a node, which a run left there: one whose node.taint was verified. Undo puts it back.

Only the very taint is taken off that node.taint recorded on the node, whatever its key; what others put there stays. One that keeps pods away
(NoSchedule) is taken off only of a node that is proven healthy, as node.uncordon wants it; one that only advises (PreferNoSchedule) needs no proof. A
cordon stays: that is node.uncordon's.`,
		Idempotent: true,
		With:       step.Fields[proofWith](),
	}
}

type nodeUntaint struct{ node }

// NewUntaint returns the lever node.untaint.
func NewUntaint(d step.Deps) step.Lever { return nodeUntaint{newNode(d)} }

// Plan implements [step.Lever].
func (l nodeUntaint) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "node.untaint"
	with, err := decodeProof(UntaintKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	n, err := l.free(ctx, kind, with.Node)
	if err != nil {
		return machine.Plan{}, err
	}
	taint, err := ourTaint(kind, n)
	if err != nil {
		return machine.Plan{}, err
	}
	p := nodePayload{
		Mark: kube.MarkTaint,
		Do:   kube.NodeEdit{Untaint: &taint, Annotate: map[string]string{kube.Tainted: ""}},
		Back: kube.NodeEdit{Taint: &taint, Annotate: map[string]string{kube.Tainted: taint.String()}},
	}
	words := machine.Plan{
		Step: kind, Summary: fmt.Sprintf("take the taint %s off node %s", taint, n.Name), Diff: []machine.FieldChange{{Path: "spec.taints[" + taint.Key + "]", From: taint.String()}},
		Undo: "put the taint back on node " + n.Name, Risk: machine.RiskMedium, Why: "pods come onto the node again",
	}
	switch {
	case n.Unschedulable: // it is still out
		words.Risk, words.Why = machine.RiskLow, "the node stays cordoned, which keeps pods away all the same"
	case keepsAway(taint):
		p.forget(n)
	default:
		words.Risk, words.Why = machine.RiskLow, "the taint kept no pods away"
	}
	proof := &with
	if !keepsAway(taint) {
		proof = nil
	}
	return l.comesBack(ctx, in, n, proof, p, words)
}

// ourTaint returns the taint that Responder put on the node.
func ourTaint(kind string, n kube.NodeState) (kube.Taint, error) {
	var others []string
	for _, t := range n.Taints {
		switch {
		case t.String() == n.Annotations[kube.Tainted]:
			return t, nil
		case strings.HasPrefix(t.Key, taintPrefix):
			others = append(others, t.String())
		}
	}
	if len(others) > 0 {
		return kube.Taint{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s: node %s has the taint %s, and no mark (%s) records that Responder put it there", kind, n.Name, strings.Join(others, " and "), kube.Tainted)}
	}
	return kube.Taint{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: node %s has no taint of Responder's", kind, n.Name)}
}
