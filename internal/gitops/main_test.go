package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/inference-responder/responder/internal/gitops/helm"
	"github.com/inference-responder/responder/internal/gitops/helm/engine"
)

// TestMain makes the test binary stand for the program that renders charts, beside
// itself.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == helm.Program {
		os.Exit(engine.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	exe, err := os.Executable()
	beside := filepath.Join(filepath.Dir(exe), helm.Program)
	if err == nil {
		err = os.Symlink(exe, beside)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "put the program that renders charts beside the tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.Remove(beside); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
