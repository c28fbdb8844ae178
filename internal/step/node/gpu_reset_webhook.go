package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// resetPayload is the payload of a plan of a request.
type resetPayload struct {
	nodePayload
	Via    string   `json:"via"`
	GPUs   []string `json:"gpus,omitempty"`
	Reason string   `json:"reason"`
}

// ticketReceipt is the receipt of a request by webhook, or of its withdrawal.
type ticketReceipt struct {
	step.ChangeReceipt
	Ticket string `json:"ticket,omitempty"`
}

// How a request is sent.
const (
	viaLabel   = "label"
	viaWebhook = "webhook"
)

// byWebhook turns a plan into one that sends its request to the webhook first.
func (l gpuResetRequest) byWebhook(plan *machine.Plan, p *resetPayload, n kube.NodeState) error {
	if l.repairs == nil {
		return step.NotConfigured("webhook for repairs", "gpu.repairs")
	}
	p.Via = viaWebhook
	where, which := l.repairs.Where(), whichGPUs(p.GPUs)
	plan.Summary = fmt.Sprintf("ask %s for a reset of %s of node %s", where, which, n.Name)
	plan.Diff = append([]machine.FieldChange{{Path: "request to " + where, To: which + ": " + p.Reason}}, plan.Diff...)
	plan.Undo = "withdraw it by a second request, which the receiver may refuse"
	if plan.Unrepeatable = !l.repairs.Once(); plan.Unrepeatable {
		plan.Notes = append(plan.Notes, "where its answer is lost people are asked what is true: the receiver may take a repeat for another request")
	}
	return nil
}

// ask sends the plan's request, or its withdrawal.
func (l gpuResetRequest) ask(ctx context.Context, in step.Input, plan machine.Plan, p resetPayload, withdraw bool, ticket string) (string, error) {
	if l.repairs == nil {
		return "", step.NotConfigured("webhook for repairs", "gpu.repairs")
	}
	r := step.RepairRequest{
		Key: step.Visit(in.Key) + "/request", Ticket: ticket,
		Node: plan.Target.Name, GPUs: p.GPUs, Reason: p.Reason, Run: in.Run, Service: in.Service.Name,
	}
	if withdraw {
		r.Withdraw, r.Key = r.Key, step.Visit(in.Key)+"/withdraw"
	}
	return l.repairs.Ask(ctx, r)
}

// Apply implements [step.Lever]. By webhook the node is labelled first, so that what
// was begun can be seen there after a crash, and labelled anew when the receiver
// has said yes.
func (l gpuResetRequest) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[resetPayload](plan.Step, plan.Payload)
	switch {
	case err != nil:
		return nil, err
	case p.Via != viaWebhook:
		return l.node.Apply(ctx, in, plan)
	case p.Mark == "":
		return nil, &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": it was planned by an earlier version, which labelled no node"}
	case l.repairs == nil:
		return nil, step.NotConfigured("webhook for repairs", "gpu.repairs")
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	n, err := l.n.Node(ctx, plan.Target.Name)
	switch {
	case err != nil:
		return nil, err
	case n.UID != plan.Target.UID || n.Stamp() != p.Stamp:
		changed := &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": node " + n.Name + ": its schedulability, taints or marks changed since it was planned"}
		return nil, l.ran(ctx, in, plan, p.Mark, machine.ActionApply, changed)
	}
	if !p.asking(in, n) {
		if err := l.touchesStill(ctx, in, plan, p.nodePayload); err != nil {
			return nil, err
		}
		if _, err := l.write(ctx, in, plan, p.asked().Do, p.Mark, p.Stamp, machine.ActionApply); err != nil {
			// Whoever sees the label later cannot know that nothing was asked: if it is
			// there it is asked for now.
			if now, look := l.n.Node(ctx, plan.Target.Name); !step.AsError(err).Unknown || look != nil || !p.asking(in, now) {
				return nil, err
			}
		}
	}
	ticket, err := l.ask(ctx, in, plan, p, false, "")
	if err != nil {
		return nil, l.notTaken(ctx, in, plan, p, n, err)
	}
	edit := kube.NodeEdit{Labels: p.Do.Labels, Annotate: map[string]string{}}
	maps.Copy(edit.Annotate, p.Do.Annotate)
	edit.Annotate[resetTicket] = ticket
	// That it was asked for is certain, whether the label says so or not: it
	// holds the node back either way, and Observe tells what it still says.
	_ = l.relabel(ctx, in, plan, p, edit, in.Key)
	return step.EncodeJSON(ticketReceipt{step.ChangeReceipt{Action: machine.ActionApply, UID: plan.Target.UID}, ticket}), nil
}

