package audit

import (
	"bytes"
	"math/rand/v2"
	"slices"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A forgery is a log taken apart by someone who can write the file.
type forgery struct {
	rng     *rand.Rand
	entries [][]byte
	notes   map[uint64][]byte
}

// entry is the first entry's number that a random edit is to hit.
func (f *forgery) entry() int { return f.rng.IntN(len(f.entries) - 1) }

// alter changes a byte of the payload.
func (f *forgery) alter(n int) {
	r, err := parseRecord(f.entries[n])
	if err != nil {
		panic(err) // unreachable unless the log was bad before
	}
	f.entries[n] = bytes.Clone(f.entries[n])
	at := len(f.entries[n]) - 1 - f.rng.IntN(len(r.data))
	f.entries[n][at] ^= byte(1 + f.rng.IntN(255))
}

// rebuild writes the forgery with every derived thing made consistent: numbers,
// leaf hashes, tree, index and heads. Only signatures are out of reach.
func (f *forgery) rebuild(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketLog, bucketIndex, bucketCheckpoints} {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	for size, n := range f.notes {
		if err := tx.Bucket(bucketCheckpoints).Put(u64(size), n); err != nil {
			return err
		}
	}
	var tr tree
	heads := map[string]uint64{}
	for n, b := range f.entries {
		r, err := decodeRecord(b)
		if err != nil {
			return err
		}
		r.Seq, r.Index = uint64(n), heads[r.Stream]
		heads[r.Stream]++
		b = plain(&r)
		leaf := tlog.RecordHash(b)
		tr.add(leaf)
		if err := tx.Bucket(bucketLog).Put(u64(r.Seq), append(leaf[:], b...)); err != nil {
			return err
		}
		if err := tx.Bucket(bucketIndex).Put(appendIndexKey(nil, r.Stream, r.Index), u64(r.Seq)); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketLog).Put(keyTree, tr.encode())
}

// resign replaces the checkpoints by ones that fit, signed with another key.
func (f *forgery) resign(s note.Signer) {
	var tr tree
	for n, b := range f.entries {
		tr.add(tlog.RecordHash(b))
		if f.notes[uint64(n+1)] != nil {
			f.notes[uint64(n+1)] = mustSign(&tr, s)
		}
	}
}

// mustSign signs a checkpoint.
func mustSign(tr *tree, s note.Signer) []byte {
	b, err := signCheckpoint(tr, s)
	if err != nil {
		panic(err) // unreachable unless the signer is broken
	}
	return b
}

// cutNotes removes checkpoints over more entries than there are.
func (f *forgery) cutNotes() {
	for size := range f.notes {
		if size > uint64(len(f.entries)) {
			delete(f.notes, size)
		}
	}
}

// A tampering is one way to attack, and what must be said of it.
type tampering struct {
	name string
	// plain edits single cells, as a clumsy hand would; it returns the entry
	// that must be named.
	plain func(f *forgery, tx *bolt.Tx) (int, error)
	// forge edits the log; everything derived is then made consistent. It
	// returns an entry that the named range must contain.
	forge func(f *forgery) int
	// external reports that only the exported checkpoint can show it.
	external bool
}

// swapValues exchanges the values of two entries.
func swapValues(f *forgery, tx *bolt.Tx, a, b int) error {
	log := tx.Bucket(bucketLog)
	first, second := bytes.Clone(log.Get(u64(uint64(a)))), bytes.Clone(log.Get(u64(uint64(b))))
	if err := log.Put(u64(uint64(a)), second); err != nil {
		return err
	}
	return log.Put(u64(uint64(b)), first)
}

// putRecord replaces an entry's record and leaves its leaf hash.
func putRecord(tx *bolt.Tx, n int, record []byte) error {
	log, key := tx.Bucket(bucketLog), u64(uint64(n))
	return log.Put(key, append(bytes.Clone(log.Get(key)[:tlog.HashSize]), record...))
}

// plainTamperings lists tamperings of single cells. It is one long list and
// nothing else.
func plainTamperings() []tampering {
	return []tampering{
		{name: "edit", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			f.alter(n)
			return n, putRecord(tx, n, f.entries[n])
		}},
		{name: "edit any byte", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			b := bytes.Clone(f.entries[n])
			b[f.rng.IntN(len(b))] ^= byte(1 + f.rng.IntN(255))
			return n, putRecord(tx, n, b)
		}},
		{name: "delete", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			return n, tx.Bucket(bucketLog).Delete(u64(uint64(n)))
		}},
		{name: "swap", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			a := f.entry()
			return a, swapValues(f, tx, a, a+1+f.rng.IntN(len(f.entries)-a-1))
		}},
		{name: "insert after the end", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := len(f.entries)
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), tx.Bucket(bucketLog).Get(u64(uint64(n-1))))
		}},
		{name: "truncate", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			for i := n; i < len(f.entries); i++ {
				if err := tx.Bucket(bucketLog).Delete(u64(uint64(i))); err != nil {
					return n, err
				}
			}
			return n, nil
		}},
		{name: "leaf hash", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			b := bytes.Clone(tx.Bucket(bucketLog).Get(u64(uint64(n))))
			b[f.rng.IntN(tlog.HashSize)] ^= 1
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), b)
		}},
		{name: "leaf hash removed", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), f.entries[n])
		}},
		{name: "entry emptied", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), nil)
		}},
		{name: "index entry removed", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			r, err := parseRecord(f.entries[n])
			if err != nil {
				return n, err
			}
			return n, tx.Bucket(bucketIndex).Delete(appendIndexKey(nil, string(r.stream), r.index))
		}},
		{name: "index entry redirected", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			r, err := parseRecord(f.entries[n])
			if err != nil {
				return n, err
			}
			return n, tx.Bucket(bucketIndex).Put(appendIndexKey(nil, string(r.stream), r.index), u64(uint64(n+1)))
		}},
		{name: "index entry added", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			return n, tx.Bucket(bucketIndex).Put(appendIndexKey(nil, "run/9", 0), u64(uint64(n)))
		}},
	}
}

