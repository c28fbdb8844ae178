package slack

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// refusals collects what a receiver refused.
type refusals struct {
	mu  sync.Mutex // guards all
	all []Refused
}

func (r *refusals) add(x Refused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x)
}

func (r *refusals) reasons() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Refusal
	for _, x := range r.all {
		out = append(out, x.Reason)
	}
	return out
}

// receiver runs a receiver until the test ends. Its clicks arrive on the
// channel unless the options have a consumer.
func receiver(t *testing.T, c *Client, o ReceiverOptions) (*Receiver, chan Click) {
	t.Helper()
	clicks := make(chan Click, 100)
	if o.Consume == nil {
		o.Consume = func(_ context.Context, c Click) { clicks <- c }
	}
	r, err := NewReceiver(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return r, clicks
}

// serve connects a receiver to the server over HTTP.
func serve(t *testing.T, s *slacktest.Server, r *Receiver) {
	h := httptest.NewServer(r)
	t.Cleanup(h.Close)
	s.Interactivity(h.URL + "/slack/interactivity")
}

// connect connects a receiver to the server over Socket Mode.
func connect(t *testing.T, s *slacktest.Server, r *Receiver) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	before := s.Connections()
	wg.Go(func() { _ = r.RunSocket(ctx, nil) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if !s.Wait(30*time.Second, func() bool { return s.Connections() > before }) {
		t.Fatal("no Socket Mode connection")
	}
}

// transports runs a test over both transports.
func transports(t *testing.T, test func(t *testing.T, by Transport, attach func(*testing.T, *slacktest.Server, *Receiver))) {
	t.Run("http", func(t *testing.T) { test(t, HTTP, serve) })
	t.Run("socket", func(t *testing.T) { test(t, SocketMode, connect) })
}

// TestClicks: the same clicks over both transports.
func TestClicks(t *testing.T) {
	transports(t, func(t *testing.T, by Transport, attach func(*testing.T, *slacktest.Server, *Receiver)) {
		s, c := workspace(t, slacktest.Options{})
		var no refusals
		r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
		attach(t, s, r)
		ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
		if err != nil {
			t.Fatal(err)
		}
		want := Click{
			ID: "g_3f9a2b7c", UserID: "U0ADA00001", UserTeamID: slacktest.TeamID, TeamID: slacktest.TeamID,
			Channel: channel, MessageTS: ref.TS, Transport: by,
		}
		unpredictable := cmpopts.IgnoreFields(Click{}, "TriggerID", "Envelope", "At", "ViewID")
		for _, kind := range []Kind{KindApprove, KindDeny, KindReplan, KindDetails, KindBreakGlass} {
			d, err := s.Click("U0ADA00001", channel, ref.TS, "responder."+string(kind))
			if err != nil || !d.Acknowledged {
				t.Fatalf("%s: %+v, %v", kind, d, err)
			}
			got := <-clicks
			want.Kind = kind
			if diff := cmp.Diff(want, got, unpredictable); diff != "" {
				t.Errorf("%s:\n%s", kind, diff)
			}
			if got.TriggerID != d.TriggerID || got.Envelope == "" || time.Since(got.At).Abs() > time.Minute {
				t.Errorf("%s: %+v", kind, got)
			}
		}
		// A denial without a reason keeps the dialog open with an error.
		d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.deny")
		if err != nil || !d.Acknowledged {
			t.Fatal(d, err)
		}
		click := <-clicks
		if err := c.OpenModal(t.Context(), click, Deny{ID: click.ID, Title: "x", Origin: click.Origin()}.Modal()); err != nil {
			t.Fatal(err)
		}
		view := s.Views("U0ADA00001")[0].ID
		for _, empty := range []string{"", "  \n ", "\u200b\u202e\u2066"} {
			d, err = s.Submit("U0ADA00001", view, "reason", "responder.reason", empty)
			if err != nil || !d.Acknowledged || d.Errors["reason"] == "" {
				t.Errorf("%q was taken for a reason: %+v, %v", empty, d, err)
			}
		}
		d, err = s.Submit("U0ADA00001", view, "reason", "responder.reason", " a rollout is\u202e under way <!channel>\n")
		if err != nil || !d.Acknowledged || d.Errors != nil {
			t.Fatalf("%+v, %v", d, err)
		}
		want.Kind, want.Reason = KindDenySubmitted, "a rollout is under way <!channel>"
		if diff := cmp.Diff(want, <-clicks, unpredictable); diff != "" {
			t.Error(diff)
		}
		if got := no.reasons(); got != nil {
			t.Errorf("refused: %v", got)
		}
		if v := s.Violations(); v != nil {
			t.Errorf("violations: %v", v)
		}
	})
}

// TestSlowConsumer: Slack gets its acknowledgement whatever the consumer does,
// and a person whose click finds the queue full is told, over both transports.
func TestSlowConsumer(t *testing.T) {
	transports(t, func(t *testing.T, _ Transport, attach func(*testing.T, *slacktest.Server, *Receiver)) {
		s, c := workspace(t, slacktest.Options{})
		var no refusals
		stuck := make(chan struct{})
		r, _ := receiver(t, c, ReceiverOptions{
			Workers: 1, Queue: 2, Refused: no.add,
			Consume: func(context.Context, Click) { <-stuck },
		})
		defer close(stuck)
		attach(t, s, r)
		ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve")
			if err != nil || !d.Acknowledged {
				t.Errorf("click %d: %+v, %v", i, d, err)
			}
		}
		told := func() bool {
			e := s.Ephemerals()
			return len(e) > 0 && strings.Contains(e[0].Text, "command line") && e[0].User == "U0ADA00001"
		}
		if !s.Wait(30*time.Second, told) {
			t.Error("nobody was told that the click was not taken")
		}
		if !slices.Contains(no.reasons(), Busy) {
			t.Errorf("refused: %v", no.reasons())
		}
		if v := s.Violations(); v != nil {
			t.Errorf("violations: %v", v)
		}
	})
}

// TestConsumerPanics: a panic over one click is reported and the next click is
// consumed.
func TestConsumerPanics(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	var no refusals
	clicks := make(chan Click, 1)
	r, _ := receiver(t, c, ReceiverOptions{Workers: 1, Refused: no.add, Consume: func(_ context.Context, c Click) {
		if c.Kind == KindDetails {
			panic("mistake")
		}
		clicks <- c
	}})
	serve(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"responder.details", "responder.approve"} {
		if _, err := s.Click("U0ADA00001", channel, ref.TS, action); err != nil {
			t.Fatal(err)
		}
	}
	if c := <-clicks; c.Kind != KindApprove {
		t.Errorf("got %s", c.Kind)
	}
	if got := no.reasons(); !slices.Equal(got, []Refusal{Panicked}) {
		t.Errorf("refused: %v", got)
	}
}

// TestBadRequests: the HTTP endpoint accepts only requests that Slack signed,
// that are fresh, that arrive once, and that have exactly the documented form.
func TestBadRequests(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	var no refusals
	r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
	serve(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	payload := func() string {
		p, _, err := s.Payload("U0ADA00001", channel, ref.TS, "responder.approve", false)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	edited := func(old, with string) string {
		p := payload()
		if !strings.Contains(p, old) {
			t.Fatalf("the payload has no %s", old)
		}
		return strings.Replace(p, old, with, 1)
	}
	body := func(p string) string { return url.Values{"payload": {p}}.Encode() }
	const secret = "8f742231b10e8888abcd99yyyzzz85a5"
	cases := []struct {
		name   string
		body   string
		at     time.Duration // when it was signed, from now
		head   func(http.Header)
		reason Refusal
		status int
	}{
		{"unsigned", body(payload()), 0, func(h http.Header) { h.Del("X-Slack-Signature") }, BadSignature, 401},
		{"no timestamp", body(payload()), 0, func(h http.Header) { h.Del("X-Slack-Request-Timestamp") }, BadSignature, 401},
		{"forged", body(payload()), 0, func(h http.Header) { h.Set("X-Slack-Signature", "v0="+strings.Repeat("ab", 32)) }, BadSignature, 401},
		{"two signatures", body(payload()), 0, func(h http.Header) { h.Add("X-Slack-Signature", h.Get("X-Slack-Signature")) }, BadSignature, 401},
		{"signature of v1", body(payload()), 0, func(h http.Header) { h.Set("X-Slack-Signature", "v1"+h.Get("X-Slack-Signature")[2:]) }, BadSignature, 401},
		{"other timestamp", body(payload()), 0, func(h http.Header) {
			h.Set("X-Slack-Request-Timestamp", strconv.FormatInt(time.Now().Unix()-2, 10))
		}, BadSignature, 401},
		{"ancient timestamp", body(payload()), 0, func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "1") }, Stale, 401},
		{"301 s old", body(payload()), -301 * time.Second, nil, Stale, 401},
		{"330 s ahead", body(payload()), 330 * time.Second, nil, Stale, 401},
		{"other app", body(edited(slacktest.AppID, "A0OTHER001")), 0, nil, WrongApp, 403},
		{"other team", body(edited(`"team":{"domain":"test","id":"`+slacktest.TeamID, `"team":{"domain":"test","id":"T0OTHER`)), 0, nil, WrongTeam, 403},
		{"no team", body(edited(`"team":{"domain":"test","id":"`+slacktest.TeamID+`"}`, `"team":null`)), 0, nil, WrongTeam, 403},
		{"unknown action", body(edited("responder.approve", "responder.apply")), 0, nil, UnknownAction, 400},
		{"another's action", body(edited("responder.approve", "approve")), 0, nil, UnknownAction, 400},
		{"inner kind", body(edited("responder.approve", "responder.deny-submitted")), 0, nil, UnknownAction, 400},
		{"paging a message", body(edited("responder.approve", "responder.next")), 0, nil, Malformed, 400},
		{"unknown type", body(edited("block_actions", "message_action")), 0, nil, UnknownAction, 400},
		{"value", body(edited("g_3f9a2b7c", "../../etc/passwd")), 0, nil, Malformed, 400},
		{"no value", body(edited(`"value":"g_3f9a2b7c"`, `"value":""`)), 0, nil, Malformed, 400},
		{"no user", body(edited(`"id":"U0ADA00001"`, `"id":""`)), 0, nil, Malformed, 400},
		{"oversized", body(payload()) + "&x=" + strings.Repeat("a", maxBody), 0, nil, TooLarge, 413},
		{"not JSON", body("{"), 0, nil, Malformed, 400},
		{"two JSON values", body(payload() + payload()), 0, nil, Malformed, 400},
		{"a name twice", body(edited(`"api_app_id"`, `"type":"block_actions","api_app_id"`)), 0, nil, Malformed, 400},
		{"a name in two cases", body(edited(`"api_app_id"`, `"API_App_ID":"A0OTHER001","api_app_id"`)), 0, nil, Malformed, 400},
		{"deep", body(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), 0, nil, Malformed, 400},
		{"two payloads", body(payload()) + "&" + body(payload()), 0, nil, Malformed, 400},
		{"another field", body(payload()) + "&token=x", 0, nil, Malformed, 400},
		{"no payload", "token=x", 0, nil, Malformed, 400},
		{"empty", "", 0, nil, Malformed, 400},
		{"semicolon", body(payload()) + ";payload=x", 0, nil, Malformed, 400},
		{"JSON as such", payload(), 0, func(h http.Header) { h.Set("Content-Type", "application/json") }, Malformed, 400},
		{"multipart", body(payload()), 0, func(h http.Header) { h.Set("Content-Type", "multipart/form-data; boundary=x") }, Malformed, 400},
		{"charset", body(payload()), 0, func(h http.Header) { h.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-7") }, Malformed, 400},
		{"two types", body(payload()), 0, func(h http.Header) { h.Add("Content-Type", "application/json") }, Malformed, 400},
		{"encoded", body(payload()), 0, func(h http.Header) { h.Set("Content-Encoding", "gzip") }, Malformed, 400},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := s.Sign([]byte(tc.body), time.Now().Add(tc.at))
			if tc.head != nil {
				tc.head(h)
			}
			before := len(no.reasons())
			d, err := s.Post([]byte(tc.body), h)
			if err != nil || d.Status != tc.status {
				t.Errorf("status %d, want %d, %v", d.Status, tc.status, err)
			}
			if got := no.reasons()[before:]; !slices.Equal(got, []Refusal{tc.reason}) {
				t.Errorf("refused %v, want %v", got, tc.reason)
			}
			if len(clicks) != 0 {
				t.Errorf("the consumer got %+v", <-clicks)
			}
		})
	}
	for _, x := range no.all {
		if strings.Contains(x.Detail, secret) || strings.Contains(x.Detail, "legacy-verification-token") || len(x.Detail) > 300 {
			t.Errorf("a refusal repeats what it should not: %q", x.Detail)
		}
	}
}

// touched reports whether a body was read.
type touched struct{ read bool }

func (b *touched) Read([]byte) (int, error) {
	b.read = true
	return 0, io.EOF
}

// TestHeadersFirst: nothing is read of a request whose headers cannot be Slack's.
func TestHeadersFirst(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	r, _ := receiver(t, c, ReceiverOptions{})
	for name, head := range map[string]func(http.Header){
		"unsigned":        func(h http.Header) { h.Del("X-Slack-Signature") },
		"malformed":       func(h http.Header) { h.Set("X-Slack-Signature", "v0=12") },
		"no timestamp":    func(h http.Header) { h.Del("X-Slack-Request-Timestamp") },
		"other timestamp": func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "1531420618") },
	} {
		var body touched
		req := httptest.NewRequest(http.MethodPost, "/", &body)
		req.Header = s.Sign(nil, time.Now())
		head(req.Header)
		w := httptest.NewRecorder()
		if r.ServeHTTP(w, req); w.Code != http.StatusUnauthorized || body.read {
			t.Errorf("%s: %d, body read: %v", name, w.Code, body.read)
		}
	}
}

