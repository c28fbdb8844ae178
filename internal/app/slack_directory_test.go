package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// Who a Slack user is. One human is one name whatever the channel, and where that
// cannot be said for certain the answer is no.
func TestSlackDirectory(t *testing.T) {
	const auth = `
auth:
  tokens: [{name: deploy@example.com, file: x, scopes: [approve]}]
  oidc: {issuer: "https://idp", audience: a, scopes: [approve]CLAIM}
  people:
    - {name: ada, slack: U0ADA, groups: ["group:sre"]}
    - {name: bob, email: Bob@Example.com}
    - {name: cyd, oidc: cyd@example.com}
    - {name: dee, slack: U0DEE, email: dee@example.com}
`
	for _, c := range []struct {
		user, email, claim string
		want               approvals.Person
		no                 string
	}{
		{user: "U0ADA", email: "whatever@example.com", want: approvals.Person{Name: "ada", Declared: true, Groups: []string{"sre"}}},
		{user: "U0ADA", want: approvals.Person{Name: "ada", Declared: true, Groups: []string{"sre"}}},
		{user: "U0ADA", email: "bob@example.com", no: "your e-mail address is bob's"},
		{user: "U0X1", email: "bob@example.com", want: approvals.Person{Name: "bob", Declared: true}},
		{user: "U0X1", email: "cyd@example.com", want: approvals.Person{Name: "cyd", Declared: true}}, // the same address names her token
		{user: "U0X1", email: "cyd@example.com", claim: ", username_claim: sub", no: "are not named by their e-mail address"},
		{user: "U0X1", email: "dee@example.com", no: "dee's, who has another Slack user"},
		{user: "U0X1", email: "eve@example.com", want: approvals.Person{Name: "eve@example.com"}},
		{user: "U0X1", email: "eve@example.com", claim: ", username_claim: sub", no: "not listed"},
		{user: "U0X1", email: "deploy@example.com", no: "cannot be your name"},
		{user: "U0X1", email: "user:ada@example.com", no: "cannot be your name"},
		{user: "U0X1", no: "shows no e-mail address"},
	} {
		cfg, err := config.Parse("f.yaml", []byte(strings.Replace(auth, "CLAIM", c.claim, 1)))
		if err != nil {
			t.Fatal(err)
		}
		s := slacktest.Start(t, slacktest.Options{})
		s.AddUser(slacktest.User{ID: c.user, Email: c.email})
		client, err := slack.New(slack.Options{Secrets: slack.Secrets{Token: slack.NewSecret(slacktest.Token)}, APIURL: s.APIURL()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := approvals.NewDirectory(directoryOptions(cfg, slack.NewPeople(client, 0))).Person(t.Context(), c.user)
		if c.no != "" {
			if err == nil || !strings.Contains(err.Error(), c.no) {
				t.Errorf("%s %s: %+v, %v; want no: %s", c.user, c.email, got, err, c.no)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s %s: %v\n%s", c.user, c.email, err, diff)
		}
	}
}

// While Slack does not say who is in a group, nobody is let through without.
func TestSlackDirectoryFailClosed(t *testing.T) {
	s := startSlack(t)
	c := slackConfiguration(t, s, false, t.TempDir())
	w, err := openSlack(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Fail("usergroups.list", 1, slacktest.Fault{Code: "missing_scope"})
	if p, err := w.directory.Person(t.Context(), slackGrace); err == nil || !strings.Contains(err.Error(), "groups could not be looked up") {
		t.Errorf("%+v, %v", p, err)
	}
	p, err := w.directory.Person(t.Context(), slackGrace)
	if diff := cmp.Diff(approvals.Person{Name: "grace@example.com", Groups: []string{"ml-platform"}}, p); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	var no *slack.UnfitError
	if _, err := w.directory.Person(t.Context(), slackGuest); err == nil || errors.As(err, &no) {
		t.Errorf("a guest: %v", err) // in the group, and still nobody; in words for people
	}
}

// A secret that is missing or another's is found at the start, with its place,
// and is not shown.
func TestSlackSecretsAtTheStart(t *testing.T) {
	for name, c := range map[string]struct{ token, app, want string }{
		"missing":          {"", "xapp-1", "f.yaml:3:15: slack.token_file: open "},
		"empty":            {"\n", "xapp-1", "slack.token_file: "},
		"of a user":        {"xoxp-canary", "xapp-1", "slack.token_file: the token does not begin with xoxb-"},
		"no app's":         {"xoxb-1", "xoxb-canary", "does not begin with xapp-"},
		"two of them":      {"xoxb-canary xoxb-2", "xapp-1", "more than one word"},
		"both are missing": {"", "", "slack.app_token_file"},
	} {
		files := [2]string{filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "none")}
		for i, content := range []string{c.token, c.app} {
			if content != "" {
				files[i] = tempFile(t, "secret", content)
			}
		}
		cfg, err := config.Parse("f.yaml", []byte("auth: {insecure: true}\nslack:\n  token_file: '"+files[0]+"'\n  app_token_file: '"+files[1]+"'\n  channel: C0123\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openSlack(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
