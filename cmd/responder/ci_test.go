package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Where the database of vulnerabilities cannot be reached, the check passes and says loudly that
// nobody looked.
func TestUnreachableVulnerabilitiesAreSkippedLoudly(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "../../.ci/vulnerabilities")
	cmd.Env = append(os.Environ(), "GOVULNDB=http://127.0.0.1:1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "*** SKIPPED: nobody looked for known vulnerabilities: http://127.0.0.1:1 cannot be reached") {
		t.Errorf("%v\n%s", err, out)
	}
}
