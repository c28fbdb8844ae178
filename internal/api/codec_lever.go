package api

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

func leverOf(l machine.Lever) Lever {
	out := Lever{
		State: l.State, Kind: l.Step, With: l.With, Plan: one(l.Plan, PlanOf), Guards: each(l.Guards, GuardOf), WouldApply: l.Would,
		Applied: l.Applied, AppliedAt: utc(l.AppliedAt), InEffectAt: utc(l.FixedAt), Deadline: utc(l.Deadline), WaitsFor: l.Waits,
		Result: string(l.Signal), Reason: string(l.Reason), Message: l.Message, Samples: each(l.Samples, sampleOf), GuardsUntil: utc(l.WaitUntil),
	}
	if l.Waits != "" {
		out.MergeBy = string(machine.State{Lever: &l}.MergeBy())
	}
	return out
}

func (l Lever) machine() machine.Lever {
	out := machine.Lever{
		State: l.State, Step: l.Kind, With: l.With, Plan: one(l.Plan, Plan.machine), Would: l.WouldApply, Applied: l.Applied,
		AppliedAt: l.AppliedAt, FixedAt: l.InEffectAt, Deadline: l.Deadline, Waits: l.WaitsFor, Signal: playbook.Signal(l.Result),
		Reason: fault.Reason(l.Reason), Message: l.Message, Samples: some(l.Samples, Sample.machine),
	}
	out.Guards, out.WaitUntil = some(l.Guards, Guard.machine), l.GuardsUntil
	if l.MergeBy != "" {
		out.Terms = &machine.Terms{Merge: &machine.Merger{By: machine.MergeBy(l.MergeBy)}}
	}
	return out
}

// PlanOf returns the plan of a lever.
func PlanOf(p machine.Plan) Plan {
	return Plan{
		Digest: p.Digest(), Kind: p.Step, Target: Target(p.Target), Summary: p.Summary,
		Diff: each(p.Diff, func(c machine.FieldChange) Change { return Change(c) }),
		Undo: p.Undo, Risk: string(p.Risk), Why: p.Why, Locks: list(p.Locks), MissingRight: p.Lacks, Unobservable: p.Unseen, Asks: p.Asks,
		LastGood: some(p.Good, func(s machine.Setting) Setting { return Setting(s) }), Payload: p.Payload,
		Class: string(p.Class), Back: p.Back,
		MergeWithin: duration(p.MergeWithin), Staged: duration(p.Staged), Stops: p.Stops, Unrepeatable: p.Unrepeatable, Capacity: Capacity(p.Capacity),
		Rehold:     one(p.Rehold, func(h machine.Rehold) Rehold { return Rehold{h.Step, h.Summary, h.Back} }),
		NodeOwners: one(p.NodeOwners, func(o machine.NodeOwners) NodeOwners { return NodeOwners(o) }),
		Touches:    some(p.Touches, func(t machine.Touched) Touched { return Touched(t) }),
		Ends:       p.Ends, Stepwise: p.Stepwise,
		OtherServices: some(p.Others, affectedOf), OtherWorkloads: some(p.Rest, affectedOf),
		NodePool: one(p.Pool, func(n machine.NodePool) NodePool { return NodePool(n) }),
		Shares:   some(p.Shares, func(s machine.Share) Share { return Share(s) }), Notes: p.Notes, LowestReady: p.Lowest, Loading: duration(p.Loading), Rounds: p.Rounds,
		PreExistingDrift: some(p.Drift, func(a machine.Drift) Drift { return Drift(a) }),
	}
}

