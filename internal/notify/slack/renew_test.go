package slack

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

func secretsOf(token, app, signing string) Secrets {
	return Secrets{Token: NewSecret(token), AppToken: NewSecret(app), SigningSecret: NewSecret(signing)}
}

// A renewed token is used from the next call on, and a renewed signing secret
// from the next request on. The old ones are no longer accepted.
func TestRenew(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	if _, err := c.Identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, clicks := receiver(t, c, ReceiverOptions{})
	h := httptest.NewServer(r)
	t.Cleanup(h.Close)
	s.Interactivity(h.URL)
	s.Renew("xoxb-2", "xapp-2", "another-signing-secret")
	if _, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message()); why(err) != fault.BadToken {
		t.Fatalf("with the old token: %v", err)
	}
	for _, bad := range []Secrets{{}, secretsOf("xoxb-2", "xoxb-2", ""), secretsOf("xoxb-2", "", "another-signing-secret")} {
		if err := c.Renew(bad); err == nil {
			t.Errorf("taken: %v", bad)
		}
	}
	if err := c.Renew(secretsOf("xoxb-2", "xapp-2", "")); err != nil {
		t.Fatal(err)
	}
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatalf("with the new token: %v", err)
	}
	if d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve"); err != nil || d.Acknowledged {
		t.Fatalf("without a signing secret: %+v, %v", d, err)
	}
	if err := c.Renew(secretsOf("xoxb-2", "xapp-2", "another-signing-secret")); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve"); err != nil || !d.Acknowledged {
		t.Fatalf("with the new signing secret: %+v, %v", d, err)
	}
	<-clicks
}

// Socket Mode moves to a new app token without a gap in which clicks are lost.
// A token that does not work leaves the old connection in place.
func TestSocketGoesOverToANewAppToken(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	r, clicks := receiver(t, c, ReceiverOptions{})
	connect(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	click := func(when string) {
		t.Helper()
		if d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.approve"); err != nil || !d.Acknowledged {
			t.Fatalf("%s: %+v, %v", when, d, err)
		}
		<-clicks
	}
	refused := len(s.Calls("apps.connections.open"))
	if err := c.Renew(secretsOf(slacktest.Token, "xapp-wrong", slacktest.SigningSecret)); err != nil {
		t.Fatal(err)
	}
	if !s.Wait(30*time.Second, func() bool { return len(s.Calls("apps.connections.open")) > refused }) {
		t.Fatal("the new token was not tried")
	}
	click("with a token that does not work")
	opened := s.Opened()
	s.Renew(slacktest.Token, "xapp-2", slacktest.SigningSecret)
	if err := c.Renew(secretsOf(slacktest.Token, "xapp-2", slacktest.SigningSecret)); err != nil {
		t.Fatal(err)
	}
	click("meanwhile")
	if !s.Wait(30*time.Second, func() bool { return s.Opened() == opened+1 && s.Connections() == 1 }) {
		t.Fatalf("%d connections", s.Connections())
	}
	click("with the new token")
}
