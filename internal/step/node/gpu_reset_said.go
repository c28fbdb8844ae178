package node

import (
	"context"
	"encoding/json"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// This file holds what becomes of a request after somebody's word: that it was not
// made, where that could not be told, or that it was taken back. Whoever answers
// requests is not asked again; only the node still says otherwise.

// traces tells what the request left on its node. Nothing is left of one whose
// label somebody else has changed: they have taken it up.
func (l gpuResetRequest) traces(ctx context.Context, in step.Input, plan machine.Plan) (step.Observation, kube.NodeState, resetPayload, error) {
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

// takeOff takes them away.
func (l gpuResetRequest) takeOff(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	var err error
	for range labelWrites {
		o, n, p, lookErr := l.traces(ctx, in, plan)
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
