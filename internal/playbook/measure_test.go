package playbook

import (
	"strings"
	"testing"
)

// TestMeasure: a condition of a proof may name a measure of the engine; what is
// misspelled is refused with what is allowed.
func TestMeasure(t *testing.T) {
	const doc = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: m, runbook: docs/m.md}
spec:
  match: '{alertname="Slow"}'
  start: look
  states:
    look: {check: kube.workload, next: [{when: out.ready > 0, to: fix}, {to: people}]}
    fix:
      lever: kube.scale
      with: {by: 1}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      verify: {also: CONDITION}
      next: [{when: verified, to: done}, {to: people}]
    done: {end: resolved}
    people: {end: escalated}
`
	for condition, want := range map[string]string{
		"engine.waiting < 1":                       "",
		"[engine.kv_usage < 0.9]":                  "",
		"engine.waitin < 1":                        `unknown measure "engine.waitin" (did you mean "engine.waiting"?`,
		"engine.waiting ~ 1":                       `unknown operator "~"`,
		"engine.waiting >= 0":                      "holds always",
		"engine.waiting < 0":                       "can never hold",
		"engine.kv_usage <= 1":                     "holds always",
		"engine.kv_usage > 1.5":                    "can never hold",
		"engine.kv_usage < 1":                      "",
		"engine.waiting < x":                       "want a number",
		"engine.waiting<1":                         "want a measure of the engine, an operator and a number",
		"{query: engine.waiting, op: <, value: 1}": "",
	} {
		docs, err := Parse("m.yaml", []byte(strings.Replace(doc, "CONDITION", condition, 1)), testKinds())
		switch {
		case strings.HasPrefix(condition, "{"):
			if err == nil {
				t.Error("a measure is no PromQL")
			}
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", condition, err, want)
		case want == "":
			u := docs[0].State("fix").Verify.Until[0]
			q, err := u.Query.Text(Scope{})
			if err != nil || !strings.HasPrefix(q, MeasurePrefix) {
				t.Errorf("%s: asks %q, %v", condition, q, err)
			}
		}
	}
}
