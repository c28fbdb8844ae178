package step

import (
	"context"
	"encoding/json"
	"fmt"

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
	GPU      string // UUID or index; empty: all of the node's
	Reason   string
	Run      string
	Service  string
}

// resetPayload is what a plan by webhook needs.
type resetPayload struct {
	Via    string `json:"via"`
	GPU    string `json:"gpu,omitempty"`
	Reason string `json:"reason"`
}

// ticketReceipt is what a request by webhook left behind.
type ticketReceipt struct {
	Action machine.Action `json:"action"`
	Ticket string         `json:"ticket,omitempty"`
}

// Ways of a request.
const (
	viaLabel   = "label"
	viaWebhook = "webhook"
)

// byWebhook reports whether a plan's request goes to the webhook.
func byWebhook(plan machine.Plan) (resetPayload, bool, error) {
	p, err := payload[resetPayload](plan.Step, plan.Payload)
	return p, p.Via == viaWebhook, err
}

// planWebhook is the plan of a request by webhook.
func (l gpuResetRequest) planWebhook(ctx context.Context, in Input, kind string, n kube.NodeState, with resetWith) (machine.Plan, error) {
	if l.repairs == nil {
		return machine.Plan{}, missing("webhook for repairs", "gpu.repairs")
	}
	which := whichGPU(with.GPU)
	plan := machine.Plan{
		Step: kind, Target: machine.Target{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID},
		Summary: fmt.Sprintf("ask %s for a reset of %s of node %s", l.repairs.Where(), which, n.Name),
		Diff:    []machine.FieldChange{{Path: "request to " + l.repairs.Where(), To: which + ": " + shorten(with.Reason)}},
		Undo:    "withdraw it by a second request, which the receiver may refuse",
		Risk:    machine.RiskLow, Why: "only a request: whoever answers it does the reset",
		Locks:        append(locks(in.Service), "node:"+n.Name),
		Unrepeatable: !l.repairs.Once(),
		Payload:      encode(resetPayload{Via: viaWebhook, GPU: with.GPU, Reason: shorten(with.Reason)}),
	}
	if plan.Unrepeatable {
		plan.Notes = append(plan.Notes, "where its answer is lost people are asked what is true: the receiver may take a repeat for another request")
	}
	var err error
	plan.Capacity, err = l.untouched(ctx, in.Service)
	return plan, err
}

// ask sends the plan's request, or what withdraws it.
func (l gpuResetRequest) ask(ctx context.Context, in Input, plan machine.Plan, p resetPayload, withdraw bool, ticket string) (json.RawMessage, error) {
	if l.repairs == nil {
		return nil, missing("webhook for repairs", "gpu.repairs")
	}
	r := RepairRequest{
		Key: visit(in.Key) + "/request", Ticket: ticket,
		Node: plan.Target.Name, GPU: p.GPU, Reason: p.Reason, Run: in.Run, Service: in.Service.Name,
	}
	action := machine.ActionApply
	if withdraw {
		action, r.Withdraw, r.Key = machine.ActionUndo, r.Key, visit(in.Key)+"/withdraw"
	}
	given, err := l.repairs.Ask(ctx, r)
	if err != nil {
		return nil, err
	}
	if withdraw {
		given = ticket
	}
	return encode(ticketReceipt{Action: action, Ticket: given}), nil
}

// Apply implements [Lever].
func (l gpuResetRequest) Apply(ctx context.Context, in Input, plan machine.Plan) (json.RawMessage, error) {
	p, webhook, err := byWebhook(plan)
	switch {
	case err != nil:
		return nil, err
	case webhook:
		return l.ask(ctx, in, plan, p, false, "")
	default:
		return l.node.Apply(ctx, in, plan)
	}
}

// Undo implements [Lever].
func (l gpuResetRequest) Undo(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, webhook, err := byWebhook(plan)
	switch {
	case err != nil:
		return nil, err
	case webhook:
		out, err := l.ask(ctx, in, plan, p, true, ticketOf(receipt).Ticket)
		if err == nil {
			return out, nil
		}
		if e := wrap(err); !e.Unknown && !e.Reason.Retryable() {
			return nil, &Error{Reason: e.Reason, Message: plan.Step + ": the request cannot be taken back, tell whoever answers it", Err: err}
		}
		return out, err
	default:
		return l.node.Undo(ctx, in, plan, receipt)
	}
}

// observeWebhook tells what the receipt says: nothing else can be seen.
func observeWebhook(plan machine.Plan, receipt json.RawMessage, undo bool) Observation {
	r := ticketOf(receipt)
	want := machine.ActionApply
	if undo {
		want = machine.ActionUndo
	}
	if r.Action != want {
		o := Observation{Progress: "whether the request about node " + plan.Target.Name + " arrived cannot be seen"}
		if !plan.Unrepeatable {
			o.Progress += "; it can be sent again, the receiver takes it once"
		}
		return o
	}
	o := Observation{Applied: true, Settled: true, Receipt: receipt, Progress: "the reset of " + plan.Target.Name + " was asked for"}
	if undo {
		o.Progress = "the request about node " + plan.Target.Name + " was withdrawn"
	}
	if r.Ticket != "" {
		o.Progress += " as " + r.Ticket
	}
	return o
}

func ticketOf(receipt json.RawMessage) ticketReceipt {
	var r ticketReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &r) != nil {
		return ticketReceipt{}
	}
	return r
}

// whichGPU says which GPU is meant.
func whichGPU(gpu string) string {
	if gpu == "" {
		return "all GPUs"
	}
	return "GPU " + gpu
}
