package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// run is one open run. Its owner is whoever holds mu; everybody else reads what
// the owner published.
type run struct {
	id string

	// mu makes its holder the owner. Deciding, appending and folding happen
	// under it, so state is always that of the stream's head. It may be held for
	// as long as the journal takes, and is never held while an effect runs.
	mu sync.Mutex

	state  *machine.State // never changed in place, only replaced: see setState
	dead   error          // why the run is in quarantine: nothing is decided until a person releases it
	deadAt time.Time      // when it came into quarantine
	loaded bool           // folded at the start and not resumed yet: nothing may begin
	flight *flight        // the effect under way, at most one
	timer  *timerEntry    // guarded by timers.mu

	published atomic.Pointer[snapshot]
}

// snapshot is a run as its owner last published it. Reading it waits for nobody.
type snapshot struct {
	state  *machine.State
	dead   error
	deadAt time.Time
}

// newRun returns a run that nobody else knows yet.
func newRun(id string, s machine.State) *run {
	r := &run{id: id}
	r.setState(s)
	return r
}

// setState replaces the state and publishes it. The caller owns the run.
func (r *run) setState(s machine.State) {
	r.state = &s
	r.publish()
}

// quarantine marks the run as one that cannot be processed. The caller owns it.
func (r *run) quarantine(why error, at time.Time) {
	r.dead, r.deadAt = why, at
	r.publish()
}

func (r *run) publish() {
	r.published.Store(&snapshot{state: r.state, dead: r.dead, deadAt: r.deadAt})
}

// flight is an effect under way.
type flight struct {
	effect machine.Effect
	cut    context.CancelFunc
}

// runKey is what at most one open run is about.
type runKey struct{ playbook, service string }

func keyOf(s machine.Start) runKey { return runKey{s.Playbook, s.Service.Name} }

// view returns the state as it was last published.
func (r *run) view() machine.State {
	now := r.published.Load()
	s := *now.state
	if now.dead != nil && s.Phase != machine.PhaseEnded {
		s.Aside = &machine.Aside{Message: now.dead.Error(), At: now.deadAt}
	}
	return s
}

// standing returns playbook and phase without a copy of the state.
func (r *run) standing() Standing {
	now := r.published.Load()
	if now.dead != nil {
		return Standing{now.state.Start.Playbook, SetAside}
	}
	return Standing{now.state.Start.Playbook, now.state.Phase}
}

// owner is what the owner of a run may do with it.
type owner struct {
	e    *Executor
	r    *run
	many bool // Executor.many is held: other runs may be owned too
}

// own makes do the owner of a run. Where the run has to be handed over to another
// one, do is called a second time, as the owner of any number of runs; it must
// then look at the run afresh. No effect of the run begins in between as long as
// one is under way.
func (e *Executor) own(r *run, do func(o owner) error) error {
	err := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return do(owner{e: e, r: r})
	}()
	if !errors.Is(err, errHandsOver) {
		return err
	}
	e.many.Lock()
	defer e.many.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return do(owner{e: e, r: r, many: true})
}

// command hands a command to a run: decide, append, fold, and see to what
// follows. The error is the machine's or the journal's.
func (e *Executor) command(r *run, c machine.Command) error {
	return e.own(r, func(o owner) error { return o.turn(c) })
}

// turn decides a command, and commits what follows from it.
func (o owner) turn(c machine.Command) error {
	e, r := o.e, o.r
	for range 4 {
		if r.dead != nil {
			return fmt.Errorf("%w: run %s is set aside (%w); look what it left behind, then release it", ErrConflict, r.id, r.dead)
		}
		b := e.batch()
		b.of, b.many = r, o.many
		refused, err := b.decide(r, c)
		if err != nil {
			b.drop(err)
			b.giveBack()
			if !errors.Is(err, errHandsOver) {
				e.quarantineRun(r, err)
			}
			return err
		}
		err = e.settle(b)
		if errors.Is(err, audit.ErrConflict) {
			if err := e.refold(r); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			if c.Kind == machine.CmdOutcome {
				r.flight = nil
			}
			e.follow(r)
			err = refusal(refused)
		}
		return err
	}
	err := fmt.Errorf("run %s: somebody else keeps writing its stream; is a second executor running on this journal?", r.id)
	e.fail(err)
	return err
}