// TestSlowBodies: senders whose headers look like Slack's and whose bodies do not end
// hold a bounded number of bytes and no slot, so that a click beside them counts, also
// where all have the address of a proxy.
func TestSlowBodies(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	var no refusals
	r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
	serve(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	const senders = 70
	var slow sync.WaitGroup
	stalled, gone := make(chan struct{}, senders), make(chan struct{})
	for range senders {
		slow.Go(func() {
			w := &proxied{httptest.NewRecorder(), make(chan struct{})}
			var once sync.Once
			arrived := func() { once.Do(func() { stalled <- struct{}{} }) }
			body := io.MultiReader(strings.NewReader(strings.Repeat("a", maxBody/2)), &stall{arrived, gone, w.cut})
			req := httptest.NewRequest(http.MethodPost, "/", body)
			req.RemoteAddr, req.Header = "127.0.0.1:1", s.Sign(nil, time.Now()) // the workspace's, too
			r.ServeHTTP(w, req)
			arrived() // those that were refused, too
		})
	}
	for range senders {
		<-stalled
	}
	const holds = maxOfAddress / (maxBody/2 - shareOfBody) // senders
	if r.bodies.all > holds*maxBody/2 || len(r.clicks) != 0 {
		t.Errorf("%d bytes and %d slots are held", r.bodies.all, len(r.clicks))
	}
	if n := len(r.bodies.open); n != holds {
		t.Errorf("%d of %d slow senders of one address are served, want %d", n, senders, holds)
	}
	if d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve"); err != nil || !d.Acknowledged {
		t.Errorf("a click beside them: %+v, %v", d, err)
	}
	if click := <-clicks; click.Kind != KindApprove {
		t.Errorf("%+v", click)
	}
	close(gone)
	slow.Wait()
	if r.bodies.all != 0 || len(r.bodies.by) != 0 || len(r.bodies.open) != 0 {
		t.Errorf("%d bytes stay counted, of %v", r.bodies.all, r.bodies.by)
	}
	if n := len(no.reasons()); n != senders {
		t.Errorf("%d of %d slow senders were refused", n, senders)
	}
}

