package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// load rebuilds every projection from the journal.
func (e *Executor) load() error {
	first, err := e.crashes.started()
	if err != nil {
		return err
	}
	quarantined, err := e.loadControl()
	if err != nil {
		return err
	}
	if err := e.loadRuns(quarantined); err != nil {
		return err
	}
	if err := e.loadDispatch(); err != nil {
		return err
	}
	if err := e.loadLadder(); err != nil {
		return err
	}
	e.ladder.CatchUp(e.dispatch.ResolvedAt)
	if first {
		if err := e.suspectLast(); err != nil {
			return err
		}
	}
	return nil
}

// loadControl folds pauses, documents, quarantined runs and reports.
func (e *Executor) loadControl() (map[string]quarantine, error) {
	quarantined, dues := map[string]quarantine{}, map[string]Due{}
	for rec, err := range e.o.Journal.Stream(streamControl, 0) {
		if err != nil {
			return nil, fmt.Errorf("read control: %w", err)
		}
		if err := e.foldControl(rec, quarantined, dues); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(dues)) {
		e.due = append(e.due, dues[key])
	}
	return quarantined, nil
}

func (e *Executor) foldControl(rec audit.Record, quarantined map[string]quarantine, dues map[string]Due) error {
	switch rec.Kind {
	case KindPauseSet, KindPauseLifted:
		p, err := decode[Pause](rec)
		if err != nil {
			return err
		}
		e.pauses.fold(p, rec.Kind == KindPauseSet)
	case KindLoaded:
		loaded, err := decode[Loaded](rec)
		if err != nil {
			return err
		}
		e.library.fold(loaded, rec.Index)
	case KindRunQuarantined:
		q, err := decode[Quarantined](rec)
		if err != nil {
			return err
		}
		quarantined[q.Run] = quarantine{errors.New(q.Error), rec.Time}
	case KindRunReleased:
		r, err := decode[Released](rec)
		if err != nil {
			return err
		}
		e.dispatch.Released(r.Run, rec.Seq, r.From)
	case KindRunRequested:
		r, err := decode[Requested](rec)
		if err != nil {
			return err
		}
		e.requests.fold(r, rec.Time)
	case KindNoticeDue:
		d, err := decode[Due](rec)
		if err != nil {
			return err
		}
		d.at = rec.Time
		dues[d.Key] = d
	case KindNotice:
		n, err := decode[Notice](rec)
		if err != nil {
			return err
		}
		delete(dues, n.Key)
	case KindReported:
		r, err := decode[Reported](rec)
		if err != nil {
			return err
		}
		e.reported.fold(r)
	}
	return nil
}

