package audit

import (
	"bytes"
	"context"
	"errors"
	"slices"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A stored checkpoint is the entry of the checkpoints bucket for one tree size.
type stored struct {
	checkpoint
	bad error // why it counts for nothing
}

// checkpoints reads the bucket in the order of tree sizes.
type checkpoints struct {
	cur  *bolt.Cursor
	key  note.Verifier
	next *stored // nil at the end
	odd  bool    // the last key was no size: there is no next
}

func openCheckpoints(tx *bolt.Tx, key note.Verifier) *checkpoints {
	c := &checkpoints{cur: tx.Bucket(bucketCheckpoints).Cursor(), key: key}
	c.read(c.cur.First())
	return c
}

// advance moves to the next checkpoint.
func (c *checkpoints) advance() { c.read(c.cur.Next()) }

func (c *checkpoints) read(k, v []byte) {
	c.next = nil
	if k == nil {
		return
	}
	size, ok := parseU64(k)
	if !ok {
		c.odd = true
		return
	}
	cp, err := openCheckpoint(v, c.key)
	c.next = &stored{checkpoint: cp, bad: err}
	if err == nil && cp.size != size {
		c.next.bad = errWrongPlace
	}
	c.next.size = size
}

// A growth is the tree rebuilt so far and the checkpoints that prove it.
type growth struct {
	v           *verifier
	tree        tree
	checkpoints *checkpoints
	signed      uint64 // size of the last good checkpoint
}

// grow rebuilds the tree from the spans and compares it with the checkpoints.
func (v *verifier) grow(ctx context.Context, inOrder <-chan *span) (bad *Finding, err error) {
	err = v.view(func(tx *bolt.Tx) error {
		g := &growth{v: v, checkpoints: openCheckpoints(tx, v.key)}
		for s := range inOrder {
			if err := ctx.Err(); err != nil {
				return err // select would choose at random if the span is checked, too
			}
			select {
			case <-s.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			for _, leaf := range s.leaves {
				if bad = g.add(leaf); bad != nil {
					return nil
				}
			}
			for _, seq := range s.absent {
				v.absent.add(seq)
			}
			v.report.Archived += uint64(len(s.absent))
			v.report.Redacted = append(v.report.Redacted, s.redacted...)
			if s.bad != nil || s.err != nil {
				bad = s.bad
				return s.err
			}
			if v.o.Progress != nil {
				v.o.Progress(g.tree.size, v.meta.tree.size)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		bad = g.finish()
		return nil
	})
	return bad, err
}

// add grows the tree by a leaf and checks the checkpoints of its new size.
func (g *growth) add(leaf tlog.Hash) *Finding {
	g.tree.add(leaf)
	for c := g.checkpoints; c.next != nil && c.next.size <= g.tree.size; c.advance() {
		if bad := g.compare(c.next); bad != nil {
			return bad
		}
	}
	if ext := g.v.external; ext != nil && ext.size == g.tree.size && ext.root != g.tree.root() {
		return between(0, ext.size, "forked: %s over %d entries has another root; "+
			"the log was rolled back and continued, or rewritten", g.v.given, ext.size)
	}
	return nil
}

// compare checks a stored checkpoint against the tree of its size.
func (g *growth) compare(c *stored) *Finding {
	switch {
	case c.bad != nil:
		return between(g.signed, c.size, "their checkpoint over %d entries is not valid: %v", c.size, c.bad)
	case c.size-g.signed >= maxCheckpointEvery+MaxBatch:
		return between(g.signed, c.size, "not signed: checkpoints between %d and %d were removed", g.signed, c.size)
	case c.root != g.tree.root():
		return between(g.signed, c.size, "rewritten: they are consistent, but not those that the checkpoint over %d entries was signed for", c.size)
	}
	g.signed = c.size
	g.v.report.Checkpoints++
	return nil
}

// finish checks what can only be checked at the end of the walk.
func (g *growth) finish() *Finding {
	r, size := &g.v.report, g.tree.size
	r.Entries, r.Signed, r.Unsigned, r.Root = size, g.signed, size-g.signed, g.tree.root().String()
	r.Segments = uint64(len(g.v.archive.sealed))
	switch c := g.checkpoints; {
	case c.next != nil && c.next.bad != nil:
		return between(g.signed, c.next.size, "a checkpoint over %d entries is not valid: %v", c.next.size, c.next.bad)
	case c.next != nil:
		return between(g.signed, c.next.size, "missing in part: a checkpoint is over %d entries, the log has only %d", c.next.size, size)
	case c.odd:
		return between(g.signed, size, "a checkpoint has a key that is no tree size")
	case r.Unsigned >= maxCheckpointEvery:
		return between(g.signed, size, "not signed: checkpoints after %d entries were removed", g.signed)
	case !slices.Equal(g.tree.peaks, g.v.meta.tree.peaks):
		return between(g.signed, size, "the stored subtree hashes are not those of the entries")
	}
	return nil
}

// ends checks that nothing lies beyond the last entry.
func (v *verifier) ends(context.Context) (bad *Finding, err error) {
	size := v.report.Entries
	err = v.view(func(tx *bolt.Tx) error {
		if end, ok := logEnd(tx); !ok || end != size {
			bad = at(size, "inserted: there are entries after the %d that the log counts", size)
		}
		return nil
	})
	return bad, err
}

// indexes checks that the streams partition the log: the walk found every
// entry that has a body under its own index, so it is enough that there are no others,
// that each entry without one has a single place, and that indexes have no gaps.
func (v *verifier) indexes(ctx context.Context) (bad *Finding, err error) {
	err = v.view(func(tx *bolt.Tx) error {
		p := &partition{size: v.report.Entries, archive: v.archive, absent: v.absent}
		cur := tx.Bucket(bucketIndex).Cursor()
		for k, b := cur.First(); k != nil && bad == nil; k, b = cur.Next() {
			if p.entries++; p.entries%spanSize == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			bad = p.add(k, b)
		}
		if bad == nil {
			bad = p.finish(tx)
		}
		v.report.Streams = p.streams
		return nil
	})
	return bad, err
}

// A partition is the progress of the pass over the index.
type partition struct {
	size    uint64 // of the log
	archive *archive
	absent  entrySet // entries without a body
	placed  entrySet // those of them that the index has named

	stream           []byte // the current one
	next, last       uint64 // its next index, its last seq
	streams, entries uint64
}

// add takes the next key of the index.
func (p *partition) add(k, b []byte) *Finding {
	stream, index, ok := splitIndexKey(k)
	seq, ok2 := parseU64(b)
	if !ok || !ok2 {
		return at(p.size, "the index has a key or value that does not parse: %x", k)
	}
	if !bytes.Equal(stream, p.stream) {
		p.stream, p.next = append(p.stream[:0], stream...), 0
		p.streams++
	}
	switch {
	case index != p.next:
		return p.found(seq, "stream %s has no record %d, but record %d", stream, p.next, index)
	case seq >= p.size:
		return p.found(seq, "missing: record %d of stream %s, beyond the end of the log", index, stream)
	case index > 0 && seq <= p.last:
		return p.found(seq, "reordered: record %d of stream %s comes before record %d", index, stream, index-1)
	}
	p.next, p.last = index+1, seq
	if !p.absent.has(seq) {
		return nil
	}
	if p.placed.has(seq) {
		return p.found(seq, "the index has it as record %d of stream %s as well", index, stream)
	}
	p.placed.add(seq)
	if errors.Is(p.archive.absentFrom(seq, string(stream)), errNoBody) {
		return p.found(seq, "removed: its body is missing, and by the log bodies of stream %s stay", stream)
	}
	return nil
}

// finish compares totals. Only if the index has too many keys is each of them
// compared with the entry it names.
func (p *partition) finish(tx *bolt.Tx) *Finding {
	if p.entries == p.size {
		return nil
	}
	log, cur := tx.Bucket(bucketLog), tx.Bucket(bucketIndex).Cursor()
	for k, b := cur.First(); k != nil; k, b = cur.Next() {
		seq, _ := parseU64(b)
		_, record, _ := splitEntry(log.Get(b))
		if len(record) == 0 {
			continue
		}
		raw, err := parseRecord(record)
		if err != nil || !bytes.Equal(appendIndexKey(nil, string(raw.stream), raw.index), k) {
			stream, index, _ := splitIndexKey(k)
			return at(seq, "the index has it as record %d of stream %s as well", index, stream)
		}
	}
	return at(p.size, "the index has %d records, the log %d", p.entries, p.size)
}

// found returns a finding about the current stream.
func (p *partition) found(seq uint64, format string, args ...any) *Finding {
	f := at(seq, format, args...)
	f.Stream = string(p.stream)
	return f
}

// An entrySet is a set of entries: a bit for each.
type entrySet []uint64

func (s *entrySet) add(seq uint64) {
	for uint64(len(*s)) <= seq/64 {
		*s = append(*s, 0)
	}
	(*s)[seq/64] |= 1 << (seq % 64)
}

func (s entrySet) has(seq uint64) bool {
	return seq/64 < uint64(len(s)) && s[seq/64]&(1<<(seq%64)) != 0
}
