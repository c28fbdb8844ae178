package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
)

// Limits of a run's page.
const (
	maxEvents = 1000 // the newest ones
	maxAlerts = 20
	maxFacts  = 40 // of one check
)

// runData is one run.
type runData struct {
	ID, Service, Playbook, Digest, Status, Why, Tone, State string

	Run      machine.State
	Alerts   []alertData
	More     int // number of alerts that are not shown
	Evidence []evidence
	Changes  []*change // oldest first
	Ask      *question
	Held     *machine.Hold
	Observed string
	Alone    *machine.Decision // decision of the person who broke the glass
	Locks    []string
	Ended    string                    // how long it took
	Stops    bool                      // it can be cancelled
	Lacks    func(rights.Right) string // why the visitor does not have a right; empty: they have it

	Said     *banner
	Timeline []runview.Line
	Skipped  uint64 // events before those that were read
	Broken   bool   // the events cannot be read
	Curves   []string
	Visits   []visit
	Path     string
	Links    []address
}

type alertData struct {
	Line, Summary string
	Firing        bool
	Hand          bool // a person started the run, named in Line
	Since         time.Time
}

// evidence is the result of one check.
type evidence struct {
	Title, Step string
	At          time.Time
	Facts       []string
	More        int
	State       string
	Query       string // the query, if known
}

// visit is one step of the path.
type visit struct {
	What, Edge string
	At         time.Time
}

type address struct{ Name, URL, Text string }

func (s *Site) run(w http.ResponseWriter, r *http.Request, v Visitor, id string) error {
	run, ok := s.o.Runs.Run(id)
	if !ok {
		if _, err := s.o.Runs.Events(id, 0); err != nil {
			return err // there is one, in the archive
		}
		return fmt.Errorf("%w: no run %.64q: it never existed, or the address is incomplete", ErrNotFound, id)
	}
	p := s.frame(r, v, run.Start.Service.Name+": "+run.Start.Playbook, "")
	p.Here = "./" + segment(id)
	p.Tag, p.Live = runTag(run, p.Pauses), run.Phase != machine.PhaseEnded
	if run.Phase != machine.PhaseEnded && run.Gate == nil && run.Held == nil && run.Quarantine == nil {
		p.Refresh = 15 // no form on it loses input
	}
	if r.Method != http.MethodHead {
		p.Main = runView(p, s.runData(run, v, r.URL.Query().Get("said")))
	}
	return s.write(w, r, http.StatusOK, p)
}

// runTag changes with everything that a run's page shows.
func runTag(run machine.State, pauses []string) string {
	return listTag([]machine.State{run}, append(slices.Clone(pauses), fmt.Sprint(run.Quarantine != nil, run.ObservedOutcome != nil && run.ObservedOutcome.Known)))
}

func (s *Site) runData(run machine.State, v Visitor, word string) *runData {
	d := &runData{
		ID: run.Start.Run, Service: run.Start.Service.Name, Playbook: run.Start.Playbook, Digest: run.Start.Digest,
		Run: run, Tone: string(runview.RunTone(run)), State: title(run.Playbook, run.Current), Held: run.Held, Locks: run.Locks(),
		Stops: run.Phase != machine.PhaseEnded && run.Quarantine == nil,
	}
	d.Status, d.Why = runview.Standing(run)
	d.Lacks = func(right rights.Right) string { return v.lacks(right, run) }
	if run.ObservedOutcome != nil {
		d.Observed = runview.ObservedOutcomeLine(*run.ObservedOutcome)
	}
	if run.Phase == machine.PhaseEnded {
		d.Ended = span(run.Ended.Sub(run.Began))
	}
	if l := run.Lever; l != nil && l.Approved != nil && l.Approved.BreakGlass {
		d.Alone = l.Approved
	}
	d.Alerts, d.More = alerts(run)
	d.Evidence = collected(run)
	d.Links = links(run)
	addPath(d, run)
	events := s.events(d, run)
	if run.Gate != nil && run.Quarantine == nil {
		d.Ask = ask(run, v)
	}
	d.Said = bannerOf(word, v, events)
	return d
}

