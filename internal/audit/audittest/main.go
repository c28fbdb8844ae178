// Package audittest lets a test binary stand for the program where a journal is
// examined in a child process.
package audittest

import (
	"os"
	"testing"

	"github.com/inference-responder/responder/internal/audit"
)

// Main runs the tests of a package, or examines a journal when the binary was
// started for that, and returns the exit code. It is for TestMain.
func Main(m *testing.M) int {
	if len(os.Args) == 4 && os.Args[1] == "internal" && os.Args[2] == "check-journal" {
		return audit.CheckMain(os.Args[3], os.Stderr)
	}
	return m.Run()
}
