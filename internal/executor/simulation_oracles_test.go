package executor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// goesOut checks an attempt at a change at the moment it goes out, against what
// the journal said before this instant and what people were told is in force.
func (s *simulation) goesOut(e machine.Effect) {
	s.counts.mu.Lock()
	s.counts.seen["attempts"]++
	s.counts.mu.Unlock()
	now, stop := time.Now(), "stop"
	if e.Attempt > 1 {
		stop = "stop/retry"
	}
	s.note("%s goes out, attempt %d", e.Key, e.Attempt)
	s.mu.Lock()
	attempt := fmt.Sprintf("%s attempt %d", e.Key, e.Attempt)
	if s.out[attempt] {
		defer s.violated("twice", "%s goes out again", attempt)
	}
	s.out[attempt] = true
	s.mu.Unlock()
	all := s.at(e.Run)
	if o := all.Open; o == nil || o.Key != e.Key || o.Attempt < e.Attempt {
		s.violated("intent", "%s goes out, attempt %d, and the journal has no intent of it", e.Key, e.Attempt)
		return
	}
	if why := s.rules.forbidden(e.Service.Name, now); why != "" {
		s.violated("rules", "%s goes out, attempt %d: %s", e.Key, e.Attempt, why)
	}
	st := s.before(e.Run, s.rules.now())
	if stop == "stop" && st.Open != nil && st.Open.Key == e.Key {
		stop = "stop/begun" // it was begun before this instant, and waited for its turn
	}
	switch {
	case st.Head == 0: // all of it happened in this instant
	case st.Cancel != nil:
		s.violated(stop, "%s goes out, attempt %d, and its run is canceled", e.Key, e.Attempt)
	case st.Paused != "" && all.Paused != "":
		s.violated(stop, "%s goes out, attempt %d, and its run is paused", e.Key, e.Attempt)
	case !st.Wanted(st.Playbook.State(st.Current)) && !all.Wanted(all.Playbook.State(all.Current)):
		s.violated(stop, "%s goes out, attempt %d, and none of its alerts fires", e.Key, e.Attempt)
	}
	s.mu.Lock()
	for scope, since := range s.pauses {
		if since.Before(now) && scope.Covers(e.Service.Name, e.Playbook) {
			defer s.violated(stop, "%s goes out, attempt %d, and %s is paused", e.Key, e.Attempt, scope)
		}
	}
	s.mu.Unlock()
	if all.Lever != nil && all.Lever.Applied {
		s.violated("one-change", "%s goes out and a change of its run is in place", e.Key)
	} else if state := all.Playbook.State(all.Current); state != nil && all.Asks(state) {
		s.violated("approval", "%s goes out and people did not approve it", e.Key)
	}
	s.locks(e)
}

// locks checks that no other run in the air holds what the change needs.
func (s *simulation) locks(e machine.Effect) {
	s.w.mu.Lock()
	others := map[string]bool{}
	for _, name := range e.Plan.Locks {
		if s.w.holders[name] == nil {
			s.w.holders[name] = map[string]bool{}
		}
		maps.Copy(others, s.w.holders[name])
		s.w.holders[name][e.Run] = true
	}
	s.w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(others)) {
		if id == e.Run {
			continue
		}
		if st := s.at(id); st.InAir() {
			s.violated("locks", "%s goes out and run %s, which is %s, holds one of %v", e.Key, id, st.Phase, e.Plan.Locks)
		}
	}
}

// before is a run as the journal had it before an instant.
func (s *simulation) before(id string, now time.Time) machine.State {
	return s.foldWhile(id, func(ev machine.Event) bool { return ev.At.Before(now) })
}

func (s *simulation) at(id string) machine.State {
	return s.foldWhile(id, func(machine.Event) bool { return true })
}

func (s *simulation) foldWhile(id string, take func(machine.Event) bool) machine.State {
	events, err := s.e.RunEventsFrom(id, 0)
	if err != nil {
		s.violated("history", "run %s cannot be read: %v", id, err)
	}
	st := machine.State{}
	for _, ev := range events {
		if !take(ev) {
			break
		}
		if ev.Kind == machine.RunStarted {
			if st.Playbook, err = s.e.library.find(ev.Start.Playbook, ev.Start.Digest); err != nil {
				s.violated("history", "run %s: %v", id, err)
			}
		}
		st = machine.Evolve(st, ev)
	}
	return st
}