// events folds the newest events into the page.
func (s *Site) events(d *runData, run machine.State) []machine.Event {
	if run.Head > maxEvents {
		d.Skipped = run.Head - maxEvents
	}
	events, err := s.o.Runs.Events(d.ID, d.Skipped)
	if err != nil {
		s.o.Logger.Error("run page cannot read the run", "run", d.ID, "err", err)
		d.Broken = true
		return nil
	}
	t := newTimeline(run)
	for _, e := range events[:min(len(events), 2*maxEvents)] {
		t.add(e)
	}
	d.Timeline, d.Changes = t.lines, t.changes
	for i := range d.Evidence {
		d.Evidence[i].Query = t.queries[d.Evidence[i].State]
	}
	if n := len(d.Changes); n > 0 {
		d.Curves = runview.Curves(d.Changes[n-1].Samples)
		d.Changes[n-1].Old = false
	}
	return events
}

// alerts lists the run's alerts; the one that started it comes first.
func alerts(run machine.State) (shown []alertData, more int) {
	if run.Start.ByHand() {
		line := run.Start.Cause()
		if run.Start.Reason != "" {
			line += ": " + run.Start.Reason
		}
		shown = append(shown, alertData{Line: line, Hand: true, Since: run.Start.Alert.StartsAt})
		if run.Episodes.Len() == 0 {
			return shown, 0
		}
	}
	first := run.Start.Alert.Episode()
	ids := run.Episodes.IDs()
	if i := slices.Index(ids, first); i > 0 {
		ids = slices.Insert(slices.Delete(ids, i, i+1), 0, first)
	}
	if len(ids) == 0 { // only the start may be known of a run that this program cannot read
		return []alertData{{Line: runview.AlertLine(run.Start.Alert), Summary: summary(run.Start.Alert), Firing: run.Start.Alert.Status == playbook.Firing, Since: run.Start.Alert.StartsAt}}, 0
	}
	for _, id := range ids[:min(len(ids), maxAlerts)] {
		e := run.Episodes.Get(id)
		a := e.Alert
		if id == first {
			a = run.Start.Alert // with its annotations
		}
		shown = append(shown, alertData{Line: runview.AlertLine(a), Summary: summary(a), Firing: e.Firing, Since: a.StartsAt})
	}
	return shown, max(0, len(ids)-maxAlerts)
}

func summary(a playbook.Alert) string {
	return cmp.Or(a.Annotations["summary"], a.Annotations["description"], a.Annotations["message"])
}

// collected returns the evidence in the order of its collection.
func collected(run machine.State) []evidence {
	var out []evidence
	for name, e := range run.Evidence {
		if e == nil {
			continue
		}
		facts := e.Facts
		if e.Unknown != "" {
			facts = []string{"unknown: " + e.Unknown}
		}
		n := min(len(facts), maxFacts)
		out = append(out, evidence{State: name, Title: title(run.Playbook, name), Step: e.Step, At: e.At, Facts: facts[:n], More: len(facts) - n})
	}
	slices.SortFunc(out, func(a, b evidence) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Title, b.Title)) })
	return out
}

func addPath(d *runData, run machine.State) {
	for _, v := range run.Path[max(0, len(run.Path)-100):] {
		x := visit{What: v.State, Edge: v.Edge, At: v.At}
		if run.Playbook != nil {
			if st := run.Playbook.State(v.State); st != nil {
				x.What = runview.StateWhat(st)
			}
		}
		d.Visits = append(d.Visits, x)
	}
	if run.Playbook != nil {
		d.Path = runview.DrawPath(run.Playbook, run.Path)
	}
}

// links returns the external links. A runbook that is not an address is a path
// in a repository and shown as text.
func links(run machine.State) (out []address) {
	var runbook string
	add := func(name, text string) {
		if u := link(text); u != "" {
			out = append(out, address{Name: name, URL: u})
		} else if text != "" {
			out = append(out, address{Name: name, Text: text})
		}
	}
	a := run.Start.Alert
	if run.Playbook != nil {
		runbook = run.Playbook.Runbook
		add("Runbook", runbook)
	}
	if of := cmp.Or(a.Annotations["runbook_url"], a.Annotations["runbook"]); of != runbook {
		add("Alert's runbook", of)
	}
	add("Dashboard", cmp.Or(a.Annotations["dashboard_url"], a.Annotations["dashboard"]))
	add("Alert in Prometheus", a.GeneratorURL)
	return out
}
