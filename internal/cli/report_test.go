package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
)

// A report without the error budget is written, and why the budget is missing is printed.
func TestReportSaysWhyTheBudgetIsMissing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/budget"):
			w.Header().Set("Content-Type", client.JSONType)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":{"message":"the token lacks the scope read"}}`)
		case strings.HasSuffix(r.URL.Path, "/events"):
			w.Header().Set("Content-Type", "application/x-ndjson")
		default:
			w.Header().Set("Content-Type", client.JSONType)
			fmt.Fprint(w, `{"run":{"run":"r-1","playbook":"p","status":"planning"}}`)
		}
	}))
	defer server.Close()
	var stdout, stderr strings.Builder
	p := &command.Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv, Temp: &command.Temporary{}}
	if code := Run(t.Context(), []string{"report", "r-1", "--server", server.URL}, p); code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if want := "error budget is not known: you may not do that: the token lacks the scope read"; !strings.Contains(stderr.String(), want) {
		t.Errorf("%q, want %q in it", stderr.String(), want)
	}
	if !strings.Contains(stdout.String(), "Not known: the playbook of the run cannot be read.") {
		t.Errorf("the report names a cause: %s", stdout.String())
	}
}
