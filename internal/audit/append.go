package audit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A request is what a caller hands to the committer and waits for.
type request struct {
	batch   []Append       // records to append, or
	cell    *cell          // a cell to set, or
	drop    []uint64       // entries whose bodies leave the file, or
	sign    bool           // only a checkpoint over what there is
	redact  []*replacement // what the batch records: entries that it replaces
	packed  [][]byte       // of each record: its data packed, or nil
	records int
	bytes   int

	state atomic.Int32 // queued, begun or abandoned
	out   []Record
	err   error
	done  chan struct{} // closed when out and err are final
}

// A cell is a small durable value outside the log; nil removes it.
type cell struct {
	key   string
	value []byte
}

// States of a request. Exactly one of committer and caller moves it out of
// queued, so "cancelled" and "written" exclude each other.
const (
	queued int32 = iota
	begun
	abandoned
)

// Append writes the batch, whole or not at all, and returns its records as
// they were written. They are on disk when it returns without an error.
//
// A stream's After must be its head at the moment of writing. Where a batch names
// a stream twice, the second After counts the records of the first. The error is
// ErrConflict, ErrFull, ErrInvalid, or one of those under ErrUnavailable; only
// errOutcomeUnknown leaves open whether the batch was written. If ctx ends
// before the commit has begun, nothing is written and the error is ctx's;
// after that Append waits for the outcome and ignores ctx.
//
// The records' Data must not change until Append returns.
func (j *Journal) Append(ctx context.Context, batch ...Append) ([]Record, error) {
	records, bytes, err := checkBatch(batch)
	if err != nil {
		return nil, err
	}
	called := time.Now()
	r := &request{batch: batch, records: records, bytes: bytes, done: make(chan struct{})}
	j.pack(r)
	if err := j.submit(ctx, r); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	if j.o.Observe != nil {
		j.o.Observe(time.Since(called))
	}
	return r.out, nil
}

// written calls the functions that wait for the request's records.
func (r *request) written() {
	if r.err != nil {
		return
	}
	from := 0
	for _, a := range r.batch {
		to := from + len(a.Records)
		if a.Written != nil {
			a.Written(r.out[from:to:to])
		}
		from = to
	}
}

// pack packs the request's data. The caller does it, because all callers share
// one committer.
func (j *Journal) pack(r *request) {
	scratch, _ := j.scratch.Get().(*[]byte)
	if scratch == nil {
		scratch = new([]byte)
	}
	r.packed = make([][]byte, 0, r.records)
	for _, a := range r.batch {
		for i := range a.Records {
			data := a.Records[i].Data
			packed := pack(scratch, data)
			if packed != nil {
				r.bytes -= len(data) - len(packed)
			}
			r.packed = append(r.packed, packed)
		}
	}
	if cap(*scratch) <= keepScratch {
		j.scratch.Put(scratch)
	}
}

// SetMeta sets a cell, durable when it returns; a nil value removes it. Cells
// share a commit with the records queued beside them but are not in the log:
// no verifier sees them.
func (j *Journal) SetMeta(key string, v []byte) error {
	if err := checkName("cell key", key, maxStream); err != nil {
		return err
	}
	if len(v) > maxCell {
		return fmt.Errorf("%w: cell %s has %d bytes, at most %d", ErrInvalid, key, len(v), maxCell)
	}
	r := &request{cell: &cell{key: key, value: v}, bytes: len(key) + len(v), done: make(chan struct{})}
	if err := j.submit(context.Background(), r); err != nil {
		return fmt.Errorf("set cell %s: %w", key, err)
	}
	return nil
}

// sign makes the committer store a checkpoint over everything before it.
func (j *Journal) sign() error {
	r := &request{sign: true, done: make(chan struct{})}
	return j.submit(context.Background(), r)
}

// submit queues r and waits for its outcome.
func (j *Journal) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.enqueue(r); err != nil {
		return err
	}
	j.poke()
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(queued, abandoned) {
			return ctx.Err()
		}
		<-r.done
	}
	return r.err
}

// enqueue puts r into the queue, or returns why it cannot.
func (j *Journal) enqueue(r *request) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.refusal(time.Now()); err != nil {
		return err
	}
	waiting := len(j.queue) > 0 || j.records > 0 || j.bytes > 0
	if waiting && (j.records+r.records > j.o.QueueRecords || j.bytes+r.bytes > j.o.QueueBytes) {
		return ErrFull
	}
	j.queue = append(j.queue, r)
	j.records += r.records
	j.bytes += r.bytes
	return nil
}

// refusal returns why no request is taken now, nil when one is. The caller holds mu.
func (j *Journal) refusal(now time.Time) error {
	switch {
	case j.closed:
		return ErrClosed
	case j.failed != nil:
		return fmt.Errorf("%w: %w", errReadOnly, j.failed)
	case j.full != nil && now.Before(j.fullUntil):
		return fmt.Errorf("%w: %w", ErrDiskFull, j.full)
	}
	return nil
}

// poke wakes the committer.
func (j *Journal) poke() {
	select {
	case j.wake <- struct{}{}:
	default: // it is awake, or will be
	}
}

// Idle reports whether no append waits or is being written.
func (j *Journal) Idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records == 0 && j.bytes == 0
}

// Watch returns a channel that receives after every commit of records, and a
// function that ends it. The channel holds one signal, so that a slow watcher
// sees several commits as one and misses none.
func (j *Journal) Watch() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	j.watchMu.Lock()
	j.watchers[c] = struct{}{}
	j.watchMu.Unlock()
	return c, func() {
		j.watchMu.Lock()
		delete(j.watchers, c)
		j.watchMu.Unlock()
	}
}

// Wake signals the watchers without an append, for a writer whose own views
// follow the journal a moment later.
func (j *Journal) Wake() {
	j.watchMu.Lock()
	defer j.watchMu.Unlock()
	for c := range j.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last signal
		}
	}
}
