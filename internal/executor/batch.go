package executor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// batch is one atomic append in the making: the events of one or more runs, the
// dispatcher's records about them, and what people have to be told. Only the loop
// makes batches. Nothing of it is true in memory before publish.
type batch struct {
	e   *Executor
	now time.Time
	staging
	undo map[*run]undone // of what changed since the last mark

	set     *playbook.Set    // in force for all that the batch decides
	learned ladder.Additions // what follows for levers
	broke   *Pause           // the circuit breaker's; nil: none
}

// staging is what a batch holds so far.
type staging struct {
	runs     []*staged // in the order in which they were staged
	byRun    map[*run]*staged
	events   int // of all runs, or more: what was withdrawn may still be counted
	dispatch []audit.Record
	control  []audit.Record       // facts about the service
	ladder   []audit.Record       // demotions that a person lifted, and pauses of everything
	notices  []machine.Effect     // journaled with the batch, sent after it
	resolved []string             // episodes that the dispatcher has learned the end of
	observed []ladder.ObservedEnd // beside those that follow from resolved
	loaded   *Loaded              // the set, where the log does not have it yet
}

// staged is a run as the batch would leave it.
type staged struct {
	r      *run
	state  machine.State
	events []machine.Event
	after  uint64 // the head of its stream that the events follow
	fresh  bool   // started by this batch
}

// undone is what was staged for a run at the mark; nil: nothing.
type undone struct {
	at  *staged
	was staged
}

func (e *Executor) batch() *batch {
	return &batch{e: e, now: e.clock.now(), set: e.o.Playbooks(), staging: staging{byRun: map[*run]*staged{}}}
}

// stageAll calls decide of each task until the batch is full, and returns the tasks
// that are in it. A task that fails is answered and leaves nothing behind.
func (b *batch) stageAll(group []*task) []*task {
	var in []*task
	for i, t := range group {
		if i > 0 && b.full() {
			break
		}
		if err := t.ctx.Err(); err != nil {
			t.answer(err)
			continue
		}
		before := b.mark()
		if err := guarded(func() error { return t.decide(b) }); err != nil {
			b.rollBack(before)
			t.answer(err)
			continue
		}
		in = append(in, t)
	}
	return in
}

// mark remembers what is staged now.
func (b *batch) mark() staging {
	if b.undo == nil {
		b.undo = map[*run]undone{}
	}
	clear(b.undo)
	return b.staging
}

// rollBack forgets what was staged since the mark.
func (b *batch) rollBack(to staging) {
	b.staging = to
	for r, u := range b.undo {
		if u.at == nil {
			delete(b.byRun, r)
			continue
		}
		*u.at = u.was
		b.byRun[r] = u.at
	}
}

// batchRecords is how many facts a batch takes before nothing further comes into
// it: what comes last may start many runs, and has to fit too.
const batchRecords = audit.MaxBatch / 2

// full reports whether there are so many facts that nothing further should come
// into the batch: one append takes only so many.
func (b *batch) full() bool {
	return b.events+len(b.dispatch)+len(b.control)+len(b.notices)+b.e.ladder.Waiters(b.resolved) >= batchRecords
}

// stage makes the run one of the batch's, to be changed.
func (b *batch) stage(r *run) *staged {
	st := b.byRun[r]
	if _, marked := b.undo[r]; !marked && b.undo != nil {
		u := undone{at: st}
		if st != nil {
			u.was = *st
			u.was.events = slices.Clip(st.events)
		}
		b.undo[r] = u
	}
	if st == nil {
		st = &staged{r: r, state: *r.state, after: r.state.Head}
		b.byRun[r] = st
		b.runs = append(b.runs, st)
	}
	return st
}

// unstage forgets what was decided for a run.
func (b *batch) unstage(r *run) {
	b.stage(r) // for the undo
	delete(b.byRun, r)
	b.runs = slices.DeleteFunc(slices.Clone(b.runs), func(st *staged) bool { return st.r == r })
}

