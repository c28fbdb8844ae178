package notify_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/playbook"
)

// channelsOf opens the channels that a configuration describes.
func channelsOf(t *testing.T, yaml string) *notify.Router {
	t.Helper()
	c, err := config.Parse(filepath.Join(t.TempDir(), "f.yaml"), []byte("auth: {insecure: true}\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	o := notify.Options{Log: slog.New(slog.DiscardHandler)}
	for _, ch := range c.Channels {
		opened, err := ch.Settings().Open(notify.Link(c.ExternalURL))
		if err != nil {
			t.Fatal(err)
		}
		o.Channels = append(o.Channels, notify.Member{Name: ch.Name, Default: ch.Default, Channel: opened})
	}
	return notify.New(o)
}

func testNotice() notify.Notice {
	return notify.Notice{
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
`, receiver.URL, notifytest.SecretFile(t, "token"), pd.URL, notifytest.SecretFile(t, notifytest.RoutingKey)))

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
	if err := all.Notify(t.Context(), notify.Notice{Key: "intake/7/quarantined", Text: "notification 7 cannot be processed"}); err != nil || pd.Alert("responder/intake/7/quarantined") != "triggered" {
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
	for name, change := range map[string]func(*notify.Notice){
		"annotations":  func(n *notify.Notice) { n.Alert.Annotations = map[string]string{"d": strings.Repeat("x", 1<<20)} },
		"labels":       func(n *notify.Notice) { n.Alert.Labels = map[string]string{"d": strings.Repeat("<", 1<<20)} },
		"text":         func(n *notify.Notice) { n.Text = strings.Repeat("<\x00", 1<<20) },
		"channel gone": func(n *notify.Notice) { n.To = []string{"gone"} },
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
