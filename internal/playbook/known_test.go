package playbook

import (
	"encoding/json"
	"strings"
	"testing"
)

// gathering is a playbook whose conditions and edges the tests below examine.
const gatheringDoc = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: sample, runbook: docs/sample.md}
spec:
  match: '{alertname="Sample"}'
  autonomy: suggest
  start: look
  states:
    look:
      gather:
        slo: {check: prometheus.query, with: {query: up}}
        pods: {check: kube.workload}
      next:
        - {when: 'CONDITION', to: tell}
        - {to: people}
    tell: {notify: 'found', next: people}
    people: {end: escalated}
`

func condition(t *testing.T, source string) *Condition {
	t.Helper()
	ps, err := Parse("sample.yaml", []byte(strings.Replace(gatheringDoc, "CONDITION", strings.ReplaceAll(source, "'", "''"), 1)), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	return ps[0].State("look").Next[0].When
}

// A condition that depends on evidence which nobody has is neither true nor
// false. What it can be told without is told.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		source string
		want   Truth // with slo known (value 3, status ok) and pods unknown
	}{
		{`slo.value > 2.0`, True},
		{`slo.value > 5.0`, False},
		{`slo.known && slo.why == ""`, True},
		{`pods.ready == 0`, Unknown},
		{`!(pods.ready == 0)`, Unknown},
		{`has(pods.ready)`, Unknown},
		{`!has(pods.ready)`, Unknown},
		{`pods.waiting.exists(w, w == "x")`, Unknown},
		{`pods.waiting.all(w, w == "x")`, Unknown},
		{`size(pods.waiting) == 0`, Unknown},
		{`slo.value > 2.0 && pods.ready == 0`, Unknown},
		{`slo.value > 5.0 && pods.ready == 0`, False},
		{`slo.value > 2.0 || pods.ready == 0`, True},
		{`slo.value > 5.0 || pods.ready == 0`, Unknown},
		{`!pods.known`, True},
		{`pods.known && pods.ready == 0`, False},
		{`!pods.known || pods.ready == 0`, True},
		{`pods.why.contains("no answer")`, True},
		{`pods.known ? pods.ready == 0 : slo.value > 2.0`, True},
		{`slo.min > 2.0`, Unknown}, // the check answered, and has no such number
		{`has(slo.min) && slo.min > 2.0`, False},
	} {
		t.Run(c.source, func(t *testing.T) {
			got, why, err := condition(t, c.source).Judge(Scope{
				Evidence: map[string]json.RawMessage{"slo": json.RawMessage(`{"status":"ok","value":3}`)},
				Unknown:  map[string]string{"pods": "no answer within 30s"},
			})
			if err != nil || got != c.want {
				t.Errorf("got %s (%s), %v; want %s", got, why, err, c.want)
			}
			if strings.Contains(c.source, "pods") && got == Unknown && why != "pods is unknown: no answer within 30s" {
				t.Errorf("why: %q", why)
			}
		})
	}
}

// Evidence that was not gathered yet is as unknown as that of a failed check.
func TestJudgeNotGathered(t *testing.T) {
	if got, why, err := condition(t, `!slo.known && !pods.known`).Judge(Scope{}); got != True || err != nil {
		t.Error(got, why, err)
	}
}

// The values beside a branch are those that its condition read.
func TestValuesOfACondition(t *testing.T) {
	c := condition(t, `slo.value * 2.0 > 5.0 && slo.status in ["ok", "nan"] && alert.labels.severity != "info" && alert.annotations.summary != "x" && pods.known`)
	got := strings.Join(c.Values(Scope{
		Alert:    Alert{Labels: map[string]string{"severity": "page"}, Annotations: map[string]string{"summary": ""}},
		Evidence: map[string]json.RawMessage{"slo": json.RawMessage(`{"status":"ok","value":3.14159}`)},
	}), ", ")
	if want := "slo.value = 3.142, slo.status = ok, alert.labels.severity = page, alert.annotations.summary = \"\", pods.known = false"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A definition means the same as its expression written out.
func TestLet(t *testing.T) {
	let := "  let: {busy: 'slo.value > 2.0', idle: '!busy_now', stuck: 'pods.ready == 0', named: '\"busy\"', both: 'busy && pods.known', either: 'both || !pods.known && busy'}\n"
	let = strings.Replace(let, "idle: '!busy_now', ", "", 1)
	doc := strings.Replace(gatheringDoc, "  start: look\n", let+"  start: look\n", 1)
	doc = strings.Replace(doc, "- {to: people}", "- {when: '!busy && stuck || named == \"x\" || either', to: tell}\n        - {to: people}", 1)
	for _, c := range []struct {
		source string
		want   Truth // with slo known (value 3) and pods unknown
	}{
		{`busy`, True},
		{`!busy`, False},
		{`stuck`, Unknown},
		{`!busy && stuck`, False},
		{`busy || stuck`, True},
		{`pods.known && stuck`, False},
		{`named == "busy"`, True}, // a text is not expanded
		{`!(busy == true)`, False},
		{`both`, False}, // a definition reads those above it
		{`!either`, False},
	} {
		t.Run(c.source, func(t *testing.T) {
			ps, err := Parse("sample.yaml", []byte(strings.Replace(doc, "CONDITION", c.source, 1)), testKinds())
			if err != nil {
				t.Fatal(err)
			}
			w := ps[0].State("look").Next[0].When
			sc := Scope{Evidence: map[string]json.RawMessage{"slo": json.RawMessage(`{"value":3}`)}, Unknown: map[string]string{"pods": "away"}}
			if got, why, err := w.Judge(sc); got != c.want || err != nil {
				t.Errorf("got %s (%s), %v; want %s", got, why, err, c.want)
			}
			if w.Source() != c.source {
				t.Errorf("it is shown as %s", w.Source())
			}
			if c.source == "busy" && strings.Join(w.Values(sc), ", ") != "slo.value = 3" {
				t.Errorf("values: %v", w.Values(sc))
			}
		})
	}
}

// A way back over a wait is allowed: it lets time pass before the next look.
func TestWayBackOverAWait(t *testing.T) {
	for _, wait := range []string{"5m", "{check: kube.workload, until: out.ready > 0, within: 10m}"} {
		doc := strings.Replace(gatheringDoc, "tell: {notify: 'found', next: people}", "tell: {wait: "+wait+", next: look}", 1)
		if _, err := Parse("sample.yaml", []byte(strings.Replace(doc, "CONDITION", "slo.known", 1)), testKinds()); err != nil {
			t.Errorf("wait: %s: %v", wait, err)
		}
	}
}
