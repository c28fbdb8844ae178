package executor

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// LoanReturn is the name of the playbook whose runs give loans back. A loan is
// such a run: it waits until the service has recovered and then changes back
// what was kept for the incident, under the same guards as any other change. It
// is started in one batch with the end of the run that owes it, so that neither
// is ever there without the other. That of an early loan is started with the loan.
const LoanReturn = playbook.LoanReturn

// returnLoans stages the runs that give back what a run kept for its incident.
// A loan that no run can return is owed by people, who are told at once.
func (b *batch) returnLoans(from machine.State) {
	for _, l := range from.Loans {
		if !l.Early && b.about(runKey{LoanReturn, from.Start.Service.Name, l.ID}) == nil {
			b.returnOrTell(from, l)
		}
	}
}

// watchLoans does the same for early loans that the events of a run make.
func (b *batch) watchLoans(from machine.State, events []machine.Event) {
	for i := range events {
		if l := events[i].Loan; l != nil && l.Early {
			b.returnOrTell(from, *l)
		}
	}
}

func (b *batch) returnOrTell(from machine.State, l machine.Loan) {
	if err := b.returnLoan(from, l); err != nil {
		b.notices = append(b.notices, machine.Effect{
			Key: l.ID + "/loan", Run: from.Start.Run, Playbook: from.Start.Playbook, State: l.State,
			Service: from.Start.Service, Alert: from.Start.Alert, Urgent: true,
			Text: fmt.Sprintf("%s: %s stays in place, and no run will take it back: %v. Take it back by hand when the service has recovered.", from.Start.Service.Name, l.Summary, err),
		})
	}
}

func (b *batch) returnLoan(from machine.State, l machine.Loan) error {
	p := b.set.ByName(LoanReturn)
	if p == nil {
		return fmt.Errorf("playbook %s is not loaded", LoanReturn)
	}
	start := machine.Start{
		Run: b.e.ids.next(b.now), Playbook: p.Name, Digest: p.Digest, Service: b.serviceNow(from.Start.Service), Autonomy: b.e.o.Autonomy,
		By: "responder", Reason: fmt.Sprintf("run %s: %s", from.Start.Run, l.Summary), Loan: l.ID,
		Alert: playbook.Alert{Labels: loanLabels(l), StartsAt: b.now},
	}
	b.e.belowLoans(start, from.Loans)
	if err := b.start(start, p, nil); err != nil {
		b.unstageFresh(start.Run)
		return err
	}
	return nil
}

// serviceNow returns the service as the catalog has it now, else as the run had
// it.
func (b *batch) serviceNow(was playbook.Service) playbook.Service {
	if b.e.o.Catalog == nil {
		return was
	}
	all, _ := b.e.o.Catalog() //nolint:errcheck // a service that cannot be looked up now is as the run had it
	if i := slices.IndexFunc(all, func(s playbook.Service) bool { return s.Name == was.Name }); i >= 0 {
		return all[i]
	}
	return was
}

// loanLabels are what the playbook reads of a loan, in the place of an alert's
// labels: the lever, its parameters as text, and the change in words.
func loanLabels(l machine.Loan) map[string]string {
	labels := map[string]string{"loan": l.ID, "lever": l.Step, "change": l.Summary}
	for name, v := range l.Back {
		switch v.(type) {
		case string, float64, int, int64, bool:
			labels[name] = fmt.Sprint(v)
		default: // no one value: only a person can give it back
			return map[string]string{"loan": l.ID, "lever": "", "change": l.Summary}
		}
	}
	if len(l.Back) == 0 {
		labels["lever"] = ""
	}
	return labels
}

// belowLoans lowers the number of replicas that a loan's return stops at to what was
// there before the first loan that the service still has: of the same run, or of an
// earlier one. Loans are returned in any order, so that what an earlier one added may be
// gone by then. The bounds that an autoscaler had before the first loan go along.
func (e *Executor) belowLoans(loan machine.Start, same []machine.Loan) {
	labels := loan.Alert.Labels
	above, err := strconv.Atoi(labels[loanAbove])
	if err != nil {
		return // it adds no replicas
	}
	lower := func(of map[string]string) {
		n, err := strconv.Atoi(of[loanAbove])
		if err != nil || of["lever"] != labels["lever"] || n >= above {
			return
		}
		above = n
		if bounds := of[loanBounds]; bounds != "" && labels[loanBounds] != "" {
			labels[loanBounds] = bounds
		}
	}
	for _, l := range same {
		lower(loanLabels(l))
	}
	for _, r := range e.openRuns() {
		if s := r.view(); s.Start.Loan != "" && s.Start.Service.Name == loan.Service.Name && s.Phase != machine.PhaseEnded {
			lower(s.Start.Alert.Labels)
		}
	}
	labels[loanAbove] = strconv.Itoa(above)
}

// Labels of a loan of replicas.
const (
	loanAbove  = "above"  // replicas before the loan
	loanBounds = "bounds" // bounds of the autoscaler before the loan; empty: none owns the replicas
)

// incident returns an open run on the service of a loan whose alerts fire; empty:
// there is none.
func (e *Executor) incident(loan machine.Start) string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for id, r := range e.open {
		s := r.view()
		if id != loan.Run && s.Start.Loan == "" && s.Start.Service.Name == loan.Service.Name && !s.Start.ByHand() && s.Firing() {
			return id
		}
	}
	return ""
}
