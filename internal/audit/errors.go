package audit

import (
	"errors"
	"fmt"
)

// What a caller branches on. Test with errors.Is.
var (
	// ErrConflict: a stream's head is not the one the append names. Nothing
	// of the batch was written. The error is a *conflictError.
	ErrConflict = errors.New("stream has moved on")

	// ErrFull: the queue bound is reached. Nothing was written; try again.
	ErrFull = errors.New("journal queue is full")

	// ErrUnavailable: the journal takes no appends now. Wrapped by the four
	// errors below.
	ErrUnavailable = errors.New("journal takes no appends")

	// errReadOnly: a commit failed, an earlier one or this one before anything
	// was written. What the disk holds is unknown until the journal is opened
	// again, so nothing more is written. This batch was not.
	errReadOnly = fmt.Errorf("%w: a write failed", ErrUnavailable)

	// errOutcomeUnknown: this commit failed at a point where the disk may or
	// may not hold the batch. Opening the journal again shows which.
	errOutcomeUnknown = fmt.Errorf("%w: outcome of the write is unknown", ErrUnavailable)

	// ErrDiskFull: no space for this batch. It was not written. The journal
	// recovers by itself when there is space again.
	ErrDiskFull = fmt.Errorf("%w: no space left for it", ErrUnavailable)

	// ErrClosed: the journal is closed. Nothing was written.
	ErrClosed = fmt.Errorf("%w: it is closed", ErrUnavailable)

	// ErrInvalid: the batch can never be written: a bad name or a limit
	// exceeded.
	ErrInvalid = errors.New("invalid append")

	// ErrCorrupt: the file is a journal, and damaged.
	ErrCorrupt = errors.New("journal is damaged")

	// ErrForeign: the file is not a journal of this format.
	ErrForeign = errors.New("not a journal")

	// ErrLocked: another process has the journal open.
	ErrLocked = errors.New("journal is in use")

	// errKey: the key files do not belong to the journal.
	errKey = errors.New("journal key mismatch")
)

// restoreAdvice is the end of every error about a file that a service cannot use.
const restoreAdvice = "restore a copy verified with `responder audit verify`, " +
	"or move the journal's files away to start a new log"

// A conflictError names the stream whose head was not the expected one.
type conflictError struct {
	Stream   string
	Expected uint64 // head the caller has seen
	Actual   uint64 // head of the journal
}

func (e *conflictError) Error() string {
	return fmt.Sprintf("stream %q has moved on: expected head %d, is %d", e.Stream, e.Expected, e.Actual)
}

// Unwrap makes errors.Is(err, ErrConflict) hold.
func (e *conflictError) Unwrap() error { return ErrConflict }

// corrupt wraps a description as ErrCorrupt.
func corrupt(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrCorrupt, fmt.Sprintf(format, args...))
}

// foreign wraps a description as ErrForeign.
func foreign(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrForeign, fmt.Sprintf(format, args...))
}

// advised adds what to do to an error about the file of a service. Errors about a
// copy are left without it.
func advised(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForeign) {
		return fmt.Errorf("%w; %s", err, restoreAdvice)
	}
	return err
}
