package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
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
	Applied      time.Time // or asked for
	Waits        string    // pull request that was opened for it
	Receipt      []byte    // newest one
	Settled      time.Time // in effect
	Judged       time.Time // its proof ended
	Verdict      string
	Tone         string // of the verdict
	Undone       time.Time
	Stopped      bool // its undo only stopped it
	Results      []runview.Line
}

// timeline is what the page takes from a run's events in addition to its state.
type timeline struct {
	run     machine.State
	words   runview.Timeline
	changes []*change
	lines   []runview.Line
	queries map[string]string // queries of the checks, by the name of their evidence
	decided []string          // evidence that the condition of the newest edge read
}

func newTimeline(run machine.State) *timeline {
	return &timeline{run: run, words: runview.Timeline{Book: run.Playbook, Brief: true}, queries: map[string]string{}}
}

func (t *timeline) add(e machine.Event) {
	if e.Action == machine.ActionCheck {
		t.asks(e.State, e.With)
	}
	if e.Kind == machine.EdgeTaken {
		if names := runview.DecidedBy(e.Examined); len(names) > 0 {
			t.decided = names
		}
	}
	line, shown := t.words.Line(e)
	if shown {
		shortened := line
		if n := len(line.Details) - maxFacts; n > 0 {
			shortened.Details = append(slices.Clone(line.Details[:maxFacts]), fmt.Sprintf("and %d more", n))
		}
		t.lines = append(t.lines, shortened)
	}
	c := t.current(e)
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
		c.Applied, c.Waits, c.Receipt = e.At, e.Waits, e.Data
	case machine.Settled:
		c.Settled = e.At
		if len(e.Data) > 0 {
			c.Receipt = e.Data
		}
	case machine.Verified:
		c.Judged, c.Verdict, c.Tone = e.At, "verified", toneGood
	case machine.VerifyEnded:
		c.Judged, c.Verdict, c.Tone = e.At, strings.ReplaceAll(string(e.Verdict), "_", " "), string(line.Tone)
	case machine.Undone:
		c.Undone, c.Stopped = e.At, e.Then == machine.Keep
	case machine.Sampled:
		if e.Sample != nil {
			c.Samples = append(c.Samples, *e.Sample)
		}
	}
	switch e.Kind {
	case machine.PlanRefused, machine.GuardsRefused, machine.WouldApply, machine.Applied, machine.Settled, machine.Verified,
		machine.VerifyEnded, machine.Kept, machine.Declined, machine.Undone, machine.Unwound, machine.GateExpired, machine.GateWithdrawn, machine.GateVoided:
		c.Results = append(c.Results, line)
	}
}

// appliedWord is what was done when the change was applied.
func (c *change) appliedWord() string {
	if c.Waits != "" {
		return "asked for"
	}
	return "applied"
}

// undoneWord is what the undo did.
func (c *change) undoneWord() string {
	if c.Stopped {
		return "stopped"
	}
	return "undone"
}

// asks keeps the query of a check, or those of a gather's checks, by the name of
// their evidence.
func (t *timeline) asks(name string, with map[string]any) {
	if query, ok := with["query"].(string); ok {
		t.queries[name] = query
	}
	for name, each := range with {
		if params, ok := each.(map[string]any); ok {
			if query, ok := params["query"].(string); ok {
				t.queries[name] = query
			}
		}
	}
}

// current returns the lever of an event; nil if it has none.
func (t *timeline) current(e machine.Event) *change {
	n := len(t.changes)
	switch {
	case e.Kind == machine.StateEntered:
		if n > 0 {
			t.changes[n-1].Old = true
		}
		return nil
	case e.Kind == machine.PlanCompleted, e.Kind == machine.PlanRefused:
		if n > 0 && !t.changes[n-1].Old {
			return t.changes[n-1]
		}
		t.changes = append(t.changes, &change{State: e.State, Title: title(t.run.Playbook, e.State), Proof: t.run.ProofLines(e.State, e.At)})
		return t.changes[n]
	case n == 0 || t.changes[n-1].Old && e.State != t.changes[n-1].State:
		return nil
	default:
		return t.changes[n-1]
	}
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
