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
	"go.yaml.in/yaml/v3"

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

// The graph has the states and edges of the runbook's own diagram, and the way back to
// look again after more replicas, with its
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

// walk goes from a state along conditions, given evidence by name, to the first
// state that is no check. Evidence that the test does not give is unknown.
func walk(t *testing.T, p *playbook.Playbook, from string, alert playbook.Alert, out map[string]string) string {
	t.Helper()
	scope := playbook.Scope{Alert: alert, Now: alert.StartsAt.Add(10 * time.Minute), Evidence: map[string]json.RawMessage{}, Unknown: map[string]string{}}
	for name, data := range out { // of checks that came before
		scope.Evidence[name] = json.RawMessage(data)
	}
	at := p.State(from)
	for at.Kind == playbook.StateCheck || at.Kind == playbook.StateGather {
		if at.Kind == playbook.StateCheck {
			data, ok := out[at.Name]
			if !ok {
				t.Fatalf("came to %s, for which the test has no evidence", at.Name)
			}
			scope.Out = json.RawMessage(data)
		}
		for _, name := range at.Gathers() {
			if _, ok := out[name]; !ok {
				scope.Unknown[name] = "no answer"
			}
		}
		next, doubt := "", false
		for _, e := range at.Next {
			result := playbook.True
			if e.When != nil {
				var err error
				if result, _, err = e.When.Judge(scope); err != nil {
					return "error in " + at.Name
				}
			}
			doubt = doubt || result == playbook.Unknown
			if result == playbook.True && p.HeldBack(e, doubt, false) == "" {
				next = e.To
				break
			}
		}
		at = p.State(next)
		if at == nil {
			return "people" // no edge is taken
		}
	}
	return at.Name
}

// TestSuspectReleaseIsForPeople: where a suspect release cannot be taken back, more
// replicas are no answer to it.
func TestSuspectReleaseIsForPeople(t *testing.T) {
	rollback := load(t).ByName("inference-slo-breach").State("rollback")
	for _, e := range rollback.Next {
		// What a burst hides is looked at anew: the release went back, whatever it did.
		if e.On.NeedsPeople() && e.To != "escalated" && (e.On != playbook.OnInconclusive || e.To != "triage") {
			t.Errorf("%s leads to %s, want escalated", e.On, e.To)
		}
	}
}

// TestConditionsAreShort: a condition is read at 3 a.m., too.
func TestConditionsAreShort(t *testing.T) {
	const most = 120
	for _, p := range load(t).All() {
		var doc map[string]any
		if err := yaml.Unmarshal(p.Doc, &doc); err != nil {
			t.Fatal(err)
		}
		check := func(where string, v any) {
			if text, ok := v.(string); ok && len(text) > most {
				t.Errorf("%s: %s is a condition of %d characters, more than %d: %s", p.Name, where, len(text), most, text)
			}
		}
		var walk func(n any)
		walk = func(n any) {
			switch n := n.(type) {
			case []any:
				for _, v := range n {
					walk(v)
				}
			case map[string]any:
				for k, v := range n {
					if walk(v); k == "when" || k == "until" {
						check(k, v)
					}
				}
			}
		}
		walk(doc)
		let, _ := doc["spec"].(map[string]any)["let"].(map[string]any)
		for name, v := range let {
			if text, _ := v.(string); !strings.Contains(text, " ? ") { // a text that people read
				check(name, v)
			}
		}
	}
}

// TestPlaybooksHoldNoProofs: a playbook is read at 3 a.m., and proofs, queries and
// consequences are not written in it. No objective sees a wrong answer, so the levers
// of regression have golden prompts for a proof, and no latency takes them back. Nor
// does one see that a release is gone of which no pod ever served.
func TestPlaybooksHoldNoProofs(t *testing.T) {
	own := []string{"regression/rollback", "regression/replace", "regression/evict", "inference-slo-breach/clear", "kv-cache-thrash/clear", "oom/clear", "cold-start/clear"}
	for _, p := range load(t).All() {
		for _, s := range p.States {
			if s.Verify != nil && !s.Verify.SLO && !s.Verify.Itself && !slices.Contains(own, p.Name+"/"+s.Name) {
				t.Errorf("%s: state %s has a proof of its own", p.Name, s.Name)
			}
		}
		for _, number := range []string{"0.5", "0.05", "0.99", "le="} {
			if strings.Contains(string(p.Doc), number) {
				t.Errorf("%s names %s: objectives stand in the catalog", p.Name, number)
			}
		}
	}
}
