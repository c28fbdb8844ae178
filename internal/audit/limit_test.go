//go:build unix

package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// limitChild appends until the system refuses to write any further into the
// file: a write error in the middle of a commit that no failpoint made.
func limitChild() {
	signal.Ignore(syscall.SIGXFSZ)
	j, err := Open(os.Args[1], Options{})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	put := func() error {
		_, err := j.Append(context.Background(), one("s", "k", strings.Repeat("x", 10_000)))
		return err
	}
	for n := 0; ; n++ {
		if n == 3 {
			limit := syscall.Rlimit{Cur: 256 << 10, Max: 256 << 10}
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				fmt.Println("setrlimit:", err)
				os.Exit(1)
			}
		}
		if err := put(); err != nil {
			fmt.Println("failed", n, errors.Is(err, errOutcomeUnknown), errors.Is(err, syscall.EFBIG))
			break
		}
	}
	fmt.Println("then", errors.Is(put(), errReadOnly), errors.Is(j.SetMeta("k", nil), errReadOnly), j.Close() != nil)
	os.Exit(0)
}

// A commit that the system failed half way is not acknowledged, stops the
// journal, and leaves a file with everything that was acknowledged.
func TestWriteErrorForReal(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), roleEnv+"=limit")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var acked uint64
	var unknown, tooBig, refused, cellRefused, closeFailed bool
	if _, err := fmt.Sscanf(string(out), "failed %d %t %t\nthen %t %t %t", &acked, &unknown, &tooBig, &refused, &cellRefused, &closeFailed); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if acked < 3 || !unknown || !tooBig || !refused || !cellRefused || !closeFailed {
		t.Errorf("the child says:\n%s", out)
	}
	j := openAt(t, path, Options{Checker: testChecker(t)})
	if j.Size() < acked || j.Size() > acked+1 {
		t.Errorf("%d entries, %d were acknowledged", j.Size(), acked)
	}
	mustAppend(t, j, one("s", "k", ""))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, path, j.PublicKey(), VerifyOptions{})
}
