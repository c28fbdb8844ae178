package audit

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A segment is a stretch of the log in a file of its own, which the public key alone
// verifies. It is never changed:
//
//	responder-segment/1 LF
//	a JSON object, segmentHeader, LF
//	for each entry from First to before End:
//	    4 bytes, big-endian: length of what follows
//	    32 bytes: leaf hash
//	    the record as it is stored (codec.go)
//
// Header.Tree has the hashes of the complete subtrees of the log up to First. With the
// leaf hashes of the segment they come to the root of the log up to End, and
// Header.Checkpoint is the signed note of that root. So every entry is proven to be at
// its place in the log, and the log before to be the one that earlier segments hold.
const (
	segmentForm   = "responder-segment/1\n"
	SegmentSuffix = ".segment"

	maxSegmentHeader = 64 << 10
	maxStored        = tlog.HashSize + headerSize + maxStream + maxKind + maxData + maxNote
)

// segmentHeader is the second line of a segment.
type segmentHeader struct {
	Origin     string `json:"origin"`
	Key        string `json:"key"` // public, as in journal.pub
	First      uint64 `json:"first"`
	End        uint64 `json:"end"`
	Tree       string `json:"tree"`       // up to First: tree.encode in base64
	Checkpoint string `json:"checkpoint"` // signed note over End entries
}

// segmentName is the name of a segment's file. Journals may share a directory.
func segmentName(origin string, first, end uint64) string {
	_, id, _ := strings.Cut(origin, "/")
	return fmt.Sprintf("%s-%012d-%012d%s", id, first, end, SegmentSuffix)
}

// A SegmentReport is the result of VerifySegment.
type SegmentReport struct {
	File     string
	Origin   string
	First    uint64 // entry
	Last     uint64
	Entries  uint64    // that were found good, by themselves
	From, To time.Time // of the oldest and newest of them
	Bytes    int64
	Digest   string // SHA-256 of the file, in hex
	Root     string // of the log up to the last entry, as it was signed
	Redacted []Redaction
	FirstBad *Finding

	before, after tree // of the log up to the first entry, and after the last
}

// OK reports whether nothing is wrong.
func (r *SegmentReport) OK() bool { return r.FirstBad == nil }

// errNoSegment: the file is not a segment, or not one of this key.
var errNoSegment = errors.New("not a segment of the archive")

// VerifySegment checks a segment against a public key, by itself: without the journal
// that it comes from. For one that was changed it returns a report with FirstBad; an
// error means that the file could not be read, or is no segment of that key.
func VerifySegment(ctx context.Context, path, publicKey string) (SegmentReport, error) {
	key, err := parseKey(publicKey)
	if err != nil {
		return SegmentReport{}, err
	}
	return readSegment(ctx, path, key, func(uint64, []byte) error { return nil })
}

// A segmentReader is the progress of reading a segment.
type segmentReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	key    note.Verifier
	report SegmentReport
	buf    []byte
}

