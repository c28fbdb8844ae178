package executor

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// A gate state goes through the same list as a lever: the policy is asked before
// it is opened and again about who said yes, and guards about a change are not.
func TestPolicyIsAskedAboutGateStates(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		var actors []string
		h.options = func(o *Options) {
			o.Policy = rules(func(in guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
				if in.State.Kind != playbook.StateGate || in.Run.Lever != nil {
					t.Errorf("asked about %s with lever %v", in.State.Name, in.Run.Lever)
				}
				if a := in.Run.Consent().Approved; a != nil {
					actors = append(actors, a.By)
				} else {
					actors = append(actors, "nobody")
				}
				return machine.Terms{Needs: []machine.Need{{Rule: "policy two", From: []string{"user:ada", "user:bob"}, Quorum: 2}}}, machine.GuardVerdict{OK: true}
			})
		}
		h.start()
		h.post(alertOf("Ask", "a"))
		h.pass(time.Minute)
		s := h.only()
		if s.Gate == nil || len(s.Gate.Needs) != 2 {
			t.Fatalf("the run is %s, gate %+v", s.Phase, s.Gate)
		}
		var names []string
		for _, g := range s.Consent().Guards {
			names = append(names, g.Guard)
		}
		if got := strings.Join(names, " "); got != "paused policy autonomy" {
			t.Errorf("guards asked: %s", got)
		}
		for _, who := range []string{"ada", "bob"} {
			if err := h.e.Command(t.Context(), s.Start.Run, yes(who)); err != nil {
				t.Fatal(err)
			}
		}
		h.pass(time.Minute)
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved || strings.Join(actors, " ") != "nobody user:bob" {
			t.Errorf("the run is %s, asked on the word of %v", s.Phase, actors)
		}
		if f := h.e.Figures(); len(f.Locks) != 0 {
			t.Errorf("a gate took locks: %+v", f.Locks)
		}
	})
}

// What a policy refuses, or panics over, is not asked: the run takes the gate's
// safe way and says why.
func TestPolicyRefusesGateStates(t *testing.T) {
	for name, policy := range map[string]rules{
		"never": func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
			return machine.Terms{}, machine.GuardVerdict{Why: "policy no-questions, policy.yaml:14: never"}
		},
		"panic": func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) { panic("never") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.options = func(o *Options) { o.Policy = policy }
				h.start()
				h.post(alertOf("Ask", "a"))
				h.pass(time.Minute)
				s := h.only()
				if s.Asked != 0 || s.Ending == nil || s.Ending.Outcome != machine.OutcomeNoAction {
					t.Fatalf("asked %d times, the run is %s: %+v", s.Asked, s.Phase, s.Ending)
				}
				why := s.Path[len(s.Path)-2].Edge
				if !strings.Contains(why, "not opened: policy:") || !strings.Contains(why, "never") {
					t.Errorf("left by %q", why)
				}
			})
		})
	}
}
