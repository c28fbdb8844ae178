package node

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// UncordonKind declares node.uncordon.
func UncordonKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.uncordon",
		Role: playbook.RoleLever, Class: playbook.ClassRepaired,
		Doc: `Lets pods onto a node again that Responder cordoned. Undo cordons it.

Only Responder's own cordon is ever lifted, and only of a node that is proven healthy: ready, without a bad condition and with every one of its
GPUs healthy, by its agent or by dcgm-exporter, all of it for ` + "`healthy_for`" + ` without a gap. What is unknown is not healthy. An agent remembers half
an hour, since it started; Prometheus has to have scraped the exporter all the time. A node with the label of a gpu.reset_request, by webhook or without, stays out,
rebooted or not, until whoever has the request takes the label away; and so does one with fewer GPUs than GPU feature discovery counted on it or on the same machine of its pool.

What only a reset mends is remembered on the node itself, in the annotation responder.dev/gpus-when-out, from the moment in which Responder takes it
out; an agent that is started anew forgets its XIDs. A node of which a GPU needed a reset then, or was to be replaced, or of whose GPUs a condition of
the node told a fault, or too little was known, comes back only under another boot of its kernel, and without the GPU that was to be replaced; or by the
word of somebody, who takes the annotation away, or the labels of requests that were made since and named all these GPUs by their UUIDs, or of one
for all of the node's. Where a condition told of a fault, too little was known, or one had left the bus, only the latter counts.

Nor does it come back while nobody knows the XIDs of some of the time that it was out: its agent was started anew, as a reset without a reboot wants it, lost
sight of the driver's events, or had more than it keeps. Where dcgm-exporter is asked, and Prometheus has scraped its DCGM_FI_DEV_XID_ERRORS all the
time, one value without a change is as good. Else another boot makes up for it, the annotation that somebody takes away, or the answered request for the
GPU, or for all of the node, that was made after that time: one from before it does not say whether the XID came before the reset or after it.

With ` + "`probe`" + ` it also wants a test to have passed that others ran on the node. That may have been long ago, so let the query ask for one since the
repair, and give nothing otherwise: ` + "`kube_job_status_succeeded{job_name=\"X\"} and on (job_name) (time() - kube_job_status_completion_time < 86400)`" + `.`,
		Idempotent: true,
		With:       step.Fields[proofWith](),
	}
}

type nodeUncordon struct{ node }

// NewUncordon returns the lever node.uncordon.
func NewUncordon(d step.Deps) step.Lever { return nodeUncordon{newNode(d)} }

// Plan implements [step.Lever].
func (l nodeUncordon) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "node.uncordon"
	with, err := decodeProof(UncordonKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	n, err := l.free(ctx, kind, with.Node)
	if err != nil {
		return machine.Plan{}, err
	}
	if !n.Unschedulable {
		return machine.Plan{}, &fault.Error{Reason: fault.NothingToDo, Message: kind + ": " + nodeFacts(n) + " already"}
	}
	if err := notOurCordon(kind, n); err != nil {
		return machine.Plan{}, err
	}
	words := machine.Plan{
		Step: kind, Summary: "uncordon node " + n.Name, Diff: []machine.FieldChange{{Path: "spec.unschedulable", From: "true", To: "false"}},
		Undo: "cordon node " + n.Name, Risk: machine.RiskMedium, Why: "pods come onto the node again",
	}
	for _, t := range n.Taints {
		if keepsAway(t) {
			words.Notes = append(words.Notes, fmt.Sprintf("its taint %s still keeps pods away until node.untaint removes it", t))
		}
	}
	p := nodePayload{Mark: kube.MarkCordon, Do: kube.NodeEdit{Cordon: new(false)}, Back: kube.NodeEdit{Cordon: new(true)}}
	if len(words.Notes) == 0 { // else it is still out
		p.forget(n)
	}
	return l.comesBack(ctx, in, n, &with, p, words)
}
