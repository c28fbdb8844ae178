package trace

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// testPlaybooks has one run for each outcome in it.
const testPlaybooks = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: slow, runbook: docs/test.md}
spec:
  match: ['{alertname="Slow"}']
  autonomy: auto
  start: look
  states:
    look:
      check: test.look
      on_error: people
      next:
        - {when: 'out.value > 5', to: hot}
        - {when: 'out.bad', to: turn}
        - {to: fine}
    turn:
      lever: test.turn
      with: {to: 2}
      approve: {by: [service.owners], within: 15m, on_expiry: escalate}
      verify:
        within: 10m
        hold: 2m
        interval: 1m
        until: {query: 'slow_ratio{${service.selector}}', op: <, value: 0.01}
        traffic: {query: 'sum(rate(requests_total{${service.selector}}[1m]))', min_rate: 0.1}
      next:
        - {on: verified, to: resolved}
        - {on: refused, to: people}
        - {on: denied, to: people}
        - {on: inconclusive, to: people}
        - {to: look}
    hot: {divert: other}
    resolved: {end: resolved}
    fine: {end: no-action}
    people: {end: escalated}
---
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: other, runbook: docs/test.md}
spec:
  match: ['{alertname="Other"}']
  autonomy: auto
  start: look
  states:
    look: {check: test.look, next: stands}
    stands:
      wait: {check: test.look, until: 'out.bad', within: 10m, every: 1m, hold: 2m}
      next: [{on: held, to: tell}, {on: expired, to: tell}]
    tell: {notify: 'comment-secret ${look.value}', next: question}
    question:
      gate: 'Go on?'
      approve: {by: [user:ada], within: 10m, on_expiry: deny}
      next: [{on: approved, to: done}, {on: denied, to: stopped}]
    done: {end: resolved}
    stopped: {end: no-action}
