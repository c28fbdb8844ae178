package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What the crashing child is told.
const (
	crashAtEnv  = "AUDIT_TEST_CRASH_AT"  // the failpoint, or nothing
	crashNthEnv = "AUDIT_TEST_CRASH_NTH" // the how many-th time
	crashRunEnv = "AUDIT_TEST_CRASH_RUN" // makes the payloads of one child unique
	// crashRoundsEnv is for the nightly run: how many children are killed at
	// random times.
	crashRoundsEnv = "AUDIT_CRASH_ROUNDS"
)

// A payload ties the two records of one batch together.
type payload struct {
	ID string `json:"id"`
}

// crashChild appends from eight callers and prints the id of every batch that
// was acknowledged, until it is killed: by itself at a failpoint, or by the
// parent at any time. A child that is to die in Close closes after 40 batches.
func crashChild() {
	at, run := os.Getenv(crashAtEnv), os.Getenv(crashRunEnv)
	nth, err := strconv.ParseInt(os.Getenv(crashNthEnv), 10, 64)
	if err != nil {
		panic(err)
	}
	var seen atomic.Int64
	j, err := Open(os.Args[1], Options{CheckpointEvery: 16, Failpoint: func(name string) error {
		if name == at && seen.Add(1) == nth {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {} // the signal is on its way
		}
		return nil
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("open")
	limit := -1
	if strings.HasPrefix(at, "close-") {
		limit = 5
	}
	var group sync.WaitGroup
	for c := range 8 {
		group.Go(func() {
			for i := 0; i != limit; i++ {
				id := fmt.Sprintf("%s-%d-%d", run, c, i)
				data, err := json.Marshal(payload{id})
				if err != nil {
					panic(err)
				}
				r := []Record{{Kind: "k", Data: data}}
				if _, err := j.Append(context.Background(), Append{Stream: "intake", After: Any, Records: r}, Append{Stream: "run/" + id, After: 0, Records: r}); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Println("ack", id) // one write: whole or not at all
			}
		})
	}
	group.Wait()
	if err := j.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// crash runs a child on the journal at path and returns the ids it was
// acknowledged. kill, if not zero, ends it that long after it has opened.
func crash(t *testing.T, path, at string, nth int, kill time.Duration) map[string]bool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), roleEnv+"=crash", crashAtEnv+"="+at, crashNthEnv+"="+strconv.Itoa(nth),
		crashRunEnv+"="+strconv.FormatInt(rand.Int64(), 36))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := readAcks(t, out, func() {
		if kill > 0 {
			time.AfterFunc(kill, func() {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			})
		}
	})
	err = cmd.Wait()
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Fatalf("the child was to be killed at %q (%d): %v\n%s", at, nth, err, stderr.String())
	}
	return acked
}

// readAcks reads what the child prints until it is gone.
func readAcks(t *testing.T, r io.Reader, opened func()) map[string]bool {
	t.Helper()
	acked := make(map[string]bool)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return acked // a last line without its end was not written whole
		}
		switch verb, id, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
		case "open":
			opened()
		case "ack":
			acked[id] = true
		default:
			t.Fatalf("the child says %q", line)
		}
	}
}

// survived opens the journal after a crash, as the service does, and checks
// the promise: every acknowledged batch is there, every batch is whole, the
// log verifies, and the key is still the same.
func survived(t *testing.T, path string, acked map[string]bool) {
	t.Helper()
	j := openAt(t, path, Options{Checker: testChecker(t)})
	there := make(map[string]int)
	for _, r := range collect(t, j.Log(0)) {
		var p payload
		if err := json.Unmarshal(r.Data, &p); err != nil {
			t.Fatal(err)
		}
		there[p.ID]++
	}
	for id := range acked {
		if there[id] == 0 {
			t.Errorf("batch %s was acknowledged and is lost", id)
		}
	}
	for id, n := range there {
		if n != 2 {
			t.Errorf("batch %s has %d of its 2 records", id, n)
		}
	}
	mustAppend(t, j, one("after", "k", "the log goes on"))
	key := j.PublicKey()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(filepath.Dir(path), PublicKeyFile))
	if err != nil || strings.TrimSpace(string(public)) != key {
		t.Errorf("%s: %q, %v", PublicKeyFile, public, err)
	}
	mustVerify(t, path, key, VerifyOptions{})
}

func TestCrashAtFailpoints(t *testing.T) {
	for _, at := range Failpoints() {
		nths := []int{1}
		if strings.HasPrefix(at, "commit") || strings.HasPrefix(at, "before") || strings.HasPrefix(at, "after") {
			nths = []int{1, 2, 17}
		}
		for _, nth := range nths {
			t.Run(fmt.Sprintf("%s/%d", at, nth), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal.db")
				acked := crash(t, path, at, nth, 0)
				survived(t, path, acked)
			})
		}
	}
}

// One file lives through many crashes at random times under load.
func TestCrashAtRandomTimes(t *testing.T) {
	rounds := 12
	if n, err := strconv.Atoi(os.Getenv(crashRoundsEnv)); err == nil {
		rounds = n
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	acked := make(map[string]bool)
	for range rounds {
		more := crash(t, path, "", 0, time.Duration(1+rand.IntN(80))*time.Millisecond)
		for id := range more {
			acked[id] = true
		}
		if head, size, err := readHeader(path); err != nil {
			t.Fatalf("%+v, %d, %v", head, size, err)
		}
	}
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged in any round")
	}
	survived(t, path, acked)
	t.Logf("%d crashes, %d acknowledged batches", rounds, len(acked))
}

// holdChild keeps the journal open until its standard input ends.
func holdChild() {
	j, err := Open(os.Args[1], Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		os.Exit(1)
	}
	if err := j.Close(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
