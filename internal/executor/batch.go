package executor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// batch is one atomic append in the making: the events of one or more runs, the
// dispatcher's records about them, and what people have to be told. Its runs
// are owned by whoever makes it.
type batch struct {
	e        *Executor
	now      time.Time
	staged   []*staged
	byRun    map[*run]*staged
	dispatch []audit.Record
	notices  []machine.Effect     // journaled with the batch, sent after it
	control  []audit.Record       // further facts about the service
	resolved []string             // episodes that the dispatcher has learned the end of
	observed []ladder.ObservedEnd // beside those that follow from resolved

	of    *run   // the run whose owner makes the batch; it stays the owner
	owned []*run // what the batch has locked beside that; settle gives it back
	many  bool   // its maker holds Executor.many: it may own other runs
}

// staged is a run as the batch would leave it.
type staged struct {
	r      *run
	state  machine.State
	events []machine.Event
	fresh  bool // started by this batch; locked by it
	after  *run // the run whose place it took: it ends in the same batch
}

func (e *Executor) batch() *batch {
	return &batch{e: e, now: e.clock.now(), byRun: map[*run]*staged{}}
}

// full reports whether there are so many facts that no further alert should
// come into the batch: one append takes only so many.
func (b *batch) full() bool {
	n := len(b.dispatch) + len(b.notices) + b.e.trust.Waiters(b.resolved)
	for _, st := range b.staged {
		n += len(st.events)
	}
	return n >= batchRecords
}

// own locks a run for the batch, once, and reports whether it did. Only who holds
// Executor.many may own several: nobody who waits for that keeps a run meanwhile.
func (b *batch) own(r *run) bool {
	switch {
	case r == b.of, slices.Contains(b.owned, r):
		return true
	case b.byRun[r] != nil && b.byRun[r].fresh:
		return true // started by this batch, locked by claim
	case !b.many:
		return false
	}
	r.mu.Lock()
	b.owned = append(b.owned, r)
	return true
}

// unstage forgets what was decided for a run.
func (b *batch) unstage(r *run) {
	delete(b.byRun, r)
	b.staged = slices.DeleteFunc(b.staged, func(st *staged) bool { return st.r == r })
}

// giveBack unlocks what the batch has locked, but for the runs it starts.
func (b *batch) giveBack() {
	for _, r := range b.owned {
		r.mu.Unlock()
	}
	b.owned = nil
}

func (b *batch) stage(r *run) *staged {
	st := b.byRun[r]
	if st == nil {
		st = &staged{r: r, state: *r.state}
		b.byRun[r] = st
		b.staged = append(b.staged, st)
	}
	return st
}

// decide decides a command on the staged state. refused is the machine's
// answer, which may come with events; err means that the run cannot be decided
// at all.
func (b *batch) decide(r *run, c machine.Command) (refused, err error) {
	st := b.stage(r)
	if f := r.flight; f != nil && c.Kind != machine.CmdOutcome && f.effect.Action.Mutates() && c.Now.Before(f.effect.NotUntil) {
		// The clock was set back: the change is under way all the same.
		c.Now = f.effect.NotUntil
	}
	err = guarded(func() error {
		if c.Kind == machine.CmdStart {
			st.state.Playbook = c.Playbook
		}
		var events []machine.Event
		events, refused = machine.Decide(st.state, c)
		next := after(st.state, events)
		if to := divertOf(events); to != "" {
			why, err := b.divert(next, to)
			if err != nil {
				return err
			}
			if why != "" {
				c.NoDivert = why
				events, refused = machine.Decide(st.state, c)
				next = after(st.state, events)
			}
		}
		st.state, st.events = next, append(st.events, events...)
		return nil
	})
	return refused, err
}

// must is decide for commands the machine never refuses.
func (b *batch) must(r *run, c machine.Command) error {
	refused, err := b.decide(r, c)
	return errors.Join(refused, err)
}

// after folds events into a state.
func after(s machine.State, events []machine.Event) machine.State {
	for _, ev := range events {
		s = machine.Evolve(s, ev)
	}
	return s
}

// start decides the beginning of a new run, which the batch owns.
func (b *batch) start(r *run, s machine.Start, p *playbook.Playbook, also []playbook.Alert) error {
	if err := b.must(r, machine.Command{Kind: machine.CmdStart, Now: b.now, Start: &s, Playbook: p}); err != nil {
		return err
	}
	for i := range also {
		if err := b.must(r, machine.Command{Kind: machine.CmdAlert, Now: b.now, Alert: &also[i]}); err != nil {
			return err
		}
	}
	if why := b.e.pauses.why(s.Service.Name, s.Playbook); why != "" {
		return b.must(r, machine.Command{Kind: machine.CmdPause, Now: b.now, Message: why})
	}
	return nil
}

// claim makes the one open run about a playbook and a service, locked, or gives
// the one that is there, unless it is the one that ends in this batch.
func (b *batch) claim(s machine.Start, ending *run) (fresh, taken *run) {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	if r := b.e.target[keyOf(s)]; r != nil && r != ending {
		return nil, r
	}
	r := newRun(s.Run, machine.State{})
	r.mu.Lock() // nobody else knows it yet
	b.e.target[keyOf(s)] = r
	st := b.stage(r)
	st.fresh, st.after = true, ending
	return r, nil
}

