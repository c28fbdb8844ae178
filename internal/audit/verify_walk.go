package audit

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// spanSize is how many entries one worker checks at a time.
const spanSize = 2048

// A span is a run of entries on its way from a worker, which hashes them, to
// the walk, which grows the tree in order.
type span struct {
	first, end uint64
	leaves     []tlog.Hash // of the entries before bad, or of all
	absent     []uint64    // entries whose bodies are archived
	redacted   []Redaction // of entries that were
	key        note.Verifier
	bad        *Finding
	err        error
	done       chan struct{}
}

// walk checks every entry and, where there is one, the checkpoint after it.
func (v *verifier) walk(ctx context.Context) (*Finding, error) {
	ctx, cancel := context.WithCancel(ctx)
	todo := make(chan *span)
	inOrder := make(chan *span, 4*v.workers)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { v.split(ctx, todo, inOrder) })
	for range v.workers {
		group.Go(func() { v.work(ctx, todo) })
	}
	return v.grow(ctx, inOrder)
}

// split sends the spans to the workers and, in order, to the walk.
func (v *verifier) split(ctx context.Context, todo, inOrder chan<- *span) {
	defer close(inOrder)
	defer close(todo)
	for first, size := uint64(0), v.meta.tree.size; first < size; first += spanSize {
		s := &span{first: first, end: min(first+spanSize, size), key: v.key, done: make(chan struct{})}
		for _, c := range []chan<- *span{inOrder, todo} {
			select {
			case c <- s:
			case <-ctx.Done():
				return
			}
		}
	}
}

// work checks spans in a transaction of its own.
func (v *verifier) work(ctx context.Context, todo <-chan *span) {
	for s := range todo {
		s.bad, s.err = guard(s.reached, func() (*Finding, error) {
			var bad *Finding
			err := v.view(func(tx *bolt.Tx) error {
				bad = s.check(ctx, tx, v.archive)
				return ctx.Err()
			})
			return bad, err
		})
		close(s.done)
	}
}

// reached returns the entry that the check of the span has reached.
func (s *span) reached() uint64 { return s.first + uint64(len(s.leaves)) }

// guard turns a panic of bbolt on a damaged page, or a fault of reading it,
// into a finding about the entry that reached names.
func guard(reached func() uint64, fn func() (*Finding, error)) (bad *Finding, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			bad, err = at(reached(), "a page of the file is damaged: %v", p), nil
		}
	}()
	return fn()
}

// check examines the span's entries until the first bad one.
func (s *span) check(ctx context.Context, tx *bolt.Tx, archive *archive) *Finding {
	index := tx.Bucket(bucketIndex)
	cur := tx.Bucket(bucketLog).Cursor()
	s.leaves = make([]tlog.Hash, 0, s.end-s.first)
	var key []byte
	k, v := cur.Seek(u64(s.first))
	for seq := s.first; seq < s.end; seq++ {
		if seq%64 == 0 && ctx.Err() != nil {
			return nil
		}
		if n, ok := parseU64(k); !ok || n != seq {
			return missing(index, seq, k)
		}
		want, b, ok := splitEntry(v)
		if !ok {
			return at(seq, "its leaf hash is missing")
		}
		if len(b) == 0 {
			if _, ok := archive.has(seq); !ok {
				return at(seq, "removed: %v", errNoBody)
			}
			s.leaves, s.absent = append(s.leaves, want), append(s.absent, seq)
			k, v = cur.Next()
			continue
		}
		raw, bad := s.intact(seq, want, b)
		if bad != nil {
			return bad
		}
		key = appendIndexKey(key[:0], string(raw.stream), raw.index)
		if n, ok := parseU64(index.Get(key)); !ok {
			return raw.found(seq, "the index of its stream lacks it as record %d", raw.index)
		} else if n != seq {
			return raw.found(seq, "the index of its stream has entry %d as record %d", n, raw.index)
		}
		s.leaves = append(s.leaves, want)
		k, v = cur.Next()
	}
	return nil
}

// intact checks a record against its leaf hash, and the statement of one that was redacted
// against the key.
func (s *span) intact(seq uint64, leaf tlog.Hash, b []byte) (raw rawRecord, bad *Finding) {
	raw, err := parseRecord(b)
	switch {
	case err != nil:
		return raw, at(seq, "edited: %v", err)
	case raw.seq != seq:
		return raw, raw.found(seq, "reordered: entry %d is stored in its place", raw.seq)
	}
	hash, err := leafHash(raw, b)
	switch {
	case err != nil:
		return raw, raw.found(seq, "edited: %v", err)
	case hash != leaf:
		return raw, raw.found(seq, "edited: it does not match its leaf hash")
	case raw.note == nil:
		return raw, nil
	}
	r, err := redaction(raw, s.key)
	if err != nil {
		return raw, raw.found(seq, "edited: %v", err)
	}
	s.redacted = append(s.redacted, r)
	return raw, nil
}

// found returns a finding about the entry at seq that names what is stored there.
func (r rawRecord) found(seq uint64, format string, args ...any) *Finding {
	f := at(seq, format, args...)
	f.Stream, f.Kind, f.Time = string(r.stream), string(r.kind), time.Unix(0, r.nanos).UTC()
	return f
}

// missing returns a finding about an entry that is not there. The index may still
// name its stream.
func missing(index *bolt.Bucket, seq uint64, next []byte) *Finding {
	f := at(seq, "missing: the log ends before it")
	if n, ok := parseU64(next); ok && !bytes.Equal(next, keyTree) {
		f.Problem = fmt.Sprintf("missing: the next entry is %d", n)
	} else if next != nil && !ok {
		f.Problem = fmt.Sprintf("a key of %d bytes stands where it should be", len(next))
	}
	cur, want := index.Cursor(), u64(seq)
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if stream, i, ok := splitIndexKey(k); ok && bytes.Equal(v, want) {
			f.Problem += fmt.Sprintf("; it was record %d of stream %s", i, stream)
			f.Stream = string(stream)
			break
		}
	}
	return f
}
