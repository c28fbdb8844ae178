package slack

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func epoch() time.Time { return time.Date(2026, 5, 4, 11, 0, 0, 0, time.UTC) }

// approval returns a complete example.
func approval() Approval {
	return Approval{
		ID: "g_3f9a2b7c", Title: "roll back deployment llm/chat-api to revision 41", Link: "https://responder.example/runs/01J",
		Service: "chat-api", Environment: "production", Alert: "InferenceTTFTBurn", Playbook: "inference-slo-breach", Step: "rollback",
		Since: epoch(), Burning: 14 * time.Minute,
		Budget:   &Budget{Left: 0.314, Burn: 14.4, RunsOut: epoch().Add(3 * time.Hour)},
		Evidence: []string{"TTFT p99 is 4.2 s, the objective 1 s (prometheus.query)", "revision 42 began 9 minutes before the alert (kube.changes)", "6 of 6 replicas are ready (kube.workload)"},
		Plan: Plan{
			Summary: "Deployment llm/chat-api back to revision 41", Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015",
			Changes: []Change{
				{Object: "Deployment llm/chat-api", Field: "containers[vllm].image", From: "vllm/vllm-openai:v0.11.2", To: "vllm/vllm-openai:v0.11.1"},
				{Object: "Deployment llm/chat-api", Field: "containers[vllm].args[--max-num-seqs]", From: "512"},
				{Object: "Deployment llm/chat-api", Field: "containers[vllm].env[VLLM_USE_V2]", To: "0"},
			},
		},
		Capacity: "5 of 6 replicas ready throughout, 83 % of tokens per second", Risk: "medium",
		Guards:       []string{"nobody else changes it", "2 of 3 changes left this hour"},
		Verification: []string{"TTFT p99 below 1 s for 5 min", "no restart"},
		Undo:         []string{"roll forward to revision 42"},
		Deadline:     epoch().Add(30 * time.Minute), Expiry: "nothing is changed",
		Needs: []Need{
			{Rule: "policy two-for-high, policy.yaml:14", From: []string{"group:platform-oncall"}, Quorum: 2, By: []string{"user:ada"}},
			{Rule: "playbook inference-slo-breach, state rollback", From: []string{"service.owners"}, Quorum: 1},
		},
		OfferBreakGlass: true, State: Open,
	}
}

// hostile is text from a label, a name or a malicious person.
const hostile = "<!channel> @here <https://evil.example|click> *bold* `code` ```fence``` & \u202Egnp\u2066 \x1b[31m\nApproved by root"

func hostileApproval() Approval {
	a := approval()
	a.Title, a.Service, a.Alert, a.Capacity, a.Risk, a.Environment, a.Playbook, a.Expiry = hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile
	a.Evidence, a.Guards, a.Verification, a.Undo, a.Notes = []string{hostile}, []string{hostile}, []string{hostile}, []string{hostile}, []string{hostile}
	a.Plan.Summary, a.Plan.Digest = hostile, hostile
	a.Plan.Changes = []Change{{Object: hostile, Field: hostile, From: hostile, To: hostile + "```\n<!everyone>"}}
	a.Needs = []Need{{Rule: hostile, From: []string{hostile}, Quorum: 1, By: []string{hostile}}}
	a.Link = "https://responder.example/runs/01J|<!channel>"
	a.State = Denied
	a.Outcome = &Outcome{Who: []string{hostile}, At: epoch(), Why: hostile, Channel: hostile}
	return a
}

func longPlan(n int) Plan {
	p := approval().Plan
	p.Changes = nil
	for i := range n {
		p.Changes = append(p.Changes, Change{
			Object: "Deployment llm/chat-api", Field: fmt.Sprintf("containers[vllm].env[SETTING_%03d]", i),
			From: strings.Repeat("a", i%40), To: strings.Repeat("b<", 1+i%40),
		})
	}
	return p
}

