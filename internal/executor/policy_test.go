package executor

import (
	"errors"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// rules are a policy of the test's own.
type rules func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict)

// Terms implements Policy.
func (r rules) Terms(in guard.PolicyInput) (machine.Terms, machine.GuardVerdict) { return r(in) }

func allow(terms machine.Terms) rules {
	return func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
		return terms, machine.GuardVerdict{OK: true, Why: "2 rules apply"}
	}
}

func twoOf(group string) machine.Terms {
	return machine.Terms{Needs: []machine.Need{{Rule: "policy two, policy.yaml:4", From: []string{"group:" + group}, Quorum: 2}}}
}

func yes(by string) machine.Command {
	return machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{Approve: true, By: "user:" + by, Person: true, Groups: []string{"oncall"}}}
}

// A playbook that may act alone waits for two people when the policy says so,
// their votes survive a restart, and one person is never two.
func TestPolicyAsksForTwo(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Policy = allow(twoOf("oncall")) }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		id := h.only().Start.Run
		if err := h.e.Command(t.Context(), id, yes("ada")); err != nil {
			t.Fatal(err)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		if err := h.e.Command(t.Context(), id, yes("ada")); !errors.Is(err, ErrConflict) {
			t.Errorf("ada voted twice: %v", err)
		}
		h.pass(time.Minute)
		if n := h.world.count("apply"); n != 0 {
			t.Fatalf("%d applied with one yes of two", n)
		}
		if err := h.e.Command(t.Context(), id, yes("bob")); err != nil {
			t.Fatal(err)
		}
		h.pass(10 * time.Minute)
		if n := h.world.count("apply"); n != 1 || h.only().Ending == nil {
			t.Errorf("%d applied, %s", n, h.only().Phase)
		}
	})
}

// What a policy refuses, or panics over, is not done, and its words are kept.
func TestPolicyRefuses(t *testing.T) {
	for name, policy := range map[string]rules{
		"refused": func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
			return machine.Terms{}, machine.GuardVerdict{Why: "policy freeze, policy.yaml:14: not at night"}
		},
		"panic":    func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) { panic("the rules are broken") },
		"observes": allow(machine.Terms{Cap: &machine.Cap{Level: playbook.Observe, Rule: "policy canary, policy.yaml:2"}}),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.options = func(o *Options) { o.Policy = policy }
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(20 * time.Minute)
				if n := h.world.count("apply"); n != 0 {
					t.Errorf("%d applied", n)
				}
				if f := h.e.Figures(); len(f.Locks) != 0 {
					t.Errorf("locks are left: %+v", f)
				}
			})
		})
	}
}

// The policy is asked again after people said yes, and reads how much was done
// from the same books as the budget.
func TestPolicyIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		asked, terms := 0, twoOf("oncall")
		h.options = func(o *Options) {
			o.Policy = rules(func(in guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
				asked++
				if n, ok := in.Count(guard.Acts{Service: "a", Since: in.Now.Add(-time.Hour)}); n != 0 || !ok {
					t.Errorf("%d levers before the first, known %v", n, ok)
				}
				if _, ok := in.Count(guard.Acts{Since: in.Now.Add(-365 * 24 * time.Hour)}); ok {
					t.Error("a year is remembered")
				}
				return terms, machine.GuardVerdict{OK: true}
			})
		}
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		id := h.only().Start.Run
		terms = twoOf("captains") // while people think
		for _, who := range []string{"ada", "bob"} {
			if err := h.e.Command(t.Context(), id, yes(who)); err != nil {
				t.Fatal(err)
			}
		}
		h.pass(time.Minute)
		s := h.only()
		if asked != 2 || h.world.count("apply") != 0 || s.Gate == nil {
			t.Fatalf("policy asked %d times, %d applied, run is %s", asked, h.world.count("apply"), s.Phase)
		}
		if who := s.Gate.Who(); who != "2 of group:captains" {
			t.Errorf("asked now are %s", who)
		}
		replan := machine.Command{Kind: machine.CmdReplan, Decision: &machine.Decision{By: "user:eve", Person: true}}
		if err := h.e.Command(t.Context(), id, replan); !errors.Is(err, ErrForbidden) {
			t.Errorf("eve gets a fresh plan: %v", err)
		}
		replan.Decision.Groups = []string{"group:captains"}
		if err := h.e.Command(t.Context(), id, replan); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Second)
		if now := h.only(); now.Gate == nil || now.Gate.ID == s.Gate.ID {
			t.Errorf("no new question after the fresh plan: %s", now.Phase)
		}
	})
}
