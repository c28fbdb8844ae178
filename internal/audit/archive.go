package audit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"
)

// The stream of the archive's records, and their kind.
const (
	StreamArchive = "archive"
	KindSealed    = "archive.sealed" // Sealed
)

// Sealed is the record of a segment: this stretch of the log is in the archive. It
// is written once the segment is on disk and was verified, and before any body of
// the stretch leaves the file.
type Sealed struct {
	Segment string   `json:"segment"` // name of its file
	First   uint64   `json:"first"`   // first entry
	End     uint64   `json:"end"`     // entry after the last
	Bytes   int64    `json:"bytes"`   // size of its file
	Digest  string   `json:"digest"`  // SHA-256 of its file, in hex
	Tree    string   `json:"tree"`    // the Merkle tree over the log up to End: where the next segment begins
	Streams []string `json:"streams"` // whose bodies may leave the file; one that ends in / means all below it
}

// lets reports whether bodies of a stream may leave the file.
func (s *Sealed) lets(stream string) bool {
	return slices.ContainsFunc(s.Streams, func(name string) bool {
		return stream == name || strings.HasSuffix(name, "/") && strings.HasPrefix(stream, name)
	})
}

// tree returns the Merkle tree over the log up to End.
func (s *Sealed) tree() (tree, error) {
	b, err := base64.StdEncoding.DecodeString(s.Tree)
	if err != nil {
		return tree{}, errTree
	}
	t, err := parseTree(b)
	if err == nil && t.size != s.End {
		err = errTree
	}
	return t, err
}

// ErrArchived means that the entry is part of the log and its body is in the
// archive. The error is an *ArchivedError.
var ErrArchived = errors.New("the entry is archived")

// An ArchivedError names the segment that has the body of an entry.
type ArchivedError struct{ Segment string }

// Error says where the body is, and how to read it.
func (e *ArchivedError) Error() string {
	return "archived in segment " + e.Segment
}

// Unwrap makes errors.Is(err, ErrArchived) hold.
func (e *ArchivedError) Unwrap() error { return ErrArchived }

// errNoBody: the body of an entry is gone, and no segment has it.
var errNoBody = errors.New("its body is missing, and by the log no segment of the archive has it")

// An archive is what the log says is in the archive: stretches that follow each
// other, the first beginning at entry 0.
type archive struct {
	sealed []Sealed
	errs   []*ArchivedError // of each
}

// add returns the archive with one more segment. Readers of a see no change. Only one
// caller may add to it.
func (a *archive) add(s Sealed) (*archive, error) {
	if s.First != a.end() || s.End <= s.First || s.Segment == "" {
		return nil, fmt.Errorf("segment %q is of the entries from %d to before %d, where one that begins at %d was due", s.Segment, s.First, s.End, a.end())
	}
	if _, err := s.tree(); err != nil {
		return nil, fmt.Errorf("segment %q: %w", s.Segment, err)
	}
	return &archive{
		sealed: append(a.sealed, s),
		errs:   append(a.errs, &ArchivedError{s.Segment}),
	}, nil
}

// end is the first entry that is in no segment.
func (a *archive) end() uint64 {
	if len(a.sealed) == 0 {
		return 0
	}
	return a.sealed[len(a.sealed)-1].End
}

// has returns the segment with an entry; false: none has it.
func (a *archive) has(seq uint64) (int, bool) {
	if seq >= a.end() {
		return 0, false
	}
	return sort.Search(len(a.sealed), func(i int) bool { return seq < a.sealed[i].End }), true
}

// absent returns the error about an entry without a body.
func (a *archive) absent(seq uint64) error {
	if i, ok := a.has(seq); ok {
		return a.errs[i]
	}
	return errNoBody
}

// absentFrom is absent for an entry whose stream is known.
func (a *archive) absentFrom(seq uint64, stream string) error {
	if i, ok := a.has(seq); ok && a.sealed[i].lets(stream) {
		return a.errs[i]
	}
	return errNoBody
}

// An archiveError is a record of the archive that cannot be believed.
type archiveError struct {
	seq uint64
	err error
}

