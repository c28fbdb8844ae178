package runview

import (
	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// LoanReturn is the playbook whose runs are the loans.
const LoanReturn = playbook.LoanReturn

// States of that playbook that tell where a loan stands.
const (
	stillOwed      = "still-owed"      // it waits for a person
	holding        = "holding"         // it watches until the release that is held is replaced
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
		return "waits for recovery"
	case string(machine.PhaseDeciding):
		return "asks to return it"
	case string(machine.OutcomeResolved):
		return "returned"
	case string(machine.OutcomeCanceled), string(machine.OutcomeNoAction):
		return "kept"
	case string(machine.OutcomeEscalated), string(machine.OutcomeHandedOver), string(machine.OutcomeUndoFailed), string(machine.OutcomeReleased):
		return owed
	default:
		return r.Status
	}
}
