package notifytest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// Receiver takes CloudEvents 1.0 in structured JSON mode. What is none it
// refuses with 400, and says why.
type Receiver struct {
	Faults
	URL string

	mu     sync.Mutex // guards events and refused
	events []CloudEvent
	bad    []error
}

// CloudEvent is an event as it came.
type CloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        string          `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`

	Authorization string      `json:"-"` // the header
	Header        http.Header `json:"-"` // all of them
	Raw           []byte      `json:"-"`
}

// StartReceiver starts a receiver below the path /hook.
func StartReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.serve(w, req, r.handle) }))
	t.Cleanup(server.Close)
	r.URL = server.URL + "/hook"
	return r
}

// Events returns what has arrived.
func (r *Receiver) Events() []CloudEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Refused returns why requests were refused.
func (r *Receiver) Refused() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bad)
}

func (r *Receiver) handle(w http.ResponseWriter, req *http.Request) {
	ev, err := readEvent(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.bad = append(r.bad, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.events = append(r.events, ev)
	w.WriteHeader(http.StatusNoContent)
}

// readEvent reads an event by the rules of the specification.
func readEvent(req *http.Request) (CloudEvent, error) {
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || media != "application/cloudevents+json" || params["charset"] != "" && params["charset"] != "utf-8" {
		return CloudEvent{}, fmt.Errorf("content type %q", req.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 64<<10+1))
	if err != nil || len(body) > 64<<10 {
		return CloudEvent{}, fmt.Errorf("%d bytes or more: %w", len(body), err)
	}
	var attributes map[string]json.RawMessage
	ev := CloudEvent{Raw: body, Authorization: req.Header.Get("Authorization"), Header: req.Header}
	if err := json.Unmarshal(body, &attributes); err != nil {
		return ev, err
	}
	if err := json.Unmarshal(body, &ev); err != nil {
		return ev, err
	}
	for name := range attributes {
		if !regexp.MustCompile(`^[a-z0-9]{1,20}$`).MatchString(name) {
			return ev, fmt.Errorf("attribute %q: lower-case letters and digits only", name)
		}
	}
	if _, err := url.Parse(ev.Source); err != nil || ev.SpecVersion != "1.0" || ev.ID == "" || ev.Source == "" || ev.Type == "" {
		return ev, fmt.Errorf("specversion %q, id %q, source %q, type %q: all are required", ev.SpecVersion, ev.ID, ev.Source, ev.Type)
	}
	if _, err := time.Parse(time.RFC3339, ev.Time); err != nil && ev.Time != "" {
		return ev, fmt.Errorf("time: %w", err)
	}
	if len(ev.Data) > 0 && ev.ContentType != "application/json" {
		return ev, fmt.Errorf("data of content type %q", ev.ContentType)
	}
	return ev, nil
}
