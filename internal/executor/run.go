package executor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// run is one open run. The loop owns it; everybody else reads what the loop has
// published.
type run struct {
	id string

	state  *machine.State // that of the stream's head; never changed in place, only replaced: see setState
	dead   error          // why the run is in quarantine: nothing is decided until a person releases it
	deadAt time.Time      // when it came into quarantine
	loaded bool           // folded at the start and not resumed yet: nothing may begin
	flight *flight        // the effect under way, at most one
	timer  *timerEntry    // nil: it waits for no time
	idle   uint64         // the head at which nothing came of a tick

	published atomic.Pointer[snapshot]
	changes   *atomic.Uint64 // of all runs
}

// snapshot is a run as the loop last published it. Reading it waits for nobody.
type snapshot struct {
	state  *machine.State
	dead   error
	deadAt time.Time
}

// newRun returns a run that nobody else knows yet.
func (e *Executor) newRun(id string, s machine.State) *run {
	r := &run{id: id, changes: &e.changes}
	r.setState(s)
	return r
}

// setState replaces the state and publishes it.
func (r *run) setState(s machine.State) {
	r.state = &s
	r.publish()
}

// quarantine marks the run as one that cannot be processed.
func (r *run) quarantine(why error, at time.Time) {
	r.dead, r.deadAt = why, at
	r.publish()
}

func (r *run) publish() {
	r.published.Store(&snapshot{state: r.state, dead: r.dead, deadAt: r.deadAt})
	r.changes.Add(1) // after it: who read the count before has read too old a state at most once
}

// flight is an effect under way.
type flight struct {
	effect machine.Effect
	cut    context.CancelFunc
}

// runKey is what at most one open run is about.
type runKey struct {
	playbook, service string
	loan              string // a service may owe several
}

func keyOf(s machine.Start) runKey { return runKey{s.Playbook, s.Service.Name, s.Loan} }

// view returns the state as it was last published. Nobody changes it.
func (r *run) view() *machine.State {
	now := r.published.Load()
	if now.dead == nil || now.state.Phase == machine.PhaseEnded {
		return now.state
	}
	s := *now.state
	s.Quarantine = &machine.Quarantine{Message: now.dead.Error(), At: now.deadAt}
	return &s
}

// standing returns playbook and phase without a copy of the state.
func (r *run) standing() Standing {
	now := r.published.Load()
	if now.dead != nil {
		return Standing{now.state.Start.Playbook, phaseQuarantined}
	}
	return Standing{now.state.Start.Playbook, now.state.Phase}
}

// at returns the name of the state that the run is in.
func (r *run) at() string { return r.published.Load().state.Current }

// command hands a person's command to a run and waits until what follows is durable. The
// error is the machine's or the journal's.
func (e *Executor) command(ctx context.Context, r *run, c machine.Command) error {
	var refused error
	err := e.do(ctx, &task{shared: true, person: true, decide: func(b *batch) (err error) {
		refused, err = b.turn(r, c)
		return err
	}})
	if err != nil {
		return err
	}
	return refusal(refused)
}

// refold brings a run whose stream somebody else wrote to its true state.
func (e *Executor) refold(r *run) {
	s, err := e.fold(r.id)
	if err != nil {
		e.quarantineRun(r, err)
		return
	}
	e.log.Warn("run was written by somebody else and is folded anew", "run", r.id, "head", s.Head)
	r.setState(s)
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
				return runError(id, err)
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