`

var epoch = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func loadPlaybooks(t testing.TB) *playbook.Set {
	t.Helper()
	number := playbook.Type{Name: playbook.Int}
	all, err := playbook.Parse("test.yaml", []byte(testPlaybooks), []playbook.Kind{
		{Name: "test.look", Role: playbook.RoleCheck, Doc: "Looks.", Out: []playbook.Field{
			{Name: "bad", Type: playbook.Type{Name: playbook.Bool}, Doc: "Bad."}, {Name: "value", Type: number, Doc: "Value."},
		}},
		{Name: "test.turn", Role: playbook.RoleLever, Doc: "Turns.", Idempotent: true, With: []playbook.Field{{Name: "to", Type: number, Required: true, Doc: "To."}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := playbook.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// life is a run that a test drives.
type life struct {
	now    time.Time
	state  machine.State
	events []machine.Event
}

// secret stands wherever a run has text that must not be in its trace.
const secret = "hunter2"

func begin(set *playbook.Set, run, name string, level playbook.Autonomy) *life {
	p := set.ByName(name)
	l := &life{now: epoch, state: machine.State{Playbook: p}}
	l.do(machine.Command{Kind: machine.CmdStart, Playbook: p, Start: &machine.Start{
		Run: run, Playbook: p.Name, Digest: p.Digest, Autonomy: level,
		Alert: playbook.Alert{
			Fingerprint: "f", Status: playbook.Firing, StartsAt: epoch.Add(-time.Minute),
			Labels: map[string]string{"alertname": "Slow", "token": secret}, Annotations: map[string]string{"text": secret},
		},
		Service: playbook.Service{
			Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"},
			Owners: []string{"user:ada"}, Autonomy: playbook.Auto, Selector: `service="chat"`,
		},
	}})
	return l
}

// do sends a command; one that the machine refuses changes nothing.
func (l *life) do(c machine.Command) {
	c.Now = l.now
	events, _ := machine.Decide(l.state, c) // a refused command is a part of what happens to runs
	for _, e := range events {
		l.state = machine.Evolve(l.state, e)
		l.events = append(l.events, e)
	}
}

// owed is the effect that the run waits for; the clock goes to its time.
func (l *life) owed() (machine.Effect, bool) {
	e, ok := machine.Pending(l.state)
	if ok && e.NotUntil.After(l.now) {
		l.now = e.NotUntil
	}
	return e, ok
}

// answer gives the effect that is owed an outcome, after a second.
func (l *life) answer(out machine.Outcome) {
	e, ok := l.owed()
	if !ok {
		return
	}
	l.now = l.now.Add(time.Second)
	switch {
	case out.Status != machine.StatusOK:
	case e.Action == machine.ActionCheck && out.Data == nil:
		out.Data = json.RawMessage(`{"bad":true,"value":4}`)
	case e.Action == machine.ActionPlan:
		out.Plan = &machine.Plan{
			Step: "test.turn", Target: machine.Target{Kind: "Deployment", Namespace: "serving", Name: "chat", UID: "u", Generation: 1},
			Summary: secret, Diff: []machine.FieldChange{{Path: "spec.turn", From: "1", To: secret}}, Why: secret,
			Locks: []string{"service:serving/chat"}, Risk: machine.RiskLow, Payload: json.RawMessage(`"` + secret + `"`),
		}
	case e.Action == machine.ActionGuard:
		out.Guards = []machine.GuardVerdict{{Guard: "firing", OK: true, Why: secret}}
	case e.Action == machine.ActionApply:
		out.Data = json.RawMessage(`{"receipt":"` + secret + `"}`)
	case e.Action == machine.ActionVerify && out.Sample == nil:
		out.Sample = &machine.Sample{At: l.now, Verdict: machine.VerdictVerified, Message: secret}
	}
	l.do(machine.Command{Kind: machine.CmdOutcome, Effect: e.Key, Attempt: e.Attempt, Outcome: &out})
}

var ok = machine.Outcome{Status: machine.StatusOK, Message: secret, Facts: []string{secret}}

// until answers ok until the run owes an effect of this kind.
func (l *life) until(a machine.Action) *life {
	for range 50 {
		if e, due := l.owed(); !due || e.Action == a {
			break
		}
		l.answer(ok)
	}
	return l
}

// finish answers ok until the run has ended, and approves what it asks.
func (l *life) finish() *life {
	for range 100 {
		if l.state.Phase == machine.PhaseEnded {
			break
		}
		if l.state.Gate != nil {
			l.do(machine.Command{Kind: machine.CmdDecide, Decision: ada(true)})
		}
		l.answer(ok)
		l.now = l.now.Add(time.Second)
		l.do(machine.Command{Kind: machine.CmdTick})
	}
	return l
}

func ada(approve bool) *machine.Decision {
	return &machine.Decision{By: "user:ada", Channel: "web", Person: true, Approve: approve, Reason: secret}
}

func failed(s machine.Status, r fault.Reason) machine.Outcome {
	return machine.Outcome{Status: s, Reason: r, Message: secret}
}

func sampled(v machine.Verdict) machine.Outcome {
	return machine.Outcome{Status: machine.StatusOK, Sample: &machine.Sample{At: epoch, Verdict: v, Ends: v, Message: secret}}
}

// lives returns runs with every outcome that the machine decides, and the held one.
func lives(t testing.TB) map[string]*life {
	t.Helper()
	set := loadPlaybooks(t)
	begun := func(name string) *life { return begin(set, "r-"+name, "slow", playbook.Auto) }
	all := map[string]*life{}

	all["resolved"] = begun("resolved").finish()

	all["no-action"] = begun("no-action")
	all["no-action"].answer(machine.Outcome{Status: machine.StatusOK, Data: json.RawMessage(`{"bad":false,"value":1}`)})

	all["observed"] = begin(set, "r-observed", "slow", playbook.Observe).finish()

	l := begun("escalated")
	for l.state.Phase == machine.PhaseChecking {
		l.answer(failed(machine.StatusFailed, fault.Timeout))
	}
	all["escalated"] = l.finish()

	l = begun("diverted")
	l.answer(machine.Outcome{Status: machine.StatusOK, Data: json.RawMessage(`{"bad":true,"value":9}`)})
	for i := range l.events {
		if e := &l.events[i]; e.Kind == machine.RunEnded {
			e.Ending.Into = "r-other" // the executor's part
		}
	}
	all["diverted"] = l

	l = begun("cleared")
	resolved := l.state.Start.Alert
	resolved.Status = playbook.Resolved
	l.until(machine.ActionPlan).do(machine.Command{Kind: machine.CmdAlert, Alert: &resolved})
	all["cleared"] = l.finish()

	l = begun("canceled").until(machine.ActionSettle)
	l.do(machine.Command{Kind: machine.CmdCancel, Decision: ada(false)})
	all["canceled"] = l.finish()

	l = begun("handed-over").until(machine.ActionSettle)
	l.answer(failed(machine.StatusForeign, fault.ForeignChange))
	all["handed-over"] = l.finish()

	l = begun("undone").until(machine.ActionVerify)
	l.answer(sampled(machine.VerdictWorse))
	all["undone"] = l.finish()

	l = begun("undo-failed").until(machine.ActionVerify)
	l.answer(sampled(machine.VerdictWorse))
	for l.state.Phase == machine.PhaseUndoing {
		l.answer(failed(machine.StatusFailed, fault.Forbidden))
	}
	all["undo-failed"] = l.finish()

	l = begun("held").until(machine.ActionApply)
	for l.state.Phase == machine.PhaseApplying {
		l.answer(failed(machine.StatusUnknown, fault.Unreachable))
	}
	l.now = l.now.Add(time.Hour)
	l.do(machine.Command{Kind: machine.CmdResolve, Decision: ada(true)})
	all["held"] = l.finish()

	l = begin(set, "r-asked", "slow", playbook.Suggest).until(machine.ActionApply)
	l.now = l.now.Add(5 * time.Minute)
	l.do(machine.Command{Kind: machine.CmdDecide, Decision: ada(false)})
	all["denied"] = l.finish()

	l = begin(set, "r-other", "other", playbook.Auto)
	l.events[0].Start.DivertedFrom = "r-diverted"
	all["other"] = l.finish()
	return all
}
