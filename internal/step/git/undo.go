package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// Undo implements [step.Lever]: a commit that takes back exactly the one that was
// made, whatever came later. What waits to be merged is withdrawn.
func (g Change) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if err := g.configured(); err != nil {
		return nil, err
	}
	key := effectKey(in.Key, machine.ActionUndo)
	made, back, err := g.both(ctx, in, p)
	_, drift := g.driftAfter(ctx, plan, p, receipt, made)
	switch {
	case err != nil:
		return nil, err
	case back.SHA != "" || back.Waits != "":
		return step.EncodeJSON(step.GitReceipt{Action: machine.ActionUndo, Revision: back.SHA, Waits: back.Waits, Drift: drift}), g.ask(ctx, in, p, back.SHA, machine.ActionUndo)
	case made.SHA == "" && made.Waits != "":
		return g.withdraw(ctx, in, p, made)
	case made.SHA == "":
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: plan.Step + ": the change is not on " + branchOf(p) + ", there is nothing to undo"}
	}
	for range 3 {
		o, err := g.Observe(ctx, in, plan, receipt, false)
		switch {
		case err != nil:
			return nil, err
		case o.Foreign:
			return nil, &fault.Error{Reason: fault.ForeignChange, Message: o.Progress + "; nothing was undone"}
		}
		prop, err := g.takeBack(ctx, in, p, made.SHA)
		if err != nil {
			return nil, err
		}
		r := request(in, plan, prop, key)
		r.What = fmt.Sprintf("Revert %q", in.Service.Name+": "+subject(plan))
		if r.PullRequest, err = g.undoByPullRequest(ctx, p); err != nil {
			return nil, err
		}
		r.Why = fmt.Sprintf("The change of commit %s was not proven to help.", short(made.SHA))
		landed, err := g.c.Commit(ctx, r)
		if errors.Is(err, gitops.ErrProtected) {
			err = g.protectedNow(ctx, plan, p, err)
		}
		if step.HasReason(err, fault.Conflict) && !step.AsError(err).Unknown {
			continue // somebody pushed meanwhile: look at what it was; or it takes a pull request
		}
		if err != nil {
			return nil, err
		}
		_ = g.ask(ctx, in, p, landed.SHA, machine.ActionUndo) // unwinding asks again
		return step.EncodeJSON(step.GitReceipt{Action: machine.ActionUndo, Revision: landed.SHA, Waits: landed.Waits, Drift: drift}), nil
	}
	return nil, &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": " + branchOf(p) + " keeps moving: " + plan.Undo + " could not be done yet"}
}

func (g Change) both(ctx context.Context, in step.Input, p gitPayload) (made, back gitops.Landing, err error) {
	if made, err = g.c.Find(ctx, p.src(), effectKey(in.Key, machine.ActionApply)); err == nil {
		back, err = g.c.Find(ctx, p.src(), effectKey(in.Key, machine.ActionUndo))
	}
	return made, back, err
}

// takeBack computes the revert of a commit. If neighbouring lines were changed
// since, it puts the fields back one by one instead, so that no other change is
// reverted.
func (g Change) takeBack(ctx context.Context, in step.Input, p gitPayload, sha string) (gitops.Proposal, error) {
	t := p.target(in.Service.Namespace)
	prop, err := g.m.Reverting(ctx, p.src(), t, []string{sha})
	if !step.HasReason(err, fault.Conflict) {
		return prop, err
	}
	if len(p.Set) == 0 {
		return g.m.Propose(ctx, gitops.Want{Source: p.src(), Target: t, TakeBack: []string{sha}})
	}
	back := gitops.Want{Source: p.src(), Target: t}
	for _, a := range p.Set {
		if a.From == "" {
			back.Unset = append(back.Unset, a.variable())
			continue
		}
		back.Set = append(back.Set, gitops.Assignment{Variable: a.variable(), Value: a.From})
	}
	if prop, err = g.m.Propose(ctx, back); err == nil {
		prop.TakesBack = []string{sha}
	}
	return prop, err
}

// withdraw closes a pull request that is not merged. If it was merged at the
// same moment, the next attempt reverts the commit.
func (g Change) withdraw(ctx context.Context, in step.Input, p gitPayload, made gitops.Landing) (json.RawMessage, error) {
	after, err := g.p.Withdraw(ctx, p.src(), effectKey(in.Key, machine.ActionApply))
	if err != nil {
		return nil, err
	}
	if after.SHA != "" || after.Waits != "" {
		return nil, &fault.Error{Reason: fault.Conflict, Message: made.Waits + " could not be closed: it was merged or reopened meanwhile"}
	}
	return step.EncodeJSON(step.GitReceipt{Action: machine.ActionUndo, Left: after.Left}), nil
}

// leftBehind returns what a receipt records as left behind; empty: nothing.
func leftBehind(receipt json.RawMessage) string {
	var r step.GitReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &r) != nil {
		return ""
	}
	return r.Left
}
