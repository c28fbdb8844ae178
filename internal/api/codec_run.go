package api

import (
	"cmp"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// StatusQuarantined is the status of an open run that cannot be processed.
const StatusQuarantined = "quarantined"

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
		out.Status, out.Why = StatusQuarantined, s.Quarantine.Message
	case s.Held != nil:
		out.Why = s.Held.Message
	case s.Waiting != nil && s.Paused == "":
		out.Why = waitingText(*s.Waiting)
	case s.Paused != "":
		out.Why = "paused: " + s.Paused
	}
	return out
}

// waitingText describes a wait in one line.
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

func effectOf(e machine.OpenEffect) Effect {
	return Effect{Action: string(e.Action), Attempt: e.Attempt, Time: e.At.UTC(), NotBefore: utc(e.NotUntil), ReadBack: e.Observe, Key: e.Key}
}

func observeOnlyOf(s machine.ObservedOutcome) ObserveOnlyOutcome {
	return ObserveOnlyOutcome{Known: s.Known, Until: utc(s.Until), Recovered: s.Recovered, After: duration(s.After), ChangedBy: s.Acted}
}

func (o ObserveOnlyOutcome) machine() machine.ObservedOutcome {
	return machine.ObservedOutcome{Known: o.Known, Until: o.Until, Recovered: o.Recovered, After: parseDuration(o.After), Acted: o.ChangedBy}
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
