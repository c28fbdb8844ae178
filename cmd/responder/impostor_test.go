package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/rogpeppe/go-internal/testscript"
)

// startImpostor sets IMPOSTOR to the URL of a server that answers every request
// with a page, as a proxy does.
func startImpostor(t *testing.T, ts *testscript.TestScript) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch {
		case strings.HasPrefix(r.URL.Path, "/down/"):
			w.WriteHeader(http.StatusBadGateway)
		case strings.HasPrefix(r.URL.Path, "/away/"):
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return
		}
		io.WriteString(w, "<html>login</html>") //nolint:errcheck // the client's test fails without it
	}))
	t.Cleanup(s.Close)
	ts.Setenv("IMPOSTOR", s.URL)
}

// A reader that has gone ends a command in order, and without a word.
func TestOutputThatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	temp := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "dry-run", "--sandbox", "bad-rollout")
	var said bytes.Buffer
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = w, &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != command.ExitError || said.Len() > 0 {
		t.Errorf("%v: %s", err, said.String())
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind, %v", left, err)
	}
}
