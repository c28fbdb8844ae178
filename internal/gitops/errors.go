package gitops

import "errors"

// ErrProtected is in an error of a push that was refused because the branch
// is protected: it takes a pull request, or another identity.
var ErrProtected = errors.New("the branch is protected")

// Reason says, for machines, why something could not be done. The words are
// those of the executor's reasons.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable"   // could not connect, or the answer was cut off
	Timeout     Reason = "timeout"       // no answer in time
	Throttled   Reason = "throttled"     // asked to slow down
	ServerError Reason = "server_error"  // the other side failed
	Forbidden   Reason = "forbidden"     // no or bad credential, or no right
	NotFound    Reason = "not_found"     // repository, branch, file, flag, application, commit
	Conflict    Reason = "conflict"      // the branch, or the place, moved since it was read
	Invalid     Reason = "invalid"       // the input cannot be read or edited safely
	Ambiguous   Reason = "ambiguous"     // several places, and nothing says which one counts
	Owned       Reason = "owned"         // someone else owns it: another application, a generator
	NothingToDo Reason = "nothing_to_do" // already as wanted
	OutOfBounds Reason = "out_of_bounds" // larger than what is read
)

// Error is why something could not be done.
type Error struct {
	Reason  Reason
	Message string // what, where (file:line:column), why, what to do; never a credential
	Unknown bool   // a write may have happened
	Absent  bool   // the variable is not set; where it would be added cannot be told
	Err     error
}

// Error says the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
