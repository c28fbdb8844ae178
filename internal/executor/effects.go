package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// follow sees to what a run's new state asks for: its effect, its timer, its
// place in the projections.
func (e *Executor) follow(r *run) {
	s := *r.state
	if r.dead != nil && s.Phase != machine.PhaseEnded {
		return // what it holds stays taken
	}
	e.wakeWaiters(e.ledger.Sync(s))
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
	now := e.clock.now()
	if owed && !eff.NotUntil.After(now) {
		e.begin(r, eff)
	}
	at := r.wakeAt()
	if r.idle == s.Head && r.flight == nil && !at.IsZero() && !at.After(now) {
		at = now.Add(time.Second) // nothing came of the last tick: do not spin
	}
	e.timers.set(r, at)
}

// wakeAt is when to look at the run again; zero: not by itself.
func (r *run) wakeAt() time.Time {
	at, ok := machine.NextWake(*r.state)
	if !ok || (r.flight != nil && r.state.Gate == nil && r.state.Phase != machine.PhaseWaiting) {
		return time.Time{}
	}
	return at
}

// ticks returns the tasks of runs whose time has come.
func (e *Executor) ticks() []*task {
	var out []*task
	for _, r := range e.timers.due() {
		head := r.state.Head
		t := &task{shared: true, ctx: context.Background(), done: make(chan error, 1)}
		t.decide = func(b *batch) error {
			if r.dead != nil || b.state(r).Phase == machine.PhaseEnded {
				return nil
			}
			return errors.Join(b.turn(r, machine.Command{Kind: machine.CmdTick, Now: b.now}))
		}
		t.then = func() {
			if r.state.Head == head {
				r.idle = head
			}
		}
		out = append(out, t)
	}
	return out
}

// begin starts an effect.
func (e *Executor) begin(r *run, eff machine.Effect) {
	if r.loaded {
		return
	}
	ctx, cut := context.WithCancel(e.ctx)
	f := &flight{effect: eff, cut: cut}
	r.flight = f
	// It waits here, not further down: thousands may wait, each with its stack.
	if !e.spawn(func() {
		free, ok := e.slot(ctx, eff.Action)
		e.work(ctx, r, f, free, ok)
	}) {
		r.flight = nil
		cut()
	}
}

// slot waits until an observation may be made and returns the function that frees its
// slot. It reports false when ctx ended first. A change does not wait.
func (e *Executor) slot(ctx context.Context, action machine.Action) (free func(), ok bool) {
	if action != machine.ActionCheck && action != machine.ActionPlan {
		return func() {}, true
	}
	select {
	case e.slots <- struct{}{}:
		return func() { <-e.slots }, true
	case <-ctx.Done():
		return func() {}, false
	}
}

// work carries out an effect of a run, unless it was cut off before it began, and
// hands its outcome to the loop.
func (e *Executor) work(ctx context.Context, r *run, f *flight, free func(), ok bool) {
	defer f.cut()
	var out machine.Outcome
	var visit *visit
	if ok {
		out, visit, ok = e.perform(ctx, r, f.effect)
	}
	free()
	defer visit.survived() // also what is decided over its outcome
	landed := func() {
		if r.flight == f {
			r.flight = nil
		}
	}
	at := e.clock.now()
	var refused error
	err := e.do(context.WithoutCancel(ctx), &task{shared: true, then: landed, decide: func(b *batch) (err error) {
		if !ok || r.dead != nil {
			b.stage(r) // the effect was cut off because another is owed
			return nil
		}
		if f.effect.Action == machine.ActionGuard {
			out, at = e.guard(b.state(r)), b.now // they are asked only now
		}
		refused, err = b.turn(r, machine.Command{
			Kind: machine.CmdOutcome, Now: at, Effect: f.effect.Key, Attempt: f.effect.Attempt, Outcome: &out,
		})
		if err != nil {
			landed() // it cannot be decided
		}
		return err
	}})
	if why := err; errors.Is(why, audit.ErrInvalid) {
		e.later("quarantine", &task{shared: true, then: landed, decide: func(*batch) error {
			e.quarantineRun(r, fmt.Errorf("the outcome of %s cannot be recorded: %w", f.effect.Action, why))
			return nil
		}})
	}
	if err = cmp.Or(err, refused); err != nil && e.alive() {
		e.log.Error("outcome could not be recorded", "run", r.id, "kind", string(f.effect.Action), "err", err)
	}
}

