package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// The open log is verified as a copy of it is, while others append.
func TestVerifyOpenLog(t *testing.T) {
	j := openTest(t, Options{CheckpointEvery: tamperEvery, NoSync: true})
	for i := range tamperEntries {
		mustAppend(t, j, one(fmt.Sprintf("run/%d", i%7), "step", fmt.Sprint("payload ", i)))
	}
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				mustAppend(t, j, one("run/busy", "step", "more"))
			}
		}
	})
	for range 20 {
		before := j.Size()
		r, err := j.Verify(t.Context(), VerifyOptions{})
		if err != nil || !r.OK() || r.Overdue != "" {
			t.Fatalf("%v %v %q", err, r.FirstBad, r.Overdue)
		}
		if r.Signed < before || r.Entries < r.Signed || r.Origin != j.Origin() || r.Root == "" {
			t.Errorf("%d entries before, and the report is %+v", before, r)
		}
	}
	close(stop)
	writing.Wait()
	r, err := j.Verify(t.Context(), VerifyOptions{})
	if want := j.committed.Load().root().String(); err != nil || r.Root != want || r.Entries != j.Size() {
		t.Errorf("%v, root %s over %d entries, want %s over %d", err, r.Root, r.Entries, want, j.Size())
	}
}

// Whoever edits the file of a running service is found out by it.
func TestVerifyOpenLogFindsEdits(t *testing.T) {
	j := openTest(t, Options{CheckpointEvery: tamperEvery, NoSync: true})
	for i := range tamperEntries {
		mustAppend(t, j, one(fmt.Sprintf("run/%d", i%7), "step", fmt.Sprint("payload ", i)))
	}
	err := j.db.Update(func(tx *bolt.Tx) error {
		value := tx.Bucket(bucketLog).Get(u64(123))
		return tx.Bucket(bucketLog).Put(u64(123), []byte(strings.Replace(string(value), "payload 123", "payload 321", 1)))
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := j.Verify(t.Context(), VerifyOptions{})
	if err != nil || r.FirstBad == nil || r.FirstBad.Seq != 123 || r.FirstBad.Last != 123 || !strings.Contains(r.FirstBad.Problem, "edited") {
		t.Errorf("%v, found %v, want entry 123 edited", err, r.FirstBad)
	}
}

// Who stops waiting stops the work, and leaves nothing open that Close would wait for.
func TestVerifyOpenLogIsCancelled(t *testing.T) {
	j := openTest(t, Options{NoSync: true})
	for range 3 * spanSize / MaxBatch {
		batch := one("run/1", "step", "x")
		for len(batch.Records) < MaxBatch {
			batch.Records = append(batch.Records, rec("step", "x"))
		}
		mustAppend(t, j, batch)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := uint64(0)
	_, err := j.Verify(ctx, VerifyOptions{Progress: func(done, _ uint64) {
		read = done
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || read == j.Size() {
		t.Errorf("%v after %d of %d entries", err, read, j.Size())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Verify(t.Context(), VerifyOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed journal is verified: %v", err)
	}
}
