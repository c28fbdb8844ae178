//go:build failpoints

package command

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Failpoint returns what journal and executor call at their named places. It is
// for tests of crashes only and in no other build.
//
// RESPONDER_FAILPOINT=NAME or NAME#N kills the process, as kill -9 does, when
// it comes by NAME for the Nth time. RESPONDER_FAILPOINT_TRACE=FILE appends
// every name it comes by to FILE, one a line.
func Failpoint(getenv func(string) string) func(string) error {
	target, times := getenv("RESPONDER_FAILPOINT"), 1
	if name, n, ok := strings.Cut(target, "#"); ok {
		if parsed, err := strconv.Atoi(n); err == nil {
			target, times = name, parsed
		}
	}
	trace := getenv("RESPONDER_FAILPOINT_TRACE")
	if target == "" && trace == "" {
		return nil
	}
	var mu sync.Mutex // guards times and the order of the trace
	return func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		if trace != "" {
			f, err := os.OpenFile(trace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			if _, err := f.WriteString(name + "\n"); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
		if name != target {
			return nil
		}
		if times--; times > 0 {
			return nil
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {} // the signal arrives before anything else is done
	}
}
