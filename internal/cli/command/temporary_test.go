package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Somebody who does not want to wait signals twice; nothing stays behind.
func TestTwoSignalsLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var temp Temporary
	kept, _, err := temp.Dir("responder-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(kept, "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone, remove, err := temp.Dir("responder-test-")
	if err != nil || gone == kept {
		t.Fatal(gone, err)
	}
	if err := errors.Join(remove(), remove()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was removed is there: %v", err)
	}
	signals, asked, over := make(chan os.Signal), make(chan bool, 2), make(chan bool)
	go func() {
		AwaitSignals(signals, func() { asked <- true })
		temp.RemoveAll()
		close(over)
	}()
	signals <- syscall.SIGTERM
	<-asked
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("one signal, and what the shutdown needs is gone: %v", err)
	}
	signals <- syscall.SIGTERM
	<-over
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
