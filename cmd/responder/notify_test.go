package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// A message that did not arrive must be an error, or nobody is told and nobody
// knows it; and the token must not follow a redirect.
func TestHTTPNotifier(t *testing.T) {
	var got notice
	var authorization string
	answer := http.StatusNoContent
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed a redirect") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		if answer == http.StatusTemporaryRedirect {
			w.Header().Set("Location", elsewhere.URL)
		}
		w.WriteHeader(answer)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := newHTTPNotifier(notifyConfig{URL: server.URL, TokenFile: token})
	message := step.Notice{Key: "k", Run: "r-1", Service: playbook.Service{Name: "serving/chat"}, Text: "look"}
	if err := n.Notify(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	if got.Key != "k" || got.Service != "serving/chat" || got.Text != "look" || authorization != "Bearer secret" {
		t.Errorf("posted %+v with %q", got, authorization)
	}
	for _, answer = range []int{http.StatusInternalServerError, http.StatusTemporaryRedirect, http.StatusUnauthorized} {
		if err := n.Notify(t.Context(), message); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("an answer of %d: %v", answer, err)
		}
	}
}