// check holds what must be true when everything has calmed down.
func (s *simulation) check() {
	if err := s.e.Ready(); err != nil {
		s.violated("ready", "%v", err)
	}
	s.mu.Lock()
	if s.calls > 0 {
		defer s.violated("calls", "%d calls of people never returned", s.calls)
	}
	s.mu.Unlock()
	for _, r := range s.runs() {
		s.counts.mu.Lock()
		s.counts.seen["runs"]++
		if r.Ending != nil {
			s.counts.seen["ended "+string(r.Ending.Outcome)]++
		}
		events, err := s.e.RunEvents(r.Start.Run)
		if err != nil {
			s.t.Error(err)
		}
		for _, ev := range events {
			switch ev.Kind {
			case machine.GuardsWaiting, machine.RunHeld, machine.EpisodeRefired, machine.GateExpired, machine.PauseSeen, machine.CancelRequested, machine.Verified, machine.Kept, machine.Undone:
				s.counts.seen[string(ev.Kind)]++
			}
			if ev.Again {
				s.counts.seen["looked again"]++
			}
			if ev.Kind == machine.EdgeTaken && ev.To == ev.State {
				s.counts.seen["stepped"]++
			}
			if ev.Kind == machine.EffectStarted && ev.Observe {
				s.counts.seen["observed "+string(ev.Action)]++
			}
		}
		s.counts.mu.Unlock()
		if r.Phase != machine.PhaseEnded {
			s.violated("ends", "run %s of %s on %s is still %s in %s (held %+v, quarantine %+v)", r.Start.Run, r.Start.Playbook, r.Start.Service.Name, r.Phase, r.Current, r.Held, r.Quarantine)
		}
	}
	s.changesOwned()
	s.decided()
	s.mustFoldAll()
}

// changesOwned checks that each change of the world was verified, undone, or
// ended with people who were told, and that none was made twice.
func (s *simulation) changesOwned() {
	late := map[string]bool{}
	applies := map[string]int{} // visit of a state: changes made and not taken back
	for _, l := range s.w.landed {
		late[l.run] = late[l.run] || l.late
		visit, _, _ := strings.Cut(l.key, "/"+string(l.action))
		if l.action == machine.ActionApply {
			applies[visit]++
		} else {
			applies[visit]--
		}
		if applies[visit] > 1 {
			s.violated(s.lateOr("change", late[l.run]), "%s was made %d times", visit, applies[visit])
		}
	}
	for _, l := range s.w.landed {
		if l.action == machine.ActionApply {
			s.owned(l, s.lateOr("change", late[l.run]))
		}
	}
}

func (s *simulation) lateOr(oracle string, late bool) string {
	if late {
		return oracle + "/late"
	}
	return oracle
}

