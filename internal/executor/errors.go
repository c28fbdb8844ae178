package executor

import (
	"errors"
	"fmt"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// What a caller of Command, Pause and Unpause branches on. Test with errors.Is;
// errors of the journal (audit.ErrUnavailable, audit.ErrFull) come through too.
var (
	// ErrNotFound: there is no such run, or no such pause.
	ErrNotFound = errors.New("not found")

	// ErrForbidden: this person may not decide this.
	ErrForbidden = errors.New("forbidden")

	// ErrConflict: not possible in the state the run is in.
	ErrConflict = errors.New("conflict")

	// ErrInvalid: the request itself makes no sense.
	ErrInvalid = errors.New("invalid")

	// ErrNotReady: the executor does not run, or no longer. It is also an
	// audit.ErrUnavailable: try again later.
	ErrNotReady = fmt.Errorf("%w: the executor is not running", audit.ErrUnavailable)
)

// refusal reports in the executor's words why the machine did not do something.
func refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, machine.ErrNotAllowed):
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	case errors.Is(err, machine.ErrEnded), errors.Is(err, machine.ErrNoGate), errors.Is(err, machine.ErrStale), errors.Is(err, machine.ErrNotHeld), errors.Is(err, machine.ErrNotWaiting),
		errors.Is(err, machine.ErrVoted), errors.Is(err, machine.ErrTooMany):
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case errors.Is(err, machine.ErrInvalid):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	default:
		return err
	}
}
