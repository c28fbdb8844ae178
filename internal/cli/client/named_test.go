package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/command"
)

// TestRunNamed: the beginning of an ID means the one run that has it; a decision never
// goes to one of several, nor to one that was hardly named.
func TestRunNamed(t *testing.T) {
	const a, b, c = "r-01JDXYZAAAAAAAAAAAAAAAAAAA", "r-01JDXYZBBBBBBBBBBBBBBBBBBB", "r-01JEAAAAAAAAAAAAAAAAAAAAAA"
	const old = "r-01JAAAAAAAAAAAAAAAAAAAAAAA"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begins := r.URL.Query().Get("begins")
		if r.URL.Path != RunsPath || !strings.HasPrefix(begins, "r-01J") {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		all := `{"runs":[{"run":"` + c + `"},{"run":"` + b + `"},{"run":"` + b + `"},{"run":"` + a + `"}]}` // b has just ended
		if begins == "r-01JA" {
			all = `{"runs":[{"run":"` + old + `"}]}` // older than what a list without a beginning has
		}
		_, _ = io.WriteString(w, all)
	}))
	defer server.Close()
	client := Client{Process: &command.Process{Getenv: func(name string) string {
		if name == "RESPONDER_SERVER" {
			return server.URL
		}
		return ""
	}}}
	for name, want := range map[string]string{
		"r-01JDXYZB": b, "01jdxyza": a, "r-01JE": c, "01ja": old, a: a, "r-01JF": "r-01JF", "r-01": "r-01", "": "", "r-": "r-",
		"r-01JDXYZ": "", "r-01J": "r-01J",
	} {
		got, err := client.RunNamed(t.Context(), name)
		if want == "" && name != "" {
			if err == nil || !strings.Contains(err.Error(), `"r-01JDXYZ" is the beginning of 2 runs, the newest are `+b+" and "+a) {
				t.Errorf("%q: %q %v", name, got, err)
			}
			continue
		}
		if got != want || err != nil {
			t.Errorf("%q: %q %v, want %q", name, got, err, want)
		}
	}
}
