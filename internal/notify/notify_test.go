package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a payload, indented, with testdata/NAME.json.
func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, body, "", "  "); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, body)
	}
	got.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s, -want +got:\n%s", name, diff)
	}
}

func secretFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// wantReason checks an error's reason, and that it is one a caller can read.
func wantReason(t *testing.T, what string, err error, want fault.Reason) {
	t.Helper()
	if e := asError(t, what, err); e.Reason != want {
		t.Errorf("%s: reason %q, want %q (%v)", what, e.Reason, want, err)
	}
}

func asError(t *testing.T, what string, err error) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v is no *Error", what, err)
	}
	return e
}

var at = time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)

func testEvent() Event {
	return Event{
		ID: "r-1/tell#1/notify#1", Source: "/responder", Type: "io.github.inference-responder.notice", Subject: "serving/chat",
		Time: at, Data: json.RawMessage(`{"text":"p99 > 0.5s & rising","run":"r-1"}`),
	}
}

func TestWebhookEvent(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	file := secretFile(t, "first-token\n")
	w, err := NewWebhook(WebhookOptions{URL: receiver.URL, TokenFile: file})
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
	golden(t, "webhook_event", events[0].Raw)
	golden(t, "webhook_event_least", events[1].Raw)
	if events[0].Authorization != "Bearer first-token" || events[1].Authorization != "Bearer second-token" {
		t.Errorf("a rotated token: %q then %q", events[0].Authorization, events[1].Authorization)
	}
}

// What the specification forbids is not sent.
func TestWebhookRefusesBadEvents(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	w, err := NewWebhook(WebhookOptions{URL: receiver.URL})
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
		"too large":         func(e *Event) { e.Data = json.RawMessage(`"` + strings.Repeat("x", MaxEvent) + `"`) },
	} {
		ev := testEvent()
		change(&ev)
		wantReason(t, what, w.Send(t.Context(), ev), fault.Invalid)
	}
	if n := len(receiver.Events()) + len(receiver.Refused()); n > 0 {
		t.Errorf("%d bad events were sent", n)
	}
}