// state is the run's as the batch leaves it.
func (b *batch) state(r *run) machine.State {
	if st := b.byRun[r]; st != nil {
		return st.state
	}
	return *r.state
}

// turn decides a command to a run. refused is the machine's answer, which may
// come with events; err means that nothing can be decided for the run.
func (b *batch) turn(r *run, c machine.Command) (refused, err error) {
	if r.dead != nil {
		return nil, fmt.Errorf("%w: run %s is quarantined (%w); look what it left behind, then release it", ErrConflict, r.id, r.dead)
	}
	touched := touches(b.state(r))
	if refused, err = b.decide(r, c); err != nil {
		b.e.quarantineRun(r, err)
		return refused, err
	}
	told := c.Kind == machine.CmdPause || c.Kind == machine.CmdUnpause
	now := b.state(r)
	done := strings.HasPrefix(now.Paused, stopped) && !now.Steps()
	if !told && (done || !slices.Equal(names(touched), names(touches(now)))) {
		err = b.tellPause(r) // the pauses of what it touches now, and no stop of steps that are over
	}
	return refused, err
}

// decide is turn without the run's quarantine.
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
		events, c.Told, refused = b.ask(st, c)
		next := after(st.state, events)
		if to := divertOf(events); to != "" {
			into, why := b.divert(next, to)
			if why != "" {
				c.NoDivert = why
				events, refused = machine.Decide(st.state, c)
			} else {
				ending := *events[len(events)-1].Ending
				ending.Into = into
				events[len(events)-1].Ending = &ending
			}
			next = after(st.state, events)
		}
		if due, ok := undelivered(st.state, events); ok {
			b.notices = append(b.notices, due)
		}
		ended := next.Phase == machine.PhaseEnded && st.state.Phase != machine.PhaseEnded
		st.state, st.events = next, append(st.events, events...)
		b.events += len(events)
		b.watchLoans(next, events)
		if ended {
			b.returnLoans(next)
		}
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

// about returns the one run about a playbook and a service that is open once the
// batch is committed, nil when there is none.
func (b *batch) about(k runKey) *run {
	for _, st := range b.runs {
		if st.fresh && keyOf(st.state.Start) == k && st.state.Phase != machine.PhaseEnded {
			return st.r
		}
	}
	r := b.e.target[k]
	if r == nil || b.state(r).Phase == machine.PhaseEnded {
		return nil
	}
	return r
}

// joinable returns the open run that an alert about a service joins, nil when there
// is none: one that alerts started, of the playbook if there is, which is not in
// quarantine; else the run of the playbook, whoever started it.
func (b *batch) joinable(playbook, service string) *run {
	var found *run
	consider := func(r *run) {
		s := b.state(r)
		if r.dead != nil || s.Phase == machine.PhaseEnded || s.Start.ByHand() || s.Start.Service.Name != service {
			return
		}
		if found == nil || s.Start.Playbook == playbook {
			found = r
		}
	}
	for _, r := range b.e.about[service] {
		consider(r)
	}
	for _, st := range b.runs {
		if st.fresh {
			consider(st.r)
		}
	}
	if found != nil {
		return found
	}
	return b.about(runKey{playbook: playbook, service: service})
}