func messages() map[string]json.Marshaler {
	with := func(change func(*Approval)) Message {
		a := approval()
		change(&a)
		return a.Message()
	}
	ended := func(s State, o *Outcome) Message {
		return with(func(a *Approval) { a.State, a.Outcome = s, o })
	}
	at := epoch().Add(4 * time.Minute)
	var entries []Entry
	for i := range 23 {
		entries = append(entries, Entry{
			ID: fmt.Sprintf("g_%08d", i), Service: fmt.Sprintf("model-%02d", i), Title: "scale deployment llm/model from 4 to 6", Risk: "low",
			Deadline: epoch().Add(time.Hour), Votes: "0 of 1", State: []State{Open, Open, Approved}[i%3], Link: "https://responder.example/runs/01J",
		})
	}
	origin := Origin{Channel: "C0ONCALL01", MessageTS: "1777892400.000100"}
	sections := []Section{{Title: "Evidence", Lines: approval().Evidence}, {Title: "Guards", Lines: approval().Guards}}
	return map[string]json.Marshaler{
		"approval_open":       approval().Message(),
		"approval_bare":       Approval{ID: "g_3f9a2b7c", Title: "scale", Service: "s", State: Open}.Message(),
		"approval_strong":     with(func(a *Approval) { a.Needs[0].Strong, a.Needs[1].Strong = true, true }),
		"approval_long":       with(func(a *Approval) { a.Plan = longPlan(200) }),
		"approval_overspent":  with(func(a *Approval) { a.Budget = &Budget{Left: -0.12, Burn: 3} }),
		"approval_approved":   ended(Approved, &Outcome{Who: []string{"user:ada", "user:grace"}, At: at, Channel: "slack"}),
		"approval_breakglass": ended(Approved, &Outcome{Who: []string{"user:ada"}, At: at, Channel: "cli", Why: "the site is down", BreakGlass: true}),
		"approval_denied":     ended(Denied, &Outcome{Who: []string{"user:bob"}, At: at, Why: "a rollout is under way", Channel: "slack"}),
		"approval_expired":    ended(Expired, &Outcome{At: at}),
		"approval_withdrawn":  ended(Withdrawn, &Outcome{At: at, Why: "the alert resolved"}),
		"approval_voided":     ended(Voided, &Outcome{At: at, Why: "replicas changed from 6 to 8"}),
		"approval_hostile":    hostileApproval().Message(),
		"digest":              Digest{Link: "https://responder.example/gates", Since: epoch(), Entries: entries}.Message(),
		"progress":            Progress{Mark: MarkDone, At: at, Text: "Rolled back: 6 of 6 replicas ready", Lines: []string{"revision 41 since 11:06"}, Link: "https://responder.example/runs/01J"}.Message(),
		"notice":              Notice{Title: "Fixed: chat-api", Text: "The rollback helped.", Lines: []string{"TTFT p99 0.7 s"}, Facts: []Fact{{"took", "9 min"}}, Link: "https://responder.example/runs/01J"}.Message(),
		"answer":              Notice{Text: "You may not decide this. Who may: group:platform-oncall."}.Message(),
		"modal_deny":          Deny{ID: "g_3f9a2b7c", Title: approval().Title, Origin: origin}.Modal(),
		"modal_breakglass":    BreakGlass{ID: "g_3f9a2b7c", Title: approval().Title, Origin: origin}.Modal(),
		"modal_details":       Details{ID: "g_3f9a2b7c", Title: approval().Title, Plan: approval().Plan, Sections: sections, Link: approval().Link, Decide: true, Origin: origin}.Modal(),
		"modal_details_gate":  Details{ID: "g_3f9a2b7c", Title: "Go on?", Needs: []Need{{From: []string{"group:sre"}, Quorum: 1, Strong: true}}, Decide: true, OfferBreakGlass: true, Origin: origin}.Modal(),
		"modal_details_2":     Details{ID: "g_3f9a2b7c", Title: approval().Title, Plan: longPlan(200), Sections: sections, Page: 1, Origin: origin}.Modal(),
		"modal_hostile":       Details{ID: "g_3f9a2b7c", Title: hostile, Plan: hostileApproval().Plan, Sections: []Section{{hostile, []string{hostile}}}}.Modal(),
	}
}

// TestGolden renders every kind of message and checks it against Slack's
// limits.
func TestGolden(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			raw := encoded(t, m)
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, raw, "", "  "); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			compare(t, name+".json", pretty.Bytes())
			accepted(t, raw)
		})
	}
}

func encoded(t testing.TB, m any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (run with -update to accept):\n%s", name, diff)
	}
}

// accepted checks a message with the fake's validator, which knows Slack's
// limits and not ours.
func accepted(t interface {
	Helper()
	Errorf(string, ...any)
}, raw []byte,
) {
	t.Helper()
	var m struct {
		Type   string          `json:"type"`
		Text   string          `json:"text"`
		Blocks json.RawMessage `json:"blocks"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Errorf("not JSON: %v", err)
		return
	}
	problems := slacktest.ValidateMessage(m.Text, m.Blocks)
	if m.Type == "modal" {
		problems = slacktest.ValidateView(raw)
	} else {
		n := 0
		for _, s := range slacktest.Texts(m.Blocks) {
			n += size(s)
		}
		if n > wholeMessage || size(m.Text) > 3000 {
			t.Errorf("the message holds %d characters beside a text of %d", n, size(m.Text))
		}
	}
	for _, p := range problems {
		t.Errorf("Slack refuses: %s", p)
	}
}
