package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/slotest"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// noon is when the recorded incident begins; it lasts half an hour.
var noon = time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)

const scaleOut = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: slow, title: Slow, runbook: docs}
spec:
  match: ['{alertname="Slow"}']
  start: triage
  states:
    triage:
      gather:
        slo: {check: slo.burn}
        gpus: {check: gpu.health}
      next:
        - {when: slo.status == "met", to: fine, label: within SLO}
        - {when: slo.status == "unknown", to: escalated, label: cannot be measured}
        - {when: gpus.known && gpus.verdict == "failing", to: broken, label: GPU at fault}
        - {to: moment, label: breached}
    moment: {wait: 2m, next: again}
    again:
      check: slo.burn
      next: [{when: out.status == "met", to: fine}, {to: add}]
    add:
      lever: kube.scale
      with: {by: 1}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      next: [{when: verified, to: fine}, {to: escalated}]
    broken: {divert: hardware}
    fine: {end: no-action}
    escalated: {end: escalated}
`

const hardware = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: hardware, title: Hardware, runbook: docs}
spec:
  match: ['{alertname="GPU"}']
  start: tell
  states:
    tell: {notify: 'GPUs of ${service.name} are at fault', next: escalated}
    escalated: {end: escalated}
`

// history is that of one service: from noon to half past, half of the first
// tokens are late.
func history(t *testing.T) slotest.Store {
	t.Helper()
	s := slotest.Store{}
	labels := map[string]string{"namespace": "serving", "model_name": "chat", "pod": "chat-0", "instance": "chat-0"}
	points := map[string][]slo.Point{}
	good, all := 0.0, 0.0
	for at := noon.Add(-3 * time.Hour); at.Before(noon.Add(3 * time.Hour)); at = at.Add(15 * time.Second) {
		all += 150
		if at.Before(noon) || at.After(noon.Add(30*time.Minute)) {
			good += 150
		} else {
			good += 75
		}
		points["0.5"] = append(points["0.5"], slo.Point{At: at, Value: good})
		points["+Inf"] = append(points["+Inf"], slo.Point{At: at, Value: all})
	}
	add := func(name, le string, p []slo.Point) {
		of := map[string]string{}
		for k, v := range labels {
			of[k] = v
		}
		if le != "" {
			of["le"] = le
		}
		s.Add(name, of, p)
	}
	add("vllm:time_to_first_token_seconds_bucket", "0.5", points["0.5"])
	add("vllm:time_to_first_token_seconds_bucket", "+Inf", points["+Inf"])
	add("vllm:time_to_first_token_seconds_count", "", points["+Inf"])
	return s
}

func chat() playbook.Service {
	return playbook.Service{
		Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"}, Engine: "vllm", Model: "chat",
		Selector: `namespace="serving",model_name="chat"`, Owners: []string{"group:owners"}, Autonomy: playbook.Auto, MaxScale: 10,
		SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5}},
	}
}

// resolve knows one service, of alerts with the label service.
func resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	if a.Labels["service"] != "chat" {
		return nil, "", nil
	}
	return []playbook.Service{chat()}, "", nil
}

func setOf(t *testing.T, documents ...string) *playbook.Set {
	t.Helper()
	var all []*playbook.Playbook
	for i, d := range documents {
		p, err := playbook.Parse(fmt.Sprintf("%d.yaml", i), []byte(d), kinds.Declarations())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p...)
	}
	set, err := playbook.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func options(t *testing.T) Options {
	t.Helper()
	return Options{
		From: noon.Add(-time.Hour), To: noon.Add(3 * time.Hour), Now: noon.Add(4 * time.Hour), Querier: history(t), Resolve: resolve,
		Services: func() []playbook.Service { return []playbook.Service{chat()} }, Playbooks: setOf(t, scaleOut, hardware), Window: 30 * time.Minute,
	}
}

// told is a notification about one alert that began at a time; ended zero: it fires.
func told(name string, at, began, ended time.Time) playbook.Notification {
	a := playbook.Alert{
		Fingerprint: name, Status: playbook.Firing, StartsAt: began, EndsAt: ended, Labels: map[string]string{"alertname": name, "service": "chat"},
	}
	if !ended.IsZero() {
		a.Status = playbook.Resolved
	}
	return playbook.Notification{Status: a.Status, Version: "4", ReceivedAt: at, Alerts: []playbook.Alert{a}}
}

