package audit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A gate is a failpoint that holds the committer at one place.
type gate struct {
	at      string
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
}

func newGate(at string) *gate {
	return &gate{at: at, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) fail(name string) error {
	if name == g.at {
		g.once.Do(func() { close(g.reached) })
		<-g.open
	}
	return nil
}

// start starts an append and returns a channel with its error.
func start(ctx context.Context, j *Journal, batch ...Append) <-chan error {
	c := make(chan error, 1)
	go func() {
		_, err := j.Append(ctx, batch...)
		c <- err
	}()
	return c
}

func TestQueueFull(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
	}{
		{"records", Options{QueueRecords: 3}},
		{"bytes", Options{QueueBytes: 3 * (headerSize + len("s") + len("k") + len(`""`))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate("commit-begin")
			tt.o.Failpoint = g.fail
			j := openTest(t, tt.o)
			var waiting []<-chan error
			for range 3 {
				waiting = append(waiting, start(t.Context(), j, one("s", "k", "")))
				<-g.reached
			}
			for j.queuedNow() < 3 {
				time.Sleep(time.Millisecond)
			}
			if _, err := j.Append(t.Context(), one("s", "k", "")); !errors.Is(err, ErrFull) {
				t.Errorf("got %v, want ErrFull", err)
			}
			close(g.open)
			for _, c := range waiting {
				if err := <-c; err != nil {
					t.Error(err)
				}
			}
			mustAppend(t, j, one("s", "k", ""))
		})
	}
}

// queuedNow is the number of records waiting or being committed.
func (j *Journal) queuedNow() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records
}

// A context that ends before the commit begins leaves nothing; one that ends
// after does not turn a write into a failure.
func TestCancel(t *testing.T) {
	g := newGate("before-commit")
	j := openTest(t, Options{Failpoint: g.fail})
	ctx, cancel := context.WithCancel(t.Context())
	first := start(ctx, j, one("s", "first", ""))
	<-g.reached
	second := start(ctx, j, one("s", "second", ""))
	for j.queuedNow() < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in the queue: got %v", err)
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Errorf("cancelled during the commit: got %v", err)
	}
	if _, err := j.Append(ctx, one("s", "third", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: got %v", err)
	}
	if got := collect(t, j.Log(0)); len(got) != 1 || got[0].Kind != "first" {
		t.Errorf("the log has %+v", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j.queuedNow() != 0 {
		t.Errorf("%d records are still accounted for", j.queuedNow())
	}
}

// A conflict fails its own batch, not those it shares a transaction with.
func TestConflictAmongNeighbours(t *testing.T) {
	g := newGate("commit-begin")
	j := openTest(t, Options{Failpoint: g.fail})
	first := start(t.Context(), j, one("s", "first", ""))
	<-g.reached
	var errs []<-chan error
	for i := range 20 {
		// All claim to be the second record of s; one can be.
		errs = append(errs,
			start(t.Context(), j, Append{Stream: "s", After: 1, Records: []Record{rec("k", fmt.Sprint(i))}}, one("t", "k", fmt.Sprint(i))),
			start(t.Context(), j, one("u", "k", "")))
	}
	for j.queuedNow() < 61 {
		time.Sleep(time.Millisecond)
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	won := 0
	for i, c := range errs {
		switch err := <-c; {
		case err == nil && i%2 == 0:
			won++
		case i%2 == 0 && !errors.Is(err, ErrConflict), i%2 == 1 && err != nil:
			t.Errorf("append %d: %v", i, err)
		}
	}
	heads := map[string]uint64{}
	for _, s := range []string{"s", "t", "u"} {
		heads[s] = mustHead(t, j, s)
	}
	if won != 1 || heads["s"] != 2 || heads["t"] != 1 || heads["u"] != 20 {
		t.Errorf("%d won; heads %v", won, heads)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, j.Path(), j.PublicKey(), VerifyOptions{})
}

// failOnce returns err at one place, the nth time it is reached.
func failOnce(at string, nth int64, err error) func(string) error {
	var n atomic.Int64
	return func(name string) error {
		if name == at && n.Add(1) == nth {
			return err
		}
		return nil
	}
}

// After a failed write the journal refuses everything until it is opened
// again; what the failed append said about its fate is true.
func TestFailStop(t *testing.T) {
	for _, tt := range []struct {
		at      string
		err     error
		kind    error
		written bool
	}{
		{"commit-begin", syscall.EIO, errReadOnly, false},
		{"before-commit", syscall.EIO, errReadOnly, false},
		{"after-commit", syscall.EIO, errOutcomeUnknown, true},
		{"after-commit", syscall.ENOSPC, errOutcomeUnknown, true},
		{"before-ack", syscall.EIO, errOutcomeUnknown, true},
	} {
		t.Run(tt.at+"/"+tt.err.Error(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := openAt(t, path, Options{Failpoint: failOnce(tt.at, 2, tt.err)})
			mustAppend(t, j, one("s", "k", "0"))
			_, err := j.Append(t.Context(), one("s", "k", "1"))
			if !errors.Is(err, tt.kind) || !errors.Is(err, ErrUnavailable) || !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.kind)
			}
			for range 3 {
				if _, err := j.Append(t.Context(), one("s", "k", "2")); !errors.Is(err, errReadOnly) {
					t.Errorf("after the failure: got %v", err)
				}
				if err := j.SetMeta("k", []byte("v")); !errors.Is(err, errReadOnly) {
					t.Errorf("cell after the failure: got %v", err)
				}
			}
			if tt.at == "after-commit" && len(collect(t, j.Log(0))) != 1 {
				t.Error("an unacknowledged record can be read")
			}
			if err := j.Close(); !errors.Is(err, tt.err) {
				t.Errorf("Close: %v", err)
			}
			if _, ok := readMarker(path); ok {
				t.Error("Close left a clean marker")
			}
			j = openAt(t, path, Options{Checker: testChecker(t)})
			if got, want := j.Size() == 2, tt.written; got != want {
				t.Errorf("reopened: written %v, want %v", got, want)
			}
		})
	}
}

func TestDiskFullRecovers(t *testing.T) {
	var full atomic.Bool
	j := openTest(t, Options{Failpoint: func(name string) error {
		if name == "before-commit" && full.Load() {
			return fmt.Errorf("write journal.db: %w", syscall.ENOSPC)
		}
		return nil
	}})
	mustAppend(t, j, one("s", "k", "0"))
	full.Store(true)
	for range 3 {
		_, err := j.Append(t.Context(), one("s", "k", "1"))
		if !errors.Is(err, ErrDiskFull) || !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
	}
	if j.Err() == nil {
		t.Error("a journal without space is ready")
	}
	full.Store(false)
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := j.Append(t.Context(), Append{Stream: "s", After: 1, Records: []Record{rec("k", "1")}})
		if err == nil {
			break
		}
		if !errors.Is(err, ErrDiskFull) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, j.Path(), j.PublicKey(), VerifyOptions{}); r.Entries != 2 {
		t.Errorf("got %+v", r)
	}
}