// start stages a new run, with further alerts of it. The caller has made sure
// that no other is open about the same.
func (b *batch) start(s machine.Start, p *playbook.Playbook, also []playbook.Alert) error {
	b.recordPlaybooks()
	s.Override = b.set.Override(s.Playbook, s.Service.Name)
	r := b.e.newRun(s.Run, machine.State{})
	b.stage(r).fresh = true
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

// record adds a fact about the service itself.
func (b *batch) record(kind string, v any) {
	b.control = append(b.control, audit.Record{Kind: kind, Time: b.now, Data: encode(v)})
}

// write makes the batch durable.
func (b *batch) write() error {
	b.learn()
	appends, err := b.appends()
	if err != nil || len(appends) == 0 {
		return err
	}
	return b.e.append(appends...)
}

func (b *batch) appends() ([]audit.Append, error) {
	var out []audit.Append
	if len(b.dispatch) > 0 {
		out = append(out, audit.Append{Stream: dispatch.Stream, After: b.e.dispatch.Head(), Records: b.dispatch})
	}
	if recs := slices.Concat(b.control, dues(b.now, b.notices)); len(recs) > 0 {
		out = append(out, audit.Append{Stream: streamControl, After: audit.Any, Records: recs})
	}
	for _, st := range b.runs {
		if len(st.events) == 0 {
			continue
		}
		recs, err := records(st.events)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", audit.ErrInvalid, err)
		}
		out = append(out, audit.Append{Stream: streamOf(st.r.id), After: st.after, Records: recs})
	}
	if recs := slices.Concat(b.ladder, b.learned.Records(b.now)); len(recs) > 0 {
		out = append(out, audit.Append{Stream: ladder.Stream, After: audit.Any, Records: recs})
	}
	return out, nil
}

// publish makes what is durable true in memory, and sees to what follows.
func (b *batch) publish(in []*task) {
	e := b.e
	for _, st := range b.runs {
		if len(st.events) > 0 {
			st.r.setState(st.state)
		}
		e.ledger.Note(st.state, st.events)
		e.told.note(st.state, b.now)
		if e.dispatch.Note(st.state, st.events) {
			e.poke()
		}
		if st.fresh {
			e.register(st.r)
		}
	}
	e.ladder.Take(b.learned, b.now)
	if b.broke != nil {
		e.pauseAll(*b.broke)
	}
	e.library.recorded(b)
	for _, t := range in {
		if t.then != nil {
			t.then()
		}
	}
	for _, st := range b.runs {
		e.follow(st.r)
		e.announce(st.state, st.events)
		e.logRun(st.state, st.events)
	}
	for _, n := range b.notices {
		e.deliver(n)
	}
	e.o.Journal.Wake() // whoever looked between the append and now looks again
}

// append writes to the journal, once. An error that is neither a conflict nor an
// impossible record nor a journal that is full ends the executor.
func (e *Executor) append(batch ...audit.Append) error {
	before, after := "run-before-append", "run-after-append"
	if batch[0].Stream == dispatch.Stream {
		before, after = "dispatch-before-append", "dispatch-after-append"
	}
	if err := e.at(before); err != nil {
		return err
	}
	_, err := e.o.Journal.Append(e.ctx, batch...)
	switch {
	case err == nil:
		e.setStalled(nil)
		return e.at(after)
	case errors.Is(err, audit.ErrConflict), errors.Is(err, audit.ErrInvalid), isStall(err), e.ctx.Err() != nil:
		return err
	default:
		err = fmt.Errorf("append to the journal: %w", err)
		e.fail(err)
		return err
	}
}

// refoldAll folds anew what somebody else wrote.
func (e *Executor) refoldAll(b *batch) error {
	if len(b.dispatch) > 0 {
		if err := e.dispatch.Check(); err != nil {
			return err
		}
	}
	for _, st := range b.runs {
		if st.after == 0 || st.r.dead != nil {
			continue
		}
		if head, err := e.o.Journal.Head(streamOf(st.r.id)); err == nil && head != st.r.state.Head {
			e.refold(st.r)
		}
	}
	return nil
}

// runIDs makes ids that sort by the time of the start, also within a
// millisecond. Only the loop asks for them.
type runIDs struct{ entropy *ulid.MonotonicEntropy }

func newRunIDs() runIDs { return runIDs{entropy: ulid.Monotonic(rand.Reader, 0)} }

func (x runIDs) next(now time.Time) string {
	id, err := ulid.New(ulid.Timestamp(now), x.entropy)
	if err != nil { // ids of this millisecond are used up
		id = ulid.MustNew(ulid.Timestamp(now)+1, rand.Reader)
	}
	return "r-" + id.String()
}
