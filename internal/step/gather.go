package step

import (
	"context"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// A check of a gather that fails for a reason that may pass is tried again
// within the time of the state. A server that cannot be reached is waited for as long
// as that lasts: an upgrade or a restart takes it away for a minute.
const (
	gatherAttempts = 3
	gatherBackoff  = 2 * time.Second  // before the second attempt, doubled after
	gatherPause    = 8 * time.Second  // at most
	gatherOnce     = 27 * time.Second // of one attempt, or three tenths of the time that the playbook sets
	gatherReserve  = 10               // of the state's time, the tenth that is left to report in
)

// gather runs the checks of a gather side by side. It always succeeds: a check
// that fails, or does not answer in time, is in the outcome with its reason.
func (s *Set) gather(ctx context.Context, e machine.Effect, in Input) machine.Outcome {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout-e.Timeout/gatherReserve)
	defer cancel()
	type answer struct {
		i int
		g machine.Gathered
	}
	answers := make(chan answer, len(e.Gather)) // buffered: a check that ignores its context blocks nobody
	for i, a := range e.Gather {
		go func() { answers <- answer{i, s.gatherOne(ctx, e, in, a)} }()
	}
	out := make([]machine.Gathered, len(e.Gather))
	for i, a := range e.Gather {
		out[i] = machine.Gathered{Name: a.Name, Step: a.Step, Reason: fault.Timeout, Why: fmt.Sprintf("%s: no answer within %s", a.Step, e.Timeout)}
	}
	take := func(a answer) { out[a.i] = a.g }
	for range e.Gather {
		select {
		case a := <-answers:
			take(a)
			continue
		case <-ctx.Done():
		}
		select { // most checks answer a moment after their context ends
		case a := <-answers:
			take(a)
		case <-time.After(e.Timeout / gatherReserve / 2):
			return machine.Outcome{Status: machine.StatusOK, Gathered: out}
		}
	}
	return machine.Outcome{Status: machine.StatusOK, Gathered: out}
}

// gatherOne runs one check of a gather.
func (s *Set) gatherOne(ctx context.Context, e machine.Effect, in Input, a machine.Asked) (g machine.Gathered) {
	g = machine.Gathered{Name: a.Name, Step: a.Step}
	if a.Why != "" {
		g.Reason, g.Why = fault.Expression, a.Why
		return g
	}
	defer func() {
		if p := recover(); p != nil {
			s.deps.Log.Error("step panicked", "run", e.Run, "step", a.Step, "panic", p)
			g.Data, g.Facts, g.Reason, g.Why = nil, nil, fault.Panic, fmt.Sprintf("%s panicked: %v", a.Step, p)
		}
	}()
	e.Step, in.With = a.Step, a.With
	for pause, attempt := gatherBackoff, 1; ; pause, attempt = min(2*pause, gatherPause), attempt+1 {
		o, late := s.attempt(ctx, e, in)
		if o.Status == machine.StatusOK {
			g.Data, g.Facts, g.Reason, g.Why = o.Data, o.Facts, "", ""
			return g
		}
		if attempt == 1 || ctx.Err() == nil { // a context that has ended hides the cause
			g.Reason, g.Why = o.Reason, o.Message
		}
		if !o.Reason.Retryable() || late || attempt >= gatherAttempts && o.Reason != fault.Unreachable {
			return g
		}
		select {
		case <-ctx.Done():
			return g
		case <-time.After(pause):
		}
	}
}

// attempt runs a check once, and reports whether it took all the time of an attempt:
// then another one would be as late.
func (s *Set) attempt(ctx context.Context, e machine.Effect, in Input) (out machine.Outcome, late bool) {
	ctx, cancel := context.WithTimeout(ctx, max(gatherOnce, e.Timeout*3/10))
	defer cancel()
	out = s.check(ctx, e, in)
	return out, ctx.Err() != nil
}
