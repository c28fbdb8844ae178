//go:build e2e

package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// Others begins to measure what share of the processors is used by programs that
// are neither this test nor servers that it started; the function that it gives
// tells the share since then. Limits on time hold for a machine that has time.
func Others(t testing.TB) func() float64 {
	t.Helper()
	allBefore, idleBefore := processors(t)
	ownBefore := own(t)
	return func() float64 {
		all, idle := processors(t)
		span := float64(all - allBefore)
		if span <= 0 {
			return 0
		}
		used := span - float64(idle-idleBefore) - float64(own(t)-ownBefore)
		return max(0, used/span)
	}
}

// processors returns the ticks that all processors had, and those of them in which
// they had nothing to do, or waited for a disk.
func processors(t testing.TB) (all, idle int64) {
	t.Helper()
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line)[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if all += n; i == 3 || i == 4 {
			idle += n
		}
	}
	return all, idle
}

// own returns the ticks of this process and of all that descend from it.
func own(t testing.TB) (ticks int64) {
	t.Helper()
	type process struct{ parent, ticks int64 }
	all := map[int64]process{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.ParseInt(filepath.Base(filepath.Dir(name)), 10, 64)
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		var p process
		for _, i := range []int{11, 12, 13, 14} { // also of children that have ended
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			p.ticks += n
		}
		p.parent, _ = strconv.ParseInt(fields[1], 10, 64)
		all[pid] = p
	}
	self := int64(os.Getpid())
	for pid, p := range all {
		for at := pid; at > 1; at = all[at].parent {
			if at == self {
				ticks += p.ticks
				break
			}
		}
	}
	return ticks
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
