package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// run is one open run.
type run struct {
	id string

	// mu: its holder owns the run. Deciding, appending and folding happen
	// under it, so the state is always that of the stream's head. It is never
	// held while an effect runs.
	mu    sync.Mutex
	state machine.State
	dead  error // set aside: nothing is decided any more, until it is released

	deadAt time.Time   // when it was set aside
	loaded bool        // folded at the start and not resumed yet: nothing may begin
	flight *flight     // the effect under way, at most one
	timer  *timerEntry // guarded by timers.mu
}

// flight is an effect under way.
type flight struct {
	effect machine.Effect
	cut    context.CancelFunc
}

// runKey is what at most one open run is about.
type runKey struct{ playbook, service string }

func keyOf(s machine.Start) runKey { return runKey{s.Playbook, s.Service.Name} }

// view gives the state as it is now.
func (r *run) view() machine.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if r.dead != nil && s.Phase != machine.PhaseEnded {
		s.Aside = &machine.Aside{Message: r.dead.Error(), At: r.deadAt}
	}
	return s
}

// standing says where the run is, without a copy of its state.
func (r *run) standing() Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil {
		return Standing{r.state.Start.Playbook, SetAside}
	}
	return Standing{r.state.Start.Playbook, r.state.Phase}
}

// command hands a command to a run: decide, append, fold, and see to what
// follows. The error is the machine's or the journal's.
func (e *Executor) command(r *run, c machine.Command) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.turn(r, c)
}

// turn is command for whoever owns the run. Where the run has to be handed over
// to one that is busy, it is given up for a moment and then decided afresh; the
// outcome of its effect is not lost meanwhile, because no effect begins while
// the flight is there.
func (e *Executor) turn(r *run, c machine.Command) error {
	many := false
	for range 4 {
		if r.dead != nil {
			return fmt.Errorf("%w: run %s is set aside (%w); look what it left behind, then release it", ErrConflict, r.id, r.dead)
		}
		b := e.batch()
		b.of, b.many = r, many
		refused, err := b.decide(r, c)
		if err != nil {
			b.drop(err)
			b.giveBack()
			if !errors.Is(err, errContended) {
				e.setAside(r, err)
				return err
			}
			r.mu.Unlock()
			e.many.Lock()
			r.mu.Lock()
			defer e.many.Unlock()
			many = true
			continue
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
		e.setAside(r, err)
		return err
	}
	e.log.Warn("run was written by somebody else and is folded anew", "run", r.id, "head", s.Head)
	r.state = s
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
	s := r.state
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
	at, ok := machine.NextWake(r.state)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil || r.state.Phase == machine.PhaseEnded {
		return
	}
	before := r.state.Head
	if err := e.turn(r, machine.Command{Kind: machine.CmdTick, Now: now}); err != nil {
		e.log.Debug("tick failed", "run", r.id, "err", err)
		return
	}
	if at := r.wakeAt(); r.state.Head == before && r.flight == nil && !at.IsZero() && !at.After(now) {
		e.timers.set(r, now.Add(time.Second)) // nothing came of it: do not spin
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ok || !e.alive() || r.dead != nil {
		r.flight = nil
		if e.alive() && r.dead == nil {
			e.follow(r) // the effect was cut off because another is owed
		}
		return
	}
	err := e.turn(r, machine.Command{
		Kind: machine.CmdOutcome, Now: e.clock.now(), Effect: f.effect.Key, Attempt: f.effect.Attempt, Outcome: &out,
	})
	if r.flight == f {
		r.flight = nil // it could not be decided
	}
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
	if survived, ok = e.careful.enter(ctx, placeOfEffect(eff)); !ok {
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
	now, ok := machine.Pending(r.state)
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
	out = machine.Outcome{Status: machine.StatusFailed, Reason: machine.ReasonPanic, Message: eff.Step + ": " + err.Error()}
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

// find gives an open run.
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
