package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// statusQuarantined is the status of an open run that cannot be processed.
const statusQuarantined = "quarantined"

// each converts every element. The result is never nil.
func each[A, B any](in []A, convert func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, convert(a))
	}
	return out
}

// some is each for a list that is absent when it is empty.
func some[A, B any](in []A, convert func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	return each(in, convert)
}

// one converts what a pointer points to.
func one[A, B any](in *A, convert func(A) B) *B {
	if in == nil {
		return nil
	}
	out := convert(*in)
	return &out
}

// list returns a list that is written as [] when it is empty.
func list(in []string) []string { return each(in, func(s string) string { return s }) }

// duration writes a duration as text; zero is "".
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return playbook.FormatDuration(d)
}

// parseDuration reads what duration writes. What it cannot read is zero.
func parseDuration(text string) time.Duration {
	d, err := playbook.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// parseAutonomy reads a level. What it cannot read is observe, the lowest.
func parseAutonomy(text string) playbook.Autonomy {
	level, err := playbook.ParseAutonomy(text)
	if err != nil {
		return playbook.Observe
	}
	return level
}

// SummaryOf returns a run in one line.
func SummaryOf(s machine.State) RunSummary {
	out := RunSummary{
		Run: s.Start.Run, Status: string(s.Phase), Service: s.Start.Service.Name, Playbook: s.Start.Playbook, State: s.Current,
		Alert: s.Start.Cause(), DivertedFrom: s.Start.DivertedFrom, Loan: s.Start.Loan, Began: s.Began.UTC(), Updated: s.Updated.UTC(),
	}
	if s.Start.Loan != "" {
		out.LoanLever, out.Change = s.Start.Alert.Labels["lever"], s.Start.Alert.Labels["change"]
	}
	switch {
	case s.Ending != nil:
		out.Status, out.Why, out.Ended = string(s.Ending.Outcome), s.Ending.Message, s.Ended.UTC()
	case s.Quarantine != nil:
		out.Status, out.Why = statusQuarantined, s.Quarantine.Message
	case s.Held != nil:
		out.Why = s.Held.Message
	case s.Waiting != nil && s.Paused == "":
		out.Why = waitingText(*s.Waiting)
	case s.Paused != "":
		out.Why = "paused: " + s.Paused
	}
	return out
}

// waitingText describes where a wait stands in one line.
func waitingText(w machine.Waiting) string {
	switch {
	case !w.HeldFrom.IsZero():
		return "holds since " + w.HeldFrom.UTC().Format("15:04:05")
	case w.Why != "":
		return "does not hold yet: " + w.Why
	case !w.LookedAt.IsZero():
		return "does not hold yet"
	default:
		return "waits"
	}
}

// RunOf returns everything that is known about a run.
func RunOf(s machine.State) Run {
	out := Run{
		RunSummary: SummaryOf(s), Digest: s.Start.Digest, Autonomy: s.Start.Autonomy.String(), StartedBy: startedBy(s.Start),
		Override: one(s.Start.Override, overrideOf),
		Alerts:   alertsOf(s), Truncated: s.Truncated || s.Start.Truncated, ServiceSpec: ServiceOf(s.Start.Service),
		Path:   each(s.Path, func(v machine.Visit) Visit { return Visit{v.State, v.Visit, v.At.UTC(), v.Edge, v.To} }),
		Effect: one(s.Open, effectOf), Lever: one(s.Lever, leverOf), Gate: one(s.Gate, gateOf), Approval: approvalOf(s.Consent()),
		Waiting: one(s.Waiting, func(w machine.Waiting) Waiting {
			return Waiting{w.Until.UTC(), utc(w.HeldFrom), utc(w.LookedAt), w.Why}
		}),
		Held:       one(s.Held, func(h machine.Hold) Hold { return Hold{string(h.Action), h.Effect, h.Message, h.At.UTC()} }),
		Quarantine: one(s.Quarantine, func(a machine.Quarantine) Quarantine { return Quarantine{a.Message, a.At.UTC(), string(s.Phase)} }),
		Paused:     s.Paused, CancelRequested: one(s.Cancel, decisionOf), ObserveOnlyOutcome: one(s.ObservedOutcome, observeOnlyOf),
		Locks: list(s.Locks()), LeversApplied: s.Levers, LeversKept: s.Kept, LeversStay: s.Stays, Loans: some(s.Loans, loanOf), Events: s.Head,
		Evidence: make(map[string]Evidence, len(s.Evidence)),
	}
	if s.Ending != nil {
		out.Reason, out.DivertedTo = string(s.Ending.Reason), s.Ending.Divert
	}
	for name, e := range s.Evidence {
		out.Evidence[name] = Evidence{Time: e.At.UTC(), Check: e.Step, Data: e.Data, Facts: list(e.Facts), Unknown: e.Unknown}
	}
	return out
}

// Machine returns the machine's state as far as the answer has it: enough to
// show the run, not to continue it.
func (r Run) Machine() machine.State {
	s := machine.State{
		Start: machine.Start{
			Run: r.Run, Playbook: r.Playbook, Digest: r.Digest, Service: r.ServiceSpec.Playbook(),
			Autonomy: parseAutonomy(r.Autonomy), DivertedFrom: r.DivertedFrom, Loan: r.Loan,
			Override: one(r.Override, Override.playbook),
		},
		Phase: machine.Phase(r.Status), Current: r.State, Began: r.Began, Updated: r.Updated, Ended: r.Ended, Head: r.Events,
		Path: some(r.Path, func(v Visit) machine.Visit {
			return machine.Visit{State: v.State, Visit: v.Visit, At: v.Time, Edge: v.Edge, To: v.To}
		}),
		Evidence: make(map[string]*machine.Evidence, len(r.Evidence)),
		Lever:    one(r.Lever, Lever.machine), Gate: one(r.Gate, Gate.machine), Paused: r.Paused, Cancel: one(r.CancelRequested, Decision.machine),
		Truncated: r.Truncated, Levers: r.LeversApplied, Kept: r.LeversKept, Stays: r.LeversStay, Loans: some(r.Loans, Loan.machine),
		Waiting: one(r.Waiting, func(w Waiting) machine.Waiting {
			return machine.Waiting{Until: w.Until, HeldFrom: w.HeldFrom, LookedAt: w.LookedAt, Why: w.Why}
		}),
		Held: one(r.Held, func(h Hold) machine.Hold {
			return machine.Hold{Action: machine.Action(h.Action), Effect: h.Effect, Message: h.Message, At: h.Time}
		}),
		ObservedOutcome: one(r.ObserveOnlyOutcome, ObserveOnlyOutcome.machine),
	}
	if r.Quarantine != nil {
		s.Quarantine, s.Phase = &machine.Quarantine{Message: r.Quarantine.Message, At: r.Quarantine.Time}, machine.Phase(r.Quarantine.Phase)
	}
	if !r.Ended.IsZero() {
		s.Phase = machine.PhaseEnded
		s.Ending = &machine.Ending{Outcome: machine.RunOutcome(r.Status), Reason: fault.Reason(r.Reason), Message: r.Why, Divert: r.DivertedTo}
	}
	for _, a := range r.Alerts {
		alert := a.Playbook()
		s.Episodes = s.Episodes.With(alert.Episode(), &machine.Episode{Alert: alert, Firing: alert.Status == playbook.Firing, Since: a.Since})
	}
	if r.StartedBy != nil {
		r.StartedBy.into(&s.Start)
	} else if len(r.Alerts) > 0 {
		s.Start.Alert = r.Alerts[0].Playbook()
	}
	for name, e := range r.Evidence {
		s.Evidence[name] = &machine.Evidence{At: e.Time, Step: e.Check, Data: e.Data, Facts: e.Facts, Unknown: e.Unknown}
	}
	if a := r.Approval; a != nil && s.Lever != nil {
		s.Lever.Approved, s.Lever.Votes, s.Lever.GoodUntil = one(a.Approved, Decision.machine), some(a.Votes, Decision.machine), a.GoodUntil
	} else if a != nil {
		s.GateConsent = &machine.Consent{Approved: one(a.Approved, Decision.machine), Votes: some(a.Votes, Decision.machine), GoodUntil: a.GoodUntil}
	}
	return s
}

func startedBy(s machine.Start) *StartedBy {
	if !s.ByHand() {
		return nil
	}
	return &StartedBy{By: s.By, Reason: s.Reason, Labels: s.Alert.Labels}
}

func (b StartedBy) into(s *machine.Start) {
	s.By, s.Reason, s.Alert.Labels = b.By, b.Reason, b.Labels
}

// alertsOf lists the alerts of a run: the one that started it, then by time.
func alertsOf(s machine.State) []Alert {
	first := s.Start.Alert.Episode()
	keys := s.Episodes.IDs()
	slices.SortFunc(keys, func(a, b string) int {
		x, y := s.Episodes.Get(a), s.Episodes.Get(b)
		switch {
		case a == first:
			return -1
		case b == first:
			return 1
		default:
			return cmp.Or(x.Alert.StartsAt.Compare(y.Alert.StartsAt), cmp.Compare(a, b))
		}
	})
	if s.Episodes.Get(first) == nil && !s.Start.ByHand() {
		return append([]Alert{AlertOf(s.Start.Alert)}, each(keys, func(k string) Alert { return episodeOf(*s.Episodes.Get(k)) })...)
	}
	return each(keys, func(k string) Alert { return episodeOf(*s.Episodes.Get(k)) })
}

func episodeOf(e machine.Episode) Alert {
	a := AlertOf(e.Alert)
	a.Since, a.Status = e.Since.UTC(), string(playbook.Resolved)
	if e.Firing {
		a.Status = string(playbook.Firing)
	}
	return a
}

// AlertOf returns an alert.
func AlertOf(a playbook.Alert) Alert {
	return Alert{
		Fingerprint: a.Fingerprint, Status: string(a.Status), Labels: a.Labels, Annotations: a.Annotations,
		StartsAt: a.StartsAt.UTC(), EndsAt: utc(a.EndsAt), GeneratorURL: a.GeneratorURL,
	}
}

// Playbook returns the alert as playbooks see it.
func (a Alert) Playbook() playbook.Alert {
	return playbook.Alert{
		Fingerprint: a.Fingerprint, Status: playbook.AlertStatus(a.Status), Labels: a.Labels, Annotations: a.Annotations,
		StartsAt: a.StartsAt, EndsAt: a.EndsAt, GeneratorURL: a.GeneratorURL,
	}
}

// utc keeps the zero time zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

func effectOf(e machine.OpenEffect) Effect {
	return Effect{Action: string(e.Action), Attempt: e.Attempt, Time: e.At.UTC(), NotBefore: utc(e.NotUntil), ReadBack: e.Observe, Key: e.Key}
}

func observeOnlyOf(s machine.ObservedOutcome) ObserveOnlyOutcome {
	return ObserveOnlyOutcome{Known: s.Known, Until: utc(s.Until), Recovered: s.Recovered, After: duration(s.After), ChangedBy: s.Acted}
}

func (o ObserveOnlyOutcome) machine() machine.ObservedOutcome {
	return machine.ObservedOutcome{Known: o.Known, Until: o.Until, Recovered: o.Recovered, After: parseDuration(o.After), Acted: o.ChangedBy}
}

func approvalOf(c machine.Consent) *Approval {
	if c.Approved == nil && len(c.Votes) == 0 {
		return nil
	}
	return &Approval{Approved: one(c.Approved, decisionOf), Votes: each(c.Votes, decisionOf), GoodUntil: utc(c.GoodUntil)}
}

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

// PlanOf returns what a lever would change.
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
		NodePool: one(p.Pool, func(n machine.NodePool) NodePool { return NodePool(n) }), Notes: p.Notes, LowestReady: p.Lowest, Loading: duration(p.Loading),
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
		Pool: one(p.NodePool, func(n NodePool) machine.NodePool { return machine.NodePool(n) }), Notes: p.Notes, Lowest: p.LowestReady, Loading: parseDuration(p.Loading),
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

func gateOf(g machine.Gate) Gate {
	return Gate{
		Gate: g.ID, Digest: g.Digest, Opened: g.Opened.UTC(), Deadline: g.Deadline.UTC(), OnExpiry: string(g.OnExpiry), Text: g.Text,
		TakeBack: g.Undo, Unanswered: string(g.Unanswered), Follows: some(g.Follows, func(f machine.FateLine) Follow { return Follow{string(f.Verdict), f.Text} }),
		Needs: each(g.Needs, NeedOf), BreakGlass: g.BreakGlass, NotBy: g.NotBy, GlassOwn: g.GlassOwn,
		RemindAt: utc(g.RemindAt), Reminded: g.Reminded, Tiers: some(g.Tiers, TierOf), Told: g.Told, Votes: each(g.Votes, decisionOf),
	}
}

func (g Gate) machine() machine.Gate {
	return machine.Gate{
		ID: g.Gate, Digest: g.Digest, Opened: g.Opened, Deadline: g.Deadline, OnExpiry: playbook.Expiry(g.OnExpiry), Text: g.Text,
		Undo: g.TakeBack, Unanswered: machine.Consequence(g.Unanswered),
		Follows: some(g.Follows, func(f Follow) machine.FateLine {
			return machine.FateLine{Verdict: machine.Verdict(f.Verdict), Text: f.Text}
		}),
		Needs: some(g.Needs, func(n Need) machine.Need { return machine.Need(n) }), BreakGlass: g.BreakGlass, NotBy: g.NotBy, GlassOwn: g.GlassOwn,
		RemindAt: g.RemindAt, Reminded: g.Reminded, Told: g.Told, Votes: some(g.Votes, Decision.machine),
		Tiers: some(g.Tiers, func(t Tier) machine.Tier { return machine.Tier{After: parseDuration(t.After), To: t.To} }),
	}
}

func loanOf(l machine.Loan) Loan {
	return Loan{Loan: l.ID, State: l.State, Kind: l.Step, Summary: l.Summary, Back: l.Back, Verdict: string(l.Verdict), Since: l.Since.UTC()}
}

func (l Loan) machine() machine.Loan {
	return machine.Loan{ID: l.Loan, State: l.State, Step: l.Kind, Summary: l.Summary, Back: l.Back, Verdict: machine.Verdict(l.Verdict), Since: l.Since}
}

// NeedOf returns one approval that a gate needs.
func NeedOf(n machine.Need) Need {
	return Need{Rule: n.Rule, From: list(n.From), Among: n.Among, As: n.As, Quorum: n.Quorum, Strong: n.Strong, For: n.For, Unknown: n.Unknown}
}

// TierOf returns who is told after some time.
func TierOf(t machine.Tier) Tier {
	return Tier{After: playbook.FormatDuration(t.After), To: list(t.To)}
}

func decisionOf(d machine.Decision) Decision {
	return Decision{
		Gate: d.Gate, Digest: d.Digest, Approve: d.Approve, By: d.By, Groups: d.Groups,
		Person: d.Person, Channel: d.Channel, Strong: d.Strong, BreakGlass: d.BreakGlass, Reason: d.Reason, Lacks: d.Lacks,
	}
}

func (d Decision) machine() machine.Decision {
	return machine.Decision{
		Gate: d.Gate, Digest: d.Digest, Approve: d.Approve, By: d.By, Groups: d.Groups,
		Person: d.Person, Channel: d.Channel, Strong: d.Strong, BreakGlass: d.BreakGlass, Reason: d.Reason, Lacks: d.Lacks,
	}
}

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

// ServiceOf returns an entry of the catalog.
func ServiceOf(s playbook.Service) Service {
	out := Service{
		Service: s.Name, Namespace: s.Namespace, Workload: Workload(s.Workload), Container: s.Container, Engine: s.Engine, Model: s.Model,
		Endpoint: s.Endpoint, Gateway: s.Gateway, Owners: list(s.Owners), Autonomy: s.Autonomy.String(), MinReady: s.MinReady, MaxScale: s.MaxScale, Selector: s.Selector,
		LoadTime: duration(s.LoadTime), Recovery: duration(s.Recovery),
		SLOs: each(s.SLOs, func(o playbook.SLO) SLO {
			return SLO{o.Name, o.Objective, playbook.FormatDuration(o.Window), o.Threshold, o.Indicator, o.Model, o.Route, o.By, o.CustomBuckets}
		}),
	}
	if g := s.GitOps; g != (playbook.GitOps{}) {
		out.GitOps = &GitOps{Application: g.Application, Repository: g.Repository, Branch: g.Branch, Path: g.Path, Component: g.Component}
		if g.Object != (playbook.Workload{}) {
			out.GitOps.Object = &Workload{g.Object.Kind, g.Object.Name}
		}
	}
	if w := s.Warm; w != (playbook.Warm{}) {
		out.Warm = &Warm{Route: Workload(w.Route), Backend: w.Backend, Each: w.Each}
		if w.Workload != (playbook.Workload{}) {
			out.Warm.Workload = &Workload{w.Workload.Kind, w.Workload.Name}
		}
	}
	return out
}

// Playbook returns the service as playbooks see it.
func (s Service) Playbook() playbook.Service {
	out := playbook.Service{
		Name: s.Service, Namespace: s.Namespace, Workload: playbook.Workload(s.Workload), Container: s.Container, Engine: s.Engine, Model: s.Model,
		Endpoint: s.Endpoint, Gateway: s.Gateway, Owners: s.Owners, Autonomy: parseAutonomy(s.Autonomy), MinReady: s.MinReady, MaxScale: s.MaxScale, Selector: s.Selector,
		LoadTime: parseDuration(s.LoadTime), Recovery: parseDuration(s.Recovery),
		SLOs: some(s.SLOs, func(o SLO) playbook.SLO {
			return playbook.SLO{
				Name: o.Name, Objective: o.Objective, Window: parseDuration(o.Window), Threshold: o.Threshold,
				Indicator: o.Indicator, Model: o.Model, Route: o.Route, By: o.By, CustomBuckets: o.CustomBuckets,
			}
		}),
	}
	if g := s.GitOps; g != nil {
		out.GitOps = playbook.GitOps{Application: g.Application, Repository: g.Repository, Branch: g.Branch, Path: g.Path, Component: g.Component}
		if g.Object != nil {
			out.GitOps.Object = playbook.Workload(*g.Object)
		}
	}
	if w := s.Warm; w != nil {
		out.Warm = playbook.Warm{Route: playbook.Workload(w.Route), Backend: w.Backend, Each: w.Each}
		if w.Workload != nil {
			out.Warm.Workload = playbook.Workload(*w.Workload)
		}
	}
	return out
}

// With returns the service with the levels that its entry sets for playbooks and
// levers.
func (s Service) With(levels map[string]playbook.Autonomy) Service {
	for name, level := range levels {
		if s.AutonomyOf == nil {
			s.AutonomyOf = map[string]string{}
		}
		s.AutonomyOf[name] = level.String()
	}
	return s
}

// PlaybookOf returns a playbook of the set that is in force.
func PlaybookOf(set *playbook.Set, p *playbook.Playbook) Playbook {
	o := set.Override(p.Name, "")
	return Playbook{
		Playbook: p.Name, Title: p.Title, Description: p.Description, Runbook: p.Runbook, Digest: p.Digest, Source: p.Source,
		Autonomy: p.Level(o).String(), Override: one(o, overrideOf), Start: p.Start, States: len(p.States),
	}
}

func overrideOf(o playbook.Override) Override {
	out := levelsOf(o.Levels)
	if o.OfService != nil {
		own := levelsOf(*o.OfService)
		out.OfService = &own
	}
	return out
}

func levelsOf(o playbook.Levels) Override {
	out := Override{By: o.By}
	if o.Level != nil {
		out.Level = o.Level.String()
	}
	for state, level := range o.States {
		if out.States == nil {
			out.States = map[string]string{}
		}
		out.States[state] = level.String()
	}
	return out
}

// String lists the levels and the setting.
func (o Override) String() string { return o.playbook().String() }

func (o Override) playbook() playbook.Override {
	out := playbook.Override{Levels: o.levels()}
	if o.OfService != nil {
		own := o.OfService.levels()
		out.OfService = &own
	}
	return out
}

func (o Override) levels() playbook.Levels {
	out := playbook.Levels{By: o.By}
	if o.Level != "" {
		level := parseAutonomy(o.Level)
		out.Level = &level
	}
	for state, level := range o.States {
		if out.States == nil {
			out.States = map[string]playbook.Autonomy{}
		}
		out.States[state] = parseAutonomy(level)
	}
	return out
}

// MatchOf returns whether and why a playbook matches an alert.
func MatchOf(m playbook.MatchResult) Match {
	return Match{Playbook: m.Name, Matched: m.Matched, Sets: each(m.Sets, func(s playbook.SetResult) MatcherSet {
		return MatcherSet{s.Matchers, s.Matched, some(s.Failed, func(f playbook.Mismatch) Mismatch { return Mismatch(f) })}
	})}
}

// LimitOf returns what holds a lever at a level.
func LimitOf(c machine.Cap) Limit { return Limit{Level: c.Level.String(), Rule: c.Rule} }

// PauseScope names what a pause holds up: global, intake, service:NAME or
// playbook:NAME.
func PauseScope(service, playbook string, intake bool) string {
	switch {
	case intake:
		return "intake"
	case service != "" && playbook != "":
		return "service:" + service + " playbook:" + playbook
	case service != "":
		return "service:" + service
	case playbook != "":
		return "playbook:" + playbook
	default:
		return "global"
	}
}
