package approvals

import (
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/runview"
)

// timeline is a run as it is shown to people: the current or last question, its
// outcome, and what happened since.
type timeline struct {
	run   machine.State
	gate  *machine.Gate // the newest question; nil: none so far
	state slack.State
	end   *slack.Outcome
	voted []machine.Decision
	plan  *machine.Plan // the newest
	about *machine.Plan // the plan of the newest question; nil: it has none
	at    string        // the playbook's state that asked
	asked uint64        // number of events of the run up to the newest question

	evidence runview.Evidence // for the newest question
	guards   []string
	notes    []string // since the first question
	waits    string   // the merge that is waited for, as last shown; empty: none
	thread   []line
}

// line is one entry of the run's thread.
type line struct {
	after uint64 // number of events of the run up to this one
	slack.Progress
}

// newTimeline folds a run's events.
func newTimeline(run machine.State, events []machine.Event) *timeline {
	s := &timeline{run: run}
	for i, e := range events {
		s.add(e)
		if e.Kind == machine.GateOpened {
			s.asked = uint64(i + 1)
		}
		if mark, text := s.progress(e); text != "" {
			s.thread = append(s.thread, line{after: uint64(i + 1), Progress: slack.Progress{Mark: mark, At: e.At, Text: text, Lines: append(slices.Clone(e.Facts), runview.GatheredLines(e.Gathered)...)}})
		}
		s.waiting(e)
	}
	return s
}

// waiting records the merge that is waited for, so that it is shown once.
func (s *timeline) waiting(e machine.Event) {
	switch {
	case e.Kind == machine.Settling && e.Reason == fault.None:
		s.waits = ""
		if e.Waits != "" {
			s.waits = e.Message
		}
	case e.Kind == machine.Applied, e.Kind == machine.Undone:
		s.waits = e.Waits
	}
}

func (s *timeline) add(e machine.Event) {
	switch e.Kind {
	case machine.CheckCompleted:
		if s.gate == nil || s.state != slack.Open {
			var lines []string
			for _, f := range e.Facts {
				lines = append(lines, s.title(e.State)+": "+f)
			}
			s.evidence.Add(e.State, lines)
			for i, g := range e.Gathered {
				s.evidence.Add(g.Name, runview.GatheredLines(e.Gathered[i:i+1]))
			}
		}
	case machine.EdgeTaken:
		s.evidence.Decided(e.Examined)
	case machine.PlanCompleted:
		s.plan = e.Plan
	case machine.GuardsPassed:
		s.guards = nil
		for _, g := range e.Guards {
			s.guards = append(s.guards, g.Guard+": "+g.Why)
		}
	case machine.GateOpened:
		s.gate, s.state, s.end, s.voted, s.at, s.about = e.Gate, slack.Open, nil, nil, e.State, nil
		if e.Gate.Digest != "" {
			s.about = s.plan
		}
	case machine.GateVoted:
		s.voted = append(slices.Clip(s.voted), *e.Decision)
	case machine.GateDecided:
		s.decided(*e.Decision, e.At)
	case machine.GateVoided:
		s.closed(slack.Voided, e)
	case machine.GateExpired:
		s.closed(slack.Expired, e)
	case machine.GateWithdrawn:
		s.closed(slack.Withdrawn, e)
	case machine.Applied, machine.Declined, machine.Verified, machine.Unwound, machine.RunHeld, machine.RunEnded, machine.PlanRefused:
		if _, text := s.progress(e); s.gate != nil && text != "" {
			s.notes = append(s.notes, text)
		}
	}
}

// decided closes the question with a decision.
func (s *timeline) decided(d machine.Decision, at time.Time) {
	s.state = slack.Denied
	if d.Approve {
		s.state = slack.Approved
		s.voted = append(slices.Clip(s.voted), d)
	}
	s.end = &slack.Outcome{Who: []string{d.By}, At: at, Why: d.Reason, Channel: d.Channel, BreakGlass: d.BreakGlass}
	if d.Approve && !d.BreakGlass {
		s.end.Who = nil
		for _, v := range s.voted {
			if !slices.Contains(s.end.Who, v.By) {
				s.end.Who = append(s.end.Who, v.By)
			}
		}
	}
}

