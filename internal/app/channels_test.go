package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

func tempFile(t testing.TB, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// channelsOf opens the channels that a configuration describes.
func channelsOf(t *testing.T, yaml string) *Channels {
	t.Helper()
	c, err := config.Parse(filepath.Join(t.TempDir(), "f.yaml"), []byte("auth: {insecure: true}\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	slack, err := openSlack(c, log)
	if err != nil {
		t.Fatal(err)
	}
	all, err := openChannels(c, slack, log)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testNotice() step.Notice {
	return step.Notice{
		Key: "r-1/tell#1/notify#1", Run: "r-1", Playbook: "bad-rollout", State: "tell", Text: "scaling did not help",
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Service: playbook.Service{Name: "serving/chat", Namespace: "serving"},
		Alert: playbook.Alert{Fingerprint: "00000000deadbeef", Status: playbook.Firing, Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"}},
	}
}

// What each kind of channel is told, and which of them.
func TestChannelsTell(t *testing.T) {
	receiver, pd := notifytest.StartReceiver(t), notifytest.StartPagerDuty(t)
	all := channelsOf(t, fmt.Sprintf(`
external_url: https://responder.example/
channels:
  - {name: feed, webhook: {url: %q, token_file: %q}}
  - {name: oncall, default: true, pagerduty: {url: %q, routing_key_file: %q}}
`, receiver.URL, tempFile(t, "token", "token"), pd.URL, tempFile(t, "key", notifytest.RoutingKey)))

	named := testNotice()
	named.To = []string{"feed"}
	if err := all.Notify(t.Context(), named); err != nil {
		t.Fatal(err)
	}
	events := receiver.Events()
	if len(events) != 1 || len(pd.Events()) != 0 {
		t.Fatalf("%d events and %d pages; refused %v", len(events), len(pd.Events()), receiver.Refused())
	}
	want := `{"specversion":"1.0","id":"r-1/tell#1/notify#1","source":"https://responder.example/","type":"io.github.inference-responder.notice",` +
		`"subject":"r-1","time":"2026-03-01T12:00:00Z","datacontenttype":"application/json","data":{"run":"r-1","playbook":"bad-rollout","state":"tell",` +
		`"service":"serving/chat","urgent":false,"text":"scaling did not help","link":"https://responder.example/runs/r-1",` +
		`"alert":{"fingerprint":"00000000deadbeef","status":"firing","labels":{"alertname":"InferenceTTFTFastBurn"},"startsAt":"0001-01-01T00:00:00Z"}}}`
	if diff := cmp.Diff(want, string(events[0].Raw)); diff != "" {
		t.Errorf("event, -want +got:\n%s", diff)
	}
	urgent := testNotice()
	urgent.Key, urgent.Urgent = "r-1/notify#2", true
	if err := all.Notify(t.Context(), urgent); err != nil {
		t.Fatal(err)
	}
	if err := all.Notify(t.Context(), step.Notice{Key: "intake/7/quarantined", Text: "notification 7 cannot be processed"}); err != nil || pd.Alert("responder/intake/7/quarantined") != "triggered" {
		t.Errorf("about no run: %v", err)
	}
	page := pd.Events()[0]
	if len(receiver.Events()) != 1 || page.Payload.Severity != "critical" || page.DedupKey != "responder/r-1" || len(page.Links) != 1 {
		t.Errorf("page %+v; the other channel has %d", page, len(receiver.Events()))
	}
}

// One channel that is down keeps no other from being told, and the next attempt
// goes only where the message is missing.
func TestChannelsTellAgainWhereMissing(t *testing.T) {
	up, down := notifytest.StartReceiver(t), notifytest.StartReceiver(t)
	all := channelsOf(t, fmt.Sprintf(`
channels:
  - {name: up, default: true, webhook: {url: %q}}
  - {name: down, default: true, webhook: {url: %q}}
`, up.URL, down.URL))
	down.Fail(notifytest.Fault{Status: 503})
	err := all.Notify(t.Context(), testNotice())
	var e *fault.Error
	if !errors.As(err, &e) || !e.Reason.Retryable() || !strings.Contains(err.Error(), "down: ") || strings.Contains(err.Error(), "up: ") {
		t.Errorf("one is down: %v", err)
	}
	if err := all.Notify(t.Context(), testNotice()); err != nil {
		t.Error(err)
	}
	if len(up.Events()) != 1 || len(down.Events()) != 1 {
		t.Errorf("told %d and %d times, want once each", len(up.Events()), len(down.Events()))
	}
	down.Fail(notifytest.Fault{Status: 401})
	again := testNotice()
	again.Key = "another"
	if err := all.Notify(t.Context(), again); !errors.As(err, &e) || e.Reason != fault.Forbidden {
		t.Errorf("a wrong token: %v", err)
	}
}

// A message is made smaller before people stay untold.
func TestChannelsLargeNotice(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	all := channelsOf(t, fmt.Sprintf("channels: [{name: a, default: true, webhook: {url: %q}}]", receiver.URL))
	for name, change := range map[string]func(*step.Notice){
		"annotations":  func(n *step.Notice) { n.Alert.Annotations = map[string]string{"d": strings.Repeat("x", 1<<20)} },
		"labels":       func(n *step.Notice) { n.Alert.Labels = map[string]string{"d": strings.Repeat("<", 1<<20)} },
		"text":         func(n *step.Notice) { n.Text = strings.Repeat("<\x00", 1<<20) },
		"channel gone": func(n *step.Notice) { n.To = []string{"gone"} },
	} {
		n := testNotice()
		n.Key = name
		change(&n)
		if err := all.Notify(t.Context(), n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(receiver.Events()); n != 4 {
		t.Errorf("%d of 4 arrived", n)
	}
}

func TestChannelsConfiguration(t *testing.T) {
	for in, want := range map[string]string{
		"channels: [{name: a, webhook: {url: http://h}}]":                                                     "channels: none is the default",
		"channels: [{name: A b, default: true, webhook: {url: http://h}}]":                                    `channels[0].name: "A b" is not a channel's name`,
		"channels: [{name: a, default: true}]":                                                                "channels[0]: must be exactly one of",
		"channels: [{name: a, default: true, webhook: {url: http://h}, slack: {channel: C1}}]":                "channels[0]: must be exactly one of",
		"channels: [{name: a, default: true, webhook: {url: 'ftp://canary'}}]":                                "channels[0].webhook.url: is not a URL",
		"channels: [{name: a, default: true, webhook: {url: http://h, events: [run.began]}}]":                 `"run.began" is not a value of it`,
		"channels: [{name: a, default: true, pagerduty: {}}]":                                                 "channels[0].pagerduty.routing_key_file: must name a file",
		"channels: [{name: a, default: true, slack: {}}]":                                                     "channels[0].slack.channel: \"\" is not the id of a channel",
		"channels: [{name: a, default: true, slack: {channel: C0123}}]":                                       "channels[0].slack: there is no workspace",
		"channels: [{name: a, default: true, webhook: {url: http://h}}, {name: a, webhook: {url: http://h}}]": `"a" is also the name of channels[0]`,
		"silence: {enabled: true}":                                                                            "silence.alertmanager_url",
		"silence: {max: 48h}":                                                                                 "silence.max: must be from 1m to 24h",
		"external_url: responder":                                                                             "external_url",
		"notify: {url: http://h}":                                                                             `unknown field "notify"`,
	} {
		_, err := config.Parse("f.yaml", []byte("auth: {insecure: true}\n"+in))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}

// A playbook that tells a channel nobody configured is not put in force.
func TestPlaybooksNameConfiguredChannels(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Replace(string(good), "next: [{to: rollback}]", "next: hear\n    hear: {notify: hello, to: [oncall, nobody], next: rollback}", 1)
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := playbook.LoadDir(dir, kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	all := channelsOf(t, "channels: [{name: oncall, default: true, webhook: {url: http://h}}]")
	if err := all.allows(set); err == nil || strings.Contains(err.Error(), "oncall") || !strings.Contains(err.Error(), `channel "nobody"`) {
		t.Errorf("allows: %v", err)
	}
	if err := (*Channels)(nil).allows(set); err == nil {
		t.Error("without channels nothing is named, yet it is allowed")
	}
}

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

// startFeeds follows a service's journal until the returned function is called.
func startFeeds(t *testing.T, s *Service, all *Channels, runs runBook) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, len(all.feeds))
	for _, o := range all.feeds {
		f := &feed{feedOptions: o, journal: s.journal, runs: runs, log: slog.New(slog.DiscardHandler)}
		if err := f.begin(); err != nil { // before the test writes anything
			t.Fatal(err)
		}
		go func() { done <- f.run(ctx) }()
	}
	return func() {
		cancel()
		for range all.feeds {
			if err := <-done; err != nil {
				t.Error(err)
			}
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
`, receiver.URL, pd.URL, tempFile(t, "key", notifytest.RoutingKey)))
	s, _ := startService(t, SandboxConfig())
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	page := testNotice()
	page.To = []string{"oncall"}
	if err := all.Notify(t.Context(), page); err != nil {
		t.Fatal(err)
	}

	stop := startFeeds(t, s, all, fakeRuns{asked: true})
	receiver.Fail(notifytest.Fault{Lose: true}) // it has the first, and is sent it again
	appendEvents(t, s.journal, "r-1",
		machine.Event{Kind: machine.RunStarted, At: at, Start: &machine.Start{Run: "r-1"}},
		machine.Event{Kind: machine.PlanCompleted, At: at, State: "scale"},
		machine.Event{Kind: machine.GateOpened, At: at, State: "scale", Gate: &machine.Gate{ID: "g", Digest: "sha256:1", Deadline: at.Add(time.Minute)}},
	)
	until(t, "the first facts", func() bool { return len(receiver.Events()) == 3 })
	stop()
	appendEvents(t, s.journal, "r-1",
		machine.Event{Kind: machine.GateDecided, At: at, State: "scale", Decision: &machine.Decision{Approve: true, By: "user:ada", Reason: "go", Digest: "sha256:1"}},
		machine.Event{Kind: machine.Applied, At: at, State: "scale"},
		machine.Event{Kind: machine.RunEnded, At: at, Ending: &machine.Ending{Outcome: machine.OutcomeResolved, Message: "fine"}},
	)
	defer startFeeds(t, s, all, fakeRuns{asked: true})()
	until(t, "what happened meanwhile", func() bool { return len(receiver.Events()) == 6 && pd.Alert("responder/r-1") == "resolved" })
	var got []string
	for _, e := range receiver.Events() {
		var d factData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join(strings.Fields(fmt.Sprintln(e.ID, strings.TrimPrefix(e.Type, eventPrefix), d.Service, d.Alert, d.Plan, d.Digest, d.By, d.Outcome, d.Message)), " "))
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
