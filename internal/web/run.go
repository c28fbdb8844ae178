package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	maxVisits = 100
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
	Curve    *Curve
	NoCurve  string // why there is no curve; empty: there is one, or none is wanted
	Phases   []runview.Phase
	Visits   []visit
	Before   int // visits before those
	Diagram  diagram
	Links    []address
	Book     string // address of the page of its playbook; empty: it is not loaded
}

type alertData struct {
	Line, Summary string
	Episode       string // of the alert's own page; empty: it has none
	Firing        bool
	Hand          bool // a person started the run, named in Line
	Since         time.Time
}

// visit is one step of the path.
type visit struct {
	What, Edge string
	At         time.Time
}

func (s *Site) run(w http.ResponseWriter, r *http.Request, v Visitor, id string) error {
	run, ok := s.o.Runs.Run(id)
	if !ok {
		if _, err := s.o.Runs.Events(id, 0); err != nil {
			return err // there is one, in the archive
		}
		return s.runBegun(w, id)
	}
	p := s.frame(r, v, run.Start.Service.Name+": "+run.Start.Playbook, nowhere)
	p.Here, p.Fiction = "./"+segment(id), s.fiction(run.Began)
	p.Tag, p.Live = runTag(run, lines(p.Pauses)), run.Phase != machine.PhaseEnded
	if run.Phase != machine.PhaseEnded && run.Gate == nil && run.Held == nil && run.Quarantine == nil {
		p.Refresh = 15 // no form on it loses input
	}
	if r.Method != http.MethodHead {
		d := s.runData(p, run, v, r.URL.Query().Get("said"))
		d.Curve, d.NoCurve = s.curveOf(r.Context(), run)
		p.Asks = d.Ask != nil
		p.Main = runView(p, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

// runBegun sends the browser to the one run whose ID begins so, with or without r-.
func (s *Site) runBegun(w http.ResponseWriter, text string) error {
	missing := fmt.Errorf("%w: no run %.64q: it never existed, or the address is wrong; History lists them", ErrNotFound, text)
	begin := text
	if !strings.HasPrefix(strings.ToLower(text), "r-") {
		begin = "r-" + text
	}
	if !runBegin.MatchString(begin) || text == "" {
		return missing
	}
	switch found := s.runsBegin(begin); {
	case len(found.Runs) > 1:
		return fmt.Errorf("%w: %.64q is the beginning of several runs, the newest are %s and %s: write more of it", ErrNotFound, text, found.Runs[0].Start.Run, found.Runs[1].Start.Run)
	case len(found.Runs) == 0 || found.Next != "": // others may begin so, which were not looked at
		return missing
	default:
		w.Header().Set("Location", "./"+segment(found.Runs[0].Start.Run)) // relative, as behind a proxy that adds a prefix
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
}

// runTag changes with everything that a run's page shows.
func runTag(run machine.State, pauses []string) string {
	return tagOf(append(slices.Clone(pauses), changesOf(&run), fmt.Sprint(run.ObservedOutcome != nil && run.ObservedOutcome.Known))...)
}

func (s *Site) runData(p page, run machine.State, v Visitor, word string) *runData {
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
	if s.o.Playbooks().ByName(d.Playbook) != nil {
		d.Book = playbookAddress(p, d.Playbook)
	}
	d.Links = s.o.Links.links(run, d.Book)
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
	d.Links = append(d.Links, s.o.Links.changeLinks(t.changes)...)
	for i := range d.Evidence {
		e := &d.Evidence[i]
		e.Query, e.Decided = t.queries[e.State], slices.Contains(t.decided, e.State)
	}
	slices.SortStableFunc(d.Evidence, func(a, b evidence) int { return a.rank() - b.rank() })
	d.Phases = phases(run, events, d.Skipped, s.o.Now())
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
		shown = append(shown, alertData{Line: runview.AlertLine(a), Episode: id, Summary: summary(a), Firing: e.Firing, Since: a.StartsAt})
	}
	return shown, max(0, len(ids)-maxAlerts)
}

func summary(a playbook.Alert) string {
	return cmp.Or(a.Annotations["summary"], a.Annotations["description"], a.Annotations["message"])
}

// phases splits the time since the alert began; nil if the run's first events were not
// read.
func phases(run machine.State, events []machine.Event, skipped uint64, now time.Time) []runview.Phase {
	if skipped > 0 || len(events) == 0 {
		return nil
	}
	if run.Phase != machine.PhaseEnded {
		events = append(slices.Clip(events), machine.Event{Kind: machine.RunEnded, At: now})
	}
	return runview.PhasesOf(run, events)
}

func addPath(d *runData, run machine.State) {
	d.Before = max(0, len(run.Path)-maxVisits)
	for _, v := range run.Path[d.Before:] {
		x := visit{What: v.State, Edge: v.Edge, At: v.At}
		if run.Playbook != nil {
			if st := run.Playbook.State(v.State); st != nil {
				x.What = runview.StateWhat(st)
			}
		}
		d.Visits = append(d.Visits, x)
	}
	if run.Playbook != nil {
		d.Diagram = layout(playbook.DiagramOf(run.Playbook, runview.PathNames(run.Path)))
	}
}
