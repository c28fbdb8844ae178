package step

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
)

// Repairs asks another system for the repair of hardware. That system keeps what
// it was asked for; nothing can be read back from it.
type Repairs interface {
	// Ask sends a request. The error is an [*Error], Unknown where the
	// request may have arrived. ticket is what the receiver calls it; it may be empty.
	Ask(ctx context.Context, r RepairRequest) (ticket string, err error)
	// Where names the receiver for people.
	Where() string
	// Once reports whether the receiver takes a key that it has seen for the
	// same request, so that a request whose fate is unknown may be sent again.
	Once() bool
}

// RepairRequest asks for a reset, or withdraws what was asked for.
type RepairRequest struct {
	Key      string // the same for the same request
	Withdraw string // key of the request that is withdrawn; empty: this is one
	Ticket   string // what the receiver calls that; empty: not known
	Node     string
	GPUs     []string // UUIDs or indices; none: all of the node's
	Reason   string
	Run      string
	Service  string
}

// resetPayload is what a plan of a request needs.
type resetPayload struct {
	nodePayload
	Via    string   `json:"via"`
	GPUs   []string `json:"gpus,omitempty"`
	Reason string   `json:"reason"`
}

// ticketReceipt is what a request by webhook, or its end, left behind.
type ticketReceipt struct {
	changeReceipt
	Ticket string `json:"ticket,omitempty"`
}

// Ways of a request.
const (
	viaLabel   = "label"
	viaWebhook = "webhook"
)

// byWebhook makes a plan one whose request goes to the webhook first.
func (l gpuResetRequest) byWebhook(plan *machine.Plan, p *resetPayload, n kube.NodeState) error {
	if l.repairs == nil {
		return missing("webhook for repairs", "gpu.repairs")
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

// ask sends the plan's request, or what withdraws it.
func (l gpuResetRequest) ask(ctx context.Context, in Input, plan machine.Plan, p resetPayload, withdraw bool, ticket string) (string, error) {
	if l.repairs == nil {
		return "", missing("webhook for repairs", "gpu.repairs")
	}
	r := RepairRequest{
		Key: visit(in.Key) + "/request", Ticket: ticket,
		Node: plan.Target.Name, GPUs: p.GPUs, Reason: p.Reason, Run: in.Run, Service: in.Service.Name,
	}
	if withdraw {
		r.Withdraw, r.Key = r.Key, visit(in.Key)+"/withdraw"
	}
	return l.repairs.Ask(ctx, r)
}

// Apply implements [Lever]. By webhook the label comes last, so that it says
// that the request was taken.
func (l gpuResetRequest) Apply(ctx context.Context, in Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := payload[resetPayload](plan.Step, plan.Payload)
	switch {
	case err != nil:
		return nil, err
	case p.Via != viaWebhook:
		return l.node.Apply(ctx, in, plan)
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	n, err := l.n.Node(ctx, plan.Target.Name)
	switch {
	case err != nil:
		return nil, err
	case n.UID != plan.Target.UID || n.Stamp() != p.Stamp:
		changed := &Error{Reason: machine.ReasonConflict, Message: plan.Step + ": node " + n.Name + ": its schedulability, taints or marks changed since it was planned"}
		return nil, l.ran(ctx, in, plan, p.Mark, machine.ActionApply, changed)
	}
	ticket, err := l.ask(ctx, in, plan, p, false, "")
	if err != nil {
		return nil, err
	}
	return l.label(ctx, in, plan, p, ticket)
}

// labelWrites is how often the label is tried: whoever changed the node
// meanwhile takes nothing of what was asked for back.
const labelWrites = 3

// label marks a node whose request was taken.
func (l gpuResetRequest) label(ctx context.Context, in Input, plan machine.Plan, p resetPayload, ticket string) (json.RawMessage, error) {
	edit := p.Do
	if ticket != "" {
		edit.Annotate = maps.Clone(edit.Annotate)
		edit.Annotate[resetTicket] = ticket
	}
	var err error
	for range labelWrites {
		var n kube.NodeState
		if n, err = l.n.Node(ctx, plan.Target.Name); err == nil {
			_, err = l.write(ctx, in, plan, edit, p.Mark, n.Stamp(), machine.ActionApply)
		}
		if !isReason(err, machine.ReasonConflict) {
			break
		}
	}
	if err != nil {
		return nil, &Error{
			Reason: wrap(err).Reason, Unknown: true, Err: err,
			Message: fmt.Sprintf("%s: the request was taken%s, and node %s could not be labelled", plan.Step, as(ticket), plan.Target.Name),
		}
	}
	return encode(ticketReceipt{changeReceipt{Action: machine.ActionApply, UID: plan.Target.UID}, ticket}), nil
}

// Undo implements [Lever]. What nobody has taken up is withdrawn first: as long
// as the receiver has not said yes to that, the label stands.
func (l gpuResetRequest) Undo(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := payload[resetPayload](plan.Step, plan.Payload)
	switch {
	case err != nil:
		return nil, err
	case p.Via != viaWebhook:
		return l.node.Undo(ctx, in, plan, receipt)
	}
	o, n, _, err := l.look(ctx, in, plan, false)
	if err != nil {
		return nil, err
	}
	ticket := ticketOf(n, receipt)
	if o.Applied {
		if _, err := l.ask(ctx, in, plan, p, true, ticket); err != nil {
			if e := wrap(err); !e.Unknown && !e.Reason.Retryable() {
				return nil, &Error{Reason: e.Reason, Message: plan.Step + ": the request cannot be taken back, tell whoever answers it", Err: err}
			}
			return nil, err
		}
	}
	if _, err := l.node.Undo(ctx, in, plan, receipt); err != nil {
		e := *wrap(err)
		e.Unknown = e.Unknown || o.Applied // it is withdrawn, and that is half of it
		return nil, &e
	}
	return encode(ticketReceipt{changeReceipt{Action: machine.ActionUndo, UID: plan.Target.UID}, ticket}), nil
}

// withTicket adds to what is seen of a request by webhook what its receiver
// calls it.
func withTicket(o Observation, n kube.NodeState, receipt json.RawMessage, undo bool) Observation {
	ticket := ticketOf(n, receipt)
	if ticket == "" {
		return o
	}
	action := machine.ActionApply
	o.Progress = "the reset of " + n.Name + " was asked for" + as(ticket)
	if undo {
		action, o.Progress = machine.ActionUndo, "the request about node "+n.Name+" was withdrawn"+as(ticket)
	}
	o.Receipt = encode(ticketReceipt{changeReceipt{Action: action, UID: n.UID}, ticket})
	return o
}

// unseen says of what is not in the cluster that a webhook may know it all the same.
func unseen(o Observation, plan machine.Plan) Observation {
	p, err := payload[resetPayload](plan.Step, plan.Payload)
	if err != nil || p.Via != viaWebhook {
		return o
	}
	o.Progress = "whether the request about node " + plan.Target.Name + " arrived cannot be seen"
	if !plan.Unrepeatable {
		o.Progress += "; it can be sent again, the receiver takes it once"
	}
	return o
}

func as(ticket string) string {
	if ticket == "" {
		return ""
	}
	return " as " + ticket
}

// ticketOf is what the receiver calls a request: by the receipt, or where that
// was lost by the node.
func ticketOf(n kube.NodeState, receipt json.RawMessage) string {
	var r ticketReceipt
	if len(receipt) > 0 && json.Unmarshal(receipt, &r) == nil && r.Ticket != "" {
		return r.Ticket
	}
	return n.Annotations[resetTicket]
}