// runIDs makes ids that sort by the time of the start, also within a
// millisecond.
type runIDs struct {
	mu      sync.Mutex // guards entropy
	entropy *ulid.MonotonicEntropy
}

func newRunIDs() *runIDs { return &runIDs{entropy: ulid.Monotonic(rand.Reader, 0)} }

func (x *runIDs) next(now time.Time) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(now), x.entropy)
	if err != nil { // ids of this millisecond are used up
		id = ulid.MustNew(ulid.Timestamp(now)+1, rand.Reader)
	}
	return "r-" + id.String()
}

// commit appends the batch and makes it the runs' state. After an error nothing
// has changed in memory, and new runs are gone.
func (b *batch) commit() error {
	if err := b.write(); err != nil {
		b.drop(err)
		return err
	}
	for _, st := range b.staged {
		st.r.setState(st.state)
		b.e.ledger.note(st.state, st.events)
		b.e.episodes.note(st.state, st.events)
	}
	for _, st := range b.staged {
		if st.fresh {
			b.e.register(st.r)
			b.e.follow(st.r)
			st.r.mu.Unlock()
		}
		b.e.announce(st.state, st.events)
	}
	for _, n := range b.notices {
		b.e.deliver(n)
	}
	b.e.o.Journal.Wake() // whoever looked between the append and now looks again
	return nil
}

// write makes the batch durable, with what it teaches of levers.
func (b *batch) write() error {
	t := b.e.trust
	t.Change.RLock()
	defer t.Change.RUnlock()
	learned := b.learn()
	appends, err := b.appends()
	if err != nil {
		return err
	}
	if a, ok := learned.Append(b.now); ok {
		appends = append(appends, a)
	}
	if len(appends) > 0 {
		if err := b.e.append(appends...); err != nil {
			return err
		}
	}
	t.Take(learned, b.now)
	return nil
}

func (b *batch) appends() ([]audit.Append, error) {
	var out []audit.Append
	if len(b.dispatch) > 0 {
		out = append(out, audit.Append{Stream: streamDispatch, After: b.e.dispatch.head, Records: b.dispatch})
	}
	if recs := append(dues(b.now, b.notices), b.control...); len(recs) > 0 {
		out = append(out, audit.Append{Stream: streamControl, After: audit.Any, Records: recs})
	}
	for _, st := range b.staged {
		if len(st.events) == 0 {
			continue
		}
		recs, err := records(st.events)
		if err != nil {
			return nil, err
		}
		out = append(out, audit.Append{Stream: streamOf(st.r.id), After: st.r.state.Head, Records: recs})
	}
	return out, nil
}

// drop forgets the runs the batch would have started.
func (b *batch) drop(err error) {
	for _, st := range b.staged {
		if !st.fresh {
			continue
		}
		b.e.mu.Lock()
		for k, r := range b.e.target {
			switch {
			case r != st.r:
			case st.after != nil:
				b.e.target[k] = st.after
			default:
				delete(b.e.target, k)
			}
		}
		b.e.mu.Unlock()
		st.r.dead = err
		st.r.mu.Unlock()
	}
}

func (e *Executor) register(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open[r.id] = r
}

// append writes to the journal. While the journal is full nothing is written
// and it is tried again; a conflict or an impossible record is the caller's;
// everything else ends the executor.
func (e *Executor) append(batch ...audit.Append) error {
	before, after := "run-before-append", "run-after-append"
	if batch[0].Stream == streamDispatch {
		before, after = "dispatch-before-append", "dispatch-after-append"
	}
	if err := e.at(before); err != nil {
		return err
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		_, err := e.o.Journal.Append(e.ctx, batch...)
		switch {
		case err == nil:
			e.setStalled(nil)
			return e.at(after)
		case errors.Is(err, audit.ErrConflict), errors.Is(err, audit.ErrInvalid), e.ctx.Err() != nil:
			return err
		case errors.Is(err, audit.ErrFull), errors.Is(err, audit.ErrDiskFull):
			e.setStalled(err)
		default:
			err = fmt.Errorf("append to the journal: %w", err)
			e.fail(err)
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-e.ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (e *Executor) setStalled(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if (err == nil) != (e.stalled == nil) {
		if err != nil {
			e.log.Error("journal takes nothing, trying again", "err", err)
		} else {
			e.log.Info("journal takes records again")
		}
	}
	e.stalled = err
}

// appendControl records a fact about the service itself. Such facts depend on
// nothing before them.
func (e *Executor) appendControl(kind string, v any) error {
	return e.append(e.control(e.controlRecord(kind, v)))
}

func (e *Executor) control(recs ...audit.Record) audit.Append {
	return audit.Append{Stream: streamControl, After: audit.Any, Records: recs}
}

func (e *Executor) controlRecord(kind string, v any) audit.Record {
	return audit.Record{Kind: kind, Time: e.clock.now(), Data: encode(v)}
}
