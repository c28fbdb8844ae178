package webhook

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/rights"
)

// fakeSandbox stands for a simulated cluster.
type fakeSandbox struct {
	fired  []string // "who: scenario"
	refuse error
}

func (f *fakeSandbox) Show() api.Sandbox {
	return api.Sandbox{Scenario: "bad-rollout", Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Pace: 2.5}
}

func (f *fakeSandbox) Fire(_ context.Context, who rights.Actor, scenario string) (api.SandboxFired, error) {
	f.fired = append(f.fired, who.By+": "+scenario)
	return api.SandboxFired{Scenario: scenario}, f.refuse
}

const firePath = "/api/v1/sandbox/fire"

// A service on a real cluster simulates nothing, whoever asks.
func TestRealServiceIsNoSandbox(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for _, c := range []struct{ method, path, token string }{
		{http.MethodGet, "/api/v1/sandbox", readToken}, {http.MethodPost, firePath, decideToken},
	} {
		w := ask(s, c.method, c.path, c.token, strings.NewReader(`{}`))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "this service is not a sandbox") {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	if w := ask(s, http.MethodGet, "/api/v1/runs", readToken, nil); w.Header().Get(api.SandboxHeader) != "" {
		t.Errorf("a real service calls itself a sandbox: %v", w.Header())
	}
}

func TestSandbox(t *testing.T) {
	f := &fakeSandbox{}
	o := options(t, newHouse())
	o.Sandbox = f
	s := mustNew(t, o)
	if got := decoded[api.Sandbox](t, ask(s, http.MethodGet, "/api/v1/sandbox", readToken, nil)); got.Scenario != "bad-rollout" {
		t.Errorf("shown as %+v", got)
	}
	w := ask(s, http.MethodGet, "/api/v1/runs", readToken, nil)
	if got := api.ParseSandboxHeader(w.Header().Get(api.SandboxHeader)); !reflect.DeepEqual(got, f.Show()) {
		t.Errorf("an answer is of the sandbox %+v, want %+v", got, f.Show())
	}
	for _, c := range []struct {
		name, token, body string
		want              int
	}{
		{"a sender of alerts", intakeToken, `{}`, http.StatusForbidden},
		{"a reader", readToken, `{}`, http.StatusForbidden},
		{"nobody", "", `{}`, http.StatusUnauthorized},
		{"an unknown field", decideToken, `{"by":"user:root"}`, http.StatusBadRequest},
		{"the present alert", decideToken, `{}`, http.StatusOK},
		{"another scenario", decideToken, `{"scenario":"gpu-fault"}`, http.StatusAccepted},
	} {
		if w := ask(s, http.MethodPost, firePath, c.token, strings.NewReader(c.body)); w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
	}
	if got := strings.Join(f.fired, ", "); got != "user:decide: , user:decide: gpu-fault" {
		t.Errorf("fired %q", got)
	}
	f.refuse = fmt.Errorf("%w: a run is open", ErrConflict)
	if w := ask(s, http.MethodPost, firePath, decideToken, strings.NewReader(`{"scenario":"gpu-fault"}`)); w.Code != http.StatusConflict {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
}

// Nobody decides under a name that is not proven, but where nothing is proven and
// nothing is real.
func TestStandIns(t *testing.T) {
	const path, body = "/api/v1/runs/r-1/approve", `{"as":"ada"}`
	asking := func() *fakeHouse {
		h := newHouse()
		r := h.runs["r-1"]
		r.Gate = &machine.Gate{ID: "g", Needs: []machine.Need{{From: []string{"group:sre", "user:bob"}, Quorum: 2}}}
		h.runs["r-1"] = r
		return h
	}
	open := func(o Options) Options {
		o.Auth = Auth{Insecure: true}
		return o
	}
	for name, c := range map[string]struct {
		sandbox, insecure bool
		token, body       string
		want              int
	}{
		"a real service":                        {false, false, decideToken, body, http.StatusForbidden},
		"a real service without authentication": {false, true, "", body, http.StatusForbidden},
		"a sandbox with a credential":           {true, false, decideToken, body, http.StatusForbidden},
		"a sandbox without one":                 {true, false, "", body, http.StatusUnauthorized},
		"no name":                               {true, true, "", `{"as":"a b"}`, http.StatusBadRequest},
		"a prefix":                              {true, true, "", `{"as":"user:ada"}`, http.StatusBadRequest},
		"nobody's name":                         {true, true, "", `{"as":"anonymous"}`, http.StatusBadRequest},
		"an open sandbox":                       {true, true, "", body, http.StatusOK},
	} {
		h := asking()
		o := options(t, h)
		if c.insecure {
			o = open(o)
		}
		if c.sandbox {
			o.Sandbox = &fakeSandbox{}
		}
		w := ask(mustNew(t, o), http.MethodPost, path, c.token, strings.NewReader(c.body))
		if w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.want)
		}
		if c.want != http.StatusOK {
			if len(h.commands) > 0 {
				t.Errorf("%s: a run was told %+v", name, h.commands[0].Decision)
			}
			continue
		}
		want := machine.Decision{By: "user:ada", Groups: []string{"sre"}, Person: true, Channel: "sandbox", Approve: true}
		if len(h.commands) != 1 || !reflect.DeepEqual(*h.commands[0].Decision, want) {
			t.Errorf("%s: %+v, want %+v", name, h.commands, want)
		}
	}
	o := open(options(t, asking()))
	o.Sandbox = &fakeSandbox{}
	s := mustNew(t, o)
	for _, verb := range []string{verbCancel, verbReplan, verbProceed, verbRelease} {
		if w := ask(s, http.MethodPost, "/api/v1/runs/r-1/"+verb, "", strings.NewReader(`{"as":"ada","reason":"x"}`)); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", verb, w.Code, w.Body)
		}
	}
}
