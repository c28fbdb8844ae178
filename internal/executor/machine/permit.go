package machine

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Forbids returns why an attempt at the open apply may not go out now, given what
// the guards answer now; empty means that it may. It is asked about every attempt,
// since a stop may have come after the intent was journaled, or while the attempt
// before it was under way. A pause is not asked about: see Pending.
func Forbids(s State, guards Outcome, now time.Time) string {
	st := s.current()
	if st == nil || s.Lever == nil {
		return "the run has left the lever"
	}
	under, c := s.Under(guards.Terms), s.Consent()
	why, _ := refusals(guards)
	switch {
	case s.Cancel != nil:
		return "canceled by " + s.Cancel.By
	case st.Unsafe != "":
		return st.Unsafe
	case !s.Wanted(st):
		return "the alert resolved"
	case why != "":
		return why
	case under.Autonomy(st) == playbook.Observe:
		return "autonomy is observe"
	case c.Approved != nil && now.After(c.GoodUntil):
		return fmt.Sprintf("the approval expired at %s", c.GoodUntil.UTC().Format("15:04:05Z"))
	case under.Asks(st):
		return "an approval is missing"
	default:
		return ""
	}
}