// stall is the part of a body that does not come.
type stall struct {
	stalled   func()
	gone, cut chan struct{}
}

func (b *stall) Read([]byte) (int, error) {
	b.stalled()
	select {
	case <-b.gone:
	case <-b.cut:
	}
	return 0, io.ErrUnexpectedEOF
}

// proxied is an answer whose connection takes deadlines: one that is over ends what waits.
type proxied struct {
	*httptest.ResponseRecorder
	cut chan struct{}
}

func (w *proxied) SetReadDeadline(at time.Time) error {
	if !at.After(time.Now()) {
		close(w.cut)
	}
	return nil
}

func TestReplay(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	var no refusals
	r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
	serve(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := s.Payload("U0ADA00001", channel, ref.TS, "responder.approve", false)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(url.Values{"payload": {string(p)}}.Encode())
	h := s.Sign(body, time.Now())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := s.Post(body, h.Clone()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	<-clicks
	if len(clicks) != 0 || len(no.reasons()) != 9 {
		t.Errorf("%d more clicks, refused %v", len(clicks), no.reasons())
	}
}

// TestUnprepared: while Slack does not identify the app, nothing is accepted.
func TestUnprepared(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	var no refusals
	r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
	serve(t, s, r)
	m, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	s.Fail("auth.test", 1, slacktest.Fault{Status: 500})
	d, err := s.Click("U0ADA00001", channel, m.TS, "responder.approve")
	if err != nil || d.Status != http.StatusServiceUnavailable || len(clicks) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if got := no.reasons(); !slices.Equal(got, []Refusal{Unprepared}) {
		t.Errorf("refused: %v", got)
	}
}
