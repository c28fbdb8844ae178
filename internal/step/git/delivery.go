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

// subject returns a plan's summary for a commit, without the way of delivery.
func subject(plan machine.Plan) string { return strings.TrimSuffix(plan.Summary, byPullRequest) }

// Unwritable returns why Responder cannot change the repository of a service's
// manifests at all: none is configured, or its credential is refused; empty: it
// can, as far as that is known without writing.
func (g Change) Unwritable(ctx context.Context, in step.Input) (why string, err error) {
	if err := g.configured(); err != nil {
		return step.AsError(err).Message, nil
	}
	at, err := g.find(ctx, in)
	if err != nil {
		return "", err
	}
	_, err = g.p.Delivery(ctx, at.src)
	if step.HasReason(err, fault.Invalid) || step.HasReason(err, fault.Forbidden) {
		return step.AsError(err).Message, nil
	}
	return "", err
}

// sameDelivery refuses a change whose delivery differs from its plan by now: people
// and guards approved that plan. The other delivery needs a fresh plan.
func (g Change) sameDelivery(ctx context.Context, plan machine.Plan, p gitPayload) error {
	delivery, err := g.p.Delivery(ctx, p.src())
	switch {
	case err != nil:
		return err
	case delivery.PullRequest == p.PullRequest:
		return nil
	case delivery.PullRequest:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: planned as a push, but the branch needs a pull request: %s", plan.Step, delivery.Why)}
	default:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: planned as a pull request, but %s accepts pushes now", plan.Step, branchOf(p))}
	}
}

// protectedNow returns the error for a push that was refused although the plan says
// push. Nothing was changed. A pull request instead needs a fresh plan.
func (g Change) protectedNow(ctx context.Context, plan machine.Plan, p gitPayload, refused error) error {
	if delivery, err := g.p.Delivery(ctx, p.src()); err != nil || !delivery.PullRequest {
		return refused
	}
	return &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": planned as a push, but the branch needs a pull request: " + refused.Error()}
}

// undoByPullRequest reports whether a change is reverted by pull request: because
// it was made by one, or because the branch became protected since. It needs no
// further approval.
func (g Change) undoByPullRequest(ctx context.Context, p gitPayload) (bool, error) {
	if p.PullRequest {
		return true, nil
	}
	delivery, err := g.p.Delivery(ctx, p.src())
	return delivery.PullRequest, err
}

// awaitsMerge returns the observation of a change that waits for its merge.
func awaitsMerge(in step.Input, what string, l gitops.Landing, made step.GitReceipt) step.Observation {
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
