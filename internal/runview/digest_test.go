package runview

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestWhatBecameOfRuns: every outcome of a run counts as one thing, and an outcome that
// this version does not know as one for people.
func TestWhatBecameOfRuns(t *testing.T) {
	want := map[machine.RunOutcome]string{
		machine.OutcomeResolved: BecameItself, machine.OutcomeCleared: BecameItself, machine.OutcomeNoAction: BecameNothingToDo, machine.OutcomeObserved: BecameObserved,
		machine.OutcomeEscalated: BecamePeople, machine.OutcomeDiverted: BecameDiverted, machine.OutcomeCanceled: BecamePeople,
		machine.OutcomeHandedOver: BecamePeople, machine.OutcomeUndoFailed: BecamePeople, machine.OutcomeReleased: BecamePeople, "of-a-later-version": BecamePeople,
	}
	for _, o := range append(machine.Outcomes(), "of-a-later-version") {
		if got := DigestOf(machine.State{Ending: &machine.Ending{Outcome: o}}, nil).Became; got != want[o] {
			t.Errorf("%s: %q, want %q", o, got, want[o])
		}
	}
	observed := &machine.Ending{Outcome: machine.OutcomeObserved}
	for name, c := range map[string]struct {
		s    machine.State
		want string
	}{
		"a change that helped":               {machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeResolved}, Kept: 1}, BecameResponder},
		"a change that is not known to help": {machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeCleared}, Levers: 1, Stays: 1}, BecameItself},
		"open":                               {machine.State{}, BecameOpen},
		"a loan given back":                  {machine.State{Start: machine.Start{Loan: "r-1/scale#1"}, Ending: &machine.Ending{Outcome: machine.OutcomeResolved}, Kept: 1}, BecameLoanReturn},
		"observed, and it recovered":         {machine.State{Ending: observed, ObservedOutcome: &machine.ObservedOutcome{Known: true, Recovered: true}}, BecameItself},
		"observed, and another run acted":    {machine.State{Ending: observed, ObservedOutcome: &machine.ObservedOutcome{Known: true, Recovered: true, Acted: "r-2"}}, BecameObserved},
		"observed, and it still fires":       {machine.State{Ending: observed, ObservedOutcome: &machine.ObservedOutcome{}}, BecameObserved},
	} {
		if got := DigestOf(c.s, nil).Became; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPhasesOfHandedOverRun: the time before a divert belongs to the run that was diverted.
func TestPhasesOfHandedOverRun(t *testing.T) {
	noon := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	alert := playbook.Alert{StartsAt: noon.Add(-time.Hour)}
	for from, want := range map[string][]api.IncidentPhase{
		"":    {{Name: "notify", Seconds: 3600}, {Name: "decide", Seconds: 60}},
		"r-1": {{Name: "decide", Seconds: 60}},
	} {
		start := machine.Start{Alert: alert, DivertedFrom: from}
		s := machine.State{Start: start, Began: noon}
		events := []machine.Event{{Kind: machine.RunStarted, At: noon, Start: &start}, {Kind: machine.RunEnded, At: noon.Add(time.Minute), Ending: &machine.Ending{}}}
		if diff := cmp.Diff(want, DigestOf(s, events).Phases); diff != "" {
			t.Errorf("diverted from %q: %s", from, diff)
		}
		if diff := cmp.Diff(want, IncidentOf(s, events).Phases); diff != "" {
			t.Errorf("incident diverted from %q: %s", from, diff)
		}
	}
}

// TestRunsThatPeopleShouldLookAt: what is not known to be fine is listed.
func TestRunsThatPeopleShouldLookAt(t *testing.T) {
	plan := machine.Event{Kind: machine.PlanCompleted, State: "scale", Plan: &machine.Plan{Step: "kube.scale"}}
	applied := machine.Event{Kind: machine.Applied, State: "scale"}
	ended := func(v machine.Verdict) []machine.Event {
		return []machine.Event{plan, applied, {Kind: machine.VerifyEnded, State: "scale", Verdict: v}}
	}
	resolved := machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeResolved}}
	for name, c := range map[string]struct {
		s      machine.State
		events []machine.Event
		want   []string
	}{
		"fine":         {resolved, []machine.Event{plan, applied, {Kind: machine.Verified, State: "scale"}}, []string{}},
		"escalated":    {machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeEscalated}}, nil, []string{"it ended escalated"}},
		"handed over":  {machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeHandedOver}}, nil, []string{"it ended handed-over"}},
		"undo failed":  {machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeUndoFailed}}, nil, []string{"it ended undo-failed"}},
		"released":     {machine.State{Ending: &machine.Ending{Outcome: machine.OutcomeReleased}}, nil, []string{"it ended released"}},
		"held":         {machine.State{Held: &machine.Hold{}}, nil, []string{"it is held: what became of a change is not known"}},
		"was held":     {resolved, []machine.Event{{Kind: machine.RunHeld}}, []string{"it was held: what became of a change was not known"}},
		"quarantined":  {machine.State{Quarantine: &machine.Quarantine{}}, nil, []string{"it is in quarantine"}},
		"worse":        {resolved, ended(machine.VerdictWorse), []string{"kube.scale made it worse"}},
		"inconclusive": {resolved, ended(machine.VerdictInconclusive), []string{"whether kube.scale helped is not known"}},
		"not judged":   {resolved, []machine.Event{plan, applied}, []string{"kube.scale was applied and not judged"}},
		"under way":    {machine.State{}, []machine.Event{plan, applied}, []string{}},
	} {
		if diff := cmp.Diff(c.want, DigestOf(c.s, c.events).Attention); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestDigestOfChanges: what people answered, what was applied and what its proof said,
// for each change once, however often it was planned.
func TestDigestOfChanges(t *testing.T) {
	began := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	entered := machine.Event{Kind: machine.StateEntered, State: "roll"}
	plan := machine.Event{Kind: machine.PlanCompleted, State: "roll", Plan: &machine.Plan{Step: "kube.rollout_undo"}}
	opened := machine.Event{Kind: machine.GateOpened, State: "roll", At: at(1), Gate: &machine.Gate{}}
	decided := func(yes bool, minutes int) machine.Event {
		return machine.Event{Kind: machine.GateDecided, State: "roll", At: at(minutes), Decision: &machine.Decision{Approve: yes}}
	}
	applied, verified := machine.Event{Kind: machine.Applied, State: "roll"}, machine.Event{Kind: machine.Verified, State: "roll"}
	ended := func(v machine.Verdict) machine.Event {
		return machine.Event{Kind: machine.VerifyEnded, State: "roll", Verdict: v}
	}
	change := func(edit func(*api.DigestChange)) []api.DigestChange {
		c := api.DigestChange{Lever: "kube.rollout_undo", State: "roll", Planned: true}
		edit(&c)
		return []api.DigestChange{c}
	}
	for name, c := range map[string]struct {
		events []machine.Event
		want   []api.DigestChange
	}{
		"approved and verified, planned again before it was applied": {
			[]machine.Event{entered, plan, opened, decided(true, 5), plan, applied, verified},
			change(func(c *api.DigestChange) {
				c.Question, c.WaitedSeconds, c.Applied, c.Verdict = AskedApproved, 240, true, "verified"
			}),
		},
		"denied":    {[]machine.Event{entered, plan, opened, decided(false, 2)}, change(func(c *api.DigestChange) { c.Question, c.WaitedSeconds = AskedDenied, 60 })},
		"expired":   {[]machine.Event{entered, plan, opened, {Kind: machine.GateExpired, At: at(16)}}, change(func(c *api.DigestChange) { c.Question, c.WaitedSeconds = AskedExpired, 900 })},
		"withdrawn": {[]machine.Event{entered, plan, opened, {Kind: machine.GateWithdrawn, At: at(2)}}, change(func(c *api.DigestChange) { c.Question, c.WaitedSeconds = AskedWithdrawn, 60 })},
		"asked now": {[]machine.Event{entered, plan, opened}, change(func(c *api.DigestChange) { c.Question = AskedOpen })},
		"asked twice, because the world moved": {
			[]machine.Event{entered, plan, opened, decided(true, 2), plan, {Kind: machine.GateVoided, At: at(2)}, opened, decided(true, 3), applied, verified},
			change(func(c *api.DigestChange) {
				c.Question, c.WaitedSeconds, c.Applied, c.Verdict = AskedApproved, 180, true, "verified"
			}),
		},
		"an approval that became void": {
			[]machine.Event{entered, plan, opened, decided(true, 2), {Kind: machine.GateVoided, At: at(2)}},
			change(func(c *api.DigestChange) { c.Question, c.WaitedSeconds = AskedVoid, 60 }),
		},
		"worse and undone": {
			[]machine.Event{entered, plan, applied, ended(machine.VerdictWorse), {Kind: machine.Undone}},
			change(func(c *api.DigestChange) { c.Applied, c.Verdict, c.Undone = true, "worse", true }),
		},
		"the question whether it is undone is none about the change": {
			[]machine.Event{entered, plan, applied, ended(machine.VerdictNoEffect), {Kind: machine.GateOpened, At: at(3), Gate: &machine.Gate{Undo: true}}, decided(false, 9)},
			change(func(c *api.DigestChange) { c.Applied, c.Verdict = true, "no_effect" }),
		},
		"of an older version": {[]machine.Event{entered, plan, applied, ended(machine.VerdictFailed)}, change(func(c *api.DigestChange) { c.Applied, c.Verdict = true, "no_effect" })},
		"observed":            {[]machine.Event{entered, plan, {Kind: machine.WouldApply}}, change(func(c *api.DigestChange) { c.Verdict = ChangeWouldApply })},
		"pull request closed": {[]machine.Event{entered, plan, applied, {Kind: machine.Declined}}, change(func(c *api.DigestChange) { c.Verdict = ChangeDeclined })},
		"refused by a guard":  {[]machine.Event{entered, plan, {Kind: machine.GuardsRefused, State: "roll"}}, change(func(c *api.DigestChange) { c.Verdict = ChangeRefused })},
		"not needed any more": {[]machine.Event{entered, plan, {Kind: machine.PlanRefused, State: "roll", Reason: fault.Cleared}}, change(func(*api.DigestChange) {})},
		"refused without a plan": {
			[]machine.Event{entered, {Kind: machine.PlanRefused, State: "roll", Reason: fault.NothingToDo}},
			[]api.DigestChange{{Lever: "state roll", State: "roll", Verdict: ChangeRefused}},
		},
		"two visits": {
			[]machine.Event{entered, plan, applied, ended(machine.VerdictImproved), entered, plan, applied, verified},
			append(change(func(c *api.DigestChange) { c.Applied, c.Verdict = true, "improved" }), change(func(c *api.DigestChange) { c.Applied, c.Verdict = true, "verified" })...),
		},
	} {
		if diff := cmp.Diff(c.want, DigestOf(machine.State{}, c.events).Changes); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestCauseOfARun: the branch that led to the change that helped counts, else the first
// that led anywhere. A branch to another check led nowhere yet.
func TestCauseOfARun(t *testing.T) {
	book := causeBook(t)
	edge := func(to, why string) machine.Event {
		return machine.Event{Kind: machine.EdgeTaken, To: to, Message: why}
	}
	plan := func(state string) machine.Event {
		return machine.Event{Kind: machine.PlanCompleted, State: state, Plan: &machine.Plan{Step: "kube." + state}}
	}
	events := []machine.Event{edge("look", "not sure"), edge("roll", "change in burn window"), plan("roll")}
	if got := DigestOf(machine.State{Playbook: book}, events).Cause; got != "change in burn window" {
		t.Errorf("of the first change: %q", got)
	}
	events = append(events, edge("scale", "saturated"), plan("scale"), machine.Event{Kind: machine.Applied}, machine.Event{Kind: machine.Verified}, edge("done", "SLO recovered"))
	if got := DigestOf(machine.State{Playbook: book}, events).Cause; got != "saturated" {
		t.Errorf("of the change that helped: %q", got)
	}
}

// causeBook is a playbook with two checks and two levers.
func causeBook(t *testing.T) *playbook.Playbook {
	t.Helper()
	kinds := []playbook.Kind{
		{Name: "test.look", Role: playbook.RoleCheck, Doc: "Looks.", Out: []playbook.Field{{Name: "bad", Type: playbook.Type{Name: playbook.Bool}, Doc: "Bad."}}},
		{Name: "test.turn", Role: playbook.RoleLever, Doc: "Turns.", Idempotent: true},
	}
	all, err := playbook.Parse("p.yaml", []byte(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: p, runbook: docs/test.md}
spec:
  match: ['{alertname="Slow"}']
  start: triage
  states:
    triage: {check: test.look, next: [{when: out.bad, to: look}, {to: done}]}
    look: {check: test.look, next: [{when: out.bad, to: roll}, {to: scale}]}
    roll: {lever: test.turn, approve: {by: [group:sre], within: 15m}, next: [{on: verified, to: done}, {to: triage}]}
    scale: {lever: test.turn, approve: {by: [group:sre], within: 15m}, next: [{on: verified, to: done}, {to: people}]}
    done: {end: resolved}
    people: {end: escalated}
`), kinds)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}