// readSegment verifies a segment and calls each with every entry, leaf hash and record,
// before it is known whether the whole is signed for.
func readSegment(ctx context.Context, path string, key note.Verifier, each func(seq uint64, entry []byte) error) (_ SegmentReport, err error) {
	f, err := os.Open(path)
	if err != nil {
		return SegmentReport{}, fmt.Errorf("read segment: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	r := &segmentReader{in: bufio.NewReaderSize(io.TeeReader(f, sum), 1<<20), sum: sum, key: key, report: SegmentReport{File: path}}
	c, err := r.header(path, key)
	if err != nil {
		return r.report, err
	}
	if info, err := f.Stat(); err == nil {
		r.report.Bytes = info.Size()
	}
	r.report.FirstBad, err = r.entries(ctx, c, each)
	if _, err := io.Copy(io.Discard, r.in); err != nil {
		return r.report, fmt.Errorf("read segment %s: %w", path, err)
	}
	r.report.Digest = hex.EncodeToString(sum.Sum(nil))
	return r.report, err
}

// header reads what precedes the entries. It returns the checkpoint, whose signature is
// good.
func (r *segmentReader) header(path string, key note.Verifier) (checkpoint, error) {
	form := make([]byte, len(segmentForm))
	if _, err := io.ReadFull(r.in, form); err != nil || string(form) != segmentForm {
		return checkpoint{}, fmt.Errorf("%s: %w: it does not begin with %q", path, errNoSegment, strings.TrimSpace(segmentForm))
	}
	line, err := r.line()
	if err != nil {
		return checkpoint{}, fmt.Errorf("%s: %w: its header is cut off or too long", path, errNoSegment)
	}
	var h segmentHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return checkpoint{}, fmt.Errorf("%s: %w: its header does not parse: %w", path, errNoSegment, err)
	}
	r.report.Origin, r.report.First, r.report.Last = h.Origin, h.First, h.End-1
	if h.Origin != key.Name() {
		return checkpoint{}, fmt.Errorf("%s: it is of the journal %s, the key is for %s; pass the journal.pub of its journal", path, h.Origin, key.Name())
	}
	c, err := openCheckpoint([]byte(h.Checkpoint), key)
	if err != nil {
		return checkpoint{}, fmt.Errorf("%s: nothing in this file is proven: its checkpoint is not valid: %w", path, err)
	}
	b, err := base64.StdEncoding.DecodeString(h.Tree)
	if err == nil {
		r.report.before, err = parseTree(b)
	}
	if err != nil || r.report.before.size != h.First || h.End <= h.First || c.size != h.End {
		return checkpoint{}, fmt.Errorf("%s: nothing in this file is proven: entries %d to %d do not fit the tree and the checkpoint of its header (%d entries)",
			path, h.First, h.End, c.size)
	}
	return c, nil
}

// line reads up to the next line feed.
func (r *segmentReader) line() ([]byte, error) {
	var out []byte
	for len(out) < maxSegmentHeader {
		b, err := r.in.ReadByte()
		if err != nil || b == '\n' {
			return out, err
		}
		out = append(out, b)
	}
	return nil, errors.New("too long")
}

// entries checks each entry, and the root they come to.
func (r *segmentReader) entries(ctx context.Context, c checkpoint, each func(seq uint64, entry []byte) error) (*Finding, error) {
	first, t := r.report.First, r.report.before.clone()
	for t.size < c.size {
		if t.size%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		leaf, bad := r.entry(t.size)
		if bad != nil {
			return bad, nil
		}
		if err := each(t.size, r.buf); err != nil {
			return nil, err
		}
		t.add(leaf)
		r.report.Entries++
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return at(c.size, "inserted: something follows the last entry of the segment"), nil
	}
	if t.root() != c.root {
		return between(first, c.size, "rewritten: they are consistent, but not those that the checkpoint over %d entries was signed for", c.size), nil
	}
	r.report.after, r.report.Root = t, c.root.String()
	return nil, nil
}

// entry reads the entry with that place in the log into r.buf.
func (r *segmentReader) entry(seq uint64) (leaf tlog.Hash, bad *Finding) {
	var size [4]byte
	if _, err := io.ReadFull(r.in, size[:]); err != nil {
		return leaf, at(seq, "missing: the segment ends before it")
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < tlog.HashSize+headerSize || n > maxStored {
		return leaf, at(seq, "edited: it has a length out of range: %d", n)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return leaf, at(seq, "missing in part: the segment ends within it")
	}
	leaf, record, _ := splitEntry(r.buf)
	s := &span{key: r.key}
	raw, bad := s.intact(seq, leaf, record)
	if bad != nil {
		return leaf, bad
	}
	r.report.Redacted = append(r.report.Redacted, s.redacted...)
	t := time.Unix(0, raw.nanos).UTC()
	if r.report.From.IsZero() || t.Before(r.report.From) {
		r.report.From = t
	}
	if t.After(r.report.To) {
		r.report.To = t
	}
	return leaf, nil
}

// VerifySegments checks every segment of a directory that is of the key's journal, and
// that they follow each other. In a directory nothing else is looked at.
func VerifySegments(ctx context.Context, dir, publicKey string) ([]SegmentReport, error) {
	key, err := parseKey(publicKey)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir) // in the order of their names, and so of their first entries
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	_, id, _ := strings.Cut(key.Name(), "/")
	var out []SegmentReport
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), id+"-") || !strings.HasSuffix(f.Name(), SegmentSuffix) {
			continue
		}
		r, err := readSegment(ctx, filepath.Join(dir, f.Name()), key, func(uint64, []byte) error { return nil })
		if err != nil {
			return out, err
		}
		if n := len(out); n > 0 && r.OK() && out[n-1].OK() {
			r.FirstBad = follows(&out[n-1], &r)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it has no segment of the journal %s (%s-*%s)", dir, key.Name(), id, SegmentSuffix)
	}
	return out, nil
}

// follows reports why a segment is not the one after another.
func follows(before, r *SegmentReport) *Finding {
	switch {
	case r.First > before.Last+1:
		return between(before.Last+1, r.First, "missing: no segment has them")
	case r.First < before.Last+1:
		return between(r.First, before.Last+1, "twice: the segment before has them, too")
	case r.before.root() != before.after.root():
		return between(0, r.First, "forked: the log before this segment is not the one that ends with the segment before")
	}
	return nil
}
