package executor

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// load rebuilds every projection from the journal.
func (e *Executor) load() error {
	poison, err := e.careful.started()
	if err != nil {
		return err
	}
	e.dispatch.poison = poison
	aside, err := e.loadControl()
	if err != nil {
		return err
	}
	if err := e.loadRuns(aside); err != nil {
		return err
	}
	if err := e.loadDispatch(); err != nil {
		return err
	}
	if err := e.library.ensure(); err != nil {
		return err
	}
	debug.FreeOSMemory() // folding left as much garbage as it kept
	return nil
}

// loadControl folds pauses, documents and quarantined runs.
func (e *Executor) loadControl() (aside map[string]Quarantined, err error) {
	aside = map[string]Quarantined{}
	for rec, err := range e.o.Journal.Stream(streamControl, 0) {
		if err != nil {
			return nil, fmt.Errorf("read control: %w", err)
		}
		if err := e.foldControl(rec, aside); err != nil {
			return nil, err
		}
	}
	return aside, nil
}

func (e *Executor) foldControl(rec audit.Record, aside map[string]Quarantined) error {
	switch rec.Kind {
	case KindPauseSet, KindPauseLifted:
		p, err := decode[Pause](rec)
		if err != nil {
			return err
		}
		if rec.Kind == KindPauseSet {
			e.pauses.set[p.Scope] = p
		} else {
			delete(e.pauses.set, p.Scope)
		}
	case KindLoaded:
		loaded, err := decode[Loaded](rec)
		if err != nil {
			return err
		}
		for digest := range loaded.Documents {
			e.library.at[digest] = rec.Index
		}
	case KindRunQuarantined:
		q, err := decode[Quarantined](rec)
		if err != nil {
			return err
		}
		aside[q.Run] = q
	}
	return nil
}

// loadRuns folds the open runs, and of the ended ones what the ledger asks for.
func (e *Executor) loadRuns(aside map[string]Quarantined) error {
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
		e.admit(l, aside)
	}
	return nil
}

// loadedRun is what a run's stream holds.
type loadedRun struct {
	id    string
	state machine.State
	ended bool
	acts  []machine.Event // levers applied
	err   error
}

// loadRun reads a run. Of an ended one only recent levers matter.
func (e *Executor) loadRun(info audit.StreamInfo) *loadedRun {
	l := &loadedRun{id: strings.TrimPrefix(info.Name, prefixRun)}
	for rec, err := range e.o.Journal.Stream(info.Name, info.Head-1) {
		if err != nil {
			l.err = err
			return l
		}
		l.ended = rec.Kind == string(machine.RunEnded)
		if l.ended && e.clock.now().Sub(rec.Time) > e.ledger.horizon() {
			return l
		}
	}
	if !l.ended {
		l.state, l.err = e.fold(l.id)
		l.ended = l.state.Phase == machine.PhaseEnded
	}
	if l.err == nil {
		l.err = e.loadActs(l, info.Name)
	}
	return l
}

// loadActs finds the levers a run applied.
func (e *Executor) loadActs(l *loadedRun, stream string) error {
	if !l.ended && l.state.Levers == 0 {
		return nil
	}
	for rec, err := range e.o.Journal.Stream(stream, 0) {
		if err != nil {
			return err
		}
		if k := machine.EventKind(rec.Kind); k != machine.Applied && (k != machine.RunStarted || l.state.Start.Run != "") {
			continue
		}
		ev, err := event(rec)
		if err != nil {
			return err
		}
		if ev.Kind == machine.RunStarted {
			l.state.Start = *ev.Start
			continue
		}
		l.acts = append(l.acts, ev)
	}
	return nil
}

// admit puts a loaded run into the projections.
func (e *Executor) admit(l *loadedRun, aside map[string]Quarantined) {
	e.ledger.note(l.state, l.acts)
	if l.ended && l.err == nil {
		e.ended = append(e.ended, l.id)
		return
	}
	r := &run{id: l.id, state: l.state, loaded: true}
	e.open[l.id] = r
	for _, ep := range l.state.Episodes {
		e.episodes.has(ep.Alert, l.state.Start, l.state.Updated)
	}
	if l.state.Head > 0 {
		e.target[keyOf(l.state.Start)] = r
		e.ledger.sync(l.state)
	}
	if q, ok := aside[l.id]; ok {
		r.dead = errors.New(q.Error)
	}
	if l.err != nil && r.dead == nil {
		e.setAside(r, l.err)
	}
}

