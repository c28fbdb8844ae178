package playbooks

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

func load(t *testing.T) *playbook.Set {
	t.Helper()
	set, err := playbook.LoadDir(".", kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The shipped playbooks load against the real steps, without a warning.
func TestShipped(t *testing.T) {
	set := load(t)
	if set.ByName("inference-slo-breach") == nil {
		t.Error("inference-slo-breach is not there")
	}
	if w := set.Warnings(); len(w) > 0 {
		t.Errorf("warnings:\n%v", w)
	}
}

// TestEmbedded holds what is embedded to what is on disk: both are loaded.
func TestEmbedded(t *testing.T) {
	entries, err := Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(entries), len(load(t).All()); got != want {
		t.Errorf("%d files are embedded, %d playbooks load", got, want)
	}
}

func TestSchemaUpToDate(t *testing.T) {
	const file = "schema/playbook.schema.json"
	want := playbook.Schema(kinds.Declarations())
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the steps declare: run make generate", file)
	}
}

var mermaidEdge = regexp.MustCompile(`^\s*(\S+) --> (\S+?)(?:: (.*))?$`)

// The graph has the states and edges of the runbook's own diagram, with its
// words, and between the runbook's states no others.
func TestRunbookGraph(t *testing.T) {
	data, err := os.ReadFile("testdata/runbook-edges.txt")
	if err != nil {
		t.Fatal(err)
	}
	ofRunbook := map[string]bool{"[*]": true}
	want := map[string]string{} // edge to label; empty: any
	for line := range strings.Lines(string(data)) {
		edge, label, _ := strings.Cut(strings.TrimSpace(line), ": ")
		want[edge] = label
		from, to, _ := strings.Cut(edge, " -> ")
		ofRunbook[from], ofRunbook[to] = true, true
	}
	drawn, err := playbook.Graph(load(t).ByName("inference-slo-breach"), nil, playbook.GraphMermaid)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(drawn) {
		m := mermaidEdge.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || !ofRunbook[m[1]] || !ofRunbook[m[2]] {
			continue
		}
		edge := m[1] + " -> " + m[2]
		got[edge] = m[3]
		if want[edge] == "" {
			got[edge] = ""
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("edges between the runbook's states (-runbook +playbook):\n%s\n%s", diff, drawn)
	}
}

// walk goes from a state along conditions, given evidence for each check, to
// the first state that is no check.
func walk(t *testing.T, p *playbook.Playbook, from string, alert playbook.Alert, out map[string]string) string {
	t.Helper()
	scope := playbook.Scope{Alert: alert, Now: alert.StartsAt.Add(10 * time.Minute), Evidence: map[string]json.RawMessage{}}
	for name, data := range out { // of checks that came before
		scope.Evidence[name] = json.RawMessage(data)
	}
	at := p.State(from)
	for at.Kind == playbook.StateCheck {
		data, ok := out[at.Name]
		if !ok {
			t.Fatalf("came to %s, for which the test has no evidence", at.Name)
		}
		scope.Out = json.RawMessage(data)
		scope.Evidence[at.Name] = scope.Out
		next := ""
		for _, e := range at.Next {
			holds := e.When == nil
			if e.When != nil {
				var err error
				if holds, err = e.When.Eval(scope); err != nil {
					return "error in " + at.Name
				}
			}
			if holds {
				next = e.To
				break
			}
		}
		at = p.State(next)
	}
	return at.Name
}

// What the playbook decides on evidence, above all on evidence that is missing:
// nothing but a confirmed breach leads to a lever, and nothing but both
// indicators measured under their objective leads to resolved.
func TestDecisions(t *testing.T) {
	const (
		unchanged = `{"changed":false,"ours":false,"count":0,"current":4,"previous":3,"age_seconds":90000}`
		changed   = `{"changed":true,"ours":false,"count":1,"current":4,"previous":3,"age_seconds":1200}`
		ours      = `{"changed":true,"ours":true,"count":1,"current":5,"previous":4,"age_seconds":1200}`
		changing  = `{"changed":true,"ours":false,"count":2,"current":5,"previous":4,"age_seconds":60}`
		slow      = `{"status":"ok","value":0.4,"series":[{"labels":{"sli":"ttft"},"value":0.4},{"labels":{"sli":"tpot"},"value":0}]}`
		fine      = `{"status":"ok","value":0.001,"series":[{"labels":{"sli":"ttft"},"value":0.001},{"labels":{"sli":"tpot"},"value":0}]}`
		empty     = `{"status":"empty","series":[]}`
		nan       = `{"status":"nan","series":[{"labels":{"sli":"ttft"}}]}`
		stale     = `{"status":"stale","series":[{"labels":{"sli":"ttft"}}]}`
		goodNodes = `{"bad_nodes":0,"nodes":[{"name":"a","ready":true}]}`
		badNodes  = `{"bad_nodes":1,"nodes":[{"name":"a","ready":false}]}`
		noNodes   = `{"bad_nodes":0,"nodes":[]}`
		coolGPUs  = `{"verdict":"busy","throttle":"","bad_nodes":0,"hot_nodes":0,"reset":false,"rma":false}`
		hotGPUs   = `{"verdict":"throttled","throttle":"thermal","bad_nodes":1,"hot_nodes":1,"reset":false,"rma":false}`
		slowGPUs  = `{"verdict":"throttled","throttle":"power_brake","bad_nodes":1,"hot_nodes":0,"reset":false,"rma":false}`
		badGPUs   = `{"verdict":"failing","throttle":"thermal","bad_nodes":1,"hot_nodes":1,"reset":false,"rma":false}`
		noGPUs    = `{"verdict":"unknown","throttle":"","bad_nodes":0,"hot_nodes":0,"reset":false,"rma":false}`
	)
	type evidence map[string]string
	tests := []struct {
		name, from, alert string
		evidence          evidence
		want              string
	}{
		{"change and breach", "triage", "InferenceTTFTFastBurn", evidence{"triage": changed, "deploy": slow}, "rollback"},
		{"change in Git and breach", "committed", "InferenceTTFTFastBurn", evidence{"committed": `{"ours":false,"changed":true}`}, "rollback"},
		{"our own commit", "committed", "InferenceTTFTFastBurn", evidence{"committed": `{"ours":true,"changed":false}`, "other-cause": slow}, "levers"},
		{"large batch", "batch", "InferenceTPOTFastBurn", evidence{"batch": `{"status":"ok","value":48,"series":[]}`}, "cap-concurrency"},
		{"no batch known", "batch", "InferenceTPOTFastBurn", evidence{"batch": empty, "hardware": noGPUs, "conditions": noNodes}, "escalated"},
		{"change, breach over", "triage", "InferenceTTFTFastBurn", evidence{"triage": changed, "deploy": fine}, "not-confirmed"},
		{"change, one indicator missing", "triage", "InferenceTPOTFastBurn", evidence{"triage": changed, "deploy": half}, "escalated"},
		{"change, no series", "triage", "InferenceTTFTFastBurn", evidence{"triage": changed, "deploy": empty}, "escalated"},
		{"change, 0/0", "triage", "InferenceTPOTFastBurn", evidence{"triage": changed, "deploy": nan}, "escalated"},
		{"somebody is at it", "triage", "InferenceTTFTFastBurn", evidence{"triage": changing}, "in-hand"},
		{"history unreadable", "triage", "InferenceTTFTFastBurn", evidence{"triage": `{}`}, "error in triage"},
		{"our own rollback is not undone", "triage", "InferenceTTFTFastBurn", evidence{"triage": ours, "prefill": slow}, "levers"},
		{"TTFT", "triage", "InferenceTTFTSlowBurn", evidence{"triage": unchanged, "prefill": slow}, "levers"},
		{"TTFT not confirmed", "triage", "InferenceTTFTSlowBurn", evidence{"triage": unchanged, "prefill": fine}, "not-confirmed"},
		{"TTFT stale", "triage", "InferenceTTFTSlowBurn", evidence{"triage": unchanged, "prefill": stale}, "escalated"},
		{"TPOT", "triage", "InferenceTPOTFastBurn", evidence{"triage": unchanged, "decode": slow}, "levers"},
		{"TPOT empty", "triage", "InferenceTPOTFastBurn", evidence{"triage": unchanged, "decode": empty}, "escalated"},
		{"rollback did not help", "other-cause", "InferenceTTFTFastBurn", evidence{"other-cause": slow}, "levers"},
		{"recovered meanwhile", "other-cause", "InferenceTTFTFastBurn", evidence{"other-cause": fine, "verify": fine}, "resolved"},
		{"GPUs fine, still slow", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": coolGPUs, "verify": slow}, "escalated"},
		{"too hot", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": hotGPUs}, "thermal-emergency"},
		{"slowed down, not by heat", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": slowGPUs}, "gpu-fault"},
		{"GPU failing, and hot", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": badGPUs}, "gpu-fault"},
		{"GPUs not known, nodes fine, still slow", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": noGPUs, "conditions": goodNodes, "verify": slow}, "escalated"},
		{"GPUs not known, recovered meanwhile", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": noGPUs, "conditions": goodNodes, "verify": fine}, "resolved"},
		{"GPUs not known, node at fault", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": noGPUs, "conditions": badNodes}, "node-fault"},
		{"GPUs not known, no nodes", "hardware", "InferenceTTFTFastBurn", evidence{"hardware": noGPUs, "conditions": noNodes}, "escalated"},
		{"proven", "verify", "InferenceTTFTFastBurn", evidence{"verify": fine}, "resolved"},
		{"one indicator missing", "verify", "InferenceTTFTFastBurn", evidence{"verify": half}, "escalated"},
		{"nothing measured", "verify", "InferenceTTFTFastBurn", evidence{"verify": empty}, "escalated"},
		{"idle or hung", "verify", "InferenceTTFTFastBurn", evidence{"verify": nan}, "escalated"},
	}
	p := load(t).ByName("inference-slo-breach")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			alert := playbook.Alert{
				Status: playbook.Firing, Labels: map[string]string{"alertname": test.alert},
				StartsAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
			}
			if got := walk(t, p, test.from, alert, test.evidence); got != test.want {
				t.Errorf("came to %s, want %s", got, test.want)
			}
		})
	}
}

// TestSuspectReleaseIsForPeople: where a suspect release cannot be taken back, more
// replicas are no answer to it.
func TestSuspectReleaseIsForPeople(t *testing.T) {
	rollback := load(t).ByName("inference-slo-breach").State("rollback")
	for _, on := range []playbook.Signal{playbook.OnRefused, playbook.OnDenied, playbook.OnExpired} {
		i := slices.IndexFunc(rollback.Next, func(e playbook.Edge) bool { return e.On == on || e.On == "" && e.When == nil })
		if to := rollback.Next[i].To; to != "escalated" {
			t.Errorf("%s leads to %s, want escalated", on, to)
		}
	}
}

// TestQueriesAreOfOneService fills every query in for a service and looks that
// each series selector carries the service's matchers.
func TestQueriesAreOfOneService(t *testing.T) {
	set := load(t)
	scope := playbook.Scope{
		Service: playbook.Service{Name: "serving/chat", Selector: `namespace="serving",service="chat"`},
		Alert:   playbook.Alert{Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"}},
		Since:   5 * time.Minute,
	}
	n := 0
	for _, p := range set.All() {
		for _, s := range p.States {
			for _, v := range queries(s) {
				text, err := v.Text(scope)
				if err != nil {
					t.Errorf("%s: %v", s.Name, err)
					continue
				}
				n++
				if a, b := strings.Count(text, "vllm:"), strings.Count(text, scope.Service.Selector); a != b || a == 0 {
					t.Errorf("%s: %d metrics, %d of them of the service:\n%s", s.Name, a, b, text)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("saw %d queries only: the test looks in the wrong place", n)
	}
}

func queries(s *playbook.State) []*playbook.Value {
	var out []*playbook.Value
	if q := s.With["query"]; q != nil {
		out = append(out, q)
	}
	if v := s.Verify; v != nil {
		for _, e := range v.Until {
			out = append(out, e.Query)
		}
		out = append(out, v.Burn.ErrorRatio, v.Traffic)
	}
	return out
}
