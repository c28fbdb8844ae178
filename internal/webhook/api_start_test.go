package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// start posts a request for a run, under a key.
func start(s *Server, token, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/runs", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// Who starts a run is who authenticated; one that is there already is no news.
func TestStartRun(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	const body = `{"playbook":"p","service":"chat","labels":{"sli":"ttft"},"reason":"slow"}`
	for i, want := range []int{http.StatusCreated, http.StatusOK} {
		w := start(s, decideToken, "k-1", body)
		if w.Code != want || w.Header().Get("Location") != "/api/v1/runs/r-1" || !strings.Contains(w.Body.String(), `"run":"r-1"`) {
			t.Fatalf("request %d: %d %v %s", i, w.Code, w.Header(), w.Body)
		}
	}
	want := StartRequest{
		StartRequest: api.StartRequest{Playbook: "p", Service: "chat", Labels: map[string]string{"sli": "ttft"}, Reason: "slow"},
		Key:          "k-1", Who: rights.Actor{By: "user:decide", Groups: []string{"g-decide"}},
	}
	if diff := cmp.Diff([]StartRequest{want, want}, h.started); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestStartRunRefused(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	const good = `{"playbook":"p","service":"chat"}`
	many := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name, token, key, body, says string
		want                         int
	}{
		{"a reader", readToken, "", good, "lacks the scope start", http.StatusForbidden},
		{"nobody", "wrong", "", good, "unknown credential", http.StatusUnauthorized},
		{"no playbook", decideToken, "", `{"service":"chat"}`, "playbook: missing", http.StatusBadRequest},
		{"no service", decideToken, "", `{"playbook":"p"}`, "service: missing", http.StatusBadRequest},
		{"in another's name", decideToken, "", `{"playbook":"p","service":"chat","by":"user:root"}`, "unknown field", http.StatusBadRequest},
		{"not JSON", decideToken, "", `{`, "body", http.StatusBadRequest},
		{"two of them", decideToken, "", good + good, "data after the JSON object", http.StatusBadRequest},
		{"a label's name", decideToken, "", `{"playbook":"p","service":"chat","labels":{"a-b":"c"}}`, "is no name of a label", http.StatusBadRequest},
		{"a label that steers a terminal", decideToken, "", `{"playbook":"p","service":"chat","labels":{"a":"\u001b[2J"}}`, "labels.a", http.StatusBadRequest},
		{"a long label", decideToken, "", `{"playbook":"p","service":"chat","labels":{"a":"` + many + `"}}`, "labels.a", http.StatusBadRequest},
		{"a reason that steers a terminal", decideToken, "", `{"playbook":"p","service":"chat","reason":"\u001b[2J"}`, "control characters", http.StatusBadRequest},
		{"a long key", decideToken, many, good, "Idempotency-Key", http.StatusBadRequest},
	} {
		if w := start(s, c.token, c.key, c.body); w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, w.Code, w.Body, c.want, c.says)
		}
	}
	if len(h.started) > 0 {
		t.Fatalf("started %+v", h.started)
	}
	for kind, want := range map[error]int{ErrConflict: http.StatusConflict, ErrNotFound: http.StatusNotFound, ErrInvalid: http.StatusBadRequest, ErrUnavailable: http.StatusServiceUnavailable} {
		h.refuse = fmt.Errorf("%w: not now", kind)
		if w := start(s, decideToken, "", good); w.Code != want {
			t.Errorf("%v: %d %s, want %d", kind, w.Code, w.Body, want)
		}
	}
	o := options(t, newHouse())
	o.Starter = nil
	if w := start(mustNew(t, o), decideToken, "", good); w.Code != http.StatusNotFound {
		t.Errorf("where nobody starts runs: %d %s", w.Code, w.Body)
	}
}
