package machine

import (
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Limits and defaults of a run. A playbook sets what differs between levers;
// these are the same for all, so that every run ends.
const (
	MaxVisits   = 10            // of one state, without those after which the run only waited and looked again
	MaxPath     = 100           // states entered by one run
	MaxAgain    = 4 * time.Hour // from the start of a run; after that it enters no state again
	MaxPlans    = 5             // plans on one visit; when the world changes, approvals become void
	MaxReplans  = 5             // new plans that people request on one visit; not counted in MaxPlans
	MaxUndos    = 8             // attempts at one undo, over two minutes: an API server may need that long to return
	MaxLooks    = 5             // attempts to observe a change, while what has it can be reached
	MaxIgnored  = 100           // journaled decisions that do not count; further ones are only answered
	MostIgnored = 10            // of these of one person, so that none crowds the others out
	MaxNotices  = 3             // attempts to notify people
	MaxEvidence = 256 << 10     // bytes of evidence, receipt or plan payload

	GatherWithin  = 90 * time.Second // for all checks of a gather; servers that cannot be reached are waited for meanwhile
	AwayWithin    = 90 * time.Second // for a server that cannot be reached, to plan a change, to make one that did not get there or to observe one: an API server that restarts comes back
	SettleWithin  = 30 * time.Minute // for a change, or its undo, to take effect, after its merge if it waits for one; of a rollout in rounds: without progress
	loadsUnknown  = 10 * time.Minute // for a replica to load, where nothing is known of it
	roundBeside   = 5 * time.Minute  // of a round of a rollout, beside the load: nodes and images are found, and what is replaced ends
	WaitWithin    = 30 * time.Minute // for a lock
	tellWait      = 15 * time.Minute // of a wait people are told that lasts longer
	AskWithin     = 30 * time.Minute // for a decision, if the playbook does not set it
	lookAfter     = 2 * time.Second  // before observing: a request that was cut off may still be in flight
	landsWithin   = time.Minute      // how long a request that was cut off may still take effect: the API server's own timeout
	settleEvery   = 5 * time.Second
	settleSlowly  = 15 * time.Second // after the first minute
	soonest       = time.Second      // if the next step of the change may be made now
	mergeSlowly   = time.Minute      // after the first ten minutes, while people are waited for: forges limit requests
	maxBackoff    = 10 * time.Minute
	waitFirst     = 15 * time.Second // a released lock wakes its waiters; this is for what does not wake them
	waitMost      = 5 * time.Minute
	noticeBackoff = 5 * time.Second
)

// timeout returns the timeout of one attempt, which the playbook may set. The
// errors here are unreachable: a state whose numbers are unknown is left at once.
func (s State) timeout(a Action) time.Duration {
	switch a {
	case ActionCheck, ActionPlan, ActionApply, ActionUndo, ActionNotify:
		if st := s.current(); st != nil {
			if d, err := s.lasting(playbook.NumberTimeout, st.Timeout, s.Updated); err == nil && d > 0 {
				return d
			}
		}
	}
	switch a {
	case ActionApply, ActionUndo:
		return time.Minute
	case ActionGuard:
		return 5 * time.Second
	case ActionCheck:
		if st := s.current(); st != nil && st.Kind == playbook.StateGather {
			return GatherWithin
		}
	}
	return 30 * time.Second
}

// attempts returns the number of attempts of one effect.
func (s State) attempts(a Action) int {
	st := s.current()
	own, err := s.count(playbook.NumberAttempts, st.Retry.Attempts, s.Updated)
	switch a {
	case ActionCheck, ActionPlan:
		if err == nil && own > 0 && st.Kind == playbook.StateCheck {
			return own
		}
		return 3
	case ActionApply:
		return max(1, own)
	case ActionUndo:
		return MaxUndos
	case ActionNotify:
		return MaxNotices
	default:
		return 1
	}
}

// backoff returns the pause after a number of consecutive failures.
func (s State) backoff(a Action, failed int) time.Duration {
	d := time.Second
	if a == ActionNotify {
		d = noticeBackoff
	} else if st := s.current(); st != nil {
		if own, err := s.lasting(playbook.NumberBackoff, st.Retry.Backoff, s.Updated); err == nil && own > 0 {
			d = own
		}
	}
	for range max(0, failed-1) {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}
