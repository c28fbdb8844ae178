package web

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// change is one lever of a run on its page: its plan, the decisions about it,
// and its result. It is a fold of the run's events, like the run's state.
type change struct {
	State, Title string
	Plan         *machine.Plan
	Digest       string
	Old          bool // another lever, or another visit, followed
	Guards       []machine.GuardVerdict
	Terms        *machine.Terms
	Votes        []machine.Decision
	Proof        []machine.ProofLine // what must hold
	Samples      []machine.Sample
	Applied      time.Time
	Results      []line
}

// line is one entry of the timeline, in the words of the CLI.
type line struct {
	At      time.Time
	What    string
	Details []string
	Tone    string
}

// timeline is what the page takes from a run's events in addition to its state.
type story struct {
	words    Words
	run      machine.State
	book     *playbook.Playbook
	changes  []*change
	timeline []line
	queries  map[string]string // queries of the checks, by state
	last     machine.Verdict   // of the previous sample, so that of equal verdicts only the first is shown
}

func (s *story) add(e machine.Event) {
	if query, ok := e.With["query"].(string); ok && e.Action == machine.ActionCheck {
		s.queries[e.State] = query
	}
	s.tell(e)
	c := s.current(e)
	if c == nil {
		return
	}
	switch e.Kind {
	case machine.PlanCompleted:
		if e.Plan != nil {
			c.Plan, c.Digest = e.Plan, e.Plan.Digest()
		}
	case machine.GuardsPassed, machine.GuardsRefused, machine.GuardsWaiting:
		c.Guards, c.Terms = e.Guards, e.Terms
	case machine.GateOpened:
		c.Votes = nil
	case machine.GateVoted, machine.GateDecided:
		if e.Decision != nil {
			c.Votes = append(c.Votes, *e.Decision)
		}
	case machine.Applied:
		c.Applied = e.At
	case machine.Sampled:
		if e.Sample != nil {
			c.Samples = append(c.Samples, *e.Sample)
		}
	}
	switch e.Kind {
	case machine.PlanRefused, machine.GuardsRefused, machine.WouldApply, machine.Applied, machine.Settled, machine.Verified,
		machine.VerifyEnded, machine.Declined, machine.Undone, machine.Unwound, machine.GateExpired, machine.GateWithdrawn, machine.GateVoided:
		what, _ := s.words.Event(e)
		c.Results = append(c.Results, line{At: e.At, What: what, Tone: lineTone(e)})
	}
}

// current returns the lever of an event; nil if it has none.
func (s *story) current(e machine.Event) *change {
	n := len(s.changes)
	switch {
	case e.Kind == machine.StateEntered:
		if n > 0 {
			s.changes[n-1].Old = true
		}
		return nil
	case e.Kind == machine.PlanCompleted, e.Kind == machine.PlanRefused:
		if n > 0 && !s.changes[n-1].Old {
			return s.changes[n-1]
		}
		s.changes = append(s.changes, &change{State: e.State, Title: title(s.book, e.State), Proof: s.run.ProofLines(e.State, e.At)})
		return s.changes[n]
	case n == 0 || s.changes[n-1].Old && e.State != s.changes[n-1].State:
		return nil
	default:
		return s.changes[n-1]
	}
}

// tell adds an event to the timeline.
func (s *story) tell(e machine.Event) {
	what, details := s.words.Event(e)
	if n := len(details) - maxFacts; n > 0 {
		details = append(slices.Clone(details[:maxFacts]), fmt.Sprintf("and %d more", n))
	}
	if e.Sample != nil {
		same := s.last == e.Sample.Verdict
		s.last = e.Sample.Verdict
		if same {
			return
		}
	}
	if what == "" {
		return
	}
	if e.Kind == machine.StateEntered && s.book != nil {
		if st := s.book.State(e.State); st != nil {
			what += ": " + s.words.State(st)
		}
	}
	if n := len(s.timeline); n > 0 && len(details) == 0 && s.timeline[n-1].What == what {
		return // a repetition, as while a change takes effect
	}
	s.timeline = append(s.timeline, line{At: e.At, What: what, Details: details, Tone: lineTone(e)})
}

// lineTone marks the important lines of a timeline.
func lineTone(e machine.Event) string {
	switch e.Kind {
	case machine.Verified:
		return toneGood
	case machine.GateOpened:
		return toneWait
	case machine.RunHeld, machine.GuardsRefused, machine.PlanRefused, machine.EffectFailed, machine.VerifyEnded, machine.Declined:
		return toneBad
	case machine.Applied, machine.Undone:
		return toneBusy
	case machine.GateDecided:
		if e.Decision != nil && (!e.Decision.Approve || e.Decision.BreakGlass) {
			return toneBad
		}
		return toneGood
	case machine.RunEnded:
		if e.Ending != nil {
			return endTone(e.Ending.Outcome)
		}
	}
	return ""
}

// Readings returns the readings of the newest sample.
func (c *change) Readings() []machine.Reading {
	if len(c.Samples) == 0 {
		return nil
	}
	return c.Samples[len(c.Samples)-1].Values
}

// Passed reports whether every evaluated guard allowed the change.
func (c *change) Passed() bool {
	return len(c.Guards) > 0 && !slices.ContainsFunc(c.Guards, func(g machine.GuardVerdict) bool { return !g.OK })
}

// latest returns the newest event about a person's own decision: one that
// counted, or one that did not.
func latest(events []machine.Event, by string, counted bool) *machine.Event {
	for i, e := range slices.Backward(events) {
		if e.Decision == nil || e.Decision.By != by {
			continue
		}
		switch e.Kind {
		case machine.GateVoted, machine.GateDecided, machine.GateVoided, machine.CancelRequested, machine.HoldResolved:
			if counted {
				return &events[i]
			}
		case machine.DecisionIgnored:
			if !counted {
				return &events[i]
			}
		}
	}
	return nil
}
