package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Cells of the archive.
const (
	cellDropped = "archive/dropped" // entries before this one need no further look: what may leave the file has
	cellBodies  = "archive/bodies"  // entries of which the file has only the hash
)

// dropBatch is how many bodies leave the file in one transaction. Appends wait for one
// such transaction at most.
const dropBatch = 128

// Undropped returns the segments whose bodies are still in the file, oldest first: the
// process ended, or an error came, between Seal and Dropped.
func (j *Journal) Undropped() ([]Sealed, error) {
	upto, err := j.counter(cellDropped)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(j.Segments(), func(s Sealed) bool { return s.End <= upto }), nil
}

// Archived returns how many entries have only their hash in the file.
func (j *Journal) Archived() (uint64, error) { return j.counter(cellBodies) }

// counter reads a cell that holds a number.
func (j *Journal) counter(key string) (uint64, error) {
	raw, err := j.Meta(key)
	if err != nil {
		return 0, err
	}
	n, _ := parseU64(raw)
	return n, nil
}

// Drop removes the bodies of entries from the file, and leaves their leaf hashes. Each
// must be in a segment whose record lets its stream go, and those segments must be in
// the directory as they were written. It removes a few at a time; where it ends early,
// calling it again finishes. A body that is gone already counts as removed.
func (j *Journal) Drop(ctx context.Context, dir string, seqs []uint64) error {
	if err := j.checkSegments(ctx, dir, seqs); err != nil {
		return fmt.Errorf("no body leaves the journal: %w", err)
	}
	for part := range slices.Chunk(seqs, dropBatch) {
		r := &request{drop: part, records: len(part), done: make(chan struct{})}
		err := j.submit(ctx, r)
		for wait := time.Millisecond; errors.Is(err, ErrFull); wait = min(2*wait, time.Second) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
			r = &request{drop: part, records: len(part), done: make(chan struct{})}
			err = j.submit(ctx, r)
		}
		if err != nil {
			return fmt.Errorf("drop archived bodies: %w", err)
		}
		if err := j.o.Failpoint("bodies-dropping"); err != nil {
			return err
		}
	}
	return nil
}

// Dropped records that of a segment, and of those before it, everything has left the
// file that may.
func (j *Journal) Dropped(s Sealed) error {
	if err := j.o.Failpoint("bodies-dropped"); err != nil {
		return err
	}
	return j.SetMeta(cellDropped, u64(s.End))
}

// mayDrop reports why the bodies of entries must stay. Nothing is written yet, so that
// other requests of the transaction go on.
func (w *writer) mayDrop(seqs []uint64) error {
	a := w.j.archive.Load()
	for _, seq := range seqs {
		raw, err := intactEntry(seq, w.log.Get(u64(seq)))
		switch {
		case errors.Is(err, errNoBody):
		case err != nil:
			return corrupt(w.j.path, "entry %d: %v", seq, err)
		case !errors.Is(a.absentFrom(seq, string(raw.stream)), ErrArchived):
			return fmt.Errorf("%w: entry %d of stream %s is in no segment that lets its body leave the journal", ErrInvalid, seq, raw.stream)
		}
	}
	return nil
}

// drop replaces entries by their leaf hashes. Deleting before putting lets bbolt merge
// the pages, which then have room for many.
func (w *writer) drop(seqs []uint64) error {
	n := uint64(0)
	for _, seq := range seqs {
		key := u64(seq)
		leaf, record, _ := splitEntry(w.log.Get(key))
		if len(record) == 0 {
			continue
		}
		if err := replaceEntry(w.log, key, leaf[:]); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return nil
	}
	w.dirty = true
	return addToCell(w.cells, cellBodies, n)
}

// replaceEntry puts another value under a key of the log.
func replaceEntry(log *bolt.Bucket, key, value []byte) error {
	if err := log.Delete(key); err != nil {
		return fmt.Errorf("replace entry: %w", err)
	}
	if err := log.Put(key, value); err != nil {
		return fmt.Errorf("replace entry: %w", err)
	}
	return nil
}

// addToCell adds to a cell that holds a number.
func addToCell(cells *bolt.Bucket, key string, n uint64) error {
	before, _ := parseU64(cells.Get([]byte(key)))
	if err := cells.Put([]byte(key), u64(before+n)); err != nil {
		return fmt.Errorf("set cell %s: %w", key, err)
	}
	return nil
}