// machine returns a plan that has the digest of the one it was made of.
func (p Plan) machine() machine.Plan {
	return machine.Plan{
		Step: p.Kind, Target: machine.Target(p.Target), Summary: p.Summary,
		Diff: some(p.Diff, func(c Change) machine.FieldChange { return machine.FieldChange(c) }),
		Undo: p.Undo, Risk: machine.Risk(p.Risk), Why: p.Why, Locks: some(p.Locks, func(s string) string { return s }),
		Lacks: p.MissingRight, Unseen: p.Unobservable, Asks: p.Asks,
		Good: some(p.LastGood, func(s Setting) machine.Setting { return machine.Setting(s) }), Payload: p.Payload,
		Class: playbook.Class(p.Class), Back: p.Back,
		MergeWithin: parseDuration(p.MergeWithin), Staged: parseDuration(p.Staged), Stops: p.Stops, Unrepeatable: p.Unrepeatable, Capacity: machine.Capacity(p.Capacity),
		Rehold:     one(p.Rehold, func(h Rehold) machine.Rehold { return machine.Rehold{Step: h.Kind, Summary: h.Summary, Back: h.Back} }),
		NodeOwners: one(p.NodeOwners, func(o NodeOwners) machine.NodeOwners { return machine.NodeOwners(o) }),
		Touches:    some(p.Touches, func(t Touched) machine.Touched { return machine.Touched(t) }),
		Ends:       p.Ends, Stepwise: p.Stepwise,
		Others: some(p.OtherServices, AffectedService.machine), Rest: some(p.OtherWorkloads, AffectedService.machine),
		Pool:   one(p.NodePool, func(n NodePool) machine.NodePool { return machine.NodePool(n) }),
		Shares: some(p.Shares, func(s Share) machine.Share { return machine.Share(s) }), Notes: p.Notes, Lowest: p.LowestReady, Loading: parseDuration(p.Loading), Rounds: p.Rounds,
		Drift: some(p.PreExistingDrift, func(d Drift) machine.Drift { return machine.Drift(d) }),
	}
}

func affectedOf(a machine.Affected) AffectedService {
	return AffectedService{a.Service, a.Namespace, a.MinReady, Capacity(a.Capacity)}
}

func (a AffectedService) machine() machine.Affected {
	return machine.Affected{Service: a.Service, Namespace: a.Namespace, MinReady: a.MinReady, Capacity: machine.Capacity(a.Capacity)}
}

// GuardOf returns the answer of one guard.
func GuardOf(g machine.GuardVerdict) Guard { return Guard(g) }

func (g Guard) machine() machine.GuardVerdict { return machine.GuardVerdict(g) }

func sampleOf(s machine.Sample) Sample {
	return Sample{
		Time: s.At.UTC(), Verdict: string(s.Verdict), Ends: string(s.Ends), Reason: string(s.Reason), Message: s.Message, HeldFrom: utc(s.HeldFrom),
		Values: each(s.Values, func(r machine.Reading) Reading {
			return Reading{Name: r.Name, Unit: r.Unit, Value: r.Value, Op: r.Op, Limit: r.Limit, OK: r.OK, Why: string(r.Why)}
		}),
	}
}

func (s Sample) machine() machine.Sample {
	return machine.Sample{
		At: s.Time, Verdict: machine.Verdict(s.Verdict), Ends: machine.Verdict(s.Ends), Reason: fault.Reason(s.Reason), Message: s.Message, HeldFrom: s.HeldFrom,
		Values: some(s.Values, func(r Reading) machine.Reading {
			return machine.Reading{Name: r.Name, Unit: r.Unit, Value: r.Value, Op: r.Op, Limit: r.Limit, OK: r.OK, Why: fault.Reason(r.Why)}
		}),
	}
}

func loanOf(l machine.Loan) Loan {
	return Loan{Loan: l.ID, State: l.State, Kind: l.Step, Summary: l.Summary, Back: l.Back, Verdict: string(l.Verdict), Since: l.Since.UTC()}
}

func (l Loan) machine() machine.Loan {
	return machine.Loan{ID: l.Loan, State: l.State, Step: l.Kind, Summary: l.Summary, Back: l.Back, Verdict: machine.Verdict(l.Verdict), Since: l.Since}
}

// LimitOf returns a rule that limits a lever to a level.
func LimitOf(c machine.Cap) Limit { return Limit{Level: c.Level.String(), Rule: c.Rule} }
