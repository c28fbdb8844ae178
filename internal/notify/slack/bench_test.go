package slack

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// BenchmarkInteraction measures our part of a click over HTTP, from the raw
// request to the consumer's queue.
func BenchmarkInteraction(b *testing.B) {
	s := slacktest.Start(b, slacktest.Options{})
	c, err := New(Options{Secrets: Secrets{Token: NewSecret(slacktest.Token), SigningSecret: NewSecret(slacktest.SigningSecret)}, APIURL: s.APIURL(), AppID: slacktest.AppID, TeamID: slacktest.TeamID})
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewReceiver(c, ReceiverOptions{Queue: 1, Consume: func(context.Context, Click) {}})
	if err != nil {
		b.Fatal(err)
	}
	s.AddChannel(slacktest.Conversation{ID: channel, Member: true})
	ref, err := c.Post(b.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := s.Payload("U0ADA00001", channel, ref.TS, "responder.approve", false)
	if err != nil {
		b.Fatal(err)
	}
	body := url.Values{"payload": {string(p)}}.Encode()
	head := s.Sign([]byte(body), time.Now())
	b.ReportMetric(float64(len(body)), "bytes")
	for b.Loop() {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		req.Header = head
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
		<-r.queue
		clear(r.requests.known)
	}
}

// BenchmarkFind1000 measures what a restart needs to find the messages of 1,000
// open gates in one channel.
func BenchmarkFind1000(b *testing.B) {
	s := slacktest.Start(b, slacktest.Options{})
	s.AddChannel(slacktest.Conversation{ID: channel, Member: true})
	c, err := New(Options{Secrets: Secrets{Token: NewSecret(slacktest.Token)}, APIURL: s.APIURL()})
	if err != nil {
		b.Fatal(err)
	}
	for range 1000 {
		if _, err := c.Post(b.Context(), channel, Meta{Run: "r", Gate: "g"}, approval().Message()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		found, err := c.Find(b.Context(), channel, time.Now().Add(-time.Hour))
		if err != nil || len(found) != 1000 {
			b.Fatal(len(found), err)
		}
	}
}

// BenchmarkRender measures one approval, from its struct to JSON.
func BenchmarkRender(b *testing.B) {
	a := approval()
	for b.Loop() {
		if _, err := a.Message().MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
}
