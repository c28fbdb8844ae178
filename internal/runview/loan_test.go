package runview

import (
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// A loan is over when the replicas are back, even if the service is not well then.
// A run that ended in any other way leaves it owed.
func TestLoanStatus(t *testing.T) {
	for _, c := range []struct {
		status, state, want string
		over                bool
	}{
		{string(machine.PhaseWatching), "recovered", "waits for recovery", false},
		{string(machine.PhaseWatching), stillOwed, owed, false},
		{string(machine.PhaseWatching), holding, "until the release is replaced", false},
		{string(machine.PhaseWatching), later, "its end was refused, and is tried again", false},
		{string(machine.PhaseDeciding), "give-back", "asks to return it", false},
		{string(machine.OutcomeResolved), "returned", "returned", true},
		{string(machine.OutcomeEscalated), returnedUnwell, "returned, and the service is not well", true},
		{string(machine.OutcomeEscalated), "escalated", owed, false},
		{string(machine.OutcomeUndoFailed), "give-back", owed, false},
		{string(machine.OutcomeCanceled), "recovered", "kept", true},
		{string(machine.OutcomeCanceled), holding, "kept: rollouts stay paused until a person resumes them", true},
	} {
		r := api.RunSummary{Status: c.status, State: c.state}
		if c.state == holding || c.state == later {
			r.LoanLever = HoldLever
		}
		if got := LoanStatus(r); got != c.want || LoanIsOver(r) != c.over {
			t.Errorf("%s in %s: %q, over %v, want %q, %v", c.status, c.state, got, LoanIsOver(r), c.want, c.over)
		}
	}
}