// A caller decides by the reason whether trying again can help.
func TestReasons(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	for code, want := range map[int]fault.Reason{
		301: fault.Invalid, 307: fault.Invalid, 400: fault.Invalid, 401: fault.Forbidden, 403: fault.Forbidden, 404: fault.NotFound, 408: fault.Timeout, 410: fault.NotFound,
		413: fault.Invalid, 415: fault.Invalid, 429: fault.Throttled, 500: fault.ServerError, 502: fault.ServerError, 503: fault.ServerError, 504: fault.Timeout,
	} {
		w, err := NewWebhook(WebhookOptions{URL: receiver.URL})
		if err != nil {
			t.Fatal(err)
		}
		receiver.Fail(notifytest.Fault{Status: code, Header: map[string]string{"Location": "/elsewhere"}, Body: "because\x1b[31m <b>"})
		e := asError(t, http.StatusText(code), w.Send(t.Context(), testEvent()))
		if e.Reason != want {
			t.Errorf("%d: reason %q, want %q", code, e.Reason, want)
		}
		if !strings.Contains(e.Error(), "because") || strings.Contains(e.Error(), "\x1b") {
			t.Errorf("%d: the server's words are missing or raw: %q", code, e.Error())
		}
	}
	if n := len(receiver.Events()); n > 0 {
		t.Errorf("%d requests arrived that should not: a redirect was followed", n)
	}
	down, err := NewWebhook(WebhookOptions{URL: "http://127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, "nobody listens", down.Send(t.Context(), testEvent()), fault.Unreachable)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	wantReason(t, "given up", down.Send(canceled, testEvent()), fault.Timeout)
	receiver.Fail(notifytest.Fault{Lose: true})
	lost, err := NewWebhook(WebhookOptions{URL: receiver.URL})
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, "lost answer", lost.Send(t.Context(), testEvent()), fault.Unreachable)
	if n := len(receiver.Events()); n != 1 {
		t.Errorf("the event whose answer was lost arrived %d times", n)
	}
}

// An address that gives out credentials is never asked, by whatever name.
func TestMetadataAddresses(t *testing.T) {
	for _, u := range []string{"http://169.254.169.254/latest", "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://0.0.0.0/"} {
		if _, err := NewWebhook(WebhookOptions{URL: u}); err == nil {
			t.Errorf("%s is accepted", u)
		}
	}
	e, err := newEndpoint("webhook", "http://metadata.test/", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	transport, ok := e.client.Transport.(*http.Transport)
	if !ok {
		t.Fatal("not a transport")
	}
	_, err = transport.DialContext(t.Context(), "tcp", "169.254.169.254:80") // as a name resolves
	wantReason(t, "resolved", failedRequest("webhook", "x", err), fault.Invalid)
}

func TestBadOptions(t *testing.T) {
	short := secretFile(t, "too-short")
	for what, made := range map[string]func() error{
		"no url":      func() error { _, err := NewWebhook(WebhookOptions{}); return err },
		"no scheme":   func() error { _, err := NewWebhook(WebhookOptions{URL: "hooks.example"}); return err },
		"credentials": func() error { _, err := NewWebhook(WebhookOptions{URL: "https://a:canary@h/"}); return err },
		"fragment":    func() error { _, err := NewWebhook(WebhookOptions{URL: "https://h/#canary"}); return err },
		"unparsable":  func() error { _, err := NewWebhook(WebhookOptions{URL: "https://h/canary\x7f"}); return err },
		"no token file": func() error {
			_, err := NewWebhook(WebhookOptions{URL: "https://h/", TokenFile: "missing"})
			return err
		},
		"empty token": func() error {
			_, err := NewWebhook(WebhookOptions{URL: "https://h/", TokenFile: os.DevNull})
			return err
		},
		"token of two rows": func() error {
			_, err := NewWebhook(WebhookOptions{URL: "https://h/", TokenFile: secretFile(t, "canary\nb")})
			return err
		},
		"no CA":             func() error { _, err := NewWebhook(WebhookOptions{URL: "https://h/", CAFile: "missing"}); return err },
		"CA not PEM":        func() error { _, err := NewWebhook(WebhookOptions{URL: "https://h/", CAFile: short}); return err },
		"no key":            func() error { _, err := NewPagerDuty(PagerDutyOptions{}); return err },
		"short key":         func() error { _, err := NewPagerDuty(PagerDutyOptions{RoutingKeyFile: short}); return err },
		"silences too long": func() error { _, err := NewSilences(SilencesOptions{URL: "http://h", Max: 48 * time.Hour}); return err },
		"silences too short": func() error {
			_, err := NewSilences(SilencesOptions{URL: "http://h", Max: time.Second})
			return err
		},
	} {
		if err := made(); err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "too-short") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A canary for every secret: servers echo what they were sent, and connections
// break with the address in the error.
func TestSecretsStayOutOfErrors(t *testing.T) {
	const token, path, query = "canary-token", "/canary-path-0123456789", "key=canary-query"
	receiver := notifytest.StartReceiver(t)
	base := strings.TrimSuffix(receiver.URL, "/hook")
	w, err := NewWebhook(WebhookOptions{URL: base + path + "?" + query, TokenFile: secretFile(t, token)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPagerDuty(PagerDutyOptions{URL: base, RoutingKeyFile: secretFile(t, notifytest.RoutingKey)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSilences(SilencesOptions{URL: base, TokenFile: secretFile(t, token)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		send    func() error
		secrets []string
	}{
		{"webhook", func() error { return w.Send(t.Context(), testEvent()) }, []string{token, path, query}},
		{"pagerduty", func() error { return p.Resolve(t.Context(), "k") }, []string{notifytest.RoutingKey}},
		{"silences", func() error { _, err := s.List(t.Context()); return err }, []string{token}},
	} {
		echo := strings.Join(c.secrets, " ")
		for _, fault := range []notifytest.Fault{
			{Status: 400, Body: "bad: " + echo},
			{Lose: true},
			{Status: 429, Body: echo, Header: map[string]string{"Retry-After": "60"}}, // and then it is left alone
		} {
			receiver.Fail(fault)
			checkCanary(t, c.name, c.send(), c.secrets)
		}
		checkCanary(t, c.name, c.send(), c.secrets)
	}
}

func checkCanary(t *testing.T, name string, err error, secrets []string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: no error", name)
	}
	for _, secret := range secrets {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s tells %s: %v", name, secret, err)
		}
	}
}

// A server that wants to be left alone is not asked before its time.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		e, err := newEndpoint("webhook", "http://hooks.test/", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		e.client.Transport = roundTripper(func(*http.Request) *http.Response {
			asked++
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"30"}}, Body: http.NoBody}
		})
		w := &Webhook{endpoint: e}
		if got := asError(t, "first", w.Send(t.Context(), testEvent())).RetryAfter; got != 30*time.Second {
			t.Errorf("retry after %s", got)
		}
		time.Sleep(20 * time.Second)
		if got := asError(t, "too early", w.Send(t.Context(), testEvent())).RetryAfter; got != 10*time.Second || asked != 1 {
			t.Errorf("retry after %s, asked %d times", got, asked)
		}
		time.Sleep(10 * time.Second)
		wantReason(t, "in time", w.Send(t.Context(), testEvent()), fault.Throttled)
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestRetryAfterForms(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-3": 0, "soon": 0, "99999999999999999999": 0,
		"86400":                         maxQuiet, // a server cannot silence us for a day
		"Sun, 01 Mar 2026 10:31:00 GMT": time.Minute,
		"Sun, 01 Mar 2026 10:29:00 GMT": 0,
	} {
		if got := retryAfter(value, at); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

type roundTripper func(*http.Request) *http.Response

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req), nil }
