package slack

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

func TestPerson(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	p := NewPeople(c, time.Minute)
	for id, u := range map[string]struct {
		user slacktest.User
		why  Unfit
	}{
		"U0BOT00009": {slacktest.User{Bot: true}, UnfitBot},
		"U0APP00009": {slacktest.User{AppUser: true}, UnfitBot},
		"U0DELETED1": {slacktest.User{Deleted: true, Email: "x@example.com"}, UnfitDeleted},
		"U0GUEST001": {slacktest.User{Restricted: true}, UnfitGuest},
		"U0GUEST002": {slacktest.User{UltraRestricted: true}, UnfitGuest},
		"U0STRANGE1": {slacktest.User{Stranger: true}, UnfitExternal},
		"U0OTHER001": {slacktest.User{TeamID: "T0OTHER001", Email: "ada@example.com"}, UnfitExternal},
		"U0INVITED1": {slacktest.User{Invited: true}, UnfitPending},
	} {
		u.user.ID = id
		s.AddUser(u.user)
		_, err := p.Person(t.Context(), id)
		var unfit *UnfitError
		if !errors.As(err, &unfit) || unfit.Why != u.why {
			t.Errorf("%s: %v, want %s", id, err, u.why)
		}
	}
	for _, id := range []string{"U0NOBODY01", "", "ada", "U0ADA\n"} {
		var unfit *UnfitError
		if _, err := p.Person(t.Context(), id); !errors.As(err, &unfit) || unfit.Why != UnfitUnknown {
			t.Errorf("%q: %v", id, err)
		}
	}
	got, err := p.Person(t.Context(), "U0ADA00001")
	if err != nil || got != (Person{ID: "U0ADA00001", Email: "ada@example.com"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := p.ByEmail(t.Context(), "bob@example.com"); err != nil || got.ID != "U0BOB00001" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := p.ByEmail(t.Context(), "nobody@example.com"); err == nil {
		t.Error("an address of nobody has an owner")
	}
}

// TestPeopleFailClosed: an answer is used until it expires and no longer.
func TestPeopleFailClosed(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	s.AddGroup(slacktest.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Members: []string{"U0ADA00001"}})
	const ttl = 200 * time.Millisecond
	p := NewPeople(c, ttl)
	ask := func() error {
		_, err := p.Person(t.Context(), "U0ADA00001")
		_, err2 := p.In(t.Context(), "U0ADA00001", "platform-oncall")
		return errors.Join(err, err2)
	}
	start := time.Now()
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	calls := len(s.Calls(""))
	if err := ask(); err != nil || (len(s.Calls("")) != calls && time.Since(start) < ttl) {
		t.Errorf("asked again within the time: %v", err)
	}
	s.Outage(true)
	deadline := time.After(30 * time.Second)
	for ask() == nil {
		select {
		case <-deadline:
			t.Fatal("the cache answers for Slack for ever")
		default:
		}
	}
	if age := time.Since(start); age < ttl {
		t.Errorf("forgotten after %s", age)
	}
	if err := ask(); why(err) != fault.SlackServerError {
		t.Errorf("got %v", err)
	}
}

func TestGroups(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	s.AddGroup(slacktest.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Members: []string{"U0ADA00001"}})
	s.AddGroup(slacktest.Group{ID: "S0OLD00001", Handle: "old", Members: []string{"U0ADA00001"}, Disabled: true})
	s.AddGroup(slacktest.Group{ID: "S0EXT00001", Handle: "owners", Members: []string{"U0ADA00001"}, External: true})
	p := NewPeople(c, 0)
	in, err := p.In(t.Context(), "U0ADA00001", "platform-oncall", "@platform-oncall", "S0ONCALL01", "old", "owners", "none", "")
	if err != nil || !slices.Equal(in, []string{"platform-oncall", "@platform-oncall", "S0ONCALL01"}) {
		t.Errorf("in %v, %v", in, err)
	}
	if in, err := p.In(t.Context(), "U0BOB00001", "platform-oncall"); err != nil || in != nil {
		t.Errorf("in %v, %v", in, err)
	}
	s.Scopes("users:read")
	if _, err := NewPeople(c, 0).In(t.Context(), "U0ADA00001", "platform-oncall"); why(err) != fault.MissingScope {
		t.Errorf("without the scope: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*slacktest.Server)
		bad    string // name of the first finding that is not ok; empty: all are
		fix    string
	}{
		{"well", func(*slacktest.Server) {}, "", ""},
		{"token", func(s *slacktest.Server) { s.TokenError("token_revoked") }, "token", "valid token"},
		{"scopes", func(s *slacktest.Server) { s.Scopes("chat:write", "channels:read", "channels:history", "users:read") }, "scopes", "OAuth & Permissions"},
		{"history", func(s *slacktest.Server) {
			s.Scopes("chat:write", "channels:read", "users:read", "users:read.email", "usergroups:read")
		}, "scopes", "install the app again"},
		{"app token", func(s *slacktest.Server) {
			s.Fail("apps.connections.open", 1, slacktest.Fault{Code: "not_allowed_token_type"})
		}, "app token", "connections:write"},
		{"archived", func(s *slacktest.Server) { s.Archive(channel, true) }, "channel " + channel, "unarchive"},
		{"not a member", func(s *slacktest.Server) { s.AddChannel(slacktest.Conversation{ID: channel}) }, "channel " + channel, "/invite"},
		{"no post", func(s *slacktest.Server) { s.Fail("chat.postMessage", 1, slacktest.Fault{Code: "restricted_action"}) }, "round trip " + channel, "invite"},
		{"no delete", func(s *slacktest.Server) { s.Fail("chat.delete", 1, slacktest.Fault{Code: "cant_delete_message"}) }, "round trip " + channel, "again"},
		{"down", func(s *slacktest.Server) { s.Outage(true) }, "token", "status.slack.com"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := workspace(t, slacktest.Options{})
			tc.change(s)
			findings := c.Check(t.Context(), CheckOptions{Transport: SocketMode, Channels: []string{channel}})
			i := slices.IndexFunc(findings, func(f Finding) bool { return !f.OK })
			switch {
			case tc.bad == "" && i >= 0:
				t.Errorf("found %+v", findings[i])
			case tc.bad == "":
				if len(findings) != 6 {
					t.Errorf("findings: %+v", findings)
				}
			case i < 0 || findings[i].Name != tc.bad || !strings.Contains(findings[i].Fix, tc.fix):
				t.Errorf("findings: %+v", findings)
			}
			if tc.name == "well" && len(s.Messages(channel)) != 0 {
				t.Error("the test message is left behind")
			}
		})
	}
}

func TestManifest(t *testing.T) {
	for name, o := range map[string]ManifestOptions{
		"manifest_socket.yaml": {Transport: SocketMode},
		"manifest_http.json":   {Transport: HTTP, URL: "https://responder.example/slack/interactivity", NoEmail: true, NoGroups: true, NoPrivate: true},
	} {
		got, err := Manifest(o, strings.HasSuffix(name, ".json"))
		if err != nil {
			t.Fatal(err)
		}
		compare(t, name, got)
	}
	for _, o := range []ManifestOptions{{}, {Transport: HTTP}, {Transport: HTTP, URL: "http://x"}, {Transport: HTTP, URL: "https://u:p@x"}, {Transport: SocketMode, Name: strings.Repeat("x", 40)}} {
		if _, err := Manifest(o, false); err == nil {
			t.Errorf("%+v gives a manifest", o)
		}
	}
}