// refold brings a run whose stream somebody else wrote to its true state.
func (e *Executor) refold(r *run) error {
	s, err := e.fold(r.id)
	if err != nil {
		e.quarantineRun(r, err)
		return err
	}
	e.log.Warn("run was written by somebody else and is folded anew", "run", r.id, "head", s.Head)
	r.setState(s)
	return nil
}

// fold reads a run from the journal.
func (e *Executor) fold(id string) (machine.State, error) {
	return e.foldEach(id, func(machine.Event) {})
}

// foldEach is fold that shows each event too.
func (e *Executor) foldEach(id string, each func(machine.Event)) (machine.State, error) {
	s := machine.State{}
	d, _ := e.decoders.Get().(*decoder)
	if d == nil {
		d = &decoder{recent: newTexts()}
	}
	defer e.decoders.Put(d)
	err := guarded(func() error {
		for rec, err := range e.o.Journal.Stream(streamOf(id), 0) {
			if err != nil {
				return fmt.Errorf("read run %s: %w", id, err)
			}
			ev, err := d.event(rec)
			if err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
			if ev.Kind == machine.RunStarted && ev.Start != nil && s.Playbook == nil {
				if s.Playbook, err = e.library.find(ev.Start.Playbook, ev.Start.Digest); err != nil {
					return fmt.Errorf("run %s: %w", id, err)
				}
			}
			s = machine.Evolve(s, ev)
			each(ev)
		}
		return nil
	})
	if err == nil && s.Head == 0 {
		err = fmt.Errorf("%w: run %s", ErrNotFound, id)
	}
	return s, err
}

// follow sees to what a run's new state asks for: its effect, its timer, its
// place in the projections. The caller owns the run.
func (e *Executor) follow(r *run) {
	s := *r.state
	e.wakeWaiters(e.ledger.sync(s))
	if s.Phase == machine.PhaseEnded {
		e.retire(r)
		return
	}
	eff, owed := machine.Pending(s)
	if f := r.flight; f != nil {
		gone := !owed || f.effect.Key != eff.Key || f.effect.Attempt != eff.Attempt
		if gone && !f.effect.Action.Mutates() {
			f.cut() // only a read: its outcome no longer matters
		}
		e.timers.set(r, r.wakeAt())
		return
	}
	if owed && !eff.NotUntil.After(e.clock.now()) {
		e.begin(r, eff)
	}
	e.timers.set(r, r.wakeAt())
}

// wakeAt is when to look at the run again; zero: not by itself.
func (r *run) wakeAt() time.Time {
	at, ok := machine.NextWake(*r.state)
	if !ok || (r.flight != nil && r.state.Gate == nil && r.state.Phase != machine.PhaseWaiting) {
		return time.Time{}
	}
	return at
}

// wake is called at a run's time.
func (e *Executor) wake(r *run) {
	if !e.alive() {
		return
	}
	now := e.clock.now()
	err := e.own(r, func(o owner) error {
		if r.dead != nil || r.state.Phase == machine.PhaseEnded {
			return nil
		}
		before := r.state.Head
		if err := o.turn(machine.Command{Kind: machine.CmdTick, Now: now}); err != nil {
			return err
		}
		if at := r.wakeAt(); r.state.Head == before && r.flight == nil && !at.IsZero() && !at.After(now) {
			e.timers.set(r, now.Add(time.Second)) // nothing came of it: do not spin
		}
		return nil
	})
	if err != nil {
		e.log.Debug("tick failed", "run", r.id, "err", err)
	}
}

// begin starts an effect. The caller owns the run.
func (e *Executor) begin(r *run, eff machine.Effect) {
	if r.loaded {
		return
	}
	ctx, cut := context.WithCancel(e.ctx)
	f := &flight{effect: eff, cut: cut}
	r.flight = f
	if !e.spawn(func() { e.work(ctx, r, f) }) {
		r.flight = nil
		cut()
	}
}

