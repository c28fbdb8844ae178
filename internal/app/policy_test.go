package app

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/policy"
)

const twoOfOncall = `apiVersion: responder/v1alpha1
kind: Policy
metadata: {name: test}
spec:
  rules:
    - name: two
      require_approval: {quorum: 2, from: [group:oncall], break_glass: [group:captains]}
`

// written is what rules did to the journal.
type written struct {
	loaded   []string
	rejected []string
	full     bool
}

func (w *written) Ready() error { return nil }

func (w *written) RecordPolicy(p executor.PolicyLoaded) error {
	if w.full {
		return audit.ErrFull
	}
	w.loaded = append(w.loaded, p.Digest)
	return nil
}

func (w *written) RejectPolicy(_ string, problems error) error {
	w.rejected = append(w.rejected, problems.Error())
	return nil
}

func (w *written) RemovePolicy(executor.PolicyRemoved) error { return nil }

// watchedRules are rules of a file that put writes, and what they recorded.
func watchedRules(t *testing.T) (r *rules, w *written, put func(text string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	put = func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(twoOfOncall)
	j, err := audit.OpenTemp("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if r, err = newRules(file, j, func(string, *policy.Set) error { return nil }, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return r, &written{}, put
}

// Rules change under a running service. What is bad or gone keeps the last good
// rules, is recorded once, and what is repaired comes into force.
func TestRulesReload(t *testing.T) {
	r, w, put := watchedRules(t)
	w.full = true
	r.look(w)
	w.full = false
	r.look(w) // the journal takes it now
	r.look(w)
	first := r.current.Load().Digest()
	if len(w.loaded) != 1 || w.loaded[0] != first {
		t.Fatalf("recorded at the start: %q, in force is %s", w.loaded, first)
	}
	put(strings.Replace(twoOfOncall, "quorum", "quorun", 1))
	for range 3 {
		r.look(w)
	}
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.look(w)
	}
	if inForce, bad := r.figures(); !inForce || !bad {
		t.Errorf("with a bad file: in force %v, bad %v", inForce, bad)
	}
	if len(w.rejected) != 2 || !strings.Contains(w.rejected[0], "policy.yaml:7:") || !strings.Contains(w.rejected[1], "no such file") {
		t.Errorf("rejected: %q", w.rejected)
	}
	if r.current.Load().Digest() != first {
		t.Error("a bad file replaced the last good rules")
	}
	put(strings.Replace(twoOfOncall, "quorum: 2", "quorum: 3", 1))
	r.look(w)
	r.look(w)
	if len(w.loaded) != 2 || r.current.Load().Digest() != w.loaded[1] || w.loaded[1] == first {
		t.Errorf("recorded after the repair: %q", w.loaded)
	}
	if _, bad := r.figures(); bad {
		t.Error("bad after the repair")
	}
}

// Half of a file that is being written may be a good policy with fewer rules.
func TestRulesHalfWritten(t *testing.T) {
	r, w, put := watchedRules(t)
	r.look(w)
	first := r.current.Load().Digest()
	put("")
	if r.look(w) {
		t.Error("the empty file that a writer begins with was taken for what is to come")
	}
	next := strings.Replace(twoOfOncall, "quorum: 2", "quorum: 3", 1)
	put(next)
	if r.look(w) || r.current.Load().Digest() != first {
		t.Error("half of a file may be a good policy with fewer rules: it was taken up after one look")
	}
	put(next + "    - {name: never, deny: at no time}\n")
	if r.look(w) || !r.look(w) || len(r.current.Load().Rules()) != 2 {
		t.Errorf("after the whole file was read twice %d rules are in force", len(r.current.Load().Rules()))
	}
	if len(w.loaded) != 2 || len(w.rejected) != 0 {
		t.Errorf("recorded: %q loaded, %q rejected", w.loaded, w.rejected)
	}
}

// postAs sends a body with a credential, and gives the answer.
func postAs(t *testing.T, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

// postIncident posts the alert of the sandbox's scenario.
func postIncident(t *testing.T, url, token string) {
	t.Helper()
	sim, _, err := OpenSandbox(DefaultScenario, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	body, err := sim.Notification(t.Context(), sim.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, text := postAs(t, url+"/api/v1/alertmanager", token, string(body)); status != http.StatusOK {
		t.Fatalf("the alert was answered %d %s", status, text)
	}
}

// What a policy asks for holds at the API: two people, none of them twice, and
// who may break the glass alone and with a reason.
func TestPolicyAtTheDoor(t *testing.T) {
	dir := t.TempDir()
	token := func(name string) string { return "a-token-for-this-test-and-" + name }
	c := SandboxConfig()
	c.Policy.File = filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(c.Policy.File, []byte(twoOfOncall), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, groups := range map[string][]string{"alertmanager": nil, "ada": {"oncall", "ml-platform"}, "bob": {"oncall"}, "cap": {"captains"}} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(token(name)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Auth.Tokens = append(c.Auth.Tokens, config.Token{Name: name, File: file, Groups: groups, Scopes: []string{"intake", "read", "approve", "cancel", "pause", "unpause"}})
		c.Auth.People = append(c.Auth.People, config.Person{Name: name})
	}
	s, url := startService(t, c)
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	postIncident(t, url, token("alertmanager"))
	var run machine.State
	until(t, "the run asks", func() bool {
		open := s.executor.Runs(executor.Filter{})
		if len(open) != 1 || open[0].Gate == nil {
			return false
		}
		run = open[0]
		return true
	})
	id := run.Start.Run
	for _, step := range []struct {
		who, verb, body string
		status          int
		says            string
	}{
		{"cap", "approve", `{}`, http.StatusForbidden, "may break the glass"},
		{"cap", "approve", `{"breakGlass":true}`, http.StatusBadRequest, "reason: missing"},
		{"bob", "approve", `{"breakGlass":true,"reason":"now"}`, http.StatusForbidden, "group:captains"},
		{"ada", "approve", `{}`, http.StatusOK, `"votes":`},
		{"ada", "approve", `{}`, http.StatusConflict, "user:ada has voted already; still needed: 2 of group:oncall"},
		{"ada", "replan", `{"gate":"another"}`, http.StatusConflict, "not another"},
		{"bob", "approve", `{}`, http.StatusOK, `"approved":`},
	} {
		if status, text := postAs(t, url+"/api/v1/runs/"+id+"/"+step.verb, token(step.who), step.body); status != step.status || !strings.Contains(text, step.says) {
			t.Errorf("%s %s %s: %d %s, want %d and %q", step.who, step.verb, step.body, status, text, step.status, step.says)
		}
	}
	until(t, "the plan is applied", func() bool {
		now, ok := s.executor.RunState(id)
		return ok && now.Levers == 1
	})
	now, _ := s.executor.RunState(id)
	if now.Lever == nil || len(now.Lever.Votes) != 2 || now.Lever.Terms == nil || now.Lever.Terms.Policy != s.rules.current.Load().Digest() {
		t.Errorf("the lever was applied under %+v", now.Lever)
	}
}
