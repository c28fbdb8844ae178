package executor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Filter selects runs; zero fields select everything.
type Filter struct {
	Service  string
	Playbook string
	Begins   string // beginning of the ID
	Open     *bool  // only runs that have not ended, or only such that have
	Limit    int    // 0: 200
}

const (
	limitRuns = 200
	scanRuns  = 5000 // ended runs that are looked at for one answer
)

// Runs lists runs, newest first. Ended ones are folded from the journal, so a
// filter that few of them pass is slow and looks back 5000 runs at most; with Begins,
// 5000 of those whose ID begins so.
func (e *Executor) Runs(f Filter) []machine.State {
	limit := cmp.Or(f.Limit, limitRuns)
	if f.Limit == 0 && f.Open != nil && *f.Open {
		limit = max(limit, e.o.MaxOpenRuns)
	}
	passes := func(s *machine.State) bool {
		return strings.HasPrefix(s.Start.Run, f.Begins) && (f.Service == "" || s.Start.Service.Name == f.Service) && (f.Playbook == "" || s.Start.Playbook == f.Playbook)
	}
	var found []*machine.State
	if f.Open == nil || *f.Open {
		for s := range e.Open() {
			if passes(s) {
				found = append(found, s)
			}
		}
	}
	if f.Open == nil || !*f.Open {
		found = append(found, e.endedRuns(f.Begins, passes, limit)...)
	}
	slices.SortStableFunc(found, func(a, b *machine.State) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.Start.Run, a.Start.Run))
	})
	var out []machine.State
	for _, s := range found[:min(len(found), limit)] {
		out = append(out, *s)
	}
	return out
}

// Open yields every run that has not ended, in no order. It copies no state: callers must
// not change what they get.
func (e *Executor) Open() iter.Seq[*machine.State] {
	return func(yield func(*machine.State) bool) {
		e.mu.RLock()
		runs := slices.AppendSeq(make([]*run, 0, len(e.open)), maps.Values(e.open))
		e.mu.RUnlock()
		for _, r := range runs {
			if s := r.view(); s.Phase != machine.PhaseEnded && !yield(s) {
				return
			}
		}
	}
}

// Holder returns the run that keeps others from changing a service; empty: there is none.
func (e *Executor) Holder(service string) string { return e.ledger.Holder(service) }

// Spent returns which limit of the budget keeps a new run from changing a service now;
// empty: none does.
func (e *Executor) Spent(service string) string { return e.ledger.Spent(service, e.clock.now()) }

// WithPeople returns why an alert starts no run of a playbook on a service now: people have
// the last one. Empty: one may start.
func (e *Executor) WithPeople(service, playbook string) string {
	return e.dispatch.PeopleHave(service, playbook, e.clock.now())
}

// Full returns why no alert starts a run now, whatever its service; empty: one may start.
func (e *Executor) Full() string {
	switch {
	case e.countOpen() >= e.o.MaxOpenRuns:
		return fmt.Sprintf("%d runs are open already", e.o.MaxOpenRuns)
	case e.dispatch.Crowded():
		return "as many alerts that had a run are remembered and fire still as may be"
	default:
		return ""
	}
}

// Changes counts what happened to runs, from a number on that no earlier process of this
// service counted to. Who has read it before an answer of [Executor.Open] has the same
// answer as long as it stays the same.
func (e *Executor) Changes() uint64 { return e.changes.Load() }

func (e *Executor) endedRuns(begins string, passes func(*machine.State) bool, limit int) []*machine.State {
	e.mu.RLock()
	var ids []string
	for _, id := range slices.Backward(e.ended) {
		if len(ids) == scanRuns {
			break
		}
		if strings.HasPrefix(id, begins) {
			ids = append(ids, id)
		}
	}
	e.mu.RUnlock()
	slices.Sort(ids) // ids sort by the time of their start
	var out []*machine.State
	for _, id := range slices.Backward(ids) {
		if len(out) == limit {
			break
		}
		if s, err := e.look(id); err == nil && passes(&s) {
			out = append(out, &s)
		}
	}
	return out
}

// Search selects runs, open and ended. Zero fields select everything.
type Search struct {
	Passes func(machine.State) bool
	Text   string // part of the ID; case does not count
	Before string // an ID: only runs that began before it
	Limit  int    // runs in one answer, > 0
	Read   int    // runs that are looked at for one answer, > 0
}

// Found is the answer of a search, newest run first. Next is the Before with which the
// search goes on; empty: no older run is left.
type Found struct {
	Runs []machine.State
	Read int // runs that were looked at
	Next string
}

// Search looks through all runs, back to the first. What one answer costs is bounded
// whatever it finds: it may have fewer runs than its limit, and a Next.
func (e *Executor) Search(q Search) Found {
	e.mu.RLock()
	ids := slices.Grow(slices.Clone(e.ended), len(e.open))
	for id := range e.open {
		ids = append(ids, id)
	}
	e.mu.RUnlock()
	slices.Sort(ids) // ids sort by the time of their start
	ids = slices.Compact(ids)
	if q.Before != "" {
		at, _ := slices.BinarySearch(ids, q.Before)
		ids = ids[:at]
	}
	var out Found
	last, part := "", strings.ToLower(q.Text)
	for _, id := range slices.Backward(ids) {
		if part != "" && !strings.Contains(strings.ToLower(id), part) {
			continue
		}
		if len(out.Runs) == q.Limit || out.Read == q.Read {
			out.Next = last
			break
		}
		out.Read, last = out.Read+1, id
		if s, err := e.glance(id); err == nil && (q.Passes == nil || q.Passes(s)) {
			out.Runs = append(out.Runs, s)
		}
	}
	return out
}

