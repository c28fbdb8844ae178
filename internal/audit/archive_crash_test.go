package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const archiveDirEnv = "AUDIT_TEST_ARCHIVE" // the archive of the child that archives

// archiveChild archives until it is killed by itself at a failpoint. It begins to
// count once the journal is open.
func archiveChild() {
	at := os.Getenv(crashAtEnv)
	nth, err := strconv.Atoi(os.Getenv(crashNthEnv))
	if err != nil {
		panic(err)
	}
	seen := 0
	j, err := Open(os.Args[1], Options{CheckpointEvery: 16, CheckpointInterval: time.Hour, Failpoint: func(name string) error {
		if name != at {
			return nil
		}
		if seen++; seen == nth {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {} // the signal is on its way
		}
		return nil
	}})
	if err == nil {
		err = archiveAll(context.Background(), new(testing.T), j, os.Getenv(archiveDirEnv))
	}
	if err == nil {
		err = errors.Join(j.Close(), errors.New("the child ended without having been killed"))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// crashArchiving runs a child that archives the journal at path and is killed.
func crashArchiving(t *testing.T, path, dir, at string, nth int) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), roleEnv+"=archive", crashAtEnv+"="+at, crashNthEnv+"="+strconv.Itoa(nth), archiveDirEnv+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Fatalf("the child was to be killed at %q (%d): %v\n%s", at, nth, err, stderr.String())
	}
}
