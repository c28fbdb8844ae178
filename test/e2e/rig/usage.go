//go:build e2e

package rig

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Memory is what the kernel counts of a process, in bytes.
type Memory struct {
	Resident int64
	Own      int64 // resident pages that only this process can free
	Peak     int64 // most that was ever resident
	Files    int64 // resident pages of files: the program, and the journal's map
}

// Memory reads the memory of the running process.
func (p *Process) Memory(t testing.TB) Memory {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.current().Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	read := func(field string) int64 {
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, field+":"); ok {
				if kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
					return kib << 10
				}
			}
		}
		t.Fatalf("no %s in /proc/PID/status", field)
		return 0
	}
	return Memory{Resident: read("VmRSS"), Own: read("RssAnon"), Peak: read("VmHWM"), Files: read("RssFile")}
}

// CPU is the processor time the running process has used.
func (p *Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.current().Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// utime and stime, in hundredths of a second, are the 12th and 13th field
	// after the program's name, which may itself hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
