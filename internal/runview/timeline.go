package runview

import (
	"regexp"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Tone is how a line or a run is marked where there is colour.
type Tone string

// The tones. Most lines have none.
const (
	ToneGood Tone = "good"
	ToneWait Tone = "wait" // people are asked
	ToneBad  Tone = "bad"  // a person has to take over
	ToneBusy Tone = "busy"
	ToneDone Tone = "done"
)

// Line is an event in words.
type Line struct {
	At      time.Time
	What    string
	Details []string
	Tone    Tone
}

// Timeline describes the events of a run, oldest first.
type Timeline struct {
	Book  *playbook.Playbook // of the run; nil: states are shown by name only
	Brief bool               // of samples with the same verdict, and of the same lines in a row, only the first; of looks only what is new

	verdict machine.Verdict // of the previous sample
	said    string          // the previous line, if it has no details
	seen    map[string]bool // what the looks of this state said, without its times and counts
	looked  time.Time       // when a look was last shown
}

// quiet is how long looks that say nothing new are left out, before one is shown as
// a sign that the run is still looking.
const quiet = 2 * time.Minute

// passing are times and counts of repeats, which differ from look to look.
var passing = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|[dhms]))+\b|\b\d+x\b`)

// news returns what a look says that the looks before it did not; false: nothing.
func (t *Timeline) news(what string, details []string, at time.Time) ([]string, bool) {
	said := func(line string) bool {
		plain := passing.ReplaceAllString(line, "")
		was := t.seen[plain]
		t.seen[plain] = true
		return was
	}
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	before := said(what)
	details = slices.DeleteFunc(slices.Clone(details), said)
	if before && len(details) == 0 && at.Sub(t.looked) < quiet {
		return nil, false
	}
	t.looked = at
	return details, true
}

// Line returns an event in words; false: there is nothing to show.
func (t *Timeline) Line(e machine.Event) (Line, bool) {
	what, details := DescribeEvent(e)
	what = Inline(what)
	for i, d := range details {
		details[i] = Inline(d)
	}
	if e.Sample != nil {
		same := t.verdict == e.Sample.Verdict
		t.verdict = e.Sample.Verdict
		if same && t.Brief {
			return Line{}, false
		}
	}
	if what == "" {
		return Line{}, false
	}
	if e.Kind == machine.StateEntered && t.Book != nil {
		if st := t.Book.State(e.State); st != nil {
			what += ": " + StateWhat(st)
		}
	}
	switch e.Kind {
	case machine.StateEntered:
		t.seen = nil
	case machine.WaitLooked, machine.Settling:
		if !t.Brief {
			break
		}
		var new bool
		if details, new = t.news(what, details, e.At); !new {
			return Line{}, false
		}
		t.said = ""
	}
	if len(details) > 0 {
		t.said = ""
	} else {
		same := t.said == what
		t.said = what
		if same && t.Brief {
			return Line{}, false
		}
	}
	return Line{At: e.At, What: what, Details: details, Tone: toneOf(e)}, true
}

// toneOf marks the important events.
func toneOf(e machine.Event) Tone {
	switch e.Kind {
	case machine.Verified:
		return ToneGood
	case machine.GateOpened:
		return ToneWait
	case machine.RunHeld, machine.GuardsRefused, machine.PlanRefused, machine.EffectFailed, machine.Declined:
		return ToneBad
	case machine.VerifyEnded:
		if e.Verdict == machine.VerdictImproved {
			return ToneGood
		}
		return ToneBad
	case machine.Kept:
		return ToneBusy
	case machine.Applied, machine.Undone:
		return ToneBusy
	case machine.GateDecided:
		if e.Decision != nil && (!e.Decision.Approve || e.Decision.BreakGlass) {
			return ToneBad
		}
		return ToneGood
	case machine.RunEnded:
		if e.Ending != nil {
			return OutcomeTone(e.Ending.Outcome)
		}
	}
	return ""
}

// OutcomeTone returns the tone of a run that ended.
func OutcomeTone(o machine.RunOutcome) Tone {
	switch o {
	case machine.OutcomeResolved, machine.OutcomeCleared:
		return ToneGood
	case machine.OutcomeEscalated, machine.OutcomeHandedOver, machine.OutcomeUndoFailed:
		return ToneBad
	default:
		return ToneDone
	}
}

// RunTone returns the tone of where a run stands.
func RunTone(s machine.State) Tone {
	switch {
	case s.Ending != nil:
		return OutcomeTone(s.Ending.Outcome)
	case s.Quarantine != nil || s.Held != nil:
		return ToneBad
	case s.Gate != nil:
		return ToneWait
	default:
		return ToneBusy
	}
}
