package audit

import (
	"errors"
	"runtime"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// CheckEntries reads the log, the newest entries first, on all processors, and
// finds those that were changed since they were written: entries that are
// missing, or do not match their leaf hash. It stops when the time is over.
// Entries that it did not reach are checked when they are read.
func (j *Journal) CheckEntries(within time.Duration) error {
	c := &entryCheck{j: j, end: j.Size(), until: time.Now().Add(within)}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(c.work)
	}
	workers.Wait()
	return c.err
}

// An entryCheck is the progress of one check of the entries.
type entryCheck struct {
	j     *Journal
	until time.Time

	mu  sync.Mutex // guards everything below
	end uint64     // the entries from here on are taken by a worker
	err error
}

// take returns the next span to check. It reports false when none is left, or no time.
func (c *entryCheck) take() (first, end uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == 0 || c.err != nil || !time.Now().Before(c.until) {
		return 0, 0, false
	}
	end = c.end
	c.end -= min(c.end, spanSize)
	return c.end, end, true
}

// work checks spans until there are no more.
func (c *entryCheck) work() {
	for {
		first, end, ok := c.take()
		if !ok {
			return
		}
		if err := c.j.view(func(tx *bolt.Tx) error { return c.j.checkSpan(tx, first, end) }); err != nil {
			c.mu.Lock()
			c.err = errors.Join(c.err, err)
			c.mu.Unlock()
		}
	}
}

// checkSpan checks the entries from first to before end.
func (j *Journal) checkSpan(tx *bolt.Tx, first, end uint64) error {
	cur := tx.Bucket(bucketLog).Cursor()
	k, v := cur.Seek(u64(first))
	for seq := first; seq < end; seq++ {
		if n, ok := parseU64(k); !ok || n != seq {
			return corrupt(j.path, "entry %d is missing", seq)
		}
		_, err := intactEntry(seq, v)
		if errors.Is(err, errNoBody) {
			err = j.archive.Load().absent(seq)
		}
		if err != nil && !errors.Is(err, ErrArchived) {
			return corrupt(j.path, "entry %d: %v", seq, err)
		}
		k, v = cur.Next()
	}
	return nil
}
