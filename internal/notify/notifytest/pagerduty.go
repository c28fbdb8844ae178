package notifytest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// RoutingKey is the key that a new [PagerDuty] knows.
const RoutingKey = "0123456789abcdef0123456789abcdef"

// PagerDuty is the Events API v2 of one integration.
type PagerDuty struct {
	Faults
	URL string

	mu      sync.Mutex // guards the rest
	alerts  map[string]string
	events  []PagerDutyEvent
	changes []PagerDutyEvent
}

// PagerDutyEvent is an accepted event.
type PagerDutyEvent struct {
	RoutingKey string `json:"routing_key"`
	Action     string `json:"event_action"`
	DedupKey   string `json:"dedup_key"`
	Payload    struct {
		Summary   string         `json:"summary"`
		Source    string         `json:"source"`
		Severity  string         `json:"severity"`
		Timestamp string         `json:"timestamp"`
		Details   map[string]any `json:"custom_details"`
	} `json:"payload"`
	Links []struct {
		Href string `json:"href"`
		Text string `json:"text"`
	} `json:"links"`
	Raw []byte `json:"-"` // as it came
}

// StartPagerDuty starts the server.
func StartPagerDuty(t testing.TB) *PagerDuty {
	t.Helper()
	p := &PagerDuty{alerts: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, p.handle) }))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// Alert returns the state of the alert with that key: triggered, acknowledged,
// resolved, or empty when there was none.
func (p *PagerDuty) Alert(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alerts[key]
}

// Events returns the accepted alert events.
func (p *PagerDuty) Events() []PagerDutyEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Changes returns the accepted change events.
func (p *PagerDuty) Changes() []PagerDutyEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.changes)
}

func (p *PagerDuty) handle(w http.ResponseWriter, r *http.Request) {
	change := r.URL.Path == "/v2/change/enqueue"
	if r.Method != http.MethodPost || !change && r.URL.Path != "/v2/enqueue" {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 512<<10+1))
	if err != nil || len(body) > 512<<10 {
		http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
		return
	}
	ev := PagerDutyEvent{Raw: body}
	if err := json.Unmarshal(body, &ev); err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"status": "invalid JSON", "message": "Request body is invalid JSON", "errors": []string{}})
		return
	}
	if problems := ev.check(change); len(problems) > 0 {
		answer(w, http.StatusBadRequest, map[string]any{"status": "invalid event", "message": "Event object is invalid", "errors": problems})
		return
	}
	p.accept(ev, change)
	out := map[string]any{"status": "success", "message": "Event processed", "dedup_key": ev.DedupKey}
	if change {
		out = map[string]any{"status": "success", "message": "Change event processed"}
	}
	answer(w, http.StatusAccepted, out)
}

// accept keeps what follows from an event. One for another integration goes
// nowhere, which the API does not say.
func (p *PagerDuty) accept(ev PagerDutyEvent, change bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := p.alerts[ev.DedupKey] == "triggered" || p.alerts[ev.DedupKey] == "acknowledged"
	switch {
	case ev.RoutingKey != RoutingKey:
		return
	case change:
		p.changes = append(p.changes, ev)
		return
	case ev.Action == "trigger" && !open:
		p.alerts[ev.DedupKey] = "triggered"
	case ev.Action == "acknowledge" && open:
		p.alerts[ev.DedupKey] = "acknowledged"
	case ev.Action == "resolve" && open:
		p.alerts[ev.DedupKey] = "resolved"
	}
	p.events = append(p.events, ev)
}

// check returns what PagerDuty would not accept.
func (ev PagerDutyEvent) check(change bool) []string {
	var problems []string
	bad := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, problem)
		}
	}
	bad(len(ev.RoutingKey) != 32, "Length of 'routing_key' is incorrect (should be 32 characters)")
	bad(utf8.RuneCountInString(ev.DedupKey) > 255, "'dedup_key' is too long (maximum is 255 characters)")
	if ev.Payload.Timestamp != "" {
		_, err := time.Parse(time.RFC3339, ev.Payload.Timestamp)
		bad(err != nil, "'payload.timestamp' is invalid")
	}
	for _, l := range ev.Links {
		bad(l.Href == "", "'links.href' is missing or blank")
	}
	if !change {
		bad(!slices.Contains([]string{"trigger", "acknowledge", "resolve"}, ev.Action), "'event_action' is invalid")
		bad(ev.Action != "trigger" && ev.DedupKey == "", "'dedup_key' is missing or blank")
	}
	if change || ev.Action == "trigger" {
		bad(ev.Payload.Summary == "", "'payload.summary' is missing or blank")
		bad(utf8.RuneCountInString(ev.Payload.Summary) > 1024, "'payload.summary' is too long (maximum is 1024 characters)")
	}
	if ev.Action == "trigger" {
		bad(ev.Payload.Source == "", "'payload.source' is missing or blank")
		bad(!slices.Contains([]string{"critical", "error", "warning", "info"}, ev.Payload.Severity), "'payload.severity' is invalid")
	}
	return problems
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}