// loadRuns folds the open runs, and of the ended ones what the ledger asks for.
func (e *Executor) loadRuns(quarantined map[string]quarantine) error {
	var ids []audit.StreamInfo
	for info, err := range e.o.Journal.Streams(prefixRun) {
		if err != nil {
			return fmt.Errorf("list runs: %w", err)
		}
		ids = append(ids, info)
	}
	loaded := make([]*loadedRun, len(ids))
	var workers sync.WaitGroup
	next := make(chan int)
	for range max(2, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				loaded[i] = e.loadRun(ids[i])
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	workers.Wait()
	for _, l := range loaded {
		if l.err != nil && errors.Is(l.err, audit.ErrCorrupt) {
			return l.err
		}
		if errors.Is(l.err, audit.ErrArchived) {
			continue // it ended longer ago than anything here asks for
		}
		e.admit(l, quarantined)
	}
	return nil
}

// loadedRun is what a run's stream holds.
type loadedRun struct {
	id     string
	state  machine.State
	ended  bool
	ending ending
	acts   []machine.Event // levers applied
	told   tellings        // with once
	err    error
}

// ending is how and when a run ended.
type ending struct {
	*machine.Ending
	at  time.Time
	seq uint64
}

// loadRun reads a run. Of an ended one only recent levers matter, and its end while its
// alerts are remembered.
func (e *Executor) loadRun(info audit.StreamInfo) *loadedRun {
	l := &loadedRun{id: strings.TrimPrefix(info.Name, prefixRun)}
	for rec, err := range e.o.Journal.Stream(info.Name, info.Head-1) {
		if err != nil {
			l.err = err
			return l
		}
		l.ended = rec.Kind == string(machine.RunEnded)
		if l.ended && e.clock.now().Sub(rec.Time) <= dispatch.EpisodesKept {
			ev, err := event(rec)
			if err == nil && ev.Ending == nil {
				err = errors.New("it names no outcome")
			}
			if err != nil { // not taken for ended: its alerts would stay with it for good
				l.ended, l.err = false, fmt.Errorf("its end cannot be read, nor which alerts it handed over or released: %w", err)
				break
			}
			l.ending = ending{ev.Ending, rec.Time, rec.Seq}
		}
		if l.ended && e.clock.now().Sub(rec.Time) > e.ledger.Horizon() {
			return l
		}
	}
	if !l.ended && l.err == nil {
		l.state, l.err = e.fold(l.id)
		l.ended = l.state.Phase == machine.PhaseEnded
	}
	if !errors.Is(l.err, audit.ErrCorrupt) {
		l.err = cmp.Or(l.err, e.loadActs(l, info.Name))
	}
	return l
}

// loadActs finds the levers a run applied, also of one that cannot be folded:
// budgets and cooldowns count them all the same.
func (e *Executor) loadActs(l *loadedRun, stream string) error {
	if !l.ended && l.err == nil && l.state.Levers == 0 {
		l.told.by = l.state.Told
		return nil
	}
	for rec, err := range e.o.Journal.Stream(stream, 0) {
		if err != nil {
			return err
		}
		if recent(rec.Time, e.clock.now()) {
			l.told.read(rec)
		}
		switch k := machine.EventKind(rec.Kind); {
		case k == machine.Applied:
			l.acts = append(l.acts, machine.Event{Kind: k, At: rec.Time})
		case k == machine.RunEnded && l.ending.Ending == nil && l.state.Ending != nil:
			l.ending = ending{l.state.Ending, rec.Time, rec.Seq} // a late decision follows it
		case k == machine.RunStarted && l.state.Start.Run == "":
			// Little is asked of it, so that an ended run never stands in the way.
			if start := remains(rec).Start; start != nil {
				l.state.Start = *start
				l.state.Start.Run = l.id
			}
		}
	}
	return nil
}

// admit puts a loaded run into the projections. Views may read them already.
func (e *Executor) admit(l *loadedRun, quarantined map[string]quarantine) {
	if l.err != nil {
		l.state = e.salvage(l.id)
		if !l.ended { // also where the end is all that cannot be read
			l.state.Phase, l.state.Ending, l.state.Ended = machine.PhaseHeld, nil, time.Time{}
		}
	}
	if l.ending.Ending != nil && (l.ending.Into != "" || len(l.ending.Released) > 0) {
		e.endings[l.id] = l.ending
	}
	if l.ending.Ending != nil {
		e.dispatch.Ended(l.state.Start, l.ending.Ending, l.ending.at)
	}
	e.ledger.Note(l.state, l.acts)
	e.told.note(machine.State{Start: machine.Start{Run: l.id}, Told: l.told.by}, e.clock.now())
	r := e.newRun(l.id, l.state)
	r.loaded = true
	if a, ok := quarantined[l.id]; ok {
		r.quarantine(a.why, a.at)
	}
	e.enlist(r, l.ended)
	if l.ended {
		return
	}
	for _, ep := range l.state.Episodes.All() {
		e.dispatch.Has(ep.Alert, l.state.Start, l.state.Updated)
	}
	if l.err != nil {
		e.ledger.Hold(l.state)
		if r.dead == nil {
			e.quarantineRun(r, l.err)
		}
		return
	}
	e.ledger.Sync(l.state)
	if r.dead != nil {
		e.ledger.Leave(l.id)
	}
}

// enlist makes a loaded run one of the open or of the ended ones.
func (e *Executor) enlist(r *run, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ended {
		e.ended = append(e.ended, r.id)
		return
	}
	e.list(r)
}

// loadDispatch finds the dispatcher's cursor and what it remembers of episodes.
func (e *Executor) loadDispatch() error {
	if err := e.dispatch.Load(e.clock.now()); err != nil {
		return err
	}
	maps.DeleteFunc(e.endings, func(_ string, end ending) bool { return e.dispatch.Includes(end.seq) })
	e.dispatch.Inherit(func(run string) (*machine.Ending, time.Time) {
		end := e.endings[run]
		return end.Ending, end.at
	})
	for _, run := range slices.Sorted(maps.Keys(e.endings)) {
		e.dispatch.Release(run, e.endings[run].Ending)
	}
	e.dispatch.Leave()
	e.dispatch.Recall()
	e.endings = nil
	return nil
}

// saveEvery is how many records of the stream dispatch and episodes in them a start
// folds, about, at most: every so many a snapshot is written. Its size is bounded by
// the episodes that are remembered, a few MiB.
const saveEvery = 100_000

// saveDispatch stores a snapshot of the dispatcher's memory when many records follow
// the last one. Without it the next start only takes longer.
func (e *Executor) saveDispatch(ctx context.Context) {
	if e.dispatch.Unsaved() < e.saveEvery {
		return
	}
	var s *dispatch.Snapshot
	err := e.do(ctx, &task{free: true, decide: func(*batch) error {
		s = e.dispatch.Snapshot()
		return nil
	}})
	if err == nil {
		e.keepSnapshot(s)
	}
}

func (e *Executor) keepSnapshot(s *dispatch.Snapshot) {
	if err := e.dispatch.Save(s); err != nil {
		e.log.Warn("the next start reads more of the journal", "err", err)
	}
}

// suspectLast counts the end of a process that wrote nothing down against the
// notification that was next, when no other was waiting.
func (e *Executor) suspectLast() error {
	place, ok, err := e.dispatch.OnlyWaiting()
	if err != nil || !ok {
		return err
	}
	return e.crashes.suspect(place)
}

// resumeAll begins the loaded runs again. Whatever may have changed the world
// is looked for before anything else happens. Most runs only wait and cost no task.
func (e *Executor) resumeAll(ctx context.Context) {
	var same, resumed []*run
	var tasks []*task
	err := e.do(ctx, &task{free: true, decide: func(*batch) error {
		for _, r := range e.openRuns() {
			if e.resumes(r) {
				resumed = append(resumed, r)
			} else {
				same = append(same, r)
			}
		}
		return nil
	}})
	if err != nil {
		return // the executor stops
	}
	for _, r := range resumed {
		t := &task{shared: true, decide: func(b *batch) error { return b.resume(r) }, then: func() { r.loaded = false }}
		if e.post(t) == nil {
			tasks = append(tasks, t)
		}
	}
	for _, t := range tasks {
		select {
		case err := <-t.done:
			if err != nil && e.alive() {
				e.log.Error("run could not be resumed", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
	_ = e.do(ctx, &task{free: true, decide: func(*batch) error { //nolint:errcheck // the executor stops
		for _, r := range same {
			r.loaded = false
			e.follow(r)
		}
		return nil
	}})
}

// resumes reports whether something has to be decided before a loaded run goes on.
func (e *Executor) resumes(r *run) bool {
	s := r.state
	if r.dead != nil || s.Phase == machine.PhaseEnded {
		return false
	}
	return e.blames(r) || interrupted(s) || s.Paused != e.paused(*s)
}

// interrupted reports whether the process ended while a change was under way.
func interrupted(s *machine.State) bool {
	return s.Open != nil && s.Open.Action.Mutates() && !s.Open.Observe
}

func (b *batch) resume(r *run) error {
	if r.dead == nil && b.e.blames(r) {
		b.e.quarantineRun(r, errors.New("the process ended while it was being processed, more than once"))
	}
	if r.dead != nil || b.state(r).Phase == machine.PhaseEnded {
		return nil
	}
	b.stage(r)
	if s := b.state(r); interrupted(&s) {
		if refused, err := b.turn(r, machine.Command{Kind: machine.CmdResume, Now: b.now}); refused != nil || err != nil {
			return fmt.Errorf("run %s: %w", r.id, errors.Join(refused, err))
		}
	}
	return b.tellPause(r)
}

// blames reports whether the process died over this run too often, at the place
// where it stands now.
func (e *Executor) blames(r *run) bool {
	if len(e.crashes.blamed) == 0 {
		return false
	}
	eff, ok := machine.Pending(*r.state)
	return ok && e.crashes.blames(placeOfEffect(eff))
}
