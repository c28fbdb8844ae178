package step

import (
	"context"
	"errors"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
)

// outcomeOf is what an error means for the run. A lost answer of a mutation is
// unknown, someone else's change is foreign, and what trying again may help
// has failed; everything else is otherwise.
func outcomeOf(err error, otherwise machine.Status) machine.Outcome {
	e := wrap(err)
	out := machine.Outcome{Status: otherwise, Reason: e.Reason, Message: e.Error()}
	switch {
	case e.Unknown:
		out.Status = machine.StatusUnknown
	case e.Reason == machine.ReasonForeignChange:
		out.Status = machine.StatusForeign
	case otherwise == machine.StatusRefused && e.Reason.Retryable():
		out.Status = machine.StatusFailed
	}
	return out
}

// wrap gives any error of the world its reason. The outside packages use the
// executor's words without knowing the executor.
func wrap(err error) *Error {
	var own *Error
	var k *kube.Error
	var q *slo.Error
	var g *gitops.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &k):
		return &Error{Reason: machine.Reason(k.Reason), Message: k.Error(), Unknown: k.Unknown}
	case errors.As(err, &g):
		return &Error{Reason: machine.Reason(g.Reason), Message: g.Error(), Unknown: g.Unknown}
	case errors.As(err, &q):
		return &Error{Reason: machine.Reason(q.Reason), Message: q.Message, Err: q.Err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Error{Reason: machine.ReasonTimeout, Message: "no answer in time", Err: err}
	default:
		return &Error{Reason: machine.ReasonServer, Message: err.Error()}
	}
}

// missing is the error of a step whose part of the world is not configured.
func missing(what, setting string) error {
	return &Error{Reason: machine.ReasonInvalid, Message: "no " + what + " is configured: set " + setting}
}