// work carries out effects of a run until it owes none now.
func (e *Executor) work(ctx context.Context, r *run, f *flight) {
	defer f.cut()
	out, survived, ok := e.perform(ctx, r, f.effect)
	defer survived() // also what is decided over its outcome
	err := e.own(r, func(o owner) error {
		if !ok || !e.alive() || r.dead != nil {
			r.flight = nil
			if e.alive() && r.dead == nil {
				e.follow(r) // the effect was cut off because another is owed
			}
			return nil
		}
		err := o.turn(machine.Command{
			Kind: machine.CmdOutcome, Now: e.clock.now(), Effect: f.effect.Key, Attempt: f.effect.Attempt, Outcome: &out,
		})
		if r.flight == f && !errors.Is(err, errHandsOver) {
			r.flight = nil // it could not be decided
		}
		return err
	})
	if err != nil && e.alive() {
		e.log.Error("outcome could not be recorded", "run", r.id, "kind", string(f.effect.Action), "err", err)
	}
}

// perform carries out one effect. It reports false when the outcome does not
// matter or must not be recorded: a read that was cut off, a stopped executor.
// survived is called when the outcome has been dealt with.
func (e *Executor) perform(ctx context.Context, r *run, eff machine.Effect) (out machine.Outcome, survived func(), ok bool) {
	nothing := func() {}
	if eff.Action == machine.ActionCheck || eff.Action == machine.ActionPlan {
		select {
		case e.slots <- struct{}{}:
			defer func() { <-e.slots }()
		case <-ctx.Done():
			return out, nothing, false
		}
	}
	if e.at("effect-before") != nil {
		return out, nothing, false
	}
	if survived, ok = e.crashes.enter(ctx, placeOfEffect(eff)); !ok {
		return out, nothing, false
	}
	if eff.Action == machine.ActionApply && !eff.Observe && !r.owes(eff) {
		return out, survived, false // a pause came while it waited for its turn
	}
	if eff.Action == machine.ActionGuard {
		out = e.guard(r)
	} else {
		out = e.do(ctx, eff)
	}
	if e.at("effect-after") != nil {
		return out, survived, false
	}
	return out, survived, eff.Action.Mutates() || ctx.Err() == nil
}

// owes reports whether the run still owes that attempt.
func (r *run) owes(eff machine.Effect) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := machine.Pending(*r.state)
	return ok && now.Key == eff.Key && now.Attempt == eff.Attempt
}

// placeOfEffect names one attempt at an effect.
func placeOfEffect(eff machine.Effect) string {
	return fmt.Sprintf("%s%s@%s/%d", prefixRun, eff.Run, eff.Key, eff.Attempt)
}

// do hands an effect to the steps. A panic is an outcome: unknown for changes,
// failed for reads, and never tried again by itself.
func (e *Executor) do(ctx context.Context, eff machine.Effect) (out machine.Outcome) {
	err := guarded(func() error {
		out = e.o.Steps.Do(ctx, eff)
		return nil
	})
	var p *panicError
	if !errors.As(err, &p) {
		return out
	}
	e.log.Error("step panicked", "run", eff.Run, "step", eff.Step, "kind", string(eff.Action), "err", err, "stack", string(p.stack))
	out = machine.Outcome{Status: machine.StatusFailed, Reason: fault.Panic, Message: eff.Step + ": " + err.Error()}
	if eff.Action.Mutates() {
		out.Status = machine.StatusUnknown
	}
	return out
}

// retire forgets an ended run; views fold it from the journal.
func (e *Executor) retire(r *run) {
	e.timers.set(r, time.Time{})
	if r.flight != nil {
		r.flight.cut()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[r.id] == r {
		delete(e.open, r.id)
		if k := keyOf(r.state.Start); e.target[k] == r {
			delete(e.target, k)
		}
		e.ended = append(e.ended, r.id)
	}
}

// find returns an open run.
func (e *Executor) find(id string) *run {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.open[id]
}

func (e *Executor) countOpen() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.open)
}

// wakeWaiters lets runs whose locks may be free ask their guards again.
func (e *Executor) wakeWaiters(ids []string) {
	for _, id := range ids {
		r := e.find(id)
		if r == nil {
			continue
		}
		e.spawn(func() {
			if err := e.command(r, machine.Command{Kind: machine.CmdRetry, Now: e.clock.now()}); err != nil && e.alive() {
				e.log.Error("waiting run could not be woken", "run", r.id, "err", err)
			}
		})
	}
}
