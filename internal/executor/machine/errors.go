package machine

import "errors"

// Errors of Decide; test with errors.Is. If an error comes with events, these
// are facts (a decision was ignored) and must be journaled.
var (
	// ErrNotWaiting means that the run is in no wait state.
	ErrNotWaiting = errors.New("run does not wait")
	// ErrInvalid: the command itself is invalid.
	ErrInvalid = errors.New("invalid command")

	// ErrEnded: the run has ended and cannot change any more.
	ErrEnded = errors.New("run has ended")

	// ErrNoGate: the question is not open: it was decided, withdrawn or has
	// expired.
	ErrNoGate = errors.New("no such question is open")

	// ErrNotAllowed: this person may not decide this.
	ErrNotAllowed = errors.New("not allowed to decide")

	// ErrVoted: this person's approval already counts; others are needed.
	ErrVoted = errors.New("has voted already")

	// ErrTooMany: the request was repeated too often.
	ErrTooMany = errors.New("too many")

	// ErrStale: the decision is about a plan that is no longer in question.
	ErrStale = errors.New("decision is about another plan")

	// ErrNotHeld: the run does not wait for a person to resolve it.
	ErrNotHeld = errors.New("run is not held")
)
