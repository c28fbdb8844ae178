package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ResetRequestKind declares gpu.reset_request.
func ResetRequestKind() playbook.Kind {
	return playbook.Kind{
		Name: "gpu.reset_request",
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Asks for GPUs to be reset. Nothing is reset here, and nothing is moved: drain the node first. People are told with a notify state.

The request is a label on the node and an annotation that says which GPUs and why, for a controller or a person who watches for them. Undo takes the
request back, unless somebody has taken it up: whoever does is free to change the label, and removes it when it is done. Nothing else closes it: a node
that was rebooted, or looks healthy, may still have somebody at work on it. Until then node.uncordon leaves the node out, and no other request is made
for it. The annotation stays: it tells node.uncordon what was mended, together with those of other requests that were answered while the node was out. By ` + "`webhook`" + ` it is also a POST of JSON to
` + "`gpu.repairs.url`" + ` with action, node, gpus, reason, run, service and key; key is the header Idempotency-Key too. The label is ` + "`asking`" + `
before that is sent and ` + "`requested`" + ` when the receiver has said yes; an annotation then has the ticket's name. One that it refuses leaves no label. Where no
answer came the label stays ` + "`asking`" + `, and where the receiver is not known to take a key once, the run is held: who says that it was not applied
has the label taken off, and so has who says that a request whose withdrawal was not answered is taken back. Undo posts the action withdraw first; a receiver that refuses it leaves the run ended with its change in place.

It needs no alert that still fires once the run has verified a change: what was drained is still broken.`,
		Request:    true,
		Idempotent: true,
		With:       step.Fields[resetWith](),
	}
}

const (
	resetLabel     = "responder.dev/gpu-reset"           // key of the label, by default
	resetRequested = "requested"                         // value of the label
	resetAsking    = "asking"                            // value of the label until the webhook's receiver has said yes
	resetWhy       = "responder.dev/gpu-reset-requested" // annotation: which GPUs and why
	resetTicket    = "responder.dev/gpu-reset-ticket"    // annotation: what the webhook's receiver calls the request
)

type gpuResetRequest struct {
	node
	repairs step.Repairs // nil: none is configured
}

// NewResetRequest returns the lever gpu.reset_request.
func NewResetRequest(d step.Deps) step.Lever { return gpuResetRequest{newNode(d), d.Repairs} }

type resetWith struct {
	nodeWith
	GPUs   string `json:"gpus" doc:"UUIDs or indices of the GPUs, with commas between them; unset or empty: all of the node's."`
	Reason string `json:"reason" required:"true" doc:"Why, as the person or controller who does it should read it."`
	Via    string `json:"via" enum:"label,webhook" doc:"How it is asked for. Unset: by the webhook where one is configured, else by the label."`
	Label  string `json:"label" default:"responder.dev/gpu-reset" doc:"Key of the label; it begins with responder.dev/."`
}

// Plan implements [step.Lever].
func (l gpuResetRequest) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "gpu.reset_request"
	with, err := step.Decode[resetWith](ResetRequestKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if !strings.HasPrefix(with.Label, taintPrefix) || with.Label == taintPrefix {
		return machine.Plan{}, step.Invalid("%s: label is %q; Responder sets only labels of its own, which begin with %s", kind, with.Label, taintPrefix)
	}
	n, err := l.free(ctx, kind, with.Node)
	if err != nil {
		return machine.Plan{}, err
	}
	gpus := gpusListed(with.GPUs)
	if err := l.unasked(in, n, with.Label, gpus); err != nil {
		return machine.Plan{}, err
	}
	then, now := answeredBefore(n, gpus)
	text := requestText(gpus, step.Shorten(with.Reason))
	p := resetPayload{
		nodePayload: nodePayload{
			Mark: kube.MarkReset, Judged: true,
			// The ticket is of an earlier request.
			Do:   kube.NodeEdit{Labels: map[string]string{with.Label: resetRequested}, Annotate: map[string]string{resetWhy: text, resetTicket: "", resetAnswered: then.String()}},
			Back: kube.NodeEdit{Labels: map[string]string{with.Label: ""}, Annotate: map[string]string{resetWhy: "", resetTicket: "", resetAnswered: now.String()}},
		},
		Via: viaLabel, GPUs: gpus, Reason: step.Shorten(with.Reason),
	}
	plan, err := l.plan(ctx, in, kind, n, p.nodePayload)
	if err != nil {
		return machine.Plan{}, err
	}
	pods, err := l.n.NodePods(ctx, n.Name)
	if err != nil {
		return machine.Plan{}, err
	}
	l.touches(&plan, in.Service, tenants(pods))
	plan.Summary = fmt.Sprintf("ask for a reset of %s of node %s", whichGPUs(gpus), n.Name)
	plan.Diff = []machine.FieldChange{
		{Path: "metadata.labels[" + with.Label + "]", To: resetRequested},
		{Path: "metadata.annotations[" + resetWhy + "]", To: text},
	}
	plan.Undo = "take the request back"
	plan.Risk, plan.Why = machine.RiskLow, "only a request: whoever answers it does the reset"
	if with.Via == viaWebhook || with.Via == "" && l.repairs != nil {
		if err := l.byWebhook(&plan, &p, n); err != nil {
			return machine.Plan{}, err
		}
	}
	p.Stamp = n.Stamp()
	plan.Payload = step.EncodeJSON(p)
	plan.Capacity, err = l.untouched(ctx, in.Service)
	return plan, err
}

// gpusListed splits a list of GPUs and removes duplicates.
func gpusListed(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// whichGPUs formats GPUs for people.
func whichGPUs(gpus []string) string {
	switch len(gpus) {
	case 0:
		return "all GPUs"
	case 1:
		return "GPU " + gpus[0]
	default:
		return "GPUs " + strings.Join(gpus, ", ")
	}
}

// requestText formats the annotation of a request.
func requestText(gpus []string, reason string) string { return whichGPUs(gpus) + ": " + reason }

// asksFor parses the GPUs from the annotation of a request, or that it is for
// all. Text that people wrote names none.
func asksFor(text string) (gpus []string, all bool) {
	which, _, _ := strings.Cut(text, ": ")
	gpus = gpusListed(strings.TrimPrefix(strings.TrimPrefix(which, "GPUs "), "GPU "))
	switch which {
	case whichGPUs(nil):
		return nil, true
	case whichGPUs(gpus):
		return gpus, false
	default:
		return nil, false
	}
}

// Observe implements [step.Lever]. The label is the addressee's from the moment the
// request is made, so that a change of it is no reason to stop the run. A webhook
// keeps what it was asked, and nothing can be read back from it: the label says
// whether it was asked at all, and whether it said yes.
func (l gpuResetRequest) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	if in.OperatorConfirmed && undo {
		o, _, _, err := l.marks(ctx, in, plan)
		return o, err
	}
	o, n, p, err := l.see(ctx, in, plan, receipt, undo)
	switch {
	case err != nil:
		return o, err
	case o.Applied && p.Via == viaWebhook:
		return l.withTicket(o, n, plan, receipt, undo), nil
	case o.Applied, !o.Foreign:
		return o, nil
	case undo || n.UID != plan.Target.UID || !oursOn(n, p.Mark, in, machine.ActionApply):
		return o, nil
	}
	for key := range p.Do.Labels {
		now := "removed it"
		if v := n.Labels[key]; v != "" {
			now = "set it to " + v
		}
		return step.Observation{
			Applied: true, Settled: true, Receipt: step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionApply, UID: n.UID}),
			Progress: fmt.Sprintf("the request on node %s was taken up: somebody %s", n.Name, now),
		}, nil
	}
	return o, nil
}

// After the operator confirms that a request was not made, or was withdrawn, its
// receiver is not asked again. Only the marks on the node are removed.

// marks observes what the request left on its node. A label that somebody else
// has changed is foreign: they have taken the request up.
func (l gpuResetRequest) marks(ctx context.Context, in step.Input, plan machine.Plan) (step.Observation, kube.NodeState, resetPayload, error) {
	p, err := step.Payload[resetPayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, kube.NodeState{}, p, err
	}
	if err := l.ready(); err != nil {
		return step.Observation{}, kube.NodeState{}, p, err
	}
	n, err := l.n.Node(ctx, plan.Target.Name)
	none := func(why string) step.Observation {
		return step.Observation{Applied: true, Settled: true, Progress: "node " + plan.Target.Name + why, Receipt: step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionUndo, UID: plan.Target.UID})}
	}
	switch {
	case step.HasReason(err, fault.NotFound), err == nil && n.UID != plan.Target.UID:
		return none(" is gone, and its label with it"), n, p, nil
	case err != nil:
		return step.Observation{}, n, p, err
	case p.Mark == "" || !oursOn(n, p.Mark, in, machine.ActionApply):
		return none(" has nothing left of the request"), n, p, nil
	}
	for key := range p.Do.Labels {
		if v := n.Labels[key]; v != "" && v != resetAsking && v != resetRequested {
			return foreignNode(n, p.Mark, "the request was taken up: somebody set the label "+key+" to "+v), n, p, nil
		}
	}
	return step.Observation{Progress: "node " + n.Name + " still says that a reset is asked for"}, n, p, nil
}

// removeMarks removes the marks of a request from its node.
func (l gpuResetRequest) removeMarks(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	var err error
	for range labelWrites {
		o, n, p, lookErr := l.marks(ctx, in, plan)
		switch {
		case lookErr != nil:
			return nil, lookErr
		case o.Foreign:
			return nil, &fault.Error{Reason: fault.ForeignChange, Message: o.Progress}
		case o.Applied:
			return o.Receipt, nil
		}
		_, err = l.c.ChangeNode(ctx, kube.NodeChange{Name: n.Name, UID: n.UID, Stamp: n.Stamp(), Edit: p.Back, Mark: p.Mark, Key: in.Key, At: in.Now})
		if err == nil {
			return step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionUndo, UID: n.UID}), nil
		}
		if !step.HasReason(err, fault.Conflict) {
			return nil, err
		}
	}
	return nil, err
}
