package slack

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

const channel = "C0ONCALL01"

// workspace starts a Slack with a channel, a few people and a client.
func workspace(t *testing.T, o slacktest.Options) (*slacktest.Server, *Client) {
	t.Helper()
	s := slacktest.Start(t, o)
	s.AddChannel(slacktest.Conversation{ID: channel, Name: "oncall", Member: true})
	for _, u := range []slacktest.User{
		{ID: "U0ADA00001", Email: "Ada@Example.com", DisplayName: "ada"},
		{ID: "U0BOB00001", Email: "bob@example.com", DisplayName: "ada"}, // another person's display name, which proves nothing
	} {
		s.AddUser(u)
	}
	return s, client(t, s)
}

func client(t *testing.T, s *slacktest.Server) *Client {
	t.Helper()
	c, err := New(Options{
		Secrets: Secrets{Token: NewSecret(slacktest.Token), AppToken: NewSecret(slacktest.AppToken), SigningSecret: NewSecret(slacktest.SigningSecret)},
		APIURL:  s.APIURL(), Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPostUpdateFind(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	ctx := t.Context()
	meta := Meta{Run: "01J", Gate: "g1", Part: "approval", Rev: "1"}
	ref, err := c.Post(ctx, channel, meta, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reply(ctx, ref, Meta{Run: "01J", Part: "progress-1"}, Progress{Text: "started"}.Message()); err != nil {
		t.Fatal(err)
	}
	// Others can write our metadata; their messages are not ours.
	s.Put(slacktest.Message{Channel: channel, BotID: "B0EVIL0001", Text: "x", Metadata: json.RawMessage(`{"event_type":"responder_run","event_payload":{"run":"01J","gate":"g1","part":"approval"}}`)})
	meta.Rev = "2"
	a := approval()
	a.State, a.Outcome = Approved, &Outcome{Who: []string{"user:ada"}, At: epoch()}
	for range 2 {
		if err := c.Update(ctx, ref, meta, a.Message()); err != nil {
			t.Fatal(err)
		}
	}
	found, err := c.Find(ctx, channel, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Found{{meta, ref}}, found); diff != "" {
		t.Errorf("found:\n%s", diff)
	}
	replies, err := c.FindReplies(ctx, ref)
	if err != nil || len(replies) != 2 || replies[1].Part != "progress-1" {
		t.Errorf("replies %v, %v", replies, err)
	}
	if later, err := c.Find(ctx, channel, time.Now().Add(time.Hour)); err != nil || len(later) != 0 {
		t.Errorf("found %v of the future, %v", later, err)
	}
	if m := s.Messages(channel)[0]; strings.Contains(string(m.Blocks), `"actions"`) {
		t.Error("a decided message still has its buttons")
	}
	if err := c.Delete(ctx, ref); err != nil {
		t.Error(err)
	}
	if err := c.Update(ctx, ref, meta, a.Message()); why(err) != fault.NotFound {
		t.Errorf("editing a deleted message: %v", err)
	}
}

// TestFindAfterLostAnswer: Slack posted the message but the answer was lost.
// The error reports that, and the message is found and not posted twice.
func TestFindAfterLostAnswer(t *testing.T) {
	for name, failing := range map[string]slacktest.Fault{
		"cut": {Cut: true, After: true}, "502": {Status: 502, After: true}, "garbage": {Garbage: true, After: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := workspace(t, slacktest.Options{})
			s.Fail("chat.postMessage", 1, failing)
			meta := Meta{Run: "01J", Gate: "g1", Part: "approval"}
			_, err := c.Post(t.Context(), channel, meta, approval().Message())
			var e *fault.Error
			if !errors.As(err, &e) || !e.Unknown {
				t.Fatalf("the error does not say that it may be there: %v", err)
			}
			found, err := c.Find(t.Context(), channel, time.Now().Add(-time.Minute))
			if err != nil || len(found) != 1 || !found[0].Same(meta) {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
}

// TestFindManyPages: a busy channel has more messages than a page.
func TestFindManyPages(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	meta := Meta{Run: "01J", Part: "approval"}
	ref, err := c.Post(t.Context(), channel, meta, Notice{Text: "x"}.Message())
	if err != nil {
		t.Fatal(err)
	}
	for range 450 {
		s.Put(slacktest.Message{Channel: channel, User: "U0ADA00001", Text: "chatter"})
	}
	found, err := c.Find(t.Context(), channel, time.Now().Add(-time.Hour))
	if err != nil || len(found) != 1 || found[0].Ref != ref {
		t.Errorf("found %v, %v", found, err)
	}
	if n := len(s.Calls("conversations.history")); n != 3 {
		t.Errorf("%d calls for 451 messages", n)
	}
	// An incomplete answer is an error.
	s.Fail("conversations.history", 1, slacktest.Fault{})
	if _, err := c.Find(t.Context(), channel, time.Time{}); err == nil {
		t.Error("a failed page gives an answer")
	}
}

func why(err error) fault.Reason {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// TestErrors covers every kind of refusal and what a caller branches on.
func TestErrors(t *testing.T) {
	post := "chat.postMessage"
	cases := []struct {
		name    string
		change  func(*slacktest.Server)
		reason  fault.Reason
		says    string
		unknown bool
	}{
		{"rate limit", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Status: 429, RetryAfter: 7 * time.Second}) }, fault.RateLimited, "retry after 7s", false},
		{"rate limit without a time", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Status: 429}) }, fault.RateLimited, "retry after 30s", false},
		{"rate limit in words", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Code: "ratelimited"}) }, fault.RateLimited, "retry after", false},
		{"scope", func(s *slacktest.Server) { s.Scopes("users:read") }, fault.MissingScope, "needs scope chat:write", false},
		{"archived", func(s *slacktest.Server) { s.Archive(channel, true) }, fault.Archived, "unarchive", false},
		{"not in channel", func(s *slacktest.Server) { s.AddChannel(slacktest.Conversation{ID: channel}) }, fault.NoChannel, "/invite", false},
		{"private", func(s *slacktest.Server) { s.AddChannel(slacktest.Conversation{ID: channel, Private: true}) }, fault.NoChannel, "/invite", false},
		{"token expired", func(s *slacktest.Server) { s.TokenError("token_expired") }, fault.BadToken, "token_expired", false},
		{"token revoked", func(s *slacktest.Server) { s.TokenError("token_revoked") }, fault.BadToken, "token", false},
		{"down", func(s *slacktest.Server) { s.Outage(true) }, fault.SlackServerError, "HTTP 503", true},
		{"internal", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Code: "internal_error"}) }, fault.SlackServerError, "internal_error", true},
		{"proxy's page", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Garbage: true}) }, fault.SlackServerError, "not from Slack", true},
		{"cut", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Cut: true}) }, fault.Unreachable, "slack.com", true},
		{"redirect", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Status: 307}) }, fault.Invalid, "HTTP 307", false},
		{"no such word", func(s *slacktest.Server) { s.Fail(post, 1, slacktest.Fault{Code: "a_new_word"}) }, fault.Invalid, "a_new_word", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, c := workspace(t, slacktest.Options{})
			tc.change(s)
			_, err := c.Post(t.Context(), channel, Meta{Run: "r"}, Notice{Text: "x"}.Message())
			var e *fault.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Reason != tc.reason || e.Unknown != tc.unknown || !strings.Contains(e.Error(), tc.says) {
				t.Errorf("got %s, unknown %t: %v", e.Reason, e.Unknown, e)
			}
			if strings.Contains(e.Error(), slacktest.Token) {
				t.Error("the error shows the token")
			}
			if n := len(s.Messages(channel)); n != 0 {
				t.Errorf("%d messages were posted", n)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	h := httptest.NewServer(http.NotFoundHandler())
	h.Close()
	c, err := New(Options{Secrets: Secrets{Token: NewSecret("xoxb-1")}, APIURL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Post(t.Context(), channel, Meta{Run: "r"}, Notice{Text: "x"}.Message())
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.Unreachable || e.Unknown {
		t.Errorf("nothing was sent, and the error says: %v", err)
	}
}

// TestSlowSlack: a call ends with its timeout and may have had its effect.
func TestSlowSlack(t *testing.T) {
	s, _ := workspace(t, slacktest.Options{})
	s.Latency(time.Minute)
	c, err := New(Options{Secrets: Secrets{Token: NewSecret(slacktest.Token)}, APIURL: s.APIURL(), Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Post(t.Context(), channel, Meta{Run: "r"}, Notice{Text: "x"}.Message())
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.Unreachable || !e.Unknown {
		t.Errorf("got %v", err)
	}
}

// TestWaitsAsTold: after a 429 no call is made before the given time, for that
// method and channel.
func TestWaitsAsTold(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	s.AddChannel(slacktest.Conversation{ID: "C0OTHER001", Member: true})
	s.Fail("chat.postMessage", 1, slacktest.Fault{Status: 429, RetryAfter: time.Hour})
	m := Notice{Text: "x"}.Message()
	for range 3 {
		if _, err := c.Post(t.Context(), channel, Meta{Run: "r"}, m); why(err) != fault.RateLimited {
			t.Errorf("got %v", err)
		}
	}
	if n := len(s.Calls("chat.postMessage")); n != 1 {
		t.Errorf("Slack was asked %d times", n)
	}
	if _, err := c.Post(t.Context(), "C0OTHER001", Meta{Run: "r"}, m); err != nil {
		t.Errorf("another channel waits too: %v", err)
	}
	// Calls that Slack does not count by channel wait for all channels.
	s.Fail("chat.update", 1, slacktest.Fault{Status: 429, RetryAfter: time.Hour})
	for _, at := range []string{channel, "C0OTHER001"} {
		if err := c.Update(t.Context(), Ref{Channel: at, TS: "1.1"}, Meta{Run: "r"}, m); why(err) != fault.RateLimited {
			t.Errorf("%s: %v", at, err)
		}
	}
	if n := len(s.Calls("chat.update")); n != 1 {
		t.Errorf("Slack was asked %d times", n)
	}
}

func TestChannelNamesAreRefused(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	for _, name := range []string{"", "#oncall", "oncall", "U0ADA00001", "C1\n"} {
		if _, err := c.Post(t.Context(), name, Meta{Run: "r"}, Notice{Text: "x"}.Message()); why(err) != fault.NoChannel {
			t.Errorf("%q: %v", name, err)
		}
	}
	if n := len(s.Calls("")); n != 0 {
		t.Errorf("Slack was asked %d times", n)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no token":  {},
		"bot token": {Secrets: Secrets{Token: NewSecret("xoxb-1"), AppToken: NewSecret("xoxb-1")}},
		"address":   {Secrets: Secrets{Token: NewSecret("xoxb-1")}, APIURL: "file:///etc/passwd"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestIdentify(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	s.Outage(true)
	if _, err := c.Identify(t.Context()); why(err) != fault.SlackServerError {
		t.Errorf("got %v", err)
	}
	_, _ = c.Identify(t.Context())
	if n := len(s.Calls("auth.test")); n != 1 {
		t.Errorf("a failure is asked about %d times at once", n)
	}
	s.Outage(false)
	fresh := client(t, s)
	for range 3 {
		who, err := fresh.Identify(t.Context())
		want := Identity{AppID: slacktest.AppID, TeamID: slacktest.TeamID, Team: "Test", URL: "https://test.slack.com/", BotID: slacktest.BotID, BotUserID: slacktest.BotUserID}
		if err != nil || who != want {
			t.Errorf("got %+v, %v", who, err)
		}
	}
	if n := len(s.Calls("auth.test")); n != 2 {
		t.Errorf("an answer is asked for %d times", n-1)
	}
	other, err := New(Options{Secrets: Secrets{Token: NewSecret(slacktest.Token)}, APIURL: s.APIURL(), TeamID: "T0OTHER"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Identify(t.Context()); why(err) != fault.BadToken {
		t.Errorf("a token of another workspace: %v", err)
	}
}

func TestModals(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	r, clicks := receiver(t, c, ReceiverOptions{})
	serve(t, s, r)
	ref, err := c.Post(t.Context(), channel, Meta{Run: "r"}, approval().Message())
	if err != nil {
		t.Fatal(err)
	}
	press := func() Click {
		if d, err := s.Click("U0ADA00001", channel, ref.TS, "responder.details"); err != nil || !d.Acknowledged {
			t.Fatalf("%+v, %v", d, err)
		}
		return <-clicks
	}
	click := press()
	d := Details{ID: click.ID, Title: "x", Plan: longPlan(1000), Decide: true, Origin: click.Origin()}
	if err := c.OpenModal(t.Context(), click, d.Modal()); err != nil {
		t.Fatal(err)
	}
	if err := c.OpenModal(t.Context(), click, d.Modal()); why(err) != fault.TooLate {
		t.Errorf("a trigger was used twice: %v", err)
	}
	click = press()
	s.Advance(4 * time.Second)
	if err := c.OpenModal(t.Context(), click, d.Modal()); why(err) != fault.TooLate {
		t.Errorf("a trigger of four seconds ago: %v", err)
	}
	// Turn the page, and answer from inside the dialog.
	view := s.Views("U0ADA00001")[0].ID
	if _, err := s.ClickIn("U0ADA00001", view, "responder.next"); err != nil {
		t.Fatal(err)
	}
	click = <-clicks
	if click.Kind != KindDetails || click.Page != 1 || click.ViewID != view || click.Channel != channel || click.MessageTS != ref.TS {
		t.Fatalf("got %+v", click)
	}
	d.Page = click.Page
	if err := c.OpenModal(t.Context(), click, d.Modal()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ClickIn("U0ADA00001", view, "responder.previous"); err != nil {
		t.Fatal(err)
	}
	if click = <-clicks; click.Page != 0 {
		t.Fatalf("got %+v", click)
	}
	d.Page = 0
	if err := c.OpenModal(t.Context(), click, d.Modal()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ClickIn("U0ADA00001", view, "responder.deny"); err != nil {
		t.Fatal(err)
	}
	click = <-clicks
	if err := c.OpenModal(t.Context(), click, Deny{ID: click.ID, Title: "x", Origin: click.Origin()}.Modal()); err != nil {
		t.Errorf("a dialog over a dialog: %v", err)
	}
	// More pages than the dialogs that Slack stacks.
	for range 4 {
		if _, err := s.ClickIn("U0ADA00001", view, "responder.next"); err != nil {
			t.Fatal(err)
		}
		click = <-clicks
		d.Page = click.Page
		if err := c.OpenModal(t.Context(), click, d.Modal()); err != nil {
			t.Fatalf("page %d: %v", d.Page, err)
		}
	}
	if n := len(s.Calls("views.push")); n != 1 {
		t.Errorf("%d pushes", n)
	}
	if err := c.OpenModal(t.Context(), Click{Kind: KindDetails, ViewID: "V0NONE"}, d.Modal()); why(err) != fault.NotFound {
		t.Errorf("got %v", err)
	}
}
