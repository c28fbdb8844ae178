//go:build e2e

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// LimitMemory returns the file to which a process writes its id to have no more memory
// than that, as a container has. It returns an empty string where this system has no
// control groups that the test may make.
func LimitMemory(t testing.TB, bytes int64) string {
	t.Helper()
	root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		root, file = "/sys/fs/cgroup", "memory.max"
	}
	group := filepath.Join(root, fmt.Sprintf("responder-e2e-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Logf("no control group: %v", err)
		return ""
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for os.Remove(group) != nil && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond) // until its processes are gone
		}
	})
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(bytes, 10)), 0o644); err != nil {
		t.Logf("no limit of memory: %v", err)
		return ""
	}
	return filepath.Join(group, "cgroup.procs")
}

// Within has a process begin in the control group of LimitMemory.
func (s Spec) Within(procs string) Spec {
	if procs == "" {
		return s
	}
	s.Args = append([]string{"-c", `echo $$ > "$0" && exec "$@"`, procs, s.Path}, s.Args...)
	s.Path = "/bin/sh"
	return s
}