// asked returns the payload with the label that holds until the receiver
// accepts. Its annotations name no GPUs yet: a label that is removed without an
// accepted request must not count as a repair.
func (p nodePayload) asked() nodePayload {
	p.Do.Labels, p.Do.Annotate = maps.Clone(p.Do.Labels), maps.Clone(p.Do.Annotate)
	if why := p.Do.Annotate[resetWhy]; why != "" {
		p.Do.Annotate[resetWhy] = "asking for " + why
		p.Do.Annotate[resetAnswered] = p.Back.Annotate[resetAnswered]
	}
	for key := range p.Do.Labels {
		p.Do.Labels[key] = resetAsking
	}
	return p
}

// asking reports whether the node records a request of this run that the
// receiver has not accepted yet.
func (p nodePayload) asking(in step.Input, n kube.NodeState) bool {
	return oursOn(n, p.Mark, in, machine.ActionApply) && p.asked().Do.Holds(n)
}

// notTaken restores a node whose request was refused. A request that may have
// arrived keeps its label, and so does one that was sent before: a failure to
// send it now proves nothing about then.
func (l gpuResetRequest) notTaken(ctx context.Context, in step.Input, plan machine.Plan, p resetPayload, before kube.NodeState, refusal error) error {
	e, again := step.AsError(refusal), p.asking(in, before)
	if e.Unknown || again && e.Reason.Retryable() {
		return refusal
	}
	back := kube.NodeEdit{Labels: p.Back.Labels, Annotate: map[string]string{p.Mark: ""}}
	maps.Copy(back.Annotate, p.Back.Annotate)
	if !again {
		for key := range back.Annotate {
			back.Annotate[key] = before.Annotations[key]
		}
	}
	if err := l.relabel(ctx, in, plan, p, back, ""); err != nil {
		return &fault.Error{
			Reason: e.Reason, Unknown: true, Err: refusal,
			Message: fmt.Sprintf("%s: the label of node %s could not be removed (%v) after the request was refused", plan.Step, plan.Target.Name, err),
		}
	}
	return refusal
}

// labelWrites is how often writing the label is tried: a concurrent change of
// the node does not revoke the request.
const labelWrites = 3

// relabel edits a node that records a request of this run. If it no longer
// does, somebody has taken the request up, and the label is theirs.
func (l gpuResetRequest) relabel(ctx context.Context, in step.Input, plan machine.Plan, p resetPayload, edit kube.NodeEdit, key string) error {
	var err error
	for range labelWrites {
		var n kube.NodeState
		if n, err = l.n.Node(ctx, plan.Target.Name); err != nil || n.UID != plan.Target.UID || !p.asking(in, n) {
			return err
		}
		_, err = l.c.ChangeNode(ctx, kube.NodeChange{Name: n.Name, UID: n.UID, Stamp: n.Stamp(), Edit: edit, Mark: p.Mark, Key: key, At: in.Now})
		if !step.HasReason(err, fault.Conflict) {
			break
		}
	}
	return err
}

// see observes the node of a request. The label proves that the apply ran; only
// the receipt proves that the request arrived.
func (l gpuResetRequest) see(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, kube.NodeState, resetPayload, error) {
	p, err := step.Payload[resetPayload](plan.Step, plan.Payload)
	switch {
	case err != nil:
		return step.Observation{}, kube.NodeState{}, p, err
	case p.Via == viaWebhook && p.Mark == "":
		return step.Observation{}, kube.NodeState{}, p, l.earlier(plan, receipt)
	}
	o, n, _, err := l.look(ctx, in, plan, undo)
	if err == nil && n.UID == plan.Target.UID && p.asking(in, n) {
		o = edited(in, n, p.asked(), undo)
		o.Unsure = o.Applied && len(receipt) == 0
	}
	return o, n, p, err
}