// owned checks what became of one change.
func (s *simulation) owned(l landing, oracle string) {
	state := s.at(l.run)
	events, err := s.e.RunEvents(l.run)
	if err != nil {
		s.violated("history", "run %s: %v", l.run, err)
		return
	}
	fate, under := "", ""
	for _, ev := range events {
		switch {
		case ev.Kind == machine.EffectStarted && ev.Action == machine.ActionApply:
			under = ev.Effect
		case under != l.key:
		case ev.Kind == machine.Applied, ev.Kind == machine.Verified, ev.Kind == machine.Kept, ev.Kind == machine.Undone, ev.Kind == machine.RunHeld, ev.Kind == machine.HoldResolved:
			fate = string(ev.Kind)
		}
	}
	if fate == string(machine.Verified) || fate == string(machine.Kept) || fate == string(machine.Undone) || state.Ending == nil {
		return
	}
	switch state.Ending.Outcome {
	case machine.OutcomeHandedOver, machine.OutcomeUndoFailed, machine.OutcomeEscalated, machine.OutcomeReleased:
	default:
		if fate != string(machine.HoldResolved) {
			s.violated(oracle, "%s happened, its run knows %q of it and ended %s: %s", l.key, fate, state.Ending.Outcome, state.Ending.Message)
			return
		}
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	told := slices.ContainsFunc(s.w.told, func(text string) bool { return strings.Contains(text, l.run) })
	if !told && state.Ending.Outcome != machine.OutcomeReleased {
		s.violated("told", "run %s ended %s with a change in place and nobody was told", l.run, state.Ending.Outcome)
	}
}

// oneRun checks that alerts of a service have one open run, whatever their playbooks.
// One in quarantine does not count: nothing joins it.
func (s *simulation) oneRun() {
	if s.full.Load() || s.e.err() != nil {
		return // views may wait for the journal
	}
	open := map[string]string{}
	for _, r := range s.e.Runs(Filter{Open: new(true)}) {
		if r.Start.ByHand() || r.Quarantine != nil {
			continue
		}
		if other := open[r.Start.Service.Name]; other != "" {
			s.violated("one-run", "alerts of %s have the runs %s and %s", r.Start.Service.Name, other, r.Start.Run)
		}
		open[r.Start.Service.Name] = r.Start.Run
	}
}

// noneLeft checks that each alert that fires without an interruption had a part in a
// run, and in one of its own playbook where the run that it joined ended without
// people.
func (s *simulation) noneLeft() {
	runs := s.runs()
	for _, a := range s.alerts {
		matching := s.live.Load().Match(a)
		if a.Status != playbook.Firing || s.ended[a.Episode()] || len(matching) == 0 || a.StartsAt.After(s.rules.now()) {
			continue
		}
		var last machine.State
		own := false
		for _, r := range runs {
			if r.Episodes.Get(a.Episode()) != nil {
				last, own = r, own || r.Start.Playbook == matching[0].Name
			}
		}
		switch {
		case last.Start.Run == "":
			s.violated("left", "alert %s fires and never had a run", a.Episode())
		case own || last.Ending == nil:
		case slices.Contains([]machine.RunOutcome{machine.OutcomeResolved, machine.OutcomeNoAction, machine.OutcomeObserved}, last.Ending.Outcome):
			s.violated("left", "alert %s fires, run %s of %s ended %s, and none of %s looked at it", a.Episode(), last.Start.Run, last.Start.Playbook, last.Ending.Outcome, matching[0].Name)
		}
	}
}

// decided checks that each alert of each admitted notification was decided.
func (s *simulation) decided() {
	seen, done := map[string]bool{}, uint64(0)
	for rec, err := range s.journal.Stream(dispatch.Stream, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		d, err := dispatch.DecodeRecord(rec)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, id := range d.Episodes {
			seen[id] = true
		}
		s.countFate(rec.Kind, d)
		if d.Done {
			done = d.Index + 1
		}
		if rec.Kind == dispatch.KindQuarantined {
			s.violated("quarantine", "notification %d was quarantined: %s", d.Notification, d.Reason)
		}
	}
	if int(done) != s.posted {
		s.violated("decided", "%d of %d notifications are decided", done, s.posted)
	}
	for _, a := range s.alerts {
		if !seen[a.Episode()] && len(s.waiting) == 0 {
			s.violated("decided", "alert %s was admitted and never decided", a.Episode())
		}
	}
}

// countFate counts the alerts that joined a run of another playbook, and those that
// waited because people had the incident.
func (s *simulation) countFate(kind string, d dispatch.Record) {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	switch {
	case kind == dispatch.KindCoalesced && strings.Contains(d.Reason, "a run of playbook"):
		s.counts.seen["joined another playbook"]++
	case kind == dispatch.KindSuppressed && strings.Contains(d.Reason, "people have run"):
		s.counts.seen["people have it"]++
	}
}

// simProjections is what the executor keeps in memory beside the runs.
type simProjections struct {
	Holdings guard.Holdings
	Acts     []string // since which each service was acted on last, and how often
	Episodes map[string]string
	People   map[string]string
	Pauses   []Pause
	Open     []string
}

func (s *simulation) projections(e *Executor) simProjections {
	now := e.clock.now()
	p := simProjections{Holdings: e.ledger.Holdings(now), Episodes: e.dispatch.Remembered(), People: e.dispatch.WithPeople(now), Pauses: e.Pauses()}
	for _, service := range simServices {
		for ago := time.Duration(0); ago < e.ledger.Horizon(); ago += time.Hour {
			if n, _ := e.ledger.Acted(guard.Acts{Service: service, Since: now.Add(-ago)}, "", now); n > 0 {
				p.Acts = append(p.Acts, fmt.Sprintf("%s %s %d", service, ago, n))
			}
		}
	}
	for _, r := range e.openRuns() {
		p.Open = append(p.Open, r.id)
	}
	return p
}

// mustFoldAll holds that the projections are what a fresh load reads, from the last
// snapshot and from the whole log.
func (s *simulation) mustFoldAll() {
	s.mustFold("at the end")
	s.mustLoad("the last snapshot and the log after it")
	if err := s.journal.SaveProjection("dispatch", nil); err != nil {
		s.t.Fatal(err)
	}
	s.mustLoad("the log")
}

func (s *simulation) mustLoad(from string) {
	fresh, err := New(s.e.o)
	if err != nil {
		s.t.Fatal(err)
	}
	quarantined, err := fresh.loadControl()
	if err == nil {
		err = fresh.loadRuns(quarantined)
	}
	if err == nil {
		err = fresh.loadDispatch()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	memory, loaded := s.projections(s.e), s.projections(fresh)
	if diff := cmp.Diff(memory, loaded); diff != "" {
		s.violated("projection", "%s gives other projections (-memory +loaded):\n%s", from, diff)
	}
}