// forgedTamperings lists tamperings by someone who knows how the log works but lacks the key.
func forgedTamperings(other note.Signer) []tampering {
	return []tampering{
		{name: "edit", forge: func(f *forgery) int {
			n := f.entry()
			f.alter(n)
			return n
		}},
		{name: "delete", forge: func(f *forgery) int {
			n := f.entry()
			f.entries = slices.Delete(f.entries, n, n+1)
			return n
		}},
		{name: "insert", forge: func(f *forgery) int {
			n := f.entry()
			f.entries = slices.Insert(f.entries, n, f.entries[f.entry()])
			return n
		}},
		{name: "swap", forge: func(f *forgery) int {
			n := f.entry()
			f.entries[n], f.entries[n+1] = f.entries[n+1], f.entries[n]
			return n
		}},
		{name: "truncate", forge: func(f *forgery) int {
			n := f.entry()
			f.entries = f.entries[:n]
			return n
		}},
		{name: "re-sign with another key", forge: func(f *forgery) int {
			f.alter(0)
			f.resign(other)
			return 0
		}},
		{name: "one checkpoint of another key", forge: func(f *forgery) int {
			var tr tree
			for _, b := range f.entries[:2*tamperEvery] {
				tr.add(tlog.RecordHash(b))
			}
			f.notes[2*tamperEvery] = mustSign(&tr, other)
			return 2*tamperEvery - 1
		}},
		{name: "checkpoint moved", forge: func(f *forgery) int {
			f.notes[tamperEvery+1] = f.notes[tamperEvery]
			return tamperEvery
		}},
		{name: "truncate and remove checkpoints", external: true, forge: func(f *forgery) int {
			n := f.entry()
			f.entries = f.entries[:n]
			f.cutNotes()
			return n
		}},
		{name: "edit and remove all checkpoints", external: true, forge: func(f *forgery) int {
			n := f.entry()
			f.alter(n)
			clear(f.notes)
			return n
		}},
	}
}
