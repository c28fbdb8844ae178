package machine

import (
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// A proof knows that the change started every replica anew: then the first minutes
// tell nothing. That is so of a rollback, and of a flag, also of one given back.
func TestProofKnowsWhatStartsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		class    playbook.Class
		restarts bool
		loan     string
		want     bool
	}{
		"replicas":                     {playbook.ClassCapacity, false, "", false},
		"rollback":                     {playbook.ClassRollback, false, "", true},
		"flag":                         {playbook.ClassSetting, true, "", true},
		"flag that is given back":      {playbook.ClassSetting, true, "r-0/more#1", true},
		"replicas that are given back": {playbook.ClassCapacity, false, "r-0/more#1", false},
	} {
		p := testPlaybooks(t).ByName("numbers")
		p.State("more").Restarts = c.restarts
		s := State{Playbook: p, Current: "more", Open: &OpenEffect{At: epoch}, Start: Start{Loan: c.loan}, Lever: &Lever{Verify: &VerifySpec{}, Plan: &Plan{Class: c.class}}}
		e := Effect{Action: ActionVerify}
		s.leverEffect(&e)
		if e.Proof == nil || e.Proof.Anew != c.want {
			t.Errorf("%s: %+v, want %v", name, e.Proof, c.want)
		}
	}
}

// TestUndoKnowsWhy: an undo is told the verdict only where the objectives were measured
// with the change in effect. One that a person canceled, or that never came into
// effect, says nothing of what it took away.
func TestUndoKnowsWhy(t *testing.T) {
	slo := &VerifySpec{SLO: true}
	b := bench{t: t, state: State{Playbook: testPlaybooks(t).ByName("fates")}, now: epoch, value: 4}
	b.to(VerdictNoEffect)
	for _, tt := range []struct {
		name   string
		lever  Lever
		action Action
		want   Verdict
	}{
		{"no effect", Lever{Verify: slo, FixedAt: epoch, Signal: playbook.OnNoEffect}, ActionUndo, VerdictNoEffect},
		{"worse", Lever{Verify: slo, FixedAt: epoch, Signal: playbook.OnWorse}, ActionUndo, VerdictWorse},
		{"canceled", Lever{Verify: slo, FixedAt: epoch, Signal: playbook.OnInconclusive}, ActionUndo, ""},
		{"never in effect", Lever{Verify: slo, Signal: playbook.OnNoEffect}, ActionUndo, ""},
		{"another proof than the objectives", Lever{Verify: &VerifySpec{}, FixedAt: epoch, Signal: playbook.OnNoEffect}, ActionUndo, ""},
		{"looking back at it", Lever{Verify: slo, FixedAt: epoch, Signal: playbook.OnWorse}, ActionUnwind, ""},
	} {
		e := Effect{Action: tt.action}
		s := b.state
		s.Open, s.Lever = &OpenEffect{At: epoch}, &tt.lever
		s.leverEffect(&e)
		if e.Verdict != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, e.Verdict, tt.want)
		}
	}
}
