package runview

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// askingRun returns a run that asks about a rollback, and its events.
func askingRun(at time.Time) (machine.State, []machine.Event) {
	plan := &machine.Plan{
		Step: "service.rollback", Summary: "roll chat back from revision 3 to 2", Risk: "medium", Undo: "put revision 3 back",
		Diff: []machine.FieldChange{{Path: "image", From: "vllm:v2", To: "vllm:v1"}},
	}
	gate := &machine.Gate{ID: "g", Digest: plan.Digest(), Opened: at, Deadline: at.Add(15 * time.Minute), Needs: []machine.Need{{Rule: "playbook p", From: []string{"group:sre"}, Quorum: 1}}, OnExpiry: playbook.ExpiryEscalate}
	start := machine.Start{Run: "r-1", Playbook: "p", Service: playbook.Service{Name: "serving/chat"}, Alert: playbook.Alert{Labels: map[string]string{"alertname": "Slow"}}}
	events := []machine.Event{
		{Kind: machine.RunStarted, At: at, Start: &start},
		{Kind: machine.StateEntered, At: at, State: "triage"},
		{Kind: machine.CheckCompleted, At: at, State: "triage", Gathered: []machine.Gathered{
			{Name: "slo", Step: burnCheck, Facts: []string{"92 % of requests were slow", "burns since 12:00"}},
			{Name: "pods", Step: "kube.workload", Facts: []string{"4 of 4 ready"}},
			{Name: "gpus", Step: "gpu.health", Why: "no agent answers"},
			{Name: "changes", Step: "kube.changes", Facts: []string{"revision 3 came first"}},
		}},
		{Kind: machine.EdgeTaken, At: at, State: "triage", To: "roll", Message: "a release", Examined: []machine.Examined{
			{Edge: "too hot", To: "hot", Result: playbook.Unknown, Why: "gpus is unknown", Values: []string{"gpus.hot = unknown"}},
			{Edge: "no breach", To: "done", Result: playbook.False, Values: []string{"slo.status = breached"}},
			{Edge: "a release", To: "rollback", Result: playbook.True, Values: []string{"changes.suspect = true"}},
		}},
		{Kind: machine.StateEntered, At: at, State: "rollback"},
		{Kind: machine.PlanCompleted, At: at, State: "rollback", Plan: plan},
		{Kind: machine.GateOpened, At: at, State: "rollback", Gate: gate},
	}
	return machine.State{
		Start: start, Phase: machine.PhaseDeciding, Current: "rollback", Began: at, Updated: at, Gate: gate, Lever: &machine.Lever{Plan: plan},
		Path: []machine.Visit{{State: "triage"}, {State: "rollback"}},
	}, events
}

