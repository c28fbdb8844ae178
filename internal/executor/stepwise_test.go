package executor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// inSteps is the world with a lever that makes its change step by step. It counts the
// steps.
type inSteps struct {
	*world

	steps *int
}

// Do implements Steps.
func (w inSteps) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionSettle {
		if e.Paused != "" {
			return machine.Outcome{Status: machine.StatusPending, Message: "1 of 2; paused: " + e.Paused}
		}
		*w.steps++
	}
	out := w.world.Do(ctx, e)
	if out.Plan != nil {
		plan := *out.Plan
		plan.Stepwise, plan.Staged, out.Plan = true, time.Minute, &plan
	}
	return out
}

// What may stop a change before it begins stops its steps too: a freeze, another policy,
// a lowered level. It is a pause of them and no failure, its time does not count, and the
// change itself is no reason for it.
func TestStopsHoldBetweenSteps(t *testing.T) {
	allowed := machine.GuardVerdict{OK: true, Why: "no rule applies"}
	for name, tt := range map[string]struct {
		stop func(verdict *machine.GuardVerdict, terms *machine.Terms, level *playbook.Autonomy)
		why  string
	}{
		"a freeze": {func(v *machine.GuardVerdict, _ *machine.Terms, _ *playbook.Autonomy) {
			*v = machine.GuardVerdict{Why: "frozen"}
		}, "policy: frozen"},
		"a level": {func(_ *machine.GuardVerdict, _ *machine.Terms, l *playbook.Autonomy) {
			*l = playbook.Suggest
		}, "autonomy: lowered to suggest since the run began under auto"},
		"a cap": {func(_ *machine.GuardVerdict, terms *machine.Terms, _ *playbook.Autonomy) {
			terms.Cap = &machine.Cap{Level: playbook.Observe, Rule: "policy x"}
		}, "autonomy: it is observe now"},
		"two people": {func(_ *machine.GuardVerdict, terms *machine.Terms, _ *playbook.Autonomy) {
			terms.Needs = twoOf("oncall").Needs
		}, "policy: it asks for an approval now"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				steps, level, verdict, terms := 0, playbook.Auto, allowed, machine.Terms{}
				h.world.settles = 10 * time.Minute
				h.options = func(o *Options) {
					o.Steps = inSteps{h.world, &steps}
					o.Catalog = func() ([]playbook.Service, error) {
						return []playbook.Service{{Name: "a", Autonomy: level}}, nil
					}
					o.Policy = rules(func(in guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
						if n, known := in.Count(guard.Acts{Service: "a", Since: in.Now.Add(-time.Hour)}); n != 0 || !known || in.Run.Levers != 0 {
							return terms, machine.GuardVerdict{Why: "it counts itself"}
						}
						return terms, verdict
					})
				}
				h.start()
				h.post(alertOf("Slow", "a"))
				h.passUntil(func() bool { return steps > 0 })
				if s := h.only(); s.Paused != "" {
					t.Fatalf("stopped before anything was changed: %s", s.Paused)
				}
				tt.stop(&verdict, &terms, &level)
				h.pass(time.Minute)
				before := steps
				h.pass(3 * time.Hour)
				if s := h.only(); steps != before || s.Phase != machine.PhaseSettling || !strings.HasSuffix(s.Paused, tt.why) {
					t.Fatalf("%d steps more, the run is %s, paused by %q, want %q", steps-before, s.Phase, s.Paused, tt.why)
				}
				h.restart()
				h.pass(time.Hour)
				if s := h.only(); steps != before || s.Phase != machine.PhaseSettling {
					t.Fatalf("after a restart: %d steps more, the run is %s", steps-before, s.Phase)
				}
				verdict, terms, level = allowed, machine.Terms{}, playbook.Auto
				h.pass(time.Minute)
				h.passUntil(func() bool { return h.only().Ending != nil })
				if s := h.only(); steps == before || s.Ending.Outcome != machine.OutcomeResolved || s.Paused != "" {
					t.Errorf("%d steps after it, the run ended %+v, paused by %q", steps-before, s.Ending, s.Paused)
				}
			})
		})
	}
}