func mustRun(t *testing.T, o Options, all ...playbook.Notification) Report {
	t.Helper()
	r, err := Run(t.Context(), o, all)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ends returns the runs of a report in a few words.
func ends(r Report) string {
	var out []string
	for i, run := range r.Runs {
		out = append(out, run.Began.Format("15:04")+" "+run.Playbook+" "+strings.Join(run.Path, ">")+": "+r.runs[i].text())
	}
	return strings.Join(out, "\n")
}

// TestIncident: the same playbook proposes replicas while the objective was missed,
// and nothing when it was met again.
func TestIncident(t *testing.T) {
	minute := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	r := mustRun(t, options(t),
		told("Slow", minute(10), minute(10), time.Time{}),
		told("Slow", minute(40), minute(10), minute(40)),
		told("Slow", minute(60), minute(60), time.Time{}),
		told("Slow", minute(70), minute(60), minute(70)),
	)
	want := "12:10 slow triage>moment>again>add: kube.scale by=1\n13:00 slow triage>fine: no-action (within SLO)"
	if got := ends(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.Runs[0].Lasted != "30m" || r.Runs[0].Took != "2m" || r.Episodes != 2 {
		t.Errorf("lasted %s, took %s, %d episodes", r.Runs[0].Lasted, r.Runs[0].Took, r.Episodes)
	}
	if got := strings.Join(r.Runs[0].Unknown, "; "); got != "gpus: not in the history: gpu.health" {
		t.Errorf("unknown: %s", got)
	}
	var text bytes.Buffer
	if err := Write(&text, r, true, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1x kube.scale", "1x no-action", "no  within SLO -> fine  [slo.status = breached]", "ttft over 5m: 50 % of 3,000 requests were slow", "a run stops at its first change"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestOnce: repeats, the other one of a pair and an alert that joins start no second
// run; what began outside of the span starts none at all.
func TestOnce(t *testing.T) {
	at := noon.Add(10 * time.Minute)
	o := options(t)
	o.From, o.To = noon.Add(5*time.Minute), noon.Add(20*time.Minute)
	twin := told("Slow", at.Add(15*time.Second), at, time.Time{})
	r := mustRun(t, o,
		told("Slow", noon, noon, time.Time{}), // before
		told("Slow", at, at, time.Time{}), twin,
		told("Slow", at.Add(4*time.Hour), at, time.Time{}), // a repeat after the span
		told("GPU", at.Add(time.Minute), at.Add(time.Minute), time.Time{}),
		told("Other", at, at, time.Time{}),
		told("Slow", noon.Add(30*time.Minute), noon.Add(30*time.Minute), time.Time{}), // after
	)
	// It looks again when the other alert joins, as in the service.
	if got, want := ends(r), "12:10 slow triage>moment>triage>moment>again>add: kube.scale by=1"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.Episodes != 3 || r.Runs[0].Episodes != 2 || r.Runs[0].Lasted != "" {
		t.Errorf("%d episodes, %d of the run, lasted %q", r.Episodes, r.Runs[0].Episodes, r.Runs[0].Lasted)
	}
	if len(r.Without) != 1 || r.Without[0].Alert != "Other" || r.Without[0].Decision != "unmatched" {
		t.Errorf("without a run: %+v", r.Without)
	}
	if text := strings.Join(r.Notes, "\n"); !strings.Contains(text, "before or after the span: 2 episodes") {
		t.Errorf("notes: %s", text)
	}
}

// TestSilence: an alert whose end nobody told holds its run open only as long as
// Alertmanager would have repeated it.
func TestSilence(t *testing.T) {
	o := options(t)
	o.To, o.Now = noon.Add(24*time.Hour), noon.Add(24*time.Hour)
	at := noon.Add(10 * time.Minute)
	again := func(after time.Duration) playbook.Notification {
		return told("Slow", at.Add(after), at.Add(after), time.Time{})
	}
	r := mustRun(t, o, again(0), again(4*time.Hour), again(10*time.Hour))
	want := "12:10 slow triage>moment>again>add: kube.scale by=1\n22:10 slow triage>escalated: escalated (cannot be measured)"
	if got := ends(r); got != want || r.Runs[0].Episodes != 2 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPeople: while people have a service, an alert about it starts no run; when the
// window is over it does, as in the service.
func TestPeople(t *testing.T) {
	at := noon.Add(10 * time.Minute)
	r := mustRun(t, options(t), told("GPU", at, at, time.Time{}), told("Slow", at.Add(5*time.Minute), at.Add(5*time.Minute), time.Time{}))
	want := "12:10 hardware tell>escalated: escalated\n12:40 slow triage>fine: no-action (within SLO)"
	if got := ends(r); got != want || len(r.Without) != 0 {
		t.Errorf("got\n%s\nwant\n%s\n%+v", got, want, r.Without)
	}
}

// TestAssumed: a result that is assumed leads to another playbook, which goes on with
// the same alerts.
func TestAssumed(t *testing.T) {
	o := options(t)
	var err error
	o.Assumed, err = rehearsal.ReadFindings("assume.yaml", []byte("gpu.health: {verdict: failing}\n"), kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	at := noon.Add(10 * time.Minute)
	r := mustRun(t, o, told("Slow", at, at, time.Time{}))
	want := "12:10 slow triage>broken: diverted (GPU at fault)\n12:10 hardware tell>escalated: escalated"
	if got := ends(r); got != want || r.Runs[1].DivertedFrom != r.Runs[0].Run {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := rehearsal.ReadFindings("assume.yaml", []byte("gpu.heath: {verdict: failing}\n"), kinds.Declarations()); err == nil || !strings.Contains(err.Error(), `assume.yaml:1:1`) {
		t.Errorf("a misspelled check: %v", err)
	}
}

// TestNoHistory: what Prometheus does not have is unknown, with its series.
func TestNoHistory(t *testing.T) {
	o := options(t)
	o.Querier = slotest.Store{}
	at := noon.Add(10 * time.Minute)
	r := mustRun(t, o, told("Slow", at, at, time.Time{}))
	if got, want := ends(r), "12:10 slow triage>escalated: escalated (cannot be measured)"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var text bytes.Buffer
	if err := Write(&text, r, true, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Prometheus had none of the series that 1 run asked for", "vllm:time_to_first_token_seconds"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	o.Querier = nil
	r = mustRun(t, o, told("Slow", at, at, time.Time{}))
	if got, want := ends(r), "12:10 slow triage>escalated: escalated (cannot be measured)"; got != want {
		t.Errorf("without a Prometheus: got\n%s\nwant\n%s", got, want)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "no Prometheus is configured") {
		t.Errorf("without a Prometheus: %s", notes)
	}
}

// TestAgainst shows only what another set of playbooks does otherwise, and asks
// Prometheus once for both.
func TestAgainst(t *testing.T) {
	minute := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	all := []playbook.Notification{
		told("Slow", minute(10), minute(10), time.Time{}), told("Slow", minute(40), minute(10), minute(40)),
		told("Slow", minute(60), minute(60), time.Time{}),
	}
	o := options(t)
	alone := mustRun(t, o, all...).Queries
	o.Against = setOf(t, strings.ReplaceAll(scaleOut, "by: 1", "by: 3"), hardware)
	r := mustRun(t, o, all...)
	if r.Queries > alone {
		t.Errorf("%d queries for both, %d for one", r.Queries, alone)
	}
	if len(r.Compared.Differs) != 1 || r.Compared.Same != 1 {
		t.Fatalf("%+v", r.Compared)
	}
	if d := r.Compared.Differs[0]; d.Was != "slow: kube.scale by=1" || d.Against != "slow: kube.scale by=3" {
		t.Errorf("%+v", d)
	}
	o.Against = setOf(t, strings.ReplaceAll(scaleOut, "wait: 2m, next: again", "wait: 1m, next: more")+"    more: {wait: 1m, next: again}\n", hardware)
	d := mustRun(t, o, all...).Compared.Differs
	if len(d) != 1 || d[0].Against != "triage -> moment -> more -> again -> add: slow: kube.scale by=1" {
		t.Errorf("another way to the same end: %+v", d)
	}
}

// silent answers a number of queries, then nothing.
type silent struct {
	slotest.Store
	left atomic.Int32
	err  error
	then func()
}

// Instant implements [step.Querier].
func (a *silent) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if a.left.Add(-1) < 0 {
		a.then()
		return slo.Vector{}, a.err
	}
	return a.Store.Instant(ctx, expr, at)
}

// TestAway: a Prometheus that refuses to answer is no evidence of the past.
func TestAway(t *testing.T) {
	o := options(t)
	o.Querier = &silent{Store: history(t), err: &fault.Error{Reason: fault.Forbidden, Message: "the token is refused"}, then: func() {}}
	at := noon.Add(10 * time.Minute)
	r := mustRun(t, o, told("Slow", at, at, time.Time{}))
	if len(r.Runs) != 1 || r.Runs[0].End != EndUnknown || !strings.Contains(r.Runs[0].Message, "the token is refused") {
		t.Errorf("%+v", r.Runs)
	}
}

// TestInterrupted: what was done before an interruption is told.
func TestInterrupted(t *testing.T) {
	o := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	q := &silent{Store: history(t), err: context.Canceled, then: cancel}
	q.left.Store(6)
	o.Querier = q
	first, second := noon.Add(-30*time.Minute), noon.Add(10*time.Minute)
	r, err := Run(ctx, o, []playbook.Notification{
		told("Slow", first, first, time.Time{}), told("Slow", first.Add(time.Minute), first, first.Add(time.Minute)), told("Slow", second, second, time.Time{}),
	})
	if err != nil || !r.Interrupted || ends(r) != "11:30 slow triage>fine: no-action (within SLO)" {
		t.Errorf("%v, interrupted %v:\n%s", err, r.Interrupted, ends(r))
	}
	if errors.Is(err, context.Canceled) {
		t.Error("the interruption is an error")
	}
}

// TestRecorded: each check that is asked about the past exists, and asks about no
// later time than the run has reached.
func TestRecorded(t *testing.T) {
	all := kinds.All()
	for _, name := range recorded() {
		if all[name].Check == nil {
			t.Errorf("%s is no check", name)
		}
	}
	now := noon
	p := &past{archive: &archive{q: history(t), slots: make(chan struct{}, 1)}, now: func() time.Time { return now }, failed: map[question]error{}}
	if _, err := p.Instant(t.Context(), "vector(1)", noon.Add(time.Second)); err == nil {
		t.Error("the future was asked for")
	}
	if _, err := p.Range(t.Context(), "vector(1)", noon.Add(-time.Hour), noon, time.Minute); err != nil {
		t.Error(err)
	}
}
