package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in /dev/shm, where everybody may write, is refused and not waited for.
func TestNoteWaitsForNoPipe(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "responder-test-")
	if err != nil {
		t.Skip("there is no /dev/shm")
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	pipe := filepath.Join(dir, "key")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readNote("public key", pipe, "advice"); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a pipe is read: %v", err)
	}
}
