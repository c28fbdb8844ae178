package step

import (
	"context"
	"errors"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// outcomeOf is what an error means for the run. A lost answer of a mutation is
// unknown, someone else's change is foreign, and what trying again may help
// has failed; everything else is otherwise.
func outcomeOf(err error, otherwise machine.Status) machine.Outcome {
	e := AsError(err)
	out := machine.Outcome{Status: otherwise, Reason: e.Reason, Message: e.Error()}
	switch {
	case e.Unknown:
		out.Status = machine.StatusUnknown
	case e.Reason == fault.ForeignChange:
		out.Status = machine.StatusForeign
	case otherwise == machine.StatusRefused && e.Reason.Retryable():
		out.Status = machine.StatusFailed
	}
	return out
}

// AsError returns the [fault.Error] in err, or gives one to an error without.
func AsError(err error) *fault.Error {
	var e *fault.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &fault.Error{Reason: fault.Timeout, Message: "no answer in time", Err: err}
	default:
		return &fault.Error{Reason: fault.ServerError, Message: err.Error()}
	}
}

// NotConfigured is the error of a step whose part of the world is not configured.
func NotConfigured(what, setting string) error {
	return &fault.Error{Reason: fault.Invalid, Message: "no " + what + " is configured: set " + setting}
}