// earlier returns the error for a request of an earlier version, which left no
// mark on the node: it can be neither observed nor withdrawn.
func (l gpuResetRequest) earlier(plan machine.Plan, receipt json.RawMessage) error {
	what, where := "what was asked for", ""
	if ticket := ticketOf(kube.NodeState{}, receipt); ticket != "" {
		what = "ticket " + ticket
	}
	if l.repairs != nil {
		where = " at " + l.repairs.Where()
	}
	return step.Invalid("%s: the reset of GPUs of node %s was requested by an earlier version, which labelled no node: withdraw %s by hand%s",
		plan.Step, plan.Target.Name, what, where)
}

// Undo implements [step.Lever]. What nobody has taken up is withdrawn first: as long
// as the receiver has not said yes to that, the label stands.
func (l gpuResetRequest) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	if in.OperatorConfirmed {
		return l.removeMarks(ctx, in, plan)
	}
	p, err := step.Payload[resetPayload](plan.Step, plan.Payload)
	switch {
	case err != nil:
		return nil, err
	case p.Via != viaWebhook:
		return l.node.Undo(ctx, in, plan, receipt)
	}
	o, n, _, err := l.see(ctx, in, plan, receipt, false)
	if err != nil {
		return nil, err
	}
	ticket := ticketOf(n, receipt)
	if o.Applied {
		if _, err := l.ask(ctx, in, plan, p, true, ticket); err != nil {
			if e := step.AsError(err); !e.Unknown && !e.Reason.Retryable() {
				return nil, &fault.Error{Reason: e.Reason, Message: plan.Step + ": the request cannot be withdrawn: tell its receiver", Err: err}
			}
			return nil, err
		}
		if p.asking(in, n) {
			p.nodePayload = p.asked()
			plan.Payload = step.EncodeJSON(p)
		}
	}
	if _, err := l.node.Undo(ctx, in, plan, receipt); err != nil {
		e := *step.AsError(err)
		e.Unknown = e.Unknown || o.Applied // it is withdrawn, and that is half of it
		return nil, &e
	}
	return step.EncodeJSON(ticketReceipt{step.ChangeReceipt{Action: machine.ActionUndo, UID: plan.Target.UID}, ticket}), nil
}

// withTicket adds to an observation what is known of a request by webhook, and
// its ticket.
func (l gpuResetRequest) withTicket(o step.Observation, n kube.NodeState, plan machine.Plan, receipt json.RawMessage, undo bool) step.Observation {
	ticket, action := ticketOf(n, receipt), machine.ActionApply
	switch label := openReset(n); {
	case undo:
		action, o.Progress = machine.ActionUndo, "the request about node "+n.Name+" was withdrawn"+as(ticket)
	case o.Unsure:
		o.Progress = fmt.Sprintf("it is unknown whether the request for node %s arrived: ask its receiver; the node keeps the label %s until then", n.Name, label)
		if !plan.Unrepeatable {
			o.Progress += "; it can be sent again, the receiver takes it once; where nobody has it, take the label away: " + unlabel(n)
		}
	default:
		o.Progress = "the reset of " + n.Name + " was asked for" + as(ticket)
		if strings.HasSuffix(label, "="+resetAsking) {
			o.Progress += "; that could not be written to the node, whose label is still " + label
		}
	}
	o.Receipt = step.EncodeJSON(ticketReceipt{step.ChangeReceipt{Action: action, UID: n.UID}, ticket})
	return o
}

func as(ticket string) string {
	if ticket == "" {
		return ""
	}
	return " as " + ticket
}

// ticketOf returns the receiver's name of a request, from the receipt or else
// from the node.
func ticketOf(n kube.NodeState, receipt json.RawMessage) string {
	var r ticketReceipt
	if len(receipt) > 0 && json.Unmarshal(receipt, &r) == nil && r.Ticket != "" {
		return r.Ticket
	}
	return n.Annotations[resetTicket]
}