// perform carries out one effect. It reports false when the outcome does not
// matter or must not be recorded: a read that was cut off, a stopped executor.
// The visit, nil where it never began, goes on until the outcome has been decided.
func (e *Executor) perform(ctx context.Context, r *run, eff machine.Effect) (out machine.Outcome, v *visit, ok bool) {
	if e.at("effect-before") != nil {
		return out, v, false
	}
	if v, ok = e.crashes.enter(ctx, placeOfEffect(eff)); !ok {
		return out, v, false
	}
	v.begin()
	switch eff.Action {
	case machine.ActionGuard: // the loop asks the guards, with the outcome
	case machine.ActionApply:
		why, owed := e.forbids(ctx, r, eff)
		if !owed {
			return out, v, false // a pause came while it waited for its turn
		}
		if why != "" {
			return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Guard, Message: "withdrawn before it went out: " + why}, v, true
		}
		out = e.step(ctx, eff)
	case machine.ActionSettle:
		if eff.Paused, ok = e.steps(ctx, r, eff); !ok {
			return out, v, false
		}
		out = e.step(ctx, eff)
	default:
		out = e.step(ctx, eff)
	}
	if e.at("effect-after") != nil {
		return out, v, false
	}
	return out, v, eff.Action.Mutates() || ctx.Err() == nil
}

// forbids asks the loop whether the run still owes that attempt at an apply, and
// why it may not go out now; an observation always may.
func (e *Executor) forbids(ctx context.Context, r *run, eff machine.Effect) (why string, owed bool) {
	err := e.do(ctx, &task{free: true, decide: func(*batch) error {
		s := *r.state
		now, ok := machine.Pending(s)
		owed = ok && r.dead == nil && now.Key == eff.Key && now.Attempt == eff.Attempt
		if owed && !eff.Observe {
			why = machine.Forbids(s, e.guard(s), e.clock.now())
		}
		return nil
	}})
	return why, owed && err == nil
}

// steps asks the loop whether a change that is made step by step may take its next step,
// and returns why not. The run records it, so that people read why it stands still and
// its deadline moves on. It reports false if the executor stopped.
func (e *Executor) steps(ctx context.Context, r *run, eff machine.Effect) (paused string, ok bool) {
	if eff.Plan == nil || !eff.Plan.Stepwise {
		return eff.Paused, true
	}
	err := e.do(ctx, &task{shared: true, decide: func(b *batch) error {
		err := b.tellPause(r)
		paused = b.state(r).Paused
		return err
	}})
	return paused, err == nil
}

// placeOfEffect names one attempt at an effect.
func placeOfEffect(eff machine.Effect) string {
	return fmt.Sprintf("%s%s@%s/%d", prefixRun, eff.Run, eff.Key, eff.Attempt)
}

// step hands an effect to the steps. A panic is an outcome: unknown for changes,
// failed for reads, and never tried again by itself.
func (e *Executor) step(ctx context.Context, eff machine.Effect) (out machine.Outcome) {
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
		e.unlist(r)
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

// wakeWaiters asks the guards again of runs whose locks may be free.
func (e *Executor) wakeWaiters(ids []string) {
	for _, id := range ids {
		r := e.find(id)
		if r == nil {
			continue
		}
		e.later("retry", &task{shared: true, decide: func(b *batch) error {
			if r.dead != nil {
				return nil
			}
			return errors.Join(b.turn(r, machine.Command{Kind: machine.CmdRetry, Now: b.now}))
		}})
	}
}