// loadDispatch finds the cursor and rebuilds the known episodes from the
// records young enough to matter.
func (e *Executor) loadDispatch() error {
	head, err := e.o.Journal.Head(streamDispatch)
	if err != nil {
		return fmt.Errorf("read dispatch: %w", err)
	}
	e.dispatch.head = head
	from, err := e.youngSince(head, e.clock.now().Add(-EpisodesKept))
	if err != nil {
		return err
	}
	for rec, err := range e.o.Journal.Stream(streamDispatch, from) {
		if err != nil {
			return fmt.Errorf("read dispatch: %w", err)
		}
		d, err := decode[Dispatched](rec)
		if err != nil {
			return err
		}
		e.foldDispatched(rec, d)
		e.dispatch.index, e.dispatch.offset = d.Index, d.Upto
		if d.Done {
			e.dispatch.index, e.dispatch.offset = d.Index+1, 0
		}
	}
	return nil
}

// youngSince gives the index of the first record of the stream dispatch that is
// not older than that, or of the last one: it is the cursor.
func (e *Executor) youngSince(head uint64, old time.Time) (uint64, error) {
	if head == 0 {
		return 0, nil
	}
	var failed error
	i := sort.Search(int(head-1), func(i int) bool {
		for rec, err := range e.o.Journal.Stream(streamDispatch, uint64(i)) {
			failed = cmp.Or(failed, err)
			return !rec.Time.Before(old)
		}
		return true
	})
	return uint64(i), failed
}

// foldDispatched is what a record of the stream dispatch says about episodes.
func (e *Executor) foldDispatched(rec audit.Record, d Dispatched) {
	for _, id := range d.Episodes {
		k := e.episodes.get(id)
		k.seen = rec.Time
		switch rec.Kind {
		case KindMatched, KindCoalesced:
			k.firing, k.kind, k.reason = true, "", ""
			if ref := (runRef{d.Run, d.Playbook}); !slices.Contains(k.runs, ref) {
				k.runs = append(slices.Clip(k.runs), ref)
			}
		case KindResolved:
			k.firing = false
			if k.resolved.IsZero() {
				k.resolved = rec.Time
			}
		case KindRefired:
			k.firing, k.resolved = true, time.Time{}
		case KindUnmatched, KindNoService, KindSuppressed:
			if strings.HasPrefix(d.Reason, "starts ") {
				continue // clock skew: not remembered
			}
			k.firing, k.kind, k.reason = true, rec.Kind, d.Reason
		}
		e.episodes.put(id, k)
	}
}

// resumeAll begins the loaded runs again. Whatever may have changed the world
// is looked for before anything else happens.
func (e *Executor) resumeAll() {
	for _, r := range e.openRuns() {
		r.mu.Lock()
		e.resume(r)
		r.mu.Unlock()
		if !e.alive() {
			return
		}
	}
}

func (e *Executor) resume(r *run) {
	if r.dead == nil && e.poisoned(r) {
		e.setAside(r, errors.New("the process ended while it was being processed, more than once"))
	}
	if r.dead != nil || r.state.Phase == machine.PhaseEnded {
		return
	}
	now := e.clock.now()
	if o := r.state.Open; o != nil && o.Action.Mutates() && !o.Observe {
		if err := e.turn(r, machine.Command{Kind: machine.CmdResume, Now: now}); err != nil {
			return
		}
	}
	r.loaded = false
	why := e.pauses.why(r.state.Start.Service.Name, r.state.Start.Playbook)
	if why != r.state.Paused {
		c := machine.Command{Kind: machine.CmdPause, Now: now, Message: why}
		if why == "" {
			c.Kind = machine.CmdUnpause
		}
		if err := e.turn(r, c); err != nil {
			return
		}
	}
	if r.flight == nil {
		e.follow(r)
	}
}

// poisoned reports whether the process died over this run before, at the place
// where it stands now.
func (e *Executor) poisoned(r *run) bool {
	if len(e.dispatch.poison) == 0 {
		return false
	}
	eff, ok := machine.Pending(r.state)
	return ok && e.dispatch.poison[fmt.Sprintf("run/%s@%s/%d", r.id, eff.Key, eff.Attempt)]
}
