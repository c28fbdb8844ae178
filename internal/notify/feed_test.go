package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/playbook"
)

// fakeRuns is what a feed reads of runs.
type fakeRuns struct{ asked bool }

func (f fakeRuns) RunState(id string) (machine.State, bool) {
	return machine.State{
		Start: machine.Start{Run: id, Playbook: "bad-rollout", Service: playbook.Service{Name: "serving/chat"}, Alert: testNotice().Alert},
		Lever: &machine.Lever{State: "scale", Plan: &machine.Plan{Summary: "2 to 4 replicas"}},
	}, true
}

func (f fakeRuns) RunEvents(string) ([]machine.Event, error) {
	if !f.asked {
		return nil, nil
	}
	return []machine.Event{{Kind: machine.EffectStarted, Action: machine.ActionNotify}}, nil
}

// startFeeds follows a journal until the returned function is called.
func startFeeds(t *testing.T, journal *audit.Journal, all *notify.Router, runs notify.Runs) (stop func()) {
	t.Helper()
	feeds, err := all.Feeds(journal, runs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, len(feeds))
	for _, f := range feeds {
		go func() { done <- f.Run(ctx) }()
	}
	until(t, "that the feeds have begun", func() bool { // before the test writes anything
		begun, err := journal.MetaKeys("feed/")
		return err == nil && len(begun) == len(feeds)
	})
	return func() {
		cancel()
		for range feeds {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

func openJournal(t *testing.T) *audit.Journal {
	t.Helper()
	journal, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	return journal
}

func appendEvents(t *testing.T, j *audit.Journal, run string, events ...machine.Event) {
	t.Helper()
	a := audit.Append{Stream: "run/" + run, After: audit.Any}
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		a.Records = append(a.Records, audit.Record{Kind: string(e.Kind), Time: e.At, Data: data})
	}
	if _, err := j.Append(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 2 min: %s", what)
		}
	}
}

// The facts of runs arrive in order, also those of a time in which the receiver
// or the service was down, and none that nobody asked for.
func TestFeed(t *testing.T) {
	receiver, pd := notifytest.StartReceiver(t), notifytest.StartPagerDuty(t)
	all := channelsOf(t, fmt.Sprintf(`
channels:
  - {name: feed, webhook: {url: %q, events: [run.started, gate.opened, gate.decided, lever.applied, run.ended]}}
  - {name: oncall, default: true, pagerduty: {url: %q, routing_key_file: %q, changes: true}}
`, receiver.URL, pd.URL, notifytest.SecretFile(t, notifytest.RoutingKey)))
	journal := openJournal(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	page := testNotice()
	page.To = []string{"oncall"}
	if err := all.Notify(t.Context(), page); err != nil {
		t.Fatal(err)
	}

	stop := startFeeds(t, journal, all, fakeRuns{asked: true})
	receiver.Fail(notifytest.Fault{Lose: true}) // it has the first, and is sent it again
	appendEvents(t, journal, "r-1",
		machine.Event{Kind: machine.RunStarted, At: at, Start: &machine.Start{Run: "r-1"}},
		machine.Event{Kind: machine.PlanCompleted, At: at, State: "scale"},
		machine.Event{Kind: machine.GateOpened, At: at, State: "scale", Gate: &machine.Gate{ID: "g", Digest: "sha256:1", Deadline: at.Add(time.Minute)}},
	)
	until(t, "the first facts", func() bool { return len(receiver.Events()) == 3 })
	until(t, "that the position is kept", func() bool { // else the third is sent again
		raw, err := journal.Meta("feed/feed")
		return err == nil && string(raw) == fmt.Sprintf(`{"next":%d}`, journal.Size())
	})
	stop()
	appendEvents(t, journal, "r-1",
		machine.Event{Kind: machine.GateDecided, At: at, State: "scale", Decision: &machine.Decision{Approve: true, By: "user:ada", Reason: "go", Digest: "sha256:1"}},
		machine.Event{Kind: machine.Applied, At: at, State: "scale"},
		machine.Event{Kind: machine.RunEnded, At: at, Ending: &machine.Ending{Outcome: machine.OutcomeResolved, Message: "fine"}},
	)
	defer startFeeds(t, journal, all, fakeRuns{asked: true})()
	until(t, "what happened meanwhile", func() bool { return len(receiver.Events()) == 6 && pd.Alert("responder/r-1") == "resolved" })
	var got []string
	for _, e := range receiver.Events() {
		var d struct{ Service, Alert, Plan, Digest, By, Outcome, Message string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join(strings.Fields(fmt.Sprintln(e.ID, strings.TrimPrefix(e.Type, "io.github.inference-responder."), d.Service, d.Alert, d.Plan, d.Digest, d.By, d.Outcome, d.Message)), " "))
	}
	want := []string{
		"r-1@0 run.started serving/chat InferenceTTFTFastBurn",
		"r-1@0 run.started serving/chat InferenceTTFTFastBurn", // the same id
		"r-1@2 gate.opened serving/chat sha256:1",
		"r-1@3 gate.decided serving/chat sha256:1 user:ada go",
		"r-1@4 lever.applied serving/chat 2 to 4 replicas",
		"r-1@5 run.ended serving/chat resolved fine",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts, -want +got:\n%s", diff)
	}
	if changes := pd.Changes(); len(changes) != 1 || changes[0].Payload.Summary != "serving/chat: changed: 2 to 4 replicas" {
		t.Errorf("changes %+v", changes)
	}
}

// brokenRuns are runs of which the state cannot be read; what entries say by
// themselves is there for those that events has.
type brokenRuns struct {
	quarantined bool // the state is what could be salvaged
	events      map[string][]machine.Event
}

func (b brokenRuns) RunState(id string) (machine.State, bool) {
	if !b.quarantined {
		return machine.State{}, false
	}
	return machine.State{Start: machine.Start{Run: id}, Phase: machine.PhaseHeld, Quarantine: &machine.Quarantine{Message: "cannot be folded"}}, true
}

func (b brokenRuns) RunEvents(id string) ([]machine.Event, error) {
	if e, ok := b.events[id]; ok {
		return e, nil
	}
	return nil, errors.New("cannot be read")
}

// A question of a run that cannot be read may be open, and people are told of
// it: whom its tier names when its own entry can be read, everybody otherwise.
func TestUnreadableQuestionIsTold(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	question := machine.Event{Kind: machine.GateOpened, At: at, Gate: &machine.Gate{
		ID: "g", Opened: at, Text: "roll back chat", Tiers: []machine.Tier{{After: time.Minute, To: []string{"pager"}}},
	}}
	asks := []machine.Event{question, {Kind: machine.GateReminded, At: at}, {Kind: machine.GateEscalated, At: at, Tier: 1}}
	for name, quarantined := range map[string]bool{"no state": false, "quarantined": true} {
		t.Run(name, func(t *testing.T) {
			usual, pager := notifytest.StartReceiver(t), notifytest.StartReceiver(t)
			all := channelsOf(t, fmt.Sprintf(`
channels:
  - {name: usual, default: true, webhook: {url: %q}}
  - {name: pager, webhook: {url: %q}}
`, usual.URL, pager.URL))
			journal := openJournal(t)
			defer startFeeds(t, journal, all, brokenRuns{quarantined, map[string][]machine.Event{
				"r-known": asks, "r-closed": append(slices.Clone(asks), machine.Event{Kind: machine.GateDecided}),
			}})()
			for _, run := range []string{"r-closed", "r-known", "r-unknown"} {
				appendEvents(t, journal, run, asks...)
			}
			damaged := audit.Record{Kind: string(machine.GateEscalated), Time: at, Data: []byte(`{"tier": "first"}`)}
			if _, err := journal.Append(t.Context(), audit.Append{Stream: "run/r-damaged", After: audit.Any, Records: []audit.Record{damaged}}); err != nil {
				t.Fatal(err)
			}
			until(t, "what may be open", func() bool { return len(usual.Events()) == 4 && len(pager.Events()) == 3 })
			got := append(texts(usual), texts(pager)...)
			for i, want := range []string{
				"roll back chat|whether the question is still open", // the reminder
				"state of run r-unknown cannot be read",             // its reminder
				"state of run r-unknown cannot be read|(tier 1)",
				"state of run r-damaged cannot be read",
				"roll back chat|(tier 1)",
				"state of run r-unknown cannot be read|(tier 1)",
				"state of run r-damaged cannot be read",
			} {
				for part := range strings.SplitSeq(want, "|") {
					if !strings.Contains(got[i], part) {
						t.Errorf("%d: %s does not say %q", i, got[i], part)
					}
				}
			}
		})
	}
}

func texts(r *notifytest.Receiver) []string {
	var all []string
	for _, e := range r.Events() {
		all = append(all, string(e.Data))
	}
	return all
}

// A channel that is new is told of the escalations of questions that are open,
// once, and of nothing else that was before it.
func TestNewChannelHearsOfOpenEscalations(t *testing.T) {
	r := notifytest.StartReceiver(t)
	configuration := fmt.Sprintf("channels: [{name: pager, default: true, webhook: {url: %q, events: [run.started]}}]", r.URL)
	journal := openJournal(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	opened, escalated := machine.Event{Kind: machine.GateOpened, At: at}, machine.Event{Kind: machine.GateEscalated, At: at.Add(time.Minute), Tier: 2}
	appendEvents(t, journal, "r-decided", machine.Event{Kind: machine.RunStarted, At: at}, opened, escalated, machine.Event{Kind: machine.GateDecided, At: at})
	appendEvents(t, journal, "r-asked-again", opened, escalated, opened)
	appendEvents(t, journal, "r-1", machine.Event{Kind: machine.RunStarted, At: at}, opened, escalated)
	appendEvents(t, journal, "r-2", opened, escalated)

	r.Fail(notifytest.Fault{Lose: true}) // the first is taken, and sent again by the same id
	told := func(want ...string) func() bool {
		return func() bool {
			ids := map[string]bool{}
			for _, e := range r.Events() {
				if strings.HasSuffix(e.Type, ".notice") {
					ids[e.ID] = true
				}
			}
			for _, id := range want {
				if !ids[id] {
					return false
				}
			}
			return len(ids) == len(want)
		}
	}
	stop := startFeeds(t, journal, channelsOf(t, configuration), openRuns{at})
	until(t, "the escalations", told("r-1/gate#1/tier-2", "r-2/gate#1/tier-2"))
	until(t, "that the position is kept", func() bool {
		raw, err := journal.Meta("feed/pager")
		return err == nil && !strings.Contains(string(raw), "owed")
	})
	stop()
	before := len(r.Events())
	defer startFeeds(t, journal, channelsOf(t, configuration), openRuns{at})()
	appendEvents(t, journal, "r-3", opened, escalated)
	until(t, "what comes later", told("r-1/gate#1/tier-2", "r-2/gate#1/tier-2", "r-3/gate#1/tier-2"))
	for i, e := range r.Events() {
		if strings.HasSuffix(e.Type, "run.started") || i >= before && e.Subject != "r-3" {
			t.Errorf("told of %s %s", e.Type, e.ID)
		}
	}
}
