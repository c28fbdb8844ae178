package runview

import (
	"fmt"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// LoanReturn is the playbook whose runs are the loans.
const LoanReturn = playbook.LoanReturn

// HoldLever is the kind of lever that holds a rollout.
const HoldLever = "rollout.hold"

// States of that playbook that tell where a loan stands.
const (
	stillOwed      = "still-owed"      // it waits for a person
	holding        = "holding"         // it watches until the release that is held is replaced
	later          = "later"           // the end of a hold was refused, and is tried again
	returnedUnwell = "returned-unwell" // it was given back, and people were told that the service is not well
)

// owed is the status of a loan that no run can return.
const owed = "owed: a person has to return it"

// LoanTable returns the table of loans, by the runs that give them back.
func LoanTable(runs []api.RunSummary) *Table {
	t := &Table{
		Columns: []Column{
			{Head: "LOAN"},
			{Head: "STATUS", Flex: true},
			{Head: "SERVICE", Flex: true},
			{Head: "CHANGE", Flex: true},
			{Head: "SINCE (UTC)", Wide: true},
			{Head: "OF", Wide: true},
			{Head: "WHY", Wide: true},
		},
		Empty: "nothing is on loan",
	}
	for _, r := range runs {
		t.Add(r.Run, LoanStatus(r), r.Service, r.Change, Time(r.Began), r.Loan, r.Why)
	}
	return t
}

// LoanIsOver reports whether a loan was returned, or is kept for good.
func LoanIsOver(r api.RunSummary) bool {
	switch machine.RunOutcome(r.Status) {
	case machine.OutcomeResolved, machine.OutcomeCanceled, machine.OutcomeNoAction:
		return true
	}
	return r.Status == string(machine.OutcomeEscalated) && r.State == returnedUnwell
}

// LoanStatus describes where a loan stands, by its run.
func LoanStatus(r api.RunSummary) string {
	if LoanIsOver(r) && r.State == returnedUnwell {
		return "returned, and the service is not well"
	}
	switch r.Status {
	case string(machine.PhaseWatching):
		if r.State == stillOwed {
			return owed
		}
		if r.State == holding {
			return "until the release is replaced"
		}
		if r.State == later {
			return "its end was refused, and is tried again"
		}
		return "waits for recovery"
	case string(machine.PhaseDeciding):
		return "asks to return it"
	case string(machine.OutcomeResolved):
		return "returned"
	case string(machine.OutcomeCanceled), string(machine.OutcomeNoAction):
		if r.LoanLever == HoldLever {
			return "kept: rollouts stay paused until a person resumes them"
		}
		return "kept"
	case string(machine.OutcomeEscalated), string(machine.OutcomeHandedOver), string(machine.OutcomeUndoFailed), string(machine.OutcomeReleased):
		return owed
	default:
		return r.Status
	}
}

// HoldKept describes what it means for a hold that nothing watches it any more.
func HoldKept(r api.Run) string {
	return fmt.Sprintf("nothing ends the hold of %s any more: every rollout of it waits, a fix too, until a person resumes it:\n  %s", r.Service, resumeCommand(r))
}

// HoldReturned describes what it means for a hold that it is to be returned now.
func HoldReturned(r api.Run) string {
	return fmt.Sprintf("rollouts of %s are resumed now if its pod template is no longer that of the release that is held; if it is, the hold stays.\n"+
		"To let that release go on: %s", r.Service, resumeCommand(r))
}

func resumeCommand(r api.Run) string {
	return fmt.Sprintf("kubectl -n %s rollout resume deployment/%s", r.ServiceSpec.Namespace, r.ServiceSpec.Workload.Name)
}
