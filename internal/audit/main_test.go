package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// roleEnv makes the test binary play another process: what it is to do.
const roleEnv = "AUDIT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "check":
		os.Exit(CheckMain(os.Args[1], os.Stderr))
	case "panic":
		go func() { panic("freepages: as bbolt does") }()
		time.Sleep(time.Minute)
	case "hang":
		time.Sleep(time.Minute)
	case "crash":
		crashChild()
	case "archive":
		archiveChild()
	case "limit":
		limitChild()
	case "hold":
		holdChild()
	}
	fmt.Fprintln(os.Stderr, "unknown role")
	os.Exit(100)
}

// testChecker runs Check in a child: this binary again.
func testChecker(t testing.TB) Checker {
	t.Helper()
	return roleChecker(t, "check")
}

func roleChecker(t testing.TB, role string) Checker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The role travels in the arguments of env(1): a Checker has no environment.
	return CheckerCommand("/usr/bin/env", roleEnv+"="+role, exe)
}

// openTest opens a journal in a directory of the test.
func openTest(t testing.TB, o Options) *Journal {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "journal.db"), o)
}

// openAt opens the journal at path; the test closes it at the latest.
func openAt(t testing.TB, path string, o Options) *Journal {
	t.Helper()
	j, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Log("close:", err) // the test has closed it and seen the error, or made it fail
		}
	})
	return j
}

// rec is a record of one kind with a JSON string as its payload.
func rec(kind, data string) Record {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err) // unreachable unless json cannot encode a string
	}
	return Record{Kind: kind, Data: b}
}

// one is a batch of one record that depends on nothing.
func one(stream, kind, data string) Append {
	return Append{Stream: stream, After: Any, Records: []Record{rec(kind, data)}}
}

// mustAppend appends or fails the test.
func mustAppend(t testing.TB, j *Journal, batch ...Append) []Record {
	t.Helper()
	out, err := j.Append(t.Context(), batch...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mustHead returns a stream's head or fails the test.
func mustHead(t testing.TB, j *Journal, stream string) uint64 {
	t.Helper()
	head, err := j.Head(stream)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// mustVerify verifies a closed journal and fails the test if anything is bad.
func mustVerify(t testing.TB, path, key string, o VerifyOptions) Report {
	t.Helper()
	r, err := Verify(t.Context(), path, key, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Fatalf("verify: %v", r.FirstBad)
	}
	return r
}

// collect drains an iterator.
func collect(t testing.TB, seq func(func(Record, error) bool)) []Record {
	t.Helper()
	var out []Record
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}
