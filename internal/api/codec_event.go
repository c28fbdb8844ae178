package api

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// EventOf returns the event of a run that has this position in it.
func EventOf(seq uint64, e machine.Event) Event {
	return Event{
		Seq: seq, Time: e.At.UTC(), Kind: string(e.Kind), State: e.State, Visit: e.Visit, To: e.To, Effect: e.Effect,
		Action: string(e.Action), Attempt: e.Attempt, ReadBack: e.Observe, NotBefore: utc(e.NotUntil), HeldFrom: utc(e.HeldFrom), Started: one(e.Start, startedOf),
		Alert: one(e.Alert, AlertOf), With: e.With, Data: e.Data, Facts: e.Facts, Plan: one(e.Plan, PlanOf), Digest: e.Digest,
		Gathered: some(e.Gathered, func(g machine.Gathered) Gathered {
			return Gathered{g.Name, g.Step, g.Data, g.Facts, string(g.Reason), g.Why}
		}),
		Examined: some(e.Examined, func(x machine.Examined) Examined { return Examined{x.Edge, x.To, string(x.Result), x.Why, x.Values} }),
		Guards:   some(e.Guards, GuardOf), Gate: one(e.Gate, gateOf), Tier: e.Tier, Decision: one(e.Decision, decisionOf),
		Sample: one(e.Sample, sampleOf), Verdict: string(e.Verdict), Then: string(e.Then), Loan: one(e.Loan, loanOf), WaitsFor: e.Waits, Once: e.Once, Reason: string(e.Reason), Message: e.Message,
		Ending: one(e.Ending, func(x machine.Ending) Ending {
			return Ending{Status: string(x.Outcome), Reason: string(x.Reason), Why: x.Message, DivertedTo: x.Divert}
		}),
	}
}

// Machine returns the machine's event as far as the answer has it: enough to
// show it.
func (e Event) Machine() machine.Event {
	return machine.Event{
		Kind: machine.EventKind(e.Kind), At: e.Time, State: e.State, Visit: e.Visit, To: e.To, Effect: e.Effect,
		Action: machine.Action(e.Action), Attempt: e.Attempt, Observe: e.ReadBack, NotUntil: e.NotBefore, HeldFrom: e.HeldFrom, Start: one(e.Started, Started.machine),
		Alert: one(e.Alert, Alert.Playbook), With: e.With, Data: e.Data, Facts: e.Facts, Plan: one(e.Plan, Plan.machine), Digest: e.Digest,
		Gathered: some(e.Gathered, func(g Gathered) machine.Gathered {
			return machine.Gathered{Name: g.Name, Step: g.Check, Data: g.Data, Facts: g.Facts, Reason: fault.Reason(g.Reason), Why: g.Unknown}
		}),
		Examined: some(e.Examined, func(x Examined) machine.Examined {
			return machine.Examined{Edge: x.Edge, To: x.To, Result: playbook.Truth(x.Result), Why: x.Why, Values: x.Values}
		}),
		Guards: some(e.Guards, Guard.machine), Gate: one(e.Gate, Gate.machine), Tier: e.Tier, Decision: one(e.Decision, Decision.machine),
		Sample: one(e.Sample, Sample.machine), Verdict: machine.Verdict(e.Verdict), Then: machine.Consequence(e.Then), Loan: one(e.Loan, Loan.machine), Waits: e.WaitsFor, Once: e.Once, Reason: fault.Reason(e.Reason), Message: e.Message,
		Ending: one(e.Ending, func(x Ending) machine.Ending {
			return machine.Ending{Outcome: machine.RunOutcome(x.Status), Reason: fault.Reason(x.Reason), Message: x.Why, Divert: x.DivertedTo}
		}),
	}
}

func startedOf(s machine.Start) Started {
	out := Started{
		Run: s.Run, Playbook: s.Playbook, Digest: s.Digest, Service: s.Service.Name, Autonomy: s.Autonomy.String(),
		StartedBy: startedBy(s), DivertedFrom: s.DivertedFrom, Truncated: s.Truncated, Override: one(s.Override, overrideOf),
	}
	if out.StartedBy == nil {
		out.Alert = one(&s.Alert, AlertOf)
	}
	return out
}

func (s Started) machine() machine.Start {
	out := machine.Start{
		Run: s.Run, Playbook: s.Playbook, Digest: s.Digest, Service: playbook.Service{Name: s.Service}, Autonomy: parseAutonomy(s.Autonomy),
		DivertedFrom: s.DivertedFrom, Truncated: s.Truncated, Override: one(s.Override, Override.playbook),
	}
	if s.StartedBy != nil {
		s.StartedBy.into(&out)
	}
	if s.Alert != nil {
		out.Alert = s.Alert.Playbook()
	}
	return out
}
