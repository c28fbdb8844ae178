package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// row is one run in a list.
type row struct {
	ID, Service, Playbook, Alert, State string
	Status, Why, Tone                   string
	Change                              string    // on loan
	For                                 string    // who has to act
	Asks                                string    // the question
	Asked                               time.Time // since when it waits for people
	Deadline                            time.Time // of the question
	Place                               string    // part of the run's page where it is answered
	Began, Since                        time.Time // since when it is in its state
	Took                                string    // ended runs
}

func rowOf(run *machine.State) row {
	status, why := runview.Standing(*run)
	out := row{
		ID: run.Start.Run, Service: run.Start.Service.Name, Playbook: run.Start.Playbook, Alert: run.Start.Cause(),
		State: title(run.Playbook, run.Current), Status: status, Why: why, Tone: string(runview.RunTone(*run)), Began: run.Began, Since: run.Began,
	}
	if n := len(run.Path); n > 0 {
		out.Since = run.Path[n-1].At
	}
	if run.Start.Loan != "" {
		out.Change = run.Start.Alert.Labels["change"]
	}
	switch out.Place, out.Asked, out.Deadline = waits(run); out.Place {
	case "release":
		out.For = "a person to release it"
	case "decide":
		out.For, out.Asks = run.Gate.Needed(), run.Gate.Text
		if l := run.Lever; l != nil && l.Plan != nil {
			out.Asks = cmp.Or(l.Plan.Summary, out.Asks)
		}
	case "held":
		out.For = "a person to resolve it"
	}
	if run.Phase == machine.PhaseEnded {
		out.Took = span(run.Ended.Sub(run.Began))
	}
	return out
}

// waits returns the part of its page where a run waits for people, since when, and the
// deadline, if there is one. Empty: it waits for nobody.
func waits(run *machine.State) (place string, since, deadline time.Time) {
	switch {
	case run.Phase == machine.PhaseEnded:
		return "", since, deadline
	case run.Quarantine != nil:
		return "release", run.Quarantine.At, deadline
	case run.Gate != nil:
		return "decide", run.Gate.Opened, run.Gate.Deadline
	case run.Held != nil:
		return "held", run.Held.At, deadline
	default:
		return "", since, deadline
	}
}

// urgent puts what nothing continues without a person first, then the nearest deadline.
func urgent(a, b *machine.State) int {
	_, sinceA, deadlineA := waits(a)
	_, sinceB, deadlineB := waits(b) // without a deadline, which is before all others: held, or quarantined
	return cmp.Or(deadlineA.Compare(deadlineB), sinceA.Compare(sinceB), cmp.Compare(a.Start.Run, b.Start.Run))
}

// newestFirst puts the run that began last first.
func newestFirst(a, b *machine.State) int {
	return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.Start.Run, a.Start.Run))
}

// first are the runs of a list that a page shows, and how many there are.
type first struct {
	runs  []*machine.State
	all   int
	order func(a, b *machine.State) int
}

func (f *first) add(run *machine.State) {
	f.all++
	if len(f.runs) == maxShown && f.order(run, f.runs[maxShown-1]) > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(f.runs, run, f.order)
	f.runs = slices.Insert(f.runs, at, run)
	f.runs = f.runs[:min(len(f.runs), maxShown)]
}

func (f *first) rows() []row {
	var out []row
	for _, run := range f.runs {
		out = append(out, rowOf(run))
	}
	return out
}

// tagOf returns what changes with the parts that a page shows.
func tagOf(parts ...string) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(h[:8])
}

// changes is the part that changes with every run.
func (s *Site) changes() string { return strconv.FormatUint(s.o.Runs.Changes(), 10) }

// changesOf is the part that changes with one run.
func changesOf(run *machine.State) string {
	return fmt.Sprint(run.Start.Run, run.Head, run.Quarantine != nil)
}

// title returns the playbook's title of a state.
func title(book *playbook.Playbook, name string) string {
	if book != nil {
		if st := book.State(name); st != nil && st.Title != "" {
			return st.Title
		}
	}
	return name
}

// The tones of runs and notices, which are classes of the style sheet.
const (
	toneGood = string(runview.ToneGood)
	toneWait = string(runview.ToneWait)
	toneBad  = string(runview.ToneBad)
	toneBusy = string(runview.ToneBusy)
)

// standings are what a run may have come to: it is open, or how it ended.
func standings() []string {
	out := []string{standingOpen}
	for _, o := range machine.Outcomes() {
		out = append(out, string(o))
	}
	return out
}

const standingOpen = "open"

// stands reports whether a run has come to that; empty: to anything.
func stands(run machine.State, as string) bool {
	switch as {
	case "":
		return true
	case standingOpen:
		return run.Phase != machine.PhaseEnded
	default:
		return run.Ending != nil && string(run.Ending.Outcome) == as
	}
}