func (e *archiveError) Error() string { return fmt.Sprintf("entry %d: %v", e.seq, e.err) }
func (e *archiveError) Unwrap() error { return e.err }

// readArchive reads what the log says is archived. It checks that each record
// matches its leaf hash, which Verify alone holds against a signature.
func readArchive(tx *bolt.Tx) (*archive, error) {
	a := &archive{}
	log, cur := tx.Bucket(bucketLog), tx.Bucket(bucketIndex).Cursor()
	for k, v := cur.Seek(appendIndexKey(nil, StreamArchive, 0)); k != nil; k, v = cur.Next() {
		if stream, _, ok := splitIndexKey(k); !ok || string(stream) != StreamArchive {
			break
		}
		seq, _ := parseU64(v)
		raw, err := intactEntry(seq, log.Get(v))
		if err != nil {
			return a, &archiveError{seq, err}
		}
		var rec Record
		if rec, err = raw.record(StreamArchive); err != nil {
			return a, &archiveError{seq, err}
		}
		if rec.Kind != KindSealed {
			continue
		}
		var s Sealed
		if err := json.Unmarshal(rec.Data, &s); err != nil {
			return a, &archiveError{seq, fmt.Errorf("a record of the archive does not parse: %w", err)}
		}
		next, err := a.add(s)
		if err != nil {
			return a, &archiveError{seq, err}
		}
		a = next
	}
	return a, nil
}

// Segments returns what the log says is in the archive, oldest first.
func (j *Journal) Segments() []Sealed { return slices.Clone(j.archive.Load().sealed) }

// LeafHash identifies an entry by its hash in the Merkle tree, which stays in the file
// also when its body is archived.
func (j *Journal) LeafHash(seq uint64) (hash tlog.Hash, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		leaf, _, ok := splitEntry(tx.Bucket(bucketLog).Get(u64(seq)))
		if !ok || seq >= j.Size() {
			return fmt.Errorf("read entry %d: the log has %d", seq, j.Size())
		}
		hash = leaf
		return nil
	})
	return hash, err
}

// Positions returns where in the log the records of a stream are, without reading them.
func (j *Journal) Positions(stream string) (seqs []uint64, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		cur := tx.Bucket(bucketIndex).Cursor()
		for k, v := cur.Seek(appendIndexKey(nil, stream, 0)); k != nil; k, v = cur.Next() {
			if name, _, ok := splitIndexKey(k); !ok || string(name) != stream {
				return nil
			}
			seq, ok := parseU64(v)
			if !ok {
				return corrupt(j.path, "the index of stream %q has a value that does not parse", stream)
			}
			seqs = append(seqs, seq)
		}
		return nil
	})
	return seqs, err
}

// loadArchive reads what is archived into j.
func (j *Journal) loadArchive(tx *bolt.Tx) error {
	a, err := readArchive(tx)
	if err != nil {
		return corrupt(j.path, "%v", err)
	}
	j.archive.Store(a)
	return nil
}

// Status is how much of the log is where.
type Status struct {
	Origin   string
	Entries  uint64
	Archived uint64 // entries of which the file has only the hash
	Segments []Sealed
	End      uint64    // entry after the last segment
	Oldest   time.Time // of that entry; zero: there is none
	Bytes    int64     // size of the file
}

// Status returns how much of the log is where.
func (j *Journal) Status() (s Status, err error) {
	a := j.archive.Load()
	s = Status{Entries: j.Size(), Segments: slices.Clone(a.sealed), End: a.end()}
	if s.Archived, err = j.counter(cellBodies); err != nil {
		return s, err
	}
	for rec, err := range j.Log(s.End) {
		if err != nil {
			return s, err
		}
		s.Oldest = rec.Time
		break
	}
	info, err := os.Stat(j.path)
	if err != nil {
		return s, fileError(j.path, err)
	}
	s.Bytes = info.Size()
	return s, j.view(func(tx *bolt.Tx) error {
		s.Origin = string(tx.Bucket(bucketMeta).Get(keyOrigin))
		return nil
	})
}
