package slack

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// TestSocketRedelivery: an envelope whose acknowledgement was lost is repeated
// and counts as one click. One that nobody received goes to the next
// connection.
func TestSocketRedelivery(t *testing.T) {
	s, c := workspace(t, slacktest.Options{AckWithin: 300 * time.Millisecond})
	var no refusals
	r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	// Nobody is connected: Slack keeps the envelope and delivers it later.
	lost, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve")
	if err != nil || lost.Acknowledged {
		t.Fatalf("%+v, %v", lost, err)
	}
	connect(t, s, r)
	if n := s.Redeliver(); n != 1 {
		t.Fatalf("%d envelopes to deliver", n)
	}
	if got := <-clicks; got.Envelope != lost.Envelope {
		t.Errorf("got %+v", got)
	}
	if !s.Wait(30*time.Second, func() bool { return s.Acknowledged(lost.Envelope) == 1 }) {
		t.Error("the late envelope was not acknowledged")
	}
	if err := s.Repeat(lost.Envelope); err != nil {
		t.Fatal(err)
	}
	if !s.Wait(30*time.Second, func() bool { return s.Acknowledged(lost.Envelope) == 2 }) {
		t.Error("the repeated envelope was not acknowledged")
	}
	if len(clicks) != 0 || !slices.Equal(no.reasons(), []Refusal{Replayed}) {
		t.Errorf("%d more clicks, refused %v", len(clicks), no.reasons())
	}
}

// TestSocketReconnects: on Slack's request, on a cut, and after an outage.
func TestSocketReconnects(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	r, clicks := receiver(t, c, ReceiverOptions{})
	connect(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []func(){func() { s.Disconnect("refresh_requested") }, s.Drop, func() {
		s.Outage(true)
		s.Wait(30*time.Second, func() bool { return s.Connections() == 0 })
		s.Outage(false)
	}} {
		opened := s.Opened()
		cut()
		again := func() bool { return s.Opened() > opened && s.Connections() == 1 }
		if !s.Wait(20*time.Second, again) {
			t.Fatal("no new connection")
		}
		if d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve"); err != nil || !d.Acknowledged {
			t.Fatalf("%+v, %v", d, err)
		}
		<-clicks
	}
}

// TestSocketBadToken: a refused token is reported with its remedy, and does not
// end the service.
func TestSocketBadToken(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	s.Fail("apps.connections.open", 1, slacktest.Fault{Code: "invalid_auth"})
	r, _ := receiver(t, c, ReceiverOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	var refused error
	err := r.RunSocket(ctx, func(x SocketState) {
		if x.Err != nil {
			refused = x.Err
			cancel()
		}
	})
	if why(refused) != fault.BadToken || !errors.Is(err, context.Canceled) {
		t.Errorf("reported %v, ended with %v", refused, err)
	}
	none, err := New(Options{Secrets: Secrets{Token: NewSecret(slacktest.Token)}, APIURL: s.APIURL()})
	if err != nil {
		t.Fatal(err)
	}
	r, _ = receiver(t, none, ReceiverOptions{})
	if err := r.RunSocket(t.Context(), nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("without an app token: %v", err)
	}
}

// TestSocketUnprepared: an envelope that cannot be judged yet is not
// acknowledged, so Slack repeats it, and then it becomes a click.
func TestSocketUnprepared(t *testing.T) {
	s, c := workspace(t, slacktest.Options{AckWithin: 200 * time.Millisecond})
	var no refusals
	r, clicks := receiver(t, c, ReceiverOptions{Refused: no.add})
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	connect(t, s, r)
	s.Fail("auth.test", 1, slacktest.Fault{Status: 500})
	d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve")
	if err != nil || d.Acknowledged {
		t.Fatalf("%+v, %v", d, err)
	}
	if !s.Wait(30*time.Second, func() bool { return len(no.reasons()) == 1 }) || no.reasons()[0] != Unprepared {
		t.Fatalf("refused %v", no.reasons())
	}
	// The failure is kept for two seconds; then Slack is asked again.
	c.mu.Lock()
	c.asked = time.Time{}
	c.mu.Unlock()
	s.Redeliver()
	if got := <-clicks; got.Envelope != d.Envelope {
		t.Errorf("got %+v", got)
	}
	if !s.Wait(30*time.Second, func() bool { return s.Acknowledged(d.Envelope) == 1 }) {
		t.Error("it was taken and not acknowledged")
	}
}
