package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDiskFullForReal fills a small file system, which needs root, and gives
// it space again.
func TestDiskFullForReal(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("mount:", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	j := openAt(t, filepath.Join(dir, "journal.db"), Options{})
	acked := 0
	var err error
	for ; err == nil && acked < 100; acked++ {
		_, err = j.Append(t.Context(), one("s", "k", strings.Repeat("x", 20_000)))
	}
	acked--
	if !errors.Is(err, ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d appends: %v", acked, err)
	}
	if n := len(collect(t, j.Log(0))); n != acked {
		t.Errorf("%d records on the full disk, %d acknowledged", n, acked)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=32m"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for j.Err() != nil {
		if time.Now().After(deadline) {
			t.Fatal(j.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	for i := range 20 {
		mustAppend(t, j, Append{Stream: "s", After: uint64(acked + i), Records: []Record{rec("k", fmt.Sprint(i))}})
	}
	key := j.PublicKey()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, j.Path(), key, VerifyOptions{Checker: testChecker(t)}); r.Entries != uint64(acked+20) {
		t.Errorf("%+v, want %d entries", r, acked+20)
	}
}

// TestOpenOnFullDisk: a journal opens where there is no space for the checkpoint beside
// it, says so, and keeps the checkpoint once there is space again.
func TestOpenOnFullDisk(t *testing.T) {
	path, _ := keptJournal(t, 2)
	file := projectionPath(path, signedName)
	old := contents(t, file)
	grow(t, path, 3)
	full := func() {
		t.Helper()
		if err := os.Symlink("/dev/full", file+".tmp"); err != nil {
			t.Fatal(err)
		}
	}
	full()
	j := openAt(t, path, Options{})
	if err := j.Kept(); err != nil {
		t.Errorf("what is kept already was written again: %v", err)
	}
	if err := errors.Join(os.Remove(file+".tmp"), j.Close()); err != nil {
		t.Fatal(err)
	}
	editFile(t, file, func([]byte) []byte { return old }) // as a crash leaves it
	full()
	j = openAt(t, path, Options{})
	if err := j.Kept(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("kept: %v, want that there is no space", err)
	}
	mustAppend(t, j, one("s", "k", "v"))
	if err := errors.Join(j.Close(), j.Kept()); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
