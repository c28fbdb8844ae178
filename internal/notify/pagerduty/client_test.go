package pagerduty

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	at     = time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)
)

func start(t *testing.T) (*notifytest.PagerDuty, *Client, string) {
	t.Helper()
	server := notifytest.StartPagerDuty(t)
	file := notifytest.SecretFile(t, notifytest.RoutingKey+"\n")
	p, err := NewClient(Config{URL: server.URL, RoutingKeyFile: file})
	if err != nil {
		t.Fatal(err)
	}
	return server, p, file
}

func testAlert() Alert {
	return Alert{
		DedupKey: "responder/r-1", Summary: "run r-1 ends escalated: scaling did not help", Source: "serving/chat", Severity: Critical,
		Time: at, Component: "bad-rollout", Group: "serving", Class: "InferenceTTFTFastBurn",
		Details: map[string]any{"run": "r-1", "text": "a < b & c"}, Links: []Link{{Href: "https://responder.example/runs/r-1", Text: "run r-1"}},
	}
}

// One alert from opening to end, and the payloads of every kind.
func TestAlert(t *testing.T) {
	server, p, _ := start(t)
	key := testAlert().DedupKey
	for _, step := range []struct {
		golden string
		send   func() error
		want   string
	}{
		{"trigger", func() error { return p.Trigger(t.Context(), testAlert()) }, "triggered"},
		{"resolve", func() error { return p.Resolve(t.Context(), key) }, "resolved"},
	} {
		if err := step.send(); err != nil {
			t.Fatal(err)
		}
		events := server.Events()
		notifytest.Golden(t, *update, step.golden, events[len(events)-1].Raw)
		if got := server.Alert(key); got != step.want {
			t.Errorf("%s: the alert is %q", step.golden, got)
		}
	}
	if err := p.Resolve(t.Context(), "never opened"); err != nil {
		t.Errorf("resolving what is not open: %v", err)
	}
	err := p.Change(t.Context(), Change{
		Summary: "serving/chat: 2 to 4 replicas", Source: "responder", Time: at, Details: map[string]any{"run": "r-1"}, Links: testAlert().Links,
	})
	if err != nil {
		t.Fatal(err)
	}
	notifytest.Golden(t, *update, "change", server.Changes()[0].Raw)
}

// What is too long is cut, so that it arrives at all.
func TestLimits(t *testing.T) {
	server, p, _ := start(t)
	a := testAlert()
	a.Summary = strings.Repeat("ü", 5000)
	a.DedupKey = strings.Repeat("k", 300)
	a.Details = map[string]any{"dump": strings.Repeat("x", 600<<10)}
	if err := p.Trigger(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got := server.Events()[0]
	if n := utf8.RuneCountInString(got.Payload.Summary); n != 1024 || !strings.HasSuffix(got.Payload.Summary, "…") {
		t.Errorf("a summary of %d characters", n)
	}
	if got.Payload.Details["left out"] == nil {
		t.Errorf("details %v: that they are left out is not said", got.Payload.Details)
	}
	if err := p.Resolve(t.Context(), a.DedupKey); err != nil || server.Alert(got.DedupKey) != "resolved" {
		t.Errorf("a long key does not find its alert again: %v, %q", err, server.Alert(got.DedupKey))
	}
	if other := dedupKey(strings.Repeat("k", 301)); other == got.DedupKey {
		t.Error("two long keys became one")
	}
}

func TestErrors(t *testing.T) {
	server, p, file := start(t)
	for what, change := range map[string]func(*Alert){
		"severity": func(a *Alert) { a.Severity = "" }, "summary": func(a *Alert) { a.Summary = "" },
		"source": func(a *Alert) { a.Source = "" }, "key": func(a *Alert) { a.DedupKey = "" },
		"links": func(a *Alert) { a.Links = []Link{{Text: "nowhere"}} }, // PagerDuty's own 400
	} {
		a := testAlert()
		change(&a)
		notifytest.WantReason(t, what, p.Trigger(t.Context(), a), fault.Invalid)
	}
	notifytest.WantReason(t, "resolve", p.Resolve(t.Context(), ""), fault.Invalid)
	notifytest.WantReason(t, "change", p.Change(t.Context(), Change{}), fault.Invalid)
	server.Fail(notifytest.Fault{Status: 429}, notifytest.Fault{Status: 500})
	notifytest.WantReason(t, "429", p.Resolve(t.Context(), "k"), fault.Throttled)
	notifytest.WantReason(t, "500", p.Resolve(t.Context(), "k"), fault.ServerError)

	// The key is read again: a rotated one works, a broken one is not sent.
	if err := os.WriteFile(file, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := p.Trigger(t.Context(), testAlert())
	notifytest.WantReason(t, "short key", err, fault.Forbidden)
	if strings.Contains(err.Error(), "canary") {
		t.Error("the key is in the error")
	}
	if n := len(server.Events()); n != 0 {
		t.Errorf("%d events were accepted", n)
	}
}

func TestBadKeys(t *testing.T) {
	for what, file := range map[string]string{"no key": "", "short key": notifytest.SecretFile(t, "too-short")} {
		if _, err := NewClient(Config{RoutingKeyFile: file}); err == nil || strings.Contains(err.Error(), "too-short") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A server that echoes the key does not bring it into an error.
func TestKeyStaysOutOfErrors(t *testing.T) {
	server, p, _ := start(t)
	for _, fault := range []notifytest.Fault{{Status: 400, Body: "bad: " + notifytest.RoutingKey}, {Lose: true}} {
		server.Fail(fault)
		if err := p.Resolve(t.Context(), "k"); err == nil || strings.Contains(err.Error(), notifytest.RoutingKey) {
			t.Errorf("%+v: %v", fault, err)
		}
	}
}
