package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// Limits of the list.
const (
	maxOpen   = 200
	maxEnded  = 50
	scanEnded = 200 // newest ended runs that are searched for an outcome
)

// listData is the list of runs.
type listData struct {
	Service, Outcome string // the filter
	Outcomes         []machine.RunOutcome
	Open, Ended      []row
	MoreOpen         bool // there are more than shown
	Scanned          int  // number of ended runs that were searched
	MoreEnded        bool // there may be older ones
}

// row is one run in the list.
type row struct {
	ID, Service, Playbook, Alert, State string
	Status, Why, Tone                   string
	For                                 string    // who has to act
	Deadline                            time.Time // of the question
	Began                               time.Time
	Took                                string // ended runs
}

func (s *Site) list(w http.ResponseWriter, r *http.Request, v Visitor) error {
	q := r.URL.Query()
	d := listData{Service: clip(strings.TrimSpace(q.Get("service")), maxLine), Outcome: q.Get("outcome"), Outcomes: outcomes()}
	if !slices.Contains(d.Outcomes, machine.RunOutcome(d.Outcome)) {
		d.Outcome = ""
	}
	open := s.o.Runs.Runs(Filter{Service: d.Service, Open: true, Limit: maxOpen + 1})
	d.MoreOpen = len(open) > maxOpen
	open = open[:min(len(open), maxOpen)]
	p := s.frame(r, v, "Runs", "")
	p.Tag, p.Live, p.Refresh = listTag(open, p.Pauses), true, 30
	if r.Method != http.MethodHead {
		s.fillList(&d, open)
	}
	if n := len(d.Open); n > 0 {
		p.Title = fmt.Sprintf("Runs (%d open)", n)
	}
	p.Here = "?" + r.URL.RawQuery
	p.Main = listView(p, &d)
	return s.write(w, r, http.StatusOK, p)
}

// fillList fills the rows; those that wait for people come first.
func (s *Site) fillList(d *listData, open []machine.State) {
	if d.Outcome == "" {
		for _, run := range open {
			d.Open = append(d.Open, rowOf(run))
		}
		slices.SortStableFunc(d.Open, func(a, b row) int { return urgency(a) - urgency(b) })
	}
	limit := maxEnded
	if d.Outcome != "" {
		limit = scanEnded
	}
	ended := s.o.Runs.Runs(Filter{Service: d.Service, Limit: limit})
	d.Scanned, d.MoreEnded = len(ended), len(ended) >= limit
	for _, run := range ended[:min(len(ended), limit)] {
		if d.Outcome == "" || run.Ending != nil && string(run.Ending.Outcome) == d.Outcome {
			d.Ended = append(d.Ended, rowOf(run))
		}
	}
}

func urgency(r row) int {
	switch {
	case r.Tone == toneBad:
		return 0 // held, or quarantined: nothing continues without a person
	case r.For != "":
		return 1
	default:
		return 2
	}
}

// listTag changes when a run starts, progresses or ends.
func listTag(open []machine.State, pauses []string) string {
	h := sha256.New()
	for _, run := range open {
		fmt.Fprintf(h, "%s %d\n", run.Start.Run, run.Head)
	}
	fmt.Fprintf(h, "%q", pauses)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func rowOf(run machine.State) row {
	status, why := runview.Standing(run)
	out := row{
		ID: run.Start.Run, Service: run.Start.Service.Name, Playbook: run.Start.Playbook, Alert: run.Start.Cause(),
		State: title(run.Playbook, run.Current), Status: status, Why: why, Tone: string(runview.RunTone(run)), Began: run.Began,
	}
	switch {
	case run.Phase == machine.PhaseEnded:
		out.Took = span(run.Ended.Sub(run.Began))
	case run.Quarantine == nil && run.Gate != nil:
		out.For, out.Deadline = run.Gate.Needed(), run.Gate.Deadline
	case run.Quarantine != nil || run.Held != nil:
		out.For = "a person to resolve it"
	}
	return out
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

func outcomes() []machine.RunOutcome {
	return []machine.RunOutcome{
		machine.OutcomeResolved, machine.OutcomeCleared, machine.OutcomeNoAction, machine.OutcomeObserved, machine.OutcomeEscalated,
		machine.OutcomeDiverted, machine.OutcomeCanceled, machine.OutcomeHandedOver, machine.OutcomeUndoFailed, machine.OutcomeReleased,
	}
}
