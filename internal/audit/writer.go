package audit

import (
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"
)

// A writer fills one transaction. It works on copies of the journal's state,
// so that a transaction that fails leaves no trace.
type writer struct {
	j   *Journal
	now time.Time

	log, index, checkpoints, cells *bolt.Bucket

	tree   tree
	heads  map[string]uint64 // heads this transaction has moved
	signed uint64            // size of the last checkpoint
	kept   *signedTree       // the last checkpoint of this transaction; nil: none
	dirty  bool              // there is something to commit
	key    []byte            // scratch
}

func newWriter(j *Journal, tx *bolt.Tx, now time.Time) *writer {
	w := &writer{
		j:           j,
		now:         now.UTC().Round(0),
		log:         tx.Bucket(bucketLog),
		index:       tx.Bucket(bucketIndex),
		checkpoints: tx.Bucket(bucketCheckpoints),
		cells:       tx.Bucket(bucketCells),
		tree:        j.committed.Load().clone(),
		heads:       make(map[string]uint64),
		signed:      j.signed,
	}
	// Keys of these only ever grow: fill their pages.
	w.log.FillPercent, w.checkpoints.FillPercent = 1, 1
	j.arena = j.arena[:0]
	return w
}

// apply writes every request that does not conflict, then what they share.
func (w *writer) apply(live []*request) error {
	signNow := false
	for _, r := range live {
		switch {
		case r.cell != nil:
			if err := w.set(r.cell); err != nil {
				return err
			}
		case r.drop != nil:
			if r.err = w.mayDrop(r.drop); r.err != nil {
				continue
			}
			if err := w.drop(r.drop); err != nil {
				return err
			}
		case r.sign:
			signNow = true
		default:
			if r.err = w.check(r.batch); r.err != nil {
				continue
			}
			if err := w.append(r); err != nil {
				return err
			}
			if r.redact == nil {
				continue
			}
			if err := w.redact(r.redact); err != nil {
				return err
			}
		}
	}
	if signNow && w.tree.size > w.signed {
		if err := w.sign(); err != nil {
			return err
		}
	}
	return w.flush()
}

// set writes a cell.
func (w *writer) set(c *cell) error {
	w.dirty = true
	if c.value == nil {
		return w.cells.Delete([]byte(c.key))
	}
	return w.cells.Put([]byte(c.key), c.value)
}

// check compares the heads that the batch names with those it would find. Nothing
// is written yet, so that a conflict does not affect other batches.
func (w *writer) check(batch []Append) error {
	var ahead map[string]uint64 // records of this batch, per stream, so far
	for i, a := range batch {
		head, err := w.head(a.Stream)
		if err != nil {
			return err
		}
		head += ahead[a.Stream]
		if a.After != Any && a.After != head {
			return &conflictError{Stream: a.Stream, Expected: a.After, Actual: head}
		}
		if i < len(batch)-1 {
			if ahead == nil {
				ahead = make(map[string]uint64)
			}
			ahead[a.Stream] += uint64(len(a.Records))
		}
	}
	return nil
}

// head returns the stream's head after what this transaction wrote.
func (w *writer) head(stream string) (uint64, error) {
	if head, ok := w.heads[stream]; ok {
		return head, nil
	}
	return storedHead(w.index, stream, w.j.path)
}

// storedHead finds a stream's head: the index after the last under its name.
func storedHead(index *bolt.Bucket, stream, path string) (uint64, error) {
	cur := index.Cursor()
	k, _ := cur.Seek(afterStream(stream))
	if k == nil {
		k, _ = cur.Last()
	} else {
		k, _ = cur.Prev()
	}
	if k == nil {
		return 0, nil
	}
	name, last, ok := splitIndexKey(k)
	if !ok {
		return 0, corrupt(path, "the index has a key that does not parse: %x", k)
	}
	if string(name) != stream {
		return 0, nil
	}
	return last + 1, nil
}

// append writes the request's records.
func (w *writer) append(r *request) error {
	w.dirty = true
	r.out = make([]Record, 0, r.records)
	for _, a := range r.batch {
		head, err := w.head(a.Stream)
		if err != nil {
			return err
		}
		for _, rec := range a.Records {
			rec.Seq, rec.Stream, rec.Index = w.tree.size, a.Stream, head
			if rec.Time.IsZero() {
				rec.Time = w.now
			} else {
				rec.Time = rec.Time.UTC().Round(0)
			}
			if err := w.put(&rec, r.packed[len(r.out)]); err != nil {
				return err
			}
			r.out = append(r.out, rec)
			head++
		}
		w.heads[a.Stream] = head
	}
	if w.tree.size-w.signed >= uint64(w.j.o.CheckpointEvery) {
		return w.sign()
	}
	return nil
}

// put writes one record with its leaf hash before it, and its index entry.
func (w *writer) put(rec *Record, packed []byte) error {
	from := len(w.j.arena)
	w.j.arena = appendRecord(append(w.j.arena, make([]byte, tlog.HashSize)...), rec, packed)
	b := w.j.arena[from:len(w.j.arena):len(w.j.arena)]
	leaf := tlog.RecordHash(b[tlog.HashSize:])
	copy(b, leaf[:])
	seq := u64(rec.Seq)
	if err := w.log.Put(seq, b); err != nil {
		return fmt.Errorf("put record: %w", err)
	}
	w.key = appendIndexKey(w.key[:0], rec.Stream, rec.Index)
	if err := w.index.Put(w.key, seq); err != nil {
		return fmt.Errorf("put index: %w", err)
	}
	w.tree.add(leaf)
	return nil
}

// sign stores a checkpoint over the tree as it is now.
func (w *writer) sign() error {
	b, err := signCheckpoint(&w.tree, w.j.keys.signer)
	if err != nil {
		return err
	}
	if err := w.checkpoints.Put(u64(w.tree.size), b); err != nil {
		return fmt.Errorf("put checkpoint: %w", err)
	}
	w.signed, w.kept = w.tree.size, &signedTree{w.tree.clone(), b}
	w.dirty = true
	return nil
}

// flush writes once what the requests have in common.
func (w *writer) flush() error {
	if len(w.heads) == 0 {
		return nil
	}
	if err := w.log.Put(keyTree, w.tree.encode()); err != nil {
		return fmt.Errorf("put tree: %w", err)
	}
	return nil
}
