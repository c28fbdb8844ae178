package kinds_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// Several numbers of one check: one that could not be measured is not there, and
// what could be is.
func TestQueries(t *testing.T) {
	q := prom{values: map[string][]float64{"p99": {2.5}, "waiting": {41}, "pods": {1, 2}}, age: 10 * time.Second}
	for _, c := range []struct{ queries, status, values, fact string }{
		{`{"late":"p99","queue":"waiting"}`, "ok", `{"late":2.5,"queue":41}`, "queue: 41"},
		{`{"late":"p99","queue":"nothing"}`, "empty", `{"late":2.5}`, "queue: no series answers"},
		{`{"late":"nothing","queue":"waiting"}`, "empty", `{"queue":41}`, "late: no series answers"},
	} {
		var queries map[string]any
		if err := json.Unmarshal([]byte(c.queries), &queries); err != nil {
			t.Fatal(err)
		}
		o := do(t, step.Deps{Querier: q}, machine.Effect{Action: machine.ActionCheck, Step: "prometheus.query", With: map[string]any{"queries": queries}})
		var out struct {
			Status string
			Values json.RawMessage
		}
		if err := json.Unmarshal(o.Data, &out); err != nil {
			t.Fatalf("%s: %s %s", c.queries, o.Status, o.Message)
		}
		if out.Status != c.status || string(out.Values) != c.values || !strings.Contains(strings.Join(o.Facts, "\n"), c.fact) {
			t.Errorf("%s: %s\n%s", c.queries, o.Data, strings.Join(o.Facts, "\n"))
		}
	}
}

// The names are checked when a playbook is loaded, and the numbers are typed.
func TestQueriesOfAPlaybook(t *testing.T) {
	const doc = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: sample, runbook: docs/sample.md}
spec:
  match: '{alertname="Sample"}'
  start: look
  states:
    look:
      gather:
        load: {check: prometheus.query, with: WITH}
      next:
        - {when: 'CONDITION', to: tell}
        - {to: people}
    tell: {notify: 'found', next: people}
    people: {end: escalated}
`
	for _, c := range []struct{ with, condition, want string }{
		{`{queries: {p99: up, waiting: 'sum(x{${service.selector}})'}}`, `load.values.p99 > 2 && load.values.waiting > 5`, ""},
		{`{queries: {p99: up}}`, `load.values.p99 == "high"`, "cannot be applied to (double, string)"},
		{`{queries: {p-99: up}}`, `load.known`, `"p-99" cannot name a number`},
		{`{queries: {p99: 'sum('}}`, `load.known`, "invalid PromQL"},
		{`{queries: {p99: up}, range: 5m}`, `load.known`, "queries are evaluated now"},
		{`{queries: {p99: up}, query: up}`, `load.known`, "want exactly one of query, queries, got 2"},
		{`{asks: load}`, `load.known`, "want exactly one of query, queries, got 0"},
	} {
		_, err := playbook.Parse("sample.yaml", []byte(strings.NewReplacer("WITH", c.with, "CONDITION", c.condition).Replace(doc)), kinds.Declarations())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.with, err, c.want)
		}
	}
}
