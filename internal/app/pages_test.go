package app

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// browser is a person at the page with a password.
type browser struct {
	t         *testing.T
	url, name string
}

func (b browser) do(method, path string, form url.Values) (status int, at, body string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.name != "" {
		req.SetBasicAuth(b.name, "password of "+b.name)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(text)
}

// hidden reads what the page's form would send beside what is typed.
func hidden(body string) url.Values {
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`).FindAllStringSubmatch(body, -1) {
		if m[1] != "breakGlass" {
			form.Set(m[1], m[2])
		}
	}
	return form
}

// startPeople serves the sandbox under a policy that wants two of oncall, with
// passwords for people, and gives the run that asks.
func startPeople(t *testing.T) (*Service, string, machine.State) {
	t.Helper()
	dir := t.TempDir()
	c := SandboxConfig()
	c.Policy.File = filepath.Join(dir, "policy.yaml")
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	put("policy.yaml", twoOfOncall)
	for name, groups := range map[string][]string{"ada": {"oncall", "ml-platform"}, "bob": {"oncall"}, "cap": {"captains"}, "eve": nil} {
		c.Auth.Basic = append(c.Auth.Basic, config.Basic{Name: name, PasswordFile: put(name, "password of "+name+"\n"), Groups: groups, Scopes: []string{"read", "approve", "cancel", "pause", "unpause"}})
		c.Auth.People = append(c.Auth.People, config.Person{Name: name})
	}
	c.Auth.Rights = append(c.Auth.Rights, config.Grant{To: []string{"group:captains"}, May: []string{"pause", "unpause"}, Services: []string{"*"}})
	const sender = "the-token-of-alertmanager"
	c.Auth.Tokens = []config.Token{{Name: "alertmanager", File: put("token", sender+"\n"), Scopes: []string{"intake"}}}
	s, url := startService(t, c)
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	postIncident(t, url, sender)
	var run machine.State
	until(t, "the run asks", func() bool {
		open := s.executor.Runs(executor.Filter{})
		if len(open) != 1 || open[0].Gate == nil {
			return false
		}
		run = open[0]
		return true
	})
	return s, url, run
}

// People decide on the page as they do at the API: the same channel, the same
// rules, the same record.
func TestPeopleDecideOnThePage(t *testing.T) {
	s, base, run := startPeople(t)
	at := "/runs/" + run.Start.Run
	_, _, page := browser{t, base, "ada"}.do(http.MethodGet, at, nil)
	for _, want := range []string{
		`you are </span><b>ada</b>`, "Waits for", "roll Deployment serving/inference-chat back", "vllm/vllm-openai:v0.11.0", "0 of 2", "Triage (gather slo, engine, spread, traffic, gpus, pods, crashes, changes, warm, fleet)",
		"min-ready: at least 4 stay ready", "undo: put the pod template", `class="diagram"`, `class="chart"`, "alert at", `name="digest" value="` + run.Gate.Digest,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if _, _, body := (browser{t, base, "eve"}).do(http.MethodGet, at, nil); strings.Contains(body, at+"/approve") || !strings.Contains(body, "You cannot decide this") || !strings.Contains(body, "group:oncall") {
		t.Error("the page offers a decision to somebody whose word does not count, or does not say whose does")
	}
	if _, _, body := (browser{t, base, "cap"}).do(http.MethodGet, at, nil); !strings.Contains(body, "Break the glass") {
		t.Error("the page does not offer to break the glass to those who may")
	}
	seen := hidden(page)
	other := url.Values{"gate": seen["gate"], "digest": {"sha256:0"}}
	for _, step := range []struct {
		who, verb string
		form      url.Values
		said      string
		shown     string
	}{
		{"eve", "approve", seen, "forbidden", "you may not decide this"},
		{"bob", "approve", other, "stale", "no longer the current one"},
		{"ada", "deny", seen, "reason", "a denial needs a reason"},
		{"ada", "approve", seen, "approve", "Your decision is recorded"},
		{"ada", "approve", seen, "again", "your approval already counts"},
		{"bob", "approve", seen, "approve", "APPROVED by user:bob (web)"},
		{"bob", "approve", seen, "late", "Your earlier decision: APPROVED by user:bob (web)"},
	} {
		b := browser{t, base, step.who}
		status, to, body := b.do(http.MethodPost, at+"/"+step.verb, step.form)
		if status != http.StatusSeeOther || to != "../"+run.Start.Run+"?said="+step.said {
			t.Errorf("%s %s: %d to %q %s", step.who, step.verb, status, to, body)
		}
		if _, _, body := b.do(http.MethodGet, strings.Replace(to, "..", "/runs", 1), nil); !strings.Contains(body, step.shown) {
			t.Errorf("%s %s: the page does not say %q", step.who, step.verb, step.shown)
		}
	}
	until(t, "the plan is applied", func() bool {
		now, ok := s.executor.RunState(run.Start.Run)
		return ok && now.Levers == 1
	})
	now, _ := s.executor.RunState(run.Start.Run)
	if v := now.Lever.Votes; len(v) != 2 || v[0].Channel != "web" || v[1].By != "user:bob" || v[1].Digest != run.Gate.Digest {
		t.Errorf("votes %+v", v)
	}
}