// closed closes the question without a decision.
func (s *timeline) closed(as slack.State, e machine.Event) {
	s.state = as
	s.end = &slack.Outcome{At: e.At, Why: e.Message}
	if as == slack.Voided {
		_, text := s.progress(e)
		s.notes = append(s.notes, text)
	}
}

// title returns the playbook's title of a state.
func (s *timeline) title(name string) string {
	if s.run.Playbook != nil {
		if st := s.run.Playbook.State(name); st != nil && st.Title != "" {
			return st.Title
		}
	}
	return name
}

// marks lists the events that are lines of the thread, with their marks.
var marks = map[machine.EventKind]slack.Mark{
	machine.GuardsReminded: slack.MarkNote, machine.GateVoted: slack.MarkNote, machine.GateReminded: slack.MarkNote, machine.GateEscalated: slack.MarkNote, machine.GateVoided: slack.MarkNote,
	machine.PlanRefused: slack.MarkFailed, machine.Applied: slack.MarkStarted, machine.Declined: slack.MarkFailed, machine.Settled: slack.MarkNote,
	machine.Verified: slack.MarkDone, machine.VerifyEnded: slack.MarkFailed, machine.Kept: slack.MarkNote, machine.Unwound: slack.MarkUndone,
	machine.RunHeld: slack.MarkHeld, machine.CancelRequested: slack.MarkNote, machine.RunEnded: slack.MarkNote,
}

// progress renders an event as a line of the thread; empty: the event has none.
func (s *timeline) progress(e machine.Event) (slack.Mark, string) {
	if e.Kind == machine.Settling {
		return s.merging(e)
	}
	mark, shown := marks[e.Kind]
	if !shown {
		return "", ""
	}
	what, _ := runview.DescribeEvent(e)
	switch e.Kind {
	case machine.GateVoted:
		what += "; still needed: " + s.stillNeeded()
	case machine.Applied:
		what = runview.JoinClauses(what, s.summary())
	case machine.RunHeld:
		what += "; then run responder runs resolve " + s.run.Start.Run
	case machine.VerifyEnded:
		if e.Verdict == machine.VerdictImproved {
			mark = slack.MarkDone
		}
	case machine.RunEnded:
		mark = endMark(e.Ending.Outcome)
	}
	return mark, what
}

// merging returns a line when the merge that is waited for changes, and when
// the merge is done.
func (s *timeline) merging(e machine.Event) (slack.Mark, string) {
	switch {
	case e.Reason != fault.None, e.Message == s.waits && e.Waits != "":
		return "", ""
	case e.Waits != "":
		return slack.MarkNote, e.Message
	case s.waits != "":
		return slack.MarkNote, runview.JoinClauses("merged, rolling out", e.Message)
	}
	return "", ""
}

func endMark(o machine.RunOutcome) slack.Mark {
	switch {
	case o == machine.OutcomeResolved:
		return slack.MarkDone
	case runview.OutcomeTone(o) == runview.ToneBad:
		return slack.MarkHeld
	default:
		return slack.MarkNote
	}
}

func (s *timeline) stillNeeded() string {
	if s.gate == nil {
		return ""
	}
	g := *s.gate
	g.Votes = s.voted
	return g.Needed()
}

func (s *timeline) summary() string {
	if s.plan == nil {
		return s.title(s.run.Current)
	}
	return s.plan.Summary
}

// shown reports whether people have to see the run: it asked them, or changed
// something on its own.
func (s *timeline) shown() bool { return s.gate != nil || s.run.Levers > 0 }

// final reports whether the run has ended.
func (s *timeline) final() bool { return s.run.Phase == machine.PhaseEnded }
