package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/mod/sumdb/tlog"
)

// Iterators read in chunks, each in a transaction of its own. So a slow loop holds
// up nobody, and its body may append.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

// A chunk is the result of one read transaction.
type chunk struct {
	records []Record
	errs    []error // of each record: nil, or that it is archived
	bytes   int
	more    bool
}

// empty prepares the chunk for the next transaction and drops its records.
func (c *chunk) empty() {
	clear(c.records)
	c.records, c.errs, c.bytes, c.more = c.records[:0], c.errs[:0], 0, false
}

// full adds a record, or why there is only its place, and reports whether the chunk
// has enough.
func (c *chunk) full(r Record, err error) bool {
	c.records, c.errs = append(c.records, r), append(c.errs, err)
	c.bytes += len(r.Data)
	return len(c.records) >= chunkRecords || c.bytes >= chunkBytes
}

// Stream returns the records of one stream from an index on, as far as the log
// reaches when the iteration starts. It ends at the first error, which is
// ErrArchived where the body of a record has left the file.
func (j *Journal) Stream(name string, from uint64) iter.Seq2[Record, error] {
	return j.inChunks(from, func(tx *bolt.Tx, from, limit uint64, c *chunk) error {
		return j.readStream(tx, name, from, limit, c)
	})
}

// Log returns all records from a seq on, as far as the log reaches when the
// iteration starts. It ends at the first error, save ErrArchived: that is about one
// entry, of which only Seq is known, and the loop may go on.
//
// A reader that needs some streams names them, or what their names begin with. The
// records of all others come without Data, since unpacking notifications is most of
// what reading the log costs.
func (j *Journal) Log(from uint64, streams ...string) iter.Seq2[Record, error] {
	return j.inChunks(from, func(tx *bolt.Tx, from, limit uint64, c *chunk) error {
		return j.readLog(tx, from, limit, streams, c)
	})
}

// inChunks iterates over the chunks that read delivers from a position on.
func (j *Journal) inChunks(from uint64, read func(tx *bolt.Tx, from, limit uint64, c *chunk) error) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		limit := j.Size()
		c, _ := j.chunks.Get().(*chunk)
		if c == nil {
			c = new(chunk)
		}
		defer func() {
			c.empty()
			j.chunks.Put(c)
		}()
		for next, more := from, true; more; {
			c.empty()
			err := j.view(func(tx *bolt.Tx) error { return read(tx, next, limit, c) })
			for i, r := range c.records {
				if !yield(r, c.errs[i]) {
					return
				}
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			next += uint64(len(c.records))
			more = c.more
		}
	}
}

// readStream reads a stream's records with seq below limit.
func (j *Journal) readStream(tx *bolt.Tx, name string, from, limit uint64, c *chunk) error {
	log, cur := tx.Bucket(bucketLog).Cursor(), tx.Bucket(bucketIndex).Cursor()
	next := from
	for k, v := cur.Seek(appendIndexKey(nil, name, from)); k != nil; k, v = cur.Next() {
		stream, index, ok := splitIndexKey(k)
		if !ok || string(stream) != name {
			return nil
		}
		seq, ok := parseU64(v)
		if !ok || index != next {
			return corrupt(j.path, "stream %q lacks record %d", name, next)
		}
		if seq >= limit {
			return nil
		}
		at, entry := log.Seek(v)
		if !bytes.Equal(at, v) {
			entry = nil
		}
		raw, err := intactEntry(seq, entry)
		if errors.Is(err, errNoBody) {
			err = j.archive.Load().absentFrom(seq, name)
		}
		if errors.Is(err, ErrArchived) {
			return fmt.Errorf("record %d of stream %q: %w", index, name, err)
		}
		if err != nil {
			return corrupt(j.path, "entry %d, record %d of stream %q: %v", seq, index, name, err)
		}
		if string(raw.stream) != name || raw.index != index {
			return corrupt(j.path, "entry %d is not record %d of stream %q", seq, index, name)
		}
		r, err := raw.record(name)
		if err != nil {
			return corrupt(j.path, "entry %d, record %d of stream %q: %v", seq, index, name, err)
		}
		next++
		if c.full(r, nil) {
			c.more = true
			return nil
		}
	}
	return nil
}

// readLog reads the records from seq from up to limit.
func (j *Journal) readLog(tx *bolt.Tx, from, limit uint64, streams []string, c *chunk) error {
	if from >= limit {
		return nil
	}
	next := from
	cur := tx.Bucket(bucketLog).Cursor()
	for k, v := cur.Seek(u64(from)); next < limit; k, v = cur.Next() {
		if seq, ok := parseU64(k); !ok || seq != next {
			return corrupt(j.path, "entry %d is missing", next)
		}
		r, err := decodeEntry(next, v, streams)
		if errors.Is(err, errNoBody) {
			r, err = Record{Seq: next}, j.archive.Load().absent(next)
		}
		if err != nil && !errors.Is(err, ErrArchived) {
			return corrupt(j.path, "entry %d: %v", next, err)
		}
		next++
		if c.full(r, err) {
			c.more = next < limit
			return nil
		}
	}
	return nil
}

