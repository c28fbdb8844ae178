package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// fakeSandbox stands for a simulated cluster.
type fakeSandbox struct {
	fired  []string // "who: scenario"
	refuse error
}

func (f *fakeSandbox) Show() api.Sandbox { return api.Sandbox{Scenario: "bad-rollout"} }

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
}

func TestSandbox(t *testing.T) {
	f := &fakeSandbox{}
	o := options(t, newHouse())
	o.Sandbox = f
	s := mustNew(t, o)
	if got := decoded[api.Sandbox](t, ask(s, http.MethodGet, "/api/v1/sandbox", readToken, nil)); got.Scenario != "bad-rollout" {
		t.Errorf("shown as %+v", got)
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
