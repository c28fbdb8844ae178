package endpoint

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
)

// open returns an endpoint for a webhook.
func open(t *testing.T, url string) *Endpoint {
	t.Helper()
	e, err := New("webhook", url, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// event is a request that the receiver of notifytest accepts.
func event() Request {
	return Request{
		Method: http.MethodPost, ContentType: "application/cloudevents+json; charset=utf-8",
		Body: []byte(`{"specversion":"1.0","id":"1","source":"/responder","type":"t"}`),
	}
}

func send(t *testing.T, e *Endpoint) error {
	t.Helper()
	_, err := e.Do(t.Context(), event())
	return err
}

// A caller decides by the reason whether trying again can help.
func TestReasons(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	for code, want := range map[int]fault.Reason{
		301: fault.Invalid, 307: fault.Invalid, 400: fault.Invalid, 401: fault.Forbidden, 403: fault.Forbidden, 404: fault.NotFound, 408: fault.Timeout, 410: fault.NotFound,
		413: fault.Invalid, 415: fault.Invalid, 429: fault.Throttled, 500: fault.ServerError, 502: fault.ServerError, 503: fault.ServerError, 504: fault.Timeout,
	} {
		receiver.Fail(notifytest.Fault{Status: code, Header: map[string]string{"Location": "/elsewhere"}, Body: "because\x1b[31m <b>"})
		e := notifytest.ErrorFor(t, http.StatusText(code), send(t, open(t, receiver.URL)), want)
		if !strings.Contains(e.Error(), "because") || strings.Contains(e.Error(), "\x1b") {
			t.Errorf("%d: the server's words are missing or raw: %q", code, e.Error())
		}
	}
	if n := len(receiver.Events()); n > 0 {
		t.Errorf("%d requests arrived that should not: a redirect was followed", n)
	}
	down := open(t, "http://127.0.0.1:1/")
	notifytest.WantReason(t, "nobody listens", send(t, down), fault.Unreachable)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := down.Do(canceled, event())
	notifytest.WantReason(t, "given up", err, fault.Timeout)
	receiver.Fail(notifytest.Fault{Lose: true})
	notifytest.WantReason(t, "lost answer", send(t, open(t, receiver.URL)), fault.Unreachable)
	if n := len(receiver.Events()); n != 1 {
		t.Errorf("the event whose answer was lost arrived %d times", n)
	}
}

// An address that gives out credentials is never asked, by whatever name.
func TestMetadataAddresses(t *testing.T) {
	for _, u := range []string{"http://169.254.169.254/latest", "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://0.0.0.0/"} {
		if _, err := New("webhook", u, "", 0); err == nil {
			t.Errorf("%s is accepted", u)
		}
	}
	transport, ok := open(t, "http://metadata.test/").client.Transport.(*http.Transport)
	if !ok {
		t.Fatal("not a transport")
	}
	_, err := transport.DialContext(t.Context(), "tcp", "169.254.169.254:80") // as a name resolves
	notifytest.WantReason(t, "resolved", failedRequest("webhook", "x", err), fault.Invalid)
}

func TestBadSettings(t *testing.T) {
	address := func(url string) func() error {
		return func() error { _, err := New("webhook", url, "", 0); return err }
	}
	ca := func(file string) func() error {
		return func() error { _, err := New("webhook", "https://h/", file, 0); return err }
	}
	token := func(file string) func() error {
		return func() error { _, err := Bearer("webhook", file); return err }
	}
	for what, made := range map[string]func() error{
		"no url":            address(""),
		"no scheme":         address("hooks.example"),
		"credentials":       address("https://a:canary@h/"),
		"fragment":          address("https://h/#canary"),
		"unparsable":        address("https://h/canary\x7f"),
		"no token file":     token("missing"),
		"empty token":       token(os.DevNull),
		"token of two rows": token(notifytest.SecretFile(t, "canary\nb")),
		"no CA":             ca("missing"),
		"CA not PEM":        ca(notifytest.SecretFile(t, "canary")),
	} {
		if err := made(); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A canary for every secret: servers echo what they were sent, and connections
// break with the address in the error.
func TestSecretsStayOutOfErrors(t *testing.T) {
	secrets := []string{"canary-token", "canary-key", "/canary-path-0123456789", "key=canary-query"}
	receiver := notifytest.StartReceiver(t)
	e := open(t, strings.TrimSuffix(receiver.URL, "/hook")+secrets[2]+"?"+secrets[3])
	r := event()
	r.Token, r.Secret = secrets[0], secrets[1]
	echo := strings.Join(secrets, " ")
	for _, fault := range []notifytest.Fault{
		{Status: 400, Body: "bad: " + echo},
		{Lose: true},
		{Status: 429, Body: echo, Header: map[string]string{"Retry-After": "60"}},
		{}, // not asked before its time
	} {
		receiver.Fail(fault)
		_, err := e.Do(t.Context(), r)
		if err == nil {
			t.Fatalf("%+v: no error", fault)
		}
		for _, secret := range secrets {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells %s: %v", secret, err)
			}
		}
	}
}

// A server that wants to be left alone is not asked before its time.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		e := open(t, "http://hooks.test/")
		e.client.Transport = roundTripper(func(*http.Request) *http.Response {
			asked++
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"30"}}, Body: http.NoBody}
		})
		if got := notifytest.ErrorFor(t, "first", send(t, e), fault.Throttled).RetryAfter; got != 30*time.Second {
			t.Errorf("retry after %s", got)
		}
		time.Sleep(20 * time.Second)
		if got := notifytest.ErrorFor(t, "too early", send(t, e), fault.Throttled).RetryAfter; got != 10*time.Second || asked != 1 {
			t.Errorf("retry after %s, asked %d times", got, asked)
		}
		time.Sleep(10 * time.Second)
		notifytest.WantReason(t, "in time", send(t, e), fault.Throttled)
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
		if got := retryAfter(value, time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

type roundTripper func(*http.Request) *http.Response

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req), nil }