// splitEntry takes a value of the log apart: the leaf hash and the record.
func splitEntry(b []byte) (leaf tlog.Hash, record []byte, ok bool) {
	if len(b) < tlog.HashSize {
		return leaf, nil, false
	}
	return tlog.Hash(b[:tlog.HashSize]), b[tlog.HashSize:], true
}

// intactEntry takes apart an entry that is to be acted on. bbolt has no
// checksums: a bit that rotted in a payload is found here or never. The error is
// errNoBody when there is only the hash: the archive says whether that is right.
func intactEntry(seq uint64, b []byte) (rawRecord, error) {
	leaf, b, ok := splitEntry(b)
	if !ok {
		return rawRecord{}, errNotLeaf
	}
	if len(b) == 0 {
		return rawRecord{}, errNoBody
	}
	raw, err := parseRecord(b)
	if err != nil {
		return rawRecord{}, err
	}
	if hash, err := leafHash(raw, b); err != nil || raw.seq != seq || hash != leaf {
		return rawRecord{}, errNotLeaf
	}
	return raw, nil
}

// decodeEntry is intactEntry with a copy, without the data unless one of these begins
// the name of its stream, or there are none.
func decodeEntry(seq uint64, b []byte, streams []string) (Record, error) {
	raw, err := intactEntry(seq, b)
	if err != nil {
		return Record{}, err
	}
	name := string(raw.stream)
	if len(streams) > 0 && !slices.ContainsFunc(streams, func(s string) bool { return strings.HasPrefix(name, s) }) {
		raw.data, raw.packed = nil, false
	}
	return raw.record(name)
}

var errNotLeaf = errors.New("it does not match its leaf hash")

// Head returns the number of records in a stream: the After of an append that
// depends on all of them.
func (j *Journal) Head(stream string) (head uint64, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		head, err = storedHead(tx.Bucket(bucketIndex), stream, j.path)
		return err
	})
	return head, err
}

// Since returns the index of the first record of a stream that is not older than
// t, or of the last record; 0 when the stream is empty. It takes the records to be
// in the order of their times, and archived ones to be older: where the clock was set
// back it may return a later one.
func (j *Journal) Since(stream string, t time.Time) (uint64, error) {
	head, err := j.Head(stream)
	if err != nil || head == 0 {
		return 0, err
	}
	i := sort.Search(int(head-1), func(i int) bool {
		for rec, failed := range j.Stream(stream, uint64(i)) {
			if errors.Is(failed, ErrArchived) {
				return false
			}
			err = cmp.Or(err, failed)
			return !rec.Time.Before(t)
		}
		return true
	})
	return uint64(i), err
}

// Streams returns the streams whose name begins with prefix, in the order of
// their names.
func (j *Journal) Streams(prefix string) iter.Seq2[StreamInfo, error] {
	return func(yield func(StreamInfo, error) bool) {
		for next, more := []byte(prefix), true; more; {
			infos, err := j.readStreams(next, []byte(prefix))
			for _, info := range infos {
				if !yield(info, nil) {
					return
				}
			}
			if err != nil {
				yield(StreamInfo{}, err)
				return
			}
			if more = len(infos) == chunkRecords; more {
				next = afterStream(infos[len(infos)-1].Name)
			}
		}
	}
}

// readStreams reads one chunk of stream names from the index, a seek for each.
func (j *Journal) readStreams(from, prefix []byte) (infos []StreamInfo, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		cur := tx.Bucket(bucketIndex).Cursor()
		for k, _ := cur.Seek(from); k != nil && bytes.HasPrefix(k, prefix) && len(infos) < chunkRecords; {
			name, _, ok := splitIndexKey(k)
			if !ok {
				return corrupt(j.path, "the index has a key that does not parse: %x", k)
			}
			info := StreamInfo{Name: string(name)}
			if info.Head, err = storedHead(tx.Bucket(bucketIndex), info.Name, j.path); err != nil {
				return err
			}
			infos = append(infos, info)
			k, _ = cur.Seek(afterStream(info.Name))
		}
		return nil
	})
	return infos, err
}

// afterStream is a key between a stream's last in the index and the next
// stream's first: no name has a control character.
func afterStream(name string) []byte { return append([]byte(name), 1) }

// Meta returns a cell's value, nil if it is not set.
func (j *Journal) Meta(key string) (v []byte, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		v = bytes.Clone(tx.Bucket(bucketCells).Get([]byte(key)))
		return nil
	})
	return v, err
}

// MetaKeys lists the cells whose key begins with a prefix, in order.
func (j *Journal) MetaKeys(prefix string) (keys []string, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketCells).Cursor()
		for k, _ := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, _ = c.Next() {
			keys = append(keys, string(k))
		}
		return nil
	})
	return keys, err
}

// Snapshot writes a consistent copy of the file, signed to its last entry if
// the journal can still write. Appends go on meanwhile.
func (j *Journal) Snapshot(w io.Writer) error {
	if err := j.sign(); err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull) {
		return fmt.Errorf("snapshot: %w", err)
	}
	return j.view(func(tx *bolt.Tx) error {
		if _, err := tx.WriteTo(w); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		return nil
	})
}

// view runs a read transaction.
func (j *Journal) view(fn func(tx *bolt.Tx) error) error {
	err := j.db.View(fn)
	switch {
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("read journal: %w", ErrClosed)
	case j.copy:
		return err
	default:
		return advised(err)
	}
}
