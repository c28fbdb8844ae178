package step

import (
	"context"
	"errors"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// outcomeOf converts an error to an outcome of the run. A lost answer of a
// mutation is unknown, a change by someone else is foreign, and an error that a
// retry may fix is failed. Every other error gets the status otherwise.
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

// AsError returns the [fault.Error] in err, or wraps err in one.
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

// NotConfigured returns the error of a step that needs something that is not
// configured.
func NotConfigured(what, setting string) error {
	return &fault.Error{Reason: fault.Invalid, Message: "no " + what + " is configured: set " + setting}
}
