package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// run is one run of the past, up to its first change.
type run struct {
	id     string
	s      machine.State
	events []machine.Event
	steps  *step.Set
	past   *past
	first  time.Time // when it began

	end    end
	closed bool // no alert joins it any more
}

// end is how far the past carries a run.
type end struct {
	at      time.Time // zero: it goes on
	kind    string    // see [Ends]
	state   string
	step    string         // proposed: kind of the lever
	with    map[string]any // and its parameters
	message string
}

// How a run ends in a replay, beside the outcomes of runs.
const (
	EndProposed = "proposed"  // it came to a lever
	EndAsked    = "asked"     // it came to a gate, which people decide
	EndUnknown  = "no-answer" // Prometheus could not be asked
	EndPresent  = "under-way" // it reaches into the future
)

func (r *run) over() bool { return !r.end.at.IsZero() }

// due returns when the run goes on by itself; false: it does not.
func (r *run) due(now time.Time) (time.Time, bool) {
	if r.over() {
		return time.Time{}, false
	}
	at, ok := machine.NextWake(r.s)
	if e, owed := machine.Pending(r.s); owed {
		at, ok = e.NotUntil, true
	}
	if at.Before(now) {
		at = now
	}
	return at, ok || r.s.Phase == machine.PhaseDeciding
}

// patience is how long a check may take in real time: it waits for its turn, too.
const patience = 2 * time.Minute

// answer carries out the effect that the run owes. No effect changes anything: a
// lever ends the run, and messages reach nobody. done is false where the run is over.
func (r *run) answer(ctx context.Context, e machine.Effect, now time.Time) (out machine.Outcome, done bool) {
	st := r.s.Playbook.State(r.s.Current)
	switch {
	case e.Action == machine.ActionPlan && st != nil && st.Kind == playbook.StateLever:
		r.end = end{at: now, kind: EndProposed, state: r.s.Current, step: e.Step, with: withoutDefaults(e)}
		return out, false
	case e.Action == machine.ActionCheck, e.Action == machine.ActionPlan:
		e.Timeout = patience
		out = r.steps.Do(ctx, e)
		if err := r.past.away(); err != nil {
			r.end = end{at: now, kind: EndUnknown, state: r.s.Current, message: err.Error()}
			return out, false
		}
		return out, true
	case e.Action == machine.ActionNotify:
		return machine.Outcome{Status: machine.StatusOK}, true
	case e.Action == machine.ActionGuard && st != nil && st.Kind == playbook.StateGate:
		return machine.Outcome{Status: machine.StatusOK, Guards: []machine.GuardVerdict{{Guard: "firing", OK: true, Why: "a replay asks no guards"}}}, true
	default: // unreachable: what follows a plan is not reached
		r.end = end{at: now, kind: EndUnknown, state: r.s.Current, message: fmt.Sprintf("a replay cannot %s", e.Action)}
		return out, false
	}
}

// withoutDefaults returns the parameters of an effect that are not the defaults of its
// kind.
func withoutDefaults(e machine.Effect) map[string]any {
	out := maps.Clone(e.With)
	for _, f := range kinds.All()[e.Step].Decl.With {
		if f.Default != nil && fmt.Sprint(f.Default) == fmt.Sprint(out[f.Name]) {
			delete(out, f.Name)
		}
	}
	return out
}

// noted takes what happened to the run.
func (r *run) noted(s machine.State, events []machine.Event) {
	r.s = s
	if r.over() {
		return // what would be after the first change
	}
	r.events = append(r.events, events...)
	for _, e := range events {
		if e.Kind == machine.RunEnded {
			r.end = end{at: e.At, kind: string(e.Ending.Outcome), state: s.Current, message: e.Ending.Message}
		}
	}
}

// unknown returns the evidence that a run did not have, each with the reason.
func (r *run) unknown() []string {
	var out []string
	add := func(name, why string) {
		if text := name + ": " + why; !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, e := range r.events {
		for _, g := range e.Gathered {
			if g.Why != "" {
				add(g.Name, g.Why)
			}
		}
		if e.Kind == machine.EffectFailed || e.Kind == machine.WaitLooked && e.Reason != "" {
			add(e.State, strings.TrimSpace(e.Message))
		}
	}
	return out
}