// A panic of bbolt under the committer is a failed write, and Close returns.
func TestPanicIsFailStop(t *testing.T) {
	j := openTest(t, Options{Failpoint: func(name string) error {
		if name == "before-commit" {
			panic("page 7: invalid type")
		}
		return nil
	}})
	if _, err := j.Append(t.Context(), one("s", "k", "")); !errors.Is(err, errReadOnly) {
		t.Errorf("got %v", err)
	}
	if err := j.Close(); err == nil {
		t.Error("Close after a panic succeeded")
	}
}

// The checkpoint that time asks for, in a bubble's time.
func TestCheckpointInterval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		mustAppend(t, j, one("s", "k", ""))
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if n := storedCheckpoints(t, j); n != 0 {
			t.Errorf("%d checkpoints before the interval is over", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := storedCheckpoints(t, j); n != 1 {
			t.Errorf("%d checkpoints after the interval", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := storedCheckpoints(t, j); n != 1 {
			t.Errorf("%d checkpoints without new records", n)
		}
		mustAppend(t, j, one("s", "k", ""))
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
	j := openAt(t, path, Options{})
	if n := storedCheckpoints(t, j); n != 2 {
		t.Errorf("%d checkpoints after Close", n)
	}
}

// storedCheckpoints counts the checkpoints bucket.
func storedCheckpoints(t testing.TB, j *Journal) int {
	t.Helper()
	n := 0
	err := j.view(func(tx *bolt.Tx) error {
		cur := tx.Bucket(bucketCheckpoints).Cursor()
		for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Many callers on shared streams, each appending at the head it has seen: no
// append is lost, none is doubled, readers see only whole batches.
func TestConcurrentAppends(t *testing.T) {
	j := openTest(t, Options{NoSync: true})
	const callers, each = 8, 50
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each {
				for {
					head, err := j.Head("shared")
					if err != nil {
						t.Error(err)
						return
					}
					_, err = j.Append(t.Context(), Append{Stream: "shared", After: head, Records: []Record{rec("pair", ""), rec("pair", "")}},
						one(fmt.Sprintf("own/%d", c), "k", fmt.Sprint(i)))
					if err == nil {
						break
					}
					if !errors.Is(err, ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := 0
			for _, err := range j.Log(0) {
				if err != nil {
					t.Error(err)
					return
				}
				n++
			}
			if n%3 != 0 {
				t.Errorf("a reader saw %d records: part of a batch", n)
			}
		}
	})
	group.Wait()
	close(stop)
	readers.Wait()
	if head := mustHead(t, j, "shared"); head != 2*callers*each {
		t.Errorf("head %d", head)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, j.Path(), j.PublicKey(), VerifyOptions{})
}
