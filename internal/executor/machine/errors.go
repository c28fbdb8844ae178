package machine

import "errors"

// What a caller of Decide branches on. Test with errors.Is. When an error comes
// with events, they are facts (a decision was ignored) and must be journaled.
var (
	// ErrInvalid: the command itself makes no sense; correct it.
	ErrInvalid = errors.New("invalid command")

	// ErrEnded: the run has ended; nothing can change it any more.
	ErrEnded = errors.New("run has ended")

	// ErrNoGate: nothing is being asked, or not this: it was decided,
	// withdrawn or has expired.
	ErrNoGate = errors.New("no such question is open")

	// ErrNotAllowed: this person may not decide this.
	ErrNotAllowed = errors.New("not allowed to decide")

	// ErrVoted: this person's approval counts already; others are needed.
	ErrVoted = errors.New("has voted already")

	// ErrTooMany: it was asked for so often that it is not done any more.
	ErrTooMany = errors.New("too many")

	// ErrStale: the decision is about a plan that is no longer the one asked about.
	ErrStale = errors.New("decision is about another plan")

	// ErrNotHeld: the run does not wait for anyone to say what is true.
	ErrNotHeld = errors.New("run is not held")
)
