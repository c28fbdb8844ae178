package runview

import (
	"fmt"
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
	refused map[string]bool // decisions that did not count, and were shown
	look    []string        // what the last look said, without what differs from look to look
	looked  time.Time       // when a look was last shown with all it said
}

// quiet is how long looks that say nothing new are left out, before one is shown with
// all it says: the run is still looking, and the numbers are today's.
const quiet = 2 * time.Minute

// passing are counts of repeats and the time that is left.
var passing = regexp.MustCompile(`\b\d+x\b|\b(\d+(\.\d+)?(ms|[dhms]))+ (left|ago)\b`)

// news returns what a look says that the one before it did not; false: nothing.
func (t *Timeline) news(what string, details []string, at time.Time) ([]string, bool) {
	look := []string{passing.ReplaceAllString(what, "")}
	var fresh []string
	for _, d := range details {
		plain := passing.ReplaceAllString(d, "")
		look = append(look, plain)
		if !slices.Contains(t.look, plain) {
			fresh = append(fresh, d)
		}
	}
	before := t.look
	t.look = look
	switch {
	case before == nil, before[0] != look[0], at.Sub(t.looked) >= quiet:
		t.looked = at
		return details, true
	default: // a line that is gone is news, too
		return fresh, len(fresh) > 0 || len(before) != len(look)
	}
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
	if what == "" || t.again(e) {
		return Line{}, false
	}
	if e.Kind == machine.StateEntered && t.Book != nil {
		if st := t.Book.State(e.State); st != nil {
			what += ": " + StateWhat(st)
		}
	}
	switch e.Kind {
	case machine.StateEntered, machine.WaitBegan, machine.Applied, machine.Undone:
		t.look = nil
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

// again reports whether an event is one more decision of the same person that does not
// count, for the same reason as before: a button can be pressed any number of times.
func (t *Timeline) again(e machine.Event) bool {
	if e.Kind != machine.DecisionIgnored || e.Decision == nil {
		return false
	}
	key := fmt.Sprintf("%s %t %s", e.Decision.By, e.Decision.Approve, e.Message)
	if t.refused[key] {
		return true
	}
	if t.refused == nil {
		t.refused = map[string]bool{}
	}
	t.refused[key] = true
	return false
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
