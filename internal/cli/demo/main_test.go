package demo

import (
	"os"
	"testing"

	"github.com/inference-responder/responder/internal/audit"
)

// TestMain lets the test binary examine a journal in a child of its own, as the
// program does.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "internal" && os.Args[2] == "check-journal" {
		os.Exit(audit.CheckMain(os.Args[3], os.Stderr))
	}
	os.Exit(m.Run())
}
