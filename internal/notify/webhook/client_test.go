package webhook

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
)

var update = flag.Bool("update", false, "write the golden files")

func testEvent() Event {
	return Event{
		ID: "r-1/tell#1/notify#1", Source: "/responder", Type: "io.github.inference-responder.notice", Subject: "serving/chat",
		Time: time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC), Data: json.RawMessage(`{"text":"p99 > 0.5s & rising","run":"r-1"}`),
	}
}

func TestEvent(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	file := notifytest.SecretFile(t, "first-token\n")
	w, err := NewClient(Config{URL: receiver.URL, TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Send(t.Context(), testEvent()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("second-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Send(t.Context(), Event{ID: "2", Source: "/responder", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	events := receiver.Events()
	if len(events) != 2 {
		t.Fatalf("%d events arrived; refused: %v", len(events), receiver.Refused())
	}
	notifytest.Golden(t, *update, "event", events[0].Raw)
	notifytest.Golden(t, *update, "event_least", events[1].Raw)
	if events[0].Authorization != "Bearer first-token" || events[1].Authorization != "Bearer second-token" {
		t.Errorf("a rotated token: %q then %q", events[0].Authorization, events[1].Authorization)
	}
}

// What the specification forbids is not sent.
func TestRefusesBadEvents(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	w, err := NewClient(Config{URL: receiver.URL})
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Event){
		"no id":             func(e *Event) { e.ID = "" },
		"no source":         func(e *Event) { e.Source = "" },
		"no type":           func(e *Event) { e.Type = "" },
		"control character": func(e *Event) { e.Subject = "a\nb" },
		"C1 control":        func(e *Event) { e.Subject = "a\u0085b" },
		"non-character":     func(e *Event) { e.ID = "a\ufffe" },
		"broken UTF-8":      func(e *Event) { e.ID = "a\xff" },
		"bad source":        func(e *Event) { e.Source = "http://[::1" },
		"data not JSON":     func(e *Event) { e.Data = json.RawMessage(`{`) },
		"too large":         func(e *Event) { e.Data = json.RawMessage(`"` + strings.Repeat("x", maxEvent) + `"`) },
	} {
		ev := testEvent()
		change(&ev)
		notifytest.WantReason(t, what, w.Send(t.Context(), ev), fault.Invalid)
	}
	if n := len(receiver.Events()) + len(receiver.Refused()); n > 0 {
		t.Errorf("%d bad events were sent", n)
	}
}