// glance returns a run as lists show it.
func (e *Executor) glance(id string) (machine.State, error) {
	if r := e.find(id); r != nil {
		if s := r.view(); s.Head > 0 {
			return *s, nil
		}
	}
	return e.look(id)
}

// RunState returns one run, open or ended; false when there is none.
func (e *Executor) RunState(id string) (machine.State, bool) {
	if r := e.find(id); r != nil {
		if s := e.current(r); s.Head > 0 {
			return s, true
		}
	}
	s, err := e.look(id)
	if err == nil {
		s.ObservedOutcome = e.observedOutcome(s)
	}
	return s, err == nil
}

// current returns the state of an open run as the journal has it. An owner
// publishes after it has appended; whoever was woken by the append must not see
// the state from before it. Reading waits for no append.
func (e *Executor) current(r *run) machine.State {
	s := *r.view()
	err := guarded(func() error {
		for rec, err := range e.o.Journal.Stream(streamOf(r.id), s.Head) {
			if err != nil {
				return err
			}
			ev, err := event(rec)
			if err != nil {
				return err
			}
			s = machine.Evolve(s, ev)
		}
		return nil
	})
	if err != nil {
		return *r.view() // what was published is right, if late
	}
	return s
}

// RunEvents returns the events of a run from the first on. Of one that this
// program cannot read it gives kind and time.
func (e *Executor) RunEvents(id string) ([]machine.Event, error) {
	out, err := e.RunEventsFrom(id, 0)
	if err == nil && len(out) == 0 {
		return nil, fmt.Errorf("%w: run %s", ErrNotFound, id)
	}
	return out, err
}

// RunEventsFrom is RunEvents from an index on (the first is 0), without reading
// those before. A run that has no more, or that there is none of, gives nothing.
func (e *Executor) RunEventsFrom(id string, from uint64) ([]machine.Event, error) {
	var out []machine.Event
	for rec, err := range e.o.Journal.Stream(streamOf(id), from) {
		if err != nil {
			return nil, runError(id, err)
		}
		ev, err := event(rec)
		if err != nil {
			ev = remains(rec)
			ev.Message = fmt.Sprintf("this entry cannot be read; see: responder audit show %d", rec.Seq)
		}
		out = append(out, ev)
	}
	return out, nil
}

// RunHistory returns a run with its events, both as of one moment: the state is
// what the events come to. Unlike RunState and RunEvents it has no answer about
// a run that this program cannot read.
func (e *Executor) RunHistory(id string) (machine.State, []machine.Event, error) {
	var events []machine.Event
	s, err := e.foldEach(id, func(ev machine.Event) { events = append(events, ev) })
	if err != nil {
		return machine.State{}, nil, err
	}
	if r := e.find(id); r != nil {
		s.Quarantine = r.view().Quarantine
	}
	return s, events, nil
}

// Update is an event of a run as it became durable.
type Update struct {
	Seq   uint64 // position in the log
	Run   string
	Event machine.Event
}

// Subscribe delivers the events of all runs that become durable from now on,
// in the order of the log, until ctx is done; then the channel is closed. It
// reads the journal behind the executor's back: a slow reader holds up nobody
// and misses nothing.
func (e *Executor) Subscribe(ctx context.Context) <-chan Update {
	out := make(chan Update)
	changed, end := e.o.Journal.Watch()
	next := e.o.Journal.Size()
	go func() {
		defer close(out)
		defer end()
		for {
			for rec, err := range e.o.Journal.Log(next) {
				if err != nil {
					return
				}
				next = rec.Seq + 1
				if len(rec.Stream) <= len(prefixRun) || rec.Stream[:len(prefixRun)] != prefixRun {
					continue
				}
				ev, err := event(rec)
				if err != nil {
					continue // it is in quarantine; the log still shows it
				}
				select {
				case out <- Update{Seq: rec.Seq, Run: rec.Stream[len(prefixRun):], Event: ev}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Figures are the executor's projections in numbers, for metrics and views.
type Figures struct {
	Open        int               // runs that have not ended
	Phases      map[Standing]int  // those by playbook and phase
	Loans       map[string]int    // runs that give a loan back and have not ended, by state of the playbook
	Quarantined int               // of those, quarantined until a person releases them
	Holders     map[string]string // of the runs that hold locks, run to playbook
	Episodes    int               // known
	Crowded     bool              // so many of them fire still and had a run that no other gets one

	guard.Holdings
}

// phaseQuarantined stands for the phase of a run that cannot be processed: its
// own phase says only where it was.
const phaseQuarantined machine.Phase = "set-aside"

// Standing is what open runs are counted by.
type Standing struct {
	Playbook string
	Phase    machine.Phase
}

// Crowded reports whether alerts start no runs because too many that had one fire still.
func (e *Executor) Crowded() bool { return e.dispatch.Crowded() }

// Figures returns the executor's projections in numbers. It copies no run's
// state: with ten thousand of them waiting it takes a few milliseconds and the
// space of as many pointers.
func (e *Executor) Figures() Figures {
	f := Figures{Phases: map[Standing]int{}, Loans: map[string]int{}, Holders: map[string]string{}, Episodes: e.dispatch.Size(), Crowded: e.dispatch.Crowded(), Holdings: e.ledger.Holdings(e.clock.now())}
	for _, id := range f.Locks {
		f.Holders[id] = ""
	}
	runs := e.openRuns()
	f.Open = len(runs)
	for _, r := range runs {
		at := r.standing()
		f.Phases[at]++
		if at.Playbook == LoanReturn {
			f.Loans[r.at()]++
		}
		if at.Phase == phaseQuarantined {
			f.Quarantined++
		}
		if _, holds := f.Holders[r.id]; holds {
			f.Holders[r.id] = at.Playbook
		}
	}
	return f
}