// Who is called sees first what is asked and what to type, then what it rests on; what
// could not be read is never folded away.
func TestOverview(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run, events := askingRun(at)
	run.Playbook = causeBook(t)
	var b strings.Builder
	r := NewRenderer(&b)
	r.Width, r.Clock = Width, Clock{Zone: time.FixedZone("", 5*3600+1800), Now: at.Add(4 * time.Minute)}
	r.Overview(Overview{Run: run, Events: events})
	want := `STATUS
run       r-1
status    deciding in state rollback since 17:30:00 +05:30, 4m ago
service   serving/chat
began     17:30:00 +05:30, 4m ago
playbook  p -
alert     Slow{}

QUESTION
plan      roll chat back from revision 3 to 2
          image: vllm:v2 -> vllm:v1
risk      medium
ready     0 now, at least 0 on the way, 0 after
undo      put revision 3 back
  digest ` + run.Gate.Digest + `
gate      group:sre, until 17:45:00 +05:30, in 11m, else escalate
gate ID   g
next      one of:
  responder approve r-1
  responder deny r-1 --reason TEXT
  responder replan r-1   # a fresh plan

EVIDENCE
cause     a release: triage -> roll [changes.suspect = true]
- changes: revision 3 came first
- slo: 92 % of requests were slow
- gpus: UNKNOWN: no agent answers
          2 more lines: --progress shows all evidence

PROGRESS
path      triage -> rollback; --graph draws it, with the samples of proofs
steps     7; --progress shows them
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	b.Reset()
	r = NewRenderer(&b)
	r.Overview(Overview{Run: run, Events: events, Progress: true, Graph: true, Full: true})
	for _, want := range []string{"- slo: 92 %", "slo: burns since 12:00", "pods: 4 of 4 ready", "?   too hot -> hot", "undo    put revision 3 back"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("everything lacks %q:\n%s", want, b.String())
		}
	}
}

// A branch means something only by what it leads to: without the playbook none is the cause.
func TestNoCauseWithoutThePlaybook(t *testing.T) {
	run, events := askingRun(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	in := IncidentOf(run, events)
	if d := DigestOf(run, events); in.Cause != nil || d.Cause != "" {
		t.Errorf("cause %+v, in a period %q", in.Cause, d.Cause)
	}
	var b strings.Builder
	r := NewRenderer(&b)
	r.Overview(Overview{Run: run, Events: events})
	const want = "the playbook of the run cannot be read"
	if in.CauseUnknown != want || !strings.Contains(b.String(), "cause     not known: "+want) {
		t.Errorf("not said: %q\n%s", in.CauseUnknown, b.String())
	}
}

// The change that an open question is about is in the question. One that was denied
// before a gate state asks is not.
func TestDeniedChangeStaysWhileAGateAsks(t *testing.T) {
	run, events := askingRun(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	shown := func() bool {
		var b strings.Builder
		r := NewRenderer(&b)
		r.Overview(Overview{Run: run, Events: events})
		return strings.Contains(b.String(), "change    roll chat back")
	}
	if shown() {
		t.Error("the change of the question is shown twice")
	}
	no := &machine.Decision{By: "user:ada", Reason: "not now"}
	ask := &machine.Gate{ID: "g2", Text: "page the vendor?", OnExpiry: playbook.ExpiryEscalate}
	events = append(events,
		machine.Event{Kind: machine.GateDecided, At: run.Began, State: "rollback", Decision: no},
		machine.Event{Kind: machine.GateOpened, At: run.Began, State: "vendor", Gate: ask})
	run.Current, run.Gate, run.Lever = "vendor", ask, nil
	if !shown() {
		t.Error("the denied change is not shown")
	}
}

// A button can be pressed any number of times: one person's decision that does not count
// is one line, whatever happens in between, and another reason is another line.
func TestRefusedDecisionIsOneLine(t *testing.T) {
	run, events := askingRun(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	refused := func(by, why string) machine.Event {
		return machine.Event{Kind: machine.DecisionIgnored, At: run.Began, State: "rollback", Decision: &machine.Decision{By: by, Channel: "api", Approve: true}, Message: why}
	}
	voted := machine.Event{Kind: machine.GateReminded, At: run.Began, State: "rollback"}
	events = append(events, refused("user:eve", "not named"), voted, refused("user:eve", "not named"), refused("user:bob", "not named"), refused("user:eve", "too late"), refused("user:eve", "not named"))
	var b strings.Builder
	r := NewRenderer(&b)
	r.Overview(Overview{Run: run, Events: events, Progress: true})
	if n := strings.Count(b.String(), " ignored: "); n != 3 {
		t.Errorf("%d lines about refused decisions, want 3:\n%s", n, b.String())
	}
}

// A time is that of the reader's day and zone, with an offset that means one zone only.
func TestClock(t *testing.T) {
	at := time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC)
	india := time.FixedZone("IST", 5*3600+1800)
	for _, c := range []struct {
		clock Clock
		want  string
	}{
		{Clock{}, "2026-03-01 20:00:00 UTC"},
		{Clock{Now: at.Add(4 * time.Minute)}, "20:00:00 UTC, 4m ago"},
		{Clock{Now: at.Add(-90 * time.Second)}, "20:00:00 UTC, in 90s"},
		{Clock{Zone: india, Now: at.Add(time.Hour)}, "01:30:00 +05:30, 60m ago"},
		{Clock{Zone: india, Now: at.Add(-2 * time.Hour)}, "2026-03-02 01:30:00 +05:30, in 120m"}, // it is the day before there
	} {
		if got := c.clock.Ago(at); got != c.want {
			t.Errorf("%+v: %s, want %s", c.clock, got, c.want)
		}
	}
	if got := (Clock{Now: at}).Ago(time.Time{}); got != "-" {
		t.Errorf("no time is %q", got)
	}
}
