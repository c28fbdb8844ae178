package app

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// asking serves the sandbox under a policy that wants two of oncall, with the tokens
// and passwords that change adds, and returns the run that asks.
func asking(t *testing.T, change func(c *config.Config, file func(name, text string) string)) (s *Service, base string, run machine.State) {
	t.Helper()
	dir := t.TempDir()
	c := SandboxConfig()
	c.Policy.File = filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(c.Policy.File, []byte(twoOfOncall), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c.Auth.Tokens = []config.Token{{Name: "alertmanager", File: file("alertmanager", tokenOf("alertmanager")), Scopes: []string{"intake"}}}
	change(&c, file)
	s, base = startService(t, c)
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	postIncident(t, base, tokenOf("alertmanager"))
	until(t, "the run asks", func() bool {
		open := s.executor.Runs(executor.Filter{})
		if len(open) != 1 || open[0].Gate == nil {
			return false
		}
		run = open[0]
		return true
	})
	return s, base, run
}

func tokenOf(name string) string { return "a-token-for-this-test-and-" + name }

// Two credentials of one person are one vote, and a credential of nobody's is none: it
// may be the second one of somebody who has voted.
func TestTwoCredentialsOfOnePerson(t *testing.T) {
	s, base, run := asking(t, func(c *config.Config, file func(name, text string) string) {
		for name, groups := range map[string][]string{"ada": {"oncall", "ml-platform"}, "laptop": {"oncall"}, "stray": {"oncall"}, "bob": {"oncall"}} {
			c.Auth.Tokens = append(c.Auth.Tokens, config.Token{Name: name, File: file(name, tokenOf(name)), Groups: groups, Scopes: []string{"approve"}})
		}
		c.Auth.People = []config.Person{{Name: "ada", Credentials: []string{"laptop"}}, {Name: "bob"}}
	})
	for _, step := range []struct {
		who    string
		status int
		says   string
	}{
		{"ada", http.StatusOK, `"by":"user:ada"`},
		{"laptop", http.StatusConflict, "user:ada has voted already"},
		{"stray", http.StatusForbidden, "user:stray may be another credential of somebody who approves"},
		{"bob", http.StatusOK, `"approved":`},
	} {
		status, text := postAs(t, base+"/api/v1/runs/"+run.Start.Run+"/approve", tokenOf(step.who), `{}`)
		if status != step.status || !strings.Contains(text, step.says) {
			t.Errorf("%s: %d %s, want %d and %q", step.who, status, text, step.status, step.says)
		}
	}
	now, _ := s.executor.RunState(run.Start.Run)
	if now.Lever == nil || len(now.Lever.Votes) != 2 {
		t.Errorf("the votes are %+v", now.Lever)
	}
}

// Whoever is asked and lacks the right decides nothing, through any door, and each
// attempt is recorded once, with the right that is missing. So is what is about no run.
func TestRightsAtEveryDoor(t *testing.T) {
	s, base, run := asking(t, func(c *config.Config, file func(name, text string) string) {
		c.Auth.Tokens = append(c.Auth.Tokens, config.Token{Name: "bob", File: file("bob", tokenOf("bob")), Groups: []string{"oncall"}, Scopes: []string{"approve", "cancel", "pause", "unpause", "promote", "start"}})
		c.Auth.Basic = []config.Basic{{Name: "eve", PasswordFile: file("eve", "password of eve"), Groups: []string{"oncall"}, Scopes: []string{"approve"}}}
		c.Auth.People = []config.Person{{Name: "bob"}, {Name: "eve"}}
		c.Auth.Rights = []config.Grant{
			{To: []string{"user:bob"}, May: []string{"pause"}, Services: []string{"serving/inference-chat"}},
			{To: []string{"user:ada"}, May: []string{"approve"}, Services: []string{"*"}},
		}
	})
	at, service := "/api/v1/runs/"+run.Start.Run, run.Start.Service.Name
	for _, c := range []struct{ path, body, missing string }{
		{at + "/approve", `{}`, "approve on service " + service},
		{at + "/deny", `{"reason":"no"}`, "approve on service " + service},
		{at + "/replan", `{}`, "approve on service " + service},
		{at + "/cancel", `{"reason":"no"}`, "cancel on service " + service},
		{"/api/v1/pauses", `{"reason":"all"}`, "pause on all services"},
		{"/api/v1/pauses", `{"intake":true,"reason":"all"}`, "pause on all services"},
		{"/api/v1/pauses", `{"service":"other","reason":"theirs"}`, "pause on service other"},
		{"/api/v1/ladder/promote", fmt.Sprintf(`{"playbook":"p","service":%q,"lever":"l","reason":"x"}`, service), "promote on service " + service},
		{"/api/v1/runs", fmt.Sprintf(`{"playbook":"inference-slo-breach","service":%q}`, service), "start on service " + service},
	} {
		before := s.journal.Size()
		status, text := postAs(t, base+c.path, tokenOf("bob"), c.body)
		if status != http.StatusForbidden || !strings.Contains(text, "user:bob lacks the right "+c.missing) || !strings.Contains(text, "auth.rights") {
			t.Errorf("%s %s: %d %s, want %q", c.path, c.body, status, text, c.missing)
		}
		if n := recordsOf(t, s, before, "user:bob lacks the right "+c.missing); n != 1 {
			t.Errorf("%s %s: recorded %d times", c.path, c.body, n)
		}
	}
	eve := browser{t, base, "eve"}
	page := "/runs/" + run.Start.Run
	if _, _, body := eve.do(http.MethodGet, page, nil); strings.Contains(body, "<form") || !strings.Contains(body, "user:eve lacks the right approve on service "+service) {
		t.Errorf("the page offers what will be refused, or does not say why: %s", body)
	}
	form := url.Values{"gate": {run.Gate.ID}, "digest": {run.Gate.Digest}}
	if status, to, body := eve.do(http.MethodPost, page+"/approve", form); status != http.StatusSeeOther || !strings.HasSuffix(to, "said=forbidden") {
		t.Errorf("the form: %d %s %s", status, to, body)
	}
	if now, _ := s.executor.RunState(run.Start.Run); now.Gate == nil || now.Cancel != nil || now.Ignored != 5 || len(now.Gate.Votes) != 0 {
		t.Errorf("the run is %s, ignored %d", now.Phase, now.Ignored)
	}
	if status, text := postAs(t, base+"/api/v1/pauses", tokenOf("bob"), fmt.Sprintf(`{"service":%q,"reason":"mine"}`, service)); status != http.StatusOK {
		t.Errorf("what bob may: %d %s", status, text)
	}
}

// recordsOf counts the entries from seq on that contain a text.
func recordsOf(t *testing.T, s *Service, seq uint64, text string) int {
	t.Helper()
	n := 0
	for r, err := range s.journal.Log(seq) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(r.Data), text) {
			n++
		}
	}
	return n
}

// Slack asks the same function: whoever is asked and lacks the right is told which.
func TestRightsInSlack(t *testing.T) {
	s := startSlack(t)
	c := slackConfiguration(t, s, false, t.TempDir())
	c.Auth.Rights = []config.Grant{{To: []string{"user:bob"}, May: []string{"approve"}, Services: []string{"*"}}}
	h := startSlackRig(t, c, s, burning(t, 10))
	h.alert(t)
	m := h.question(t, "Approval needed")
	if _, err := s.Click(slackAda, slackChannelOfTests, m.TS, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, "an answer", func() bool {
		e := s.Ephemerals()
		return len(e) == 1 && strings.Contains(said(e[0]), "user:ada lacks the right approve on service "+h.theRun(t).Start.Service.Name)
	})
	if run := h.theRun(t); run.Gate == nil || run.Ignored != 1 {
		t.Errorf("the run is %s, ignored %d", run.Phase, run.Ignored)
	}
}
