package audit

import (
	"errors"
	"fmt"
)

// What a caller branches on. Test with errors.Is.
var (
	// ErrConflict: a stream's head is not the one the append names. Nothing
	// of the batch was written. The error is a *ConflictError.
	ErrConflict = errors.New("stream has moved on")

	// ErrFull: the queue bound is reached. Nothing was written; try again.
	ErrFull = errors.New("journal queue is full")

	// ErrUnavailable: the journal takes no appends now. Wrapped by the four
	// errors below.
	ErrUnavailable = errors.New("journal takes no appends")

	// ErrReadOnly: a commit failed, this one before anything was written or an
	// earlier one. Until the journal is opened again nobody can say what the
	// disk holds, so nothing more is written; this batch was not.
	ErrReadOnly = fmt.Errorf("%w: a write failed", ErrUnavailable)

	// ErrOutcomeUnknown: this very commit failed at a point where the disk
	// may or may not hold the batch. Opening the journal again will tell.
	ErrOutcomeUnknown = fmt.Errorf("%w: outcome of the write is unknown", ErrUnavailable)

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

	// ErrKey: the key files do not belong to the journal.
	ErrKey = errors.New("journal key mismatch")
)

// restoreAdvice ends every error about a file that a service cannot use.
const restoreAdvice = "restore a copy verified with `responder audit verify`, " +
	"or move the journal's files away to start a new log"

// A ConflictError names the stream whose head was not the expected one.
type ConflictError struct {
	Stream   string
	Expected uint64 // head the caller has seen
	Actual   uint64 // head of the journal
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("stream %q has moved on: expected head %d, is %d", e.Stream, e.Expected, e.Actual)
}

// Unwrap makes errors.Is(err, ErrConflict) hold.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// corrupt wraps a description as ErrCorrupt.
func corrupt(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrCorrupt, fmt.Sprintf(format, args...))
}

// foreign wraps a description as ErrForeign.
func foreign(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrForeign, fmt.Sprintf(format, args...))
}

// advised adds to an error about the file of a service what to do. Who looks at
// a copy has nothing to move away.
func advised(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForeign) {
		return fmt.Errorf("%w; %s", err, restoreAdvice)
	}
	return err
}
