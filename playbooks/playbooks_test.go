package playbooks

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
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

// What the playbook decides on evidence, above all on evidence that is missing:
// nothing but a confirmed breach that does not end by itself leads to a lever, and
// faulty hardware and somebody's hand are ruled out first.
func TestDecisions(t *testing.T) {
	const (
		breached  = `{"status":"breached","ending":false,"worst":"ttft","since":"2026-01-01T11:58:00Z","stuck_replicas":0,"stuck":[],"objectives":[]}`
		young     = `{"status":"breached","ending":false,"worst":"ttft","since":"2026-01-01T12:09:00Z","stuck_replicas":0,"stuck":[]}`
		ending    = `{"status":"breached","ending":true,"worst":"ttft","since":"2026-01-01T11:58:00Z","stuck_replicas":0,"stuck":[]}`
		stuck     = `{"status":"breached","ending":false,"worst":"ttft","since":"2026-01-01T11:58:00Z","stuck_replicas":1,"stuck":[{"name":"chat-1"}]}`
		met       = `{"status":"met","ending":false,"worst":"","stuck_replicas":0,"stuck":[]}`
		unknown   = `{"status":"unknown","ending":false,"worst":"ttft","stuck_replicas":0,"stuck":[]}`
		tokens    = `{"status":"breached","ending":false,"worst":"tpot","since":"2026-01-01T11:58:00Z","stuck_replicas":0,"stuck":[],"objectives":[{"status":"breached","indicator":"tpot"}]}`
		queue     = `{"bound":"queue","replicas_short":2,"running":60.0,"ready":4}`
		decode    = `{"bound":"decode","replicas_short":1,"running":60.0,"ready":4}`
		idle      = `{"bound":"none","replicas_short":0,"running":6.0,"ready":4}`
		everyone  = `{"scope":"all","pod":"","node":""}`
		oneSlow   = `{"scope":"one_replica","pod":"chat-1","node":"a"}`
		oneNode   = `{"scope":"one_node","pod":"","node":"a"}`
		alone     = `{"shared_by":"","key":"","why":"nobody else breaches"}`
		room      = `{"shared_by":"heat","key":"heat","why":"two nodes are hot"}`
		unchanged = `{"changed":false,"ours":false,"suspect":false,"at":"2025-12-31T11:10:00Z"}`
		changed   = `{"changed":true,"ours":false,"suspect":true,"at":"2026-01-01T11:50:00Z"}`
		harmless  = `{"changed":true,"ours":false,"suspect":false,"at":"2026-01-01T11:50:00Z"}`
		ours      = `{"changed":true,"ours":true,"suspect":false,"at":"2026-01-01T11:50:00Z"}`
		changing  = `{"changed":true,"ours":false,"suspect":true,"at":"2026-01-01T12:09:00Z"}`
		ready     = `{"ready":4,"desired":4,"bad_nodes":0,"nodes":[{"name":"a","ready":true}]}`
		noPlace   = `{"ready":4,"desired":6,"unschedulable":2,"waiting":[],"bad_nodes":0,"nodes":[{"name":"a","ready":true}]}`
		noImage   = `{"ready":4,"desired":6,"unschedulable":0,"waiting":["ImagePullBackOff"],"bad_nodes":0,"nodes":[{"name":"a","ready":true}]}`
		coming    = `{"ready":4,"desired":6,"unschedulable":0,"waiting":["ContainerCreating"],"bad_nodes":0,"nodes":[{"name":"a","ready":true}]}`
		badNodes  = `{"ready":4,"desired":4,"bad_nodes":1,"nodes":[{"name":"a","ready":false}]}`
		noNodes   = `{"ready":4,"desired":4,"bad_nodes":0,"nodes":[]}`
		cool      = `{"verdict":"busy","throttle":"","bad_nodes":0,"hot_nodes":0,"unread_nodes":0,"reset":false,"rma":false}`
		hot       = `{"verdict":"throttled","throttle":"thermal","bad_nodes":1,"hot_nodes":1,"unread_nodes":0,"reset":false,"rma":false}`
		slowed    = `{"verdict":"throttled","throttle":"power_brake","bad_nodes":1,"hot_nodes":0,"unread_nodes":0,"reset":false,"rma":false}`
		failing   = `{"verdict":"failing","throttle":"thermal","bad_nodes":1,"hot_nodes":1,"unread_nodes":0,"reset":false,"rma":false}`
		untold    = `{"verdict":"unknown","throttle":"","bad_nodes":0,"hot_nodes":0,"unread_nodes":0,"reset":false,"rma":false}`
		unread    = `{"verdict":"unknown","throttle":"","bad_nodes":0,"hot_nodes":0,"unread_nodes":1,"reset":false,"rma":false}`
	)
	type evidence map[string]string
	all := func(slo, gpus, pods, changes string) evidence {
		return evidence{"slo": slo, "gpus": gpus, "pods": pods, "changes": changes, "fleet": alone, "engine": queue, "spread": everyone}
	}
	with := func(e evidence, name, data string) evidence {
		e[name] = data
		return e
	}
	tests := []struct {
		name, from string
		evidence   evidence
		want       string
	}{
		{"within its SLO", "triage", all(met, failing, ready, changed), "not-confirmed"},
		{"not measured", "triage", all(unknown, failing, ready, changed), "escalated"},
		{"ends by itself", "triage", all(ending, cool, ready, changed), "easing"},
		{"change and breach", "triage", all(breached, cool, ready, changed), "rollback"},
		{"a harmless change", "triage", all(breached, cool, ready, harmless), "levers"},
		{"no change", "triage", all(breached, cool, ready, unchanged), "levers"},
		{"replicas on their way", "triage", all(breached, cool, coming, unchanged), "loading"},
		{"replicas that no node takes", "triage", all(breached, cool, noPlace, unchanged), "escalated"},
		{"replicas without an image", "triage", all(breached, cool, noImage, unchanged), "escalated"},
		{"replicas without an image since a release", "triage", all(breached, cool, noImage, changed), "rollback"},
		{"our own rollback is not undone", "triage", all(breached, cool, ready, ours), "levers"},
		{"somebody is at it", "triage", all(breached, cool, ready, changing), "in-hand"},
		{"too hot", "triage", all(breached, hot, ready, changed), "thermal-emergency"},
		{"slowed down, not by heat", "triage", all(breached, slowed, ready, changed), "gpu-fault"},
		{"GPU failing, and hot", "triage", all(breached, failing, ready, changed), "gpu-fault"},
		{"an agent does not answer", "triage", all(breached, unread, ready, unchanged), "gpus-unread"},
		{"an agent does not answer, since a release", "triage", all(breached, unread, ready, changed), "rollback"},
		{"an agent does not answer, and it ends by itself", "triage", all(ending, unread, ready, changed), "easing"},
		{"no source of GPU readings, nodes fine", "triage", all(breached, untold, ready, changed), "rollback"},
		{"no source of GPU readings, node at fault", "triage", all(breached, untold, badNodes, changed), "node-fault"},
		{"no source of GPU readings, no nodes", "triage", all(breached, untold, noNodes, changed), "escalated"},
		{"no check of GPUs answers", "triage", evidence{"slo": breached, "pods": ready, "changes": changed}, "escalated"},
		{"the history does not answer", "triage", evidence{"slo": breached, "pods": ready, "gpus": cool}, "escalated"},
		{"the cluster does not answer", "triage", evidence{"slo": breached, "changes": unchanged, "gpus": cool}, "escalated"},
		{"nothing answers", "triage", evidence{}, "escalated"},
		{"ends by itself, as it did ten minutes ago", "triage", with(all(ending, cool, ready, unchanged), "easing", ending), "levers"},
		{"began a moment ago", "triage", all(young, cool, ready, changed), "moment"},
		{"began a moment ago, and a GPU fails", "triage", all(young, failing, ready, changed), "gpu-fault"},
		{"a replica stands still", "triage", all(stuck, cool, ready, unchanged), "stuck"},
		{"a replica stands still since a release", "triage", all(stuck, cool, ready, changed), "rollback"},
		{"others breach for the same reason", "triage", with(all(breached, hot, ready, changed), "fleet", room), "shared"},
		{"whether others do is not known", "triage", evidence{"slo": breached, "gpus": cool, "pods": ready, "changes": unchanged, "engine": queue, "spread": everyone}, "levers"},
		{"tokens are late, many at once", "triage", with(all(tokens, cool, ready, unchanged), "engine", decode), "levers"},
		{"many at once, and first tokens are late", "triage", with(all(breached, cool, ready, unchanged), "engine", decode), "levers"},
		{"not saturated", "triage", with(all(breached, cool, ready, unchanged), "engine", idle), "escalated"},
		{"what the engine does is not known", "triage", evidence{"slo": breached, "gpus": cool, "pods": ready, "changes": unchanged, "spread": everyone}, "escalated"},
		{"one replica is slow", "triage", with(all(breached, cool, ready, unchanged), "spread", oneSlow), "replace"},
		{"one replica is slow, and its GPU fails", "triage", with(all(breached, failing, ready, unchanged), "spread", oneSlow), "gpu-fault"},
		{"the replicas of one node are slow", "triage", with(all(breached, cool, ready, unchanged), "spread", oneNode), "one-node"},
		{"whether one is slow is not known", "triage", evidence{"slo": breached, "gpus": cool, "pods": ready, "changes": unchanged, "engine": queue}, "levers"},
	}
	p := load(t).ByName("inference-slo-breach")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			alert := playbook.Alert{
				Status: playbook.Firing, Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"},
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
	for _, e := range rollback.Next {
		if e.On.NeedsPeople() && e.To != "escalated" {
			t.Errorf("%s leads to %s, want escalated", e.On, e.To)
		}
	}
}

// TestPlaybooksHoldNoProofs: a playbook is read at 3 a.m., and proofs, queries and
// consequences are not written in it.
func TestPlaybooksHoldNoProofs(t *testing.T) {
	for _, p := range load(t).All() {
		for _, s := range p.States {
			if s.Verify != nil && !s.Verify.SLO {
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

// Replicas have half an hour to load, and as long as the service says where that
// is more.
func TestLoadingLastsAsLongAsTheService(t *testing.T) {
	within := load(t).ByName("inference-slo-breach").State("loading").Wait.Within
	for takes, want := range map[time.Duration]time.Duration{0: 30 * time.Minute, 12 * time.Minute: 30 * time.Minute, 50 * time.Minute: 50 * time.Minute} {
		got, err := within.Duration(playbook.Scope{Service: playbook.Service{LoadTime: takes}})
		if err != nil || got != want {
			t.Errorf("a load time of %s: %s, %v, want %s", takes, got, err, want)
		}
	}
}
