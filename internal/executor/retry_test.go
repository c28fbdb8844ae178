package executor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// busy is a world that refuses the first applies for now.
type busy struct {
	*world
	times int
	tried int
}

// Do implements Steps.
func (b *busy) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionApply && !e.Observe {
		if b.tried++; b.tried <= b.times {
			return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Throttled, Message: "later"}
		}
	}
	return b.world.Do(ctx, e)
}

// Between two attempts at a change that are minutes apart a freeze may begin:
// the second one asks the rules again. It is tried as often as the playbook
// says, and no more.
func TestRulesAreAskedBeforeALaterAttempt(t *testing.T) {
	for _, c := range []struct {
		name               string
		frozen             bool
		refused            int
		tried, applied     int
		outcome, mentioned string
	}{
		{"nothing speaks against it", false, 1, 2, 1, "resolved", ""},
		{"a freeze began", true, 1, 1, 0, "", "freeze"},
		{"refused each time", false, 9, 3, 0, "", "later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = loadSet(t, func(s string) string {
					return strings.Replace(s, "with: {to: '${look.value + 1}'}", "with: {to: '${look.value + 1}'}\n      retry: {attempts: 3, backoff: 3m}", 1)
				})
				b := &busy{world: h.world, times: c.refused}
				began := time.Now()
				h.options = func(o *Options) {
					o.Guards = guard.Config{EvidenceAge: time.Hour}
					o.Steps = b
					o.Policy = rules(func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
						if c.frozen && time.Since(began) > time.Minute {
							return machine.Terms{}, machine.GuardVerdict{Why: "freeze"}
						}
						return machine.Terms{}, machine.GuardVerdict{OK: true}
					})
				}
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(14 * time.Minute)
				id := h.only().Start.Run
				events, err := h.e.RunEvents(id)
				if err != nil {
					t.Fatal(err)
				}
				said := c.mentioned == ""
				for _, ev := range events {
					said = said || strings.Contains(ev.Message, c.mentioned)
				}
				s := h.only()
				if b.tried != c.tried || h.world.count("apply") != c.applied || !said || c.outcome != "" && (s.Ending == nil || string(s.Ending.Outcome) != c.outcome) {
					t.Errorf("tried %d times, want %d; applied %d, want %d; %s %+v", b.tried, c.tried, h.world.count("apply"), c.applied, s.Phase, s.Ending)
				}
			})
		})
	}
}
