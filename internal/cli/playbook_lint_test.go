package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// A file that is too big is one problem of several, and the files that the
// service passes over are none.
func TestLintDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"big.yaml":     "#" + strings.Repeat("x", yamldoc.MaxFile),
		"bad.yaml":     "spec: {}\n",
		".hidden.yaml": "junk",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), []string{"playbook", "lint", dir}, &command.Process{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }})
	got := stdout.String()
	if code != command.ExitError || stderr.Len() > 0 || strings.Contains(got, "hidden") ||
		!strings.Contains(got, "big.yaml: the file exceeds 1048576 bytes (split it)") || !strings.Contains(got, "bad.yaml:1:1: ") {
		t.Errorf("exit code %d\n%s%s", code, got, stderr.String())
	}
}
