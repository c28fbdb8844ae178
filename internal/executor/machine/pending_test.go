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
