package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

func rowOf(run machine.State) row {
	status, why := runview.Standing(run)
	out := row{
		ID: run.Start.Run, Service: run.Start.Service.Name, Playbook: run.Start.Playbook, Alert: run.Start.Cause(),
		State: title(run.Playbook, run.Current), Status: status, Why: why, Tone: string(runview.RunTone(run)), Began: run.Began, Since: run.Began,
	}
	if n := len(run.Path); n > 0 {
		out.Since = run.Path[n-1].At
	}
	if run.Start.Loan != "" {
		out.Change = run.Start.Alert.Labels["change"]
	}
	switch {
	case run.Phase == machine.PhaseEnded:
		out.Took = span(run.Ended.Sub(run.Began))
	case run.Quarantine != nil:
		out.For, out.Asked, out.Place = "a person to release it", run.Quarantine.At, "release"
	case run.Gate != nil:
		out.For, out.Asks, out.Asked, out.Deadline, out.Place = run.Gate.Needed(), run.Gate.Text, run.Gate.Opened, run.Gate.Deadline, "decide"
		if l := run.Lever; l != nil && l.Plan != nil {
			out.Asks = cmp.Or(l.Plan.Summary, out.Asks)
		}
	case run.Held != nil:
		out.For, out.Asked, out.Place = "a person to resolve it", run.Held.At, "held"
	}
	return out
}

// urgent puts what nothing continues without a person first, then the nearest deadline.
func urgent(a, b row) int {
	first := func(r row) int {
		if r.Deadline.IsZero() {
			return 0 // held, or quarantined
		}
		return 1
	}
	return cmp.Or(first(a)-first(b), a.Deadline.Compare(b.Deadline), a.Asked.Compare(b.Asked), cmp.Compare(a.ID, b.ID))
}

// runsTag changes when a run starts, progresses or ends, and with what else a page shows.
func runsTag(open []machine.State, also ...string) string {
	h := sha256.New()
	for _, run := range open {
		fmt.Fprintf(h, "%s %d\n", run.Start.Run, run.Head)
	}
	fmt.Fprintf(h, "%q", also)
	return hex.EncodeToString(h.Sum(nil)[:8])
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
