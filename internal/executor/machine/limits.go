package machine

import (
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Bounds and defaults of a run. A playbook sets what differs from one lever to
// the next; these are the same everywhere, so that a run cannot go on for ever.
const (
	MaxVisits   = 10        // of one state
	MaxPath     = 100       // states entered by one run
	MaxPlans    = 5         // plans on one visit: the world moves, approvals become void
	MaxReplans  = 5         // fresh plans that people ask for on one visit; they do not count among MaxPlans
	MaxUndos    = 8         // attempts at one undo, over two minutes: an API server needs that long to come back
	MaxLooks    = 5         // attempts at finding out what became of a change
	MaxIgnored  = 100       // decisions that do not count and are journaled; the rest are only answered
	MaxNotices  = 3         // attempts at telling people
	MaxEvidence = 256 << 10 // bytes of evidence, receipt or plan payload

	SettleWithin  = 30 * time.Minute // for a change, or its undo, to take effect; from its merge, where it waits for one
	WaitWithin    = 30 * time.Minute // for a lock
	AskWithin     = 30 * time.Minute // for a decision, where the playbook says nothing
	guardsHold    = 30 * time.Second // what guards let through; a later attempt asks them again
	lookAfter     = 2 * time.Second  // before observing: a cut-off request may still be on its way
	settleEvery   = 5 * time.Second
	settleSlowly  = 15 * time.Second // after the first minute
	soonest       = time.Second      // where the next step of the change may be taken now
	mergeSlowly   = time.Minute      // after the first ten, while people are waited for: a forge counts what it is asked
	maxBackoff    = 10 * time.Minute
	waitFirst     = 15 * time.Second // a released lock wakes its waiters; this is for what has no such bell
	waitMost      = 5 * time.Minute
	noticeBackoff = 5 * time.Second
)

// timeout of one attempt, unless the playbook sets one.
func timeout(a Action, st *playbook.State) time.Duration {
	switch a {
	case ActionCheck, ActionPlan, ActionApply, ActionUndo, ActionNotify:
		if st != nil && st.Timeout > 0 {
			return st.Timeout
		}
	}
	switch a {
	case ActionApply, ActionUndo:
		return time.Minute
	case ActionGuard:
		return 5 * time.Second
	default:
		return 30 * time.Second
	}
}

// attempts of one effect in all.
func attempts(a Action, st *playbook.State) int {
	switch a {
	case ActionCheck, ActionPlan:
		if st.Retry.Attempts > 0 && st.Kind == playbook.StateCheck {
			return st.Retry.Attempts
		}
		return 3
	case ActionApply:
		return max(1, st.Retry.Attempts)
	case ActionUndo:
		return MaxUndos
	case ActionNotify:
		return MaxNotices
	default:
		return 1
	}
}

// backoff before the attempt after the failed-th failure in a row.
func backoff(a Action, st *playbook.State, failed int) time.Duration {
	d := time.Second
	switch {
	case a == ActionNotify:
		d = noticeBackoff
	case st != nil && st.Retry.Backoff > 0:
		d = st.Retry.Backoff
	}
	for range max(0, failed-1) {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}
