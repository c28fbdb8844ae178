package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// byPullRequest ends the summary of a plan whose change is not pushed.
const byPullRequest = ", by pull request"

// subject is a plan's summary as a commit says it: on a branch or in a request,
// it is the same change.
func subject(plan machine.Plan) string { return strings.TrimSuffix(plan.Summary, byPullRequest) }

// sameWay refuses to make a change another way than its plan says: what people
// read and the guards passed is that plan. The way it goes now is a fresh one.
func (g Change) sameWay(ctx context.Context, plan machine.Plan, p gitPayload) error {
	way, err := g.p.Delivery(ctx, p.src())
	switch {
	case err != nil:
		return err
	case way.PullRequest == p.PullRequest:
		return nil
	case way.PullRequest:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: planned as a push, and it takes a pull request: %s", plan.Step, way.Why)}
	default:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: planned as a pull request, and %s may be pushed to now", plan.Step, branchOf(p))}
	}
}

// protectedNow is a push that was refused where the plan says push: nothing was
// changed. Where a pull request can be opened instead, that is a fresh plan.
func (g Change) protectedNow(ctx context.Context, plan machine.Plan, p gitPayload, refused error) error {
	if way, err := g.p.Delivery(ctx, p.src()); err != nil || !way.PullRequest {
		return refused
	}
	return &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": planned as a push, and it takes a pull request: " + refused.Error()}
}

// undoWay is how a change is taken back: as it was made, or by a pull request
// where the branch became protected since. It takes no further approval.
func (g Change) undoWay(ctx context.Context, p gitPayload) (bool, error) {
	if p.PullRequest {
		return true, nil
	}
	way, err := g.p.Delivery(ctx, p.src())
	return way.PullRequest, err
}

// awaits is the observation of a change that waits for its merge.
func awaits(in step.Input, what string, l gitops.Landing, made step.GitReceipt) step.Observation {
	by := "people"
	if in.MergeBy == machine.MergeResponder {
		by = "Responder"
	}
	made.Waits = l.Waits
	o := step.Observation{
		Pending: true, Waits: l.Waits, Progress: fmt.Sprintf("%swaits for the merge of %s by %s", what, l.Waits, by),
		Receipt: step.EncodeJSON(made),
	}
	if len(l.Needs) > 0 {
		o.Progress += ": " + strings.Join(l.Needs, "; ")
	}
	return o
}
