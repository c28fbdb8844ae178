package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// The program goes on without its pages, and has fewer of them.
func TestLetGoOfProgram(t *testing.T) {
	before := mappedKiB(t)
	if err := letGoOfProgram(); err != nil {
		t.Fatal(err)
	}
	if after := mappedKiB(t); after > before/2 {
		t.Errorf("%d KiB of files are resident, %d before", after, before)
	}
}

// mappedKiB is how much of mapped files is resident.
func mappedKiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssFile:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the system does not say what is resident")
	return 0
}

func TestParseMapping(t *testing.T) {
	const file = "/usr/local/bin/responder of mine"
	for line, want := range map[string]mapping{
		"00400000-01f8e000 r-xp 00000000 fe:00 123                   " + file: {from: 0x400000, to: 0x1f8e000, file: file},
		"03bce000-03cc5000 rw-p 037cd000 fe:00 123                   " + file: {from: 0x3bce000, to: 0x3cc5000, file: file, writable: true},
		"7fa0aa7db000-7fa0aa95b000 rw-p 00000000 00:00 0 ":                    {from: 0x7fa0aa7db000, to: 0x7fa0aa95b000, writable: true},
	} {
		if got, ok := parseMapping(line); !ok || got != want {
			t.Errorf("%q is %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"Anonymous:             0 kB", "VmFlags: rd ex mr mw me", ""} {
		if got, ok := parseMapping(line); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}