// Every page answers, and says the same as the command line.
func TestEveryPage(t *testing.T) {
	_, base, run := startPeople(t)
	b := browser{t, base, "ada"}
	for path, want := range map[string]string{
		"/": "serving/inference-chat", "/history": run.Start.Run, "/history?service=none": "No run is one", "/services": "serving/inference-chat", "/playbooks": "inference-slo-breach", "/audit": "gate.opened", "/ladder": "no lever has come to a result yet", "/alerts": "InferenceTTFTFastBurn", "/loans": "nothing is on loan",
		"/services?service=serving/inference-chat": "kube.scale", "/playbooks?playbook=inference-slo-breach": "people are asked whether to take it back", "/policy": "policy.yaml:", "/runs/" + run.Start.Run: "The playbook with the path",
	} {
		if status, _, body := b.do(http.MethodGet, path, nil); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, lacks %q", path, status, want)
		}
	}
	if status, _, body := b.do(http.MethodGet, "/runs/r-nobody", nil); status != http.StatusNotFound || !strings.Contains(body, `<b>no run &#34;r-nobody&#34;`) {
		t.Errorf("no such run: %d %s", status, body)
	}
	for path, want := range map[string]int{
		"/services?service=none": http.StatusNotFound, "/playbooks?playbook=none": http.StatusNotFound, "/history?outcome=none": http.StatusBadRequest, "/services?page=9": http.StatusBadRequest,
	} {
		if status, _, body := b.do(http.MethodGet, path, nil); status != want || !strings.Contains(body, "none") && !strings.Contains(body, "there is no page 9: the last is 1") {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
	}
	if status, _, body := (browser{t, base, ""}).do(http.MethodGet, "/", nil); status != http.StatusUnauthorized || !strings.Contains(body, `<form method="post" action="./signin">`) || strings.Contains(body, "inference-chat") {
		t.Errorf("without a credential: %d %s", status, body)
	}
	if status, _, _ := (browser{t, base, "ada"}).do(http.MethodPost, "/", url.Values{"reason": {"x"}}); status != http.StatusForbidden {
		t.Errorf("a form to the receiver: %d", status)
	}
}

// People pause and lift on the page as at the API, with a reason and by their own rights,
// whatever form they send; the pages say what is paused.
func TestPeoplePauseOnThePage(t *testing.T) {
	s, base, _ := startPeople(t)
	ada, captain, eve := browser{t, base, "ada"}, browser{t, base, "cap"}, browser{t, base, "eve"}
	service := url.Values{"service": {"serving/inference-chat"}, "reason": {"load test"}}
	for _, step := range []struct {
		who    browser
		path   string
		form   url.Values
		status int
		pauses int
	}{
		{ada, "/pause", url.Values{"reason": {" "}}, http.StatusBadRequest, 0},
		{ada, "/pause", url.Values{"service": {"x"}, "intake": {"true"}, "reason": {"x"}}, http.StatusBadRequest, 0},
		{ada, "/pause", service, http.StatusSeeOther, 1},
		{ada, "/pause", url.Values{"reason": {"maintenance"}}, http.StatusForbidden, 1}, // she owns one service only
		{eve, "/pause", service, http.StatusForbidden, 1},
		{eve, "/unpause", service, http.StatusForbidden, 1},
		{ada, "/unpause", service, http.StatusForbidden, 1},
		{captain, "/pause", url.Values{"reason": {"maintenance"}}, http.StatusSeeOther, 2},
		{captain, "/unpause", url.Values{"reason": {""}}, http.StatusBadRequest, 2},
		{captain, "/unpause", url.Values{"reason": {"over"}}, http.StatusSeeOther, 1},
		{captain, "/unpause", url.Values{"reason": {"over"}}, http.StatusNotFound, 1},
	} {
		status, to, body := step.who.do(http.MethodPost, step.path, step.form)
		if got := len(s.executor.Pauses()); status != step.status || got != step.pauses || status == http.StatusSeeOther && to != "./" {
			t.Errorf("%s %v: %d to %q, %d pauses, want %d and %d: %s", step.path, step.form, status, to, got, step.status, step.pauses, body)
		}
	}
	for who, forms := range map[browser]bool{captain: true, ada: false, eve: false} {
		if _, _, body := who.do(http.MethodGet, "/", nil); strings.Contains(body, `action="./unpause"`) != forms || strings.Contains(body, `action="./pause"`) != forms {
			t.Errorf("%s: the page does not offer what is allowed, and nothing else", who.name)
		}
	}
	for path, want := range map[string]string{
		"/": "Paused: service serving/inference-chat</b> by user:ada", "/services?service=serving/inference-chat": "by user:ada: load test", "/history": "Paused: service:serving/inference-chat by user:ada since ",
	} {
		if _, _, body := ada.do(http.MethodGet, path, nil); !strings.Contains(body, want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
}
