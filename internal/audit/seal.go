package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A Stretch is a part of the log that may become the next segment.
type Stretch struct {
	First, End uint64
	From, To   time.Time // of its oldest and newest entry
	Bytes      int64     // of its records
	Full       bool      // it has as many bytes as a segment should
}

// Sealable returns the next stretch, from an entry on, of entries that are older than a
// time. It has about most bytes, and ends at a signed checkpoint. Where there is none,
// why says what it waits for.
func (j *Journal) Sealable(first uint64, before time.Time, most int64) (s Stretch, why string, err error) {
	s = Stretch{First: first, End: first}
	var next Stretch // up to the entry that is looked at
	for rec, err := range j.Log(first) {
		if err != nil {
			return Stretch{}, "", err
		}
		if !rec.Time.Before(before) {
			why = fmt.Sprintf("entry %d of %s is not old enough", rec.Seq, rec.Time.Format(time.RFC3339))
			break
		}
		if next.From.IsZero() || rec.Time.Before(next.From) {
			next.From = rec.Time
		}
		if rec.Time.After(next.To) {
			next.To = rec.Time
		}
		next.Bytes += int64(len(rec.Data))
		next.End = rec.Seq + 1
		signed, err := j.hasCheckpoint(next.End)
		if err != nil {
			return Stretch{}, "", err
		}
		if signed {
			s = Stretch{First: first, End: next.End, From: next.From, To: next.To, Bytes: next.Bytes, Full: next.Bytes >= most}
			if s.Full {
				break
			}
		}
	}
	switch {
	case s.End > first:
		return s, "", nil
	case why == "" && next.End == 0:
		why = "every entry is in the archive"
	case next.End > 0:
		why = fmt.Sprintf("no checkpoint is signed over the entries up to %d alone", next.End-1)
	}
	return s, why, nil
}

// hasCheckpoint reports whether a checkpoint over that many entries is stored.
func (j *Journal) hasCheckpoint(size uint64) (has bool, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		has = tx.Bucket(bucketCheckpoints).Get(u64(size)) != nil
		return nil
	})
	return has, err
}

// Seal writes a stretch into a segment of the directory, reads it back, and records it
// in the log. streams are those whose bodies may then leave the file: see Drop. A
// segment that an earlier attempt left is taken when it holds the same. The order makes
// each crash harmless: until the log says that a segment is there nobody relies on it.
func (j *Journal) Seal(ctx context.Context, dir string, s Stretch, streams []string) (Sealed, error) {
	j.sealing.Lock()
	defer j.sealing.Unlock()
	a := j.archive.Load()
	if s.First != a.end() || s.End <= s.First || s.End > j.Size() {
		return Sealed{}, fmt.Errorf("archive entries %d to %d: the next segment begins at entry %d", s.First, s.End, a.end())
	}
	w, err := j.beginSegment(s)
	if err != nil {
		return Sealed{}, err
	}
	name := segmentName(j.Origin(), s.First, s.End)
	path := filepath.Join(dir, name)
	if err := w.write(ctx, path); err != nil {
		return Sealed{}, err
	}
	if err := j.o.Failpoint("segment-renamed"); err != nil {
		return Sealed{}, err
	}
	report, err := w.readBack(ctx, path)
	if err != nil {
		return Sealed{}, err
	}
	if err := j.o.Failpoint("segment-verified"); err != nil {
		return Sealed{}, err
	}
	sealed := Sealed{
		Segment: name, First: s.First, End: s.End, Bytes: report.Bytes, Digest: report.Digest,
		Tree: base64.StdEncoding.EncodeToString(report.after.encode()), Streams: streams,
	}
	next, err := a.add(sealed)
	if err != nil {
		return Sealed{}, err
	}
	data, err := json.Marshal(sealed)
	if err != nil {
		return Sealed{}, fmt.Errorf("record segment %s: %w", name, err)
	}
	if _, err := j.Append(ctx, Append{Stream: StreamArchive, After: uint64(len(a.sealed)), Records: []Record{{Kind: KindSealed, Data: data}}}); err != nil {
		return Sealed{}, fmt.Errorf("record segment %s: %w", name, err)
	}
	j.archive.Store(next)
	return sealed, j.o.Failpoint("segment-recorded")
}

// A segmentWriter writes one segment.
type segmentWriter struct {
	j      *Journal
	header segmentHeader
	before tree
}

func (j *Journal) beginSegment(s Stretch) (*segmentWriter, error) {
	w := &segmentWriter{j: j, header: segmentHeader{Origin: j.Origin(), Key: j.PublicKey(), First: s.First, End: s.End}}
	if a := j.archive.Load(); len(a.sealed) > 0 {
		var err error
		if w.before, err = a.sealed[len(a.sealed)-1].tree(); err != nil {
			return nil, corrupt(j.path, "the record of segment %s: %v", a.sealed[len(a.sealed)-1].Segment, err)
		}
	}
	w.header.Tree = base64.StdEncoding.EncodeToString(w.before.encode())
	err := j.view(func(tx *bolt.Tx) error {
		w.header.Checkpoint = string(tx.Bucket(bucketCheckpoints).Get(u64(s.End)))
		return nil
	})
	if err == nil && w.header.Checkpoint == "" {
		err = fmt.Errorf("archive entries %d to %d: no checkpoint is signed over %d entries", s.First, s.End-1, s.End)
	}
	return w, err
}

// write makes the file, unless there is one: readBack tells what that is.
func (w *segmentWriter) write(ctx context.Context, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return archiveFileError(err)
	}
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return archiveFileError(err)
	}
	err = w.fill(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = w.j.o.Failpoint("segment-written")
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return archiveFileError(errors.Join(err, os.Remove(temp)))
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return archiveFileError(err)
	}
	return nil
}

// archiveFileError explains an error about the archive's directory.
func archiveFileError(err error) error {
	return fmt.Errorf("write to the archive: %w; nothing has left the journal: make room in the directory, or let the user that runs responder write to it", err)
}

// fill writes the content of the segment.
func (w *segmentWriter) fill(ctx context.Context, f io.Writer) error {
	out := bufio.NewWriterSize(f, 1<<20)
	header, err := json.Marshal(w.header)
	if err != nil {
		return err
	}
	if _, err := out.WriteString(segmentForm + string(header) + "\n"); err != nil {
		return err
	}
	for next := w.header.First; next < w.header.End; {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := w.j.storedEntries(next, w.header.End)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(e)))); err != nil { //nolint:gosec // a record is bounded by maxData
				return err
			}
			if _, err := out.Write(e); err != nil {
				return err
			}
		}
		next += uint64(len(entries))
	}
	return out.Flush()
}

// storedEntries copies entries, leaf hash and record, as many as a chunk has.
func (j *Journal) storedEntries(from, end uint64) (out [][]byte, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		size, cur := 0, tx.Bucket(bucketLog).Cursor()
		for k, v := cur.Seek(u64(from)); from < end && len(out) < chunkRecords && size < chunkBytes; k, v = cur.Next() {
			if seq, ok := parseU64(k); !ok || seq != from {
				return corrupt(j.path, "entry %d is missing", from)
			}
			if _, err := intactEntry(from, v); err != nil {
				return corrupt(j.path, "entry %d: %v", from, err)
			}
			out = append(out, bytes.Clone(v))
			size += len(v)
			from++
		}
		return nil
	})
	return out, err
}

// readBack verifies what is in the archive under the segment's name. What another
// program or an earlier attempt put there counts when it verifies and is about the same
// entries: then it has the same.
func (w *segmentWriter) readBack(ctx context.Context, path string) (SegmentReport, error) {
	key, err := parseKey(w.j.PublicKey())
	if err != nil {
		return SegmentReport{}, err
	}
	r, err := readSegment(ctx, path, key, func(uint64, []byte) error { return nil })
	switch {
	case err != nil && ctx.Err() != nil:
		return r, err
	case err == nil && r.OK() && r.First == w.header.First && r.Last == w.header.End-1 && r.before.root() == w.before.root():
		return r, nil
	case err == nil && !r.OK():
		err = errors.New(r.FirstBad.String())
	case err == nil:
		err = fmt.Errorf("it has the entries %d to %d", r.First, r.Last)
	}
	return r, fmt.Errorf("the archive has another file in the place of entries %d to %d: %w; nothing has left the journal: move %s away",
		w.header.First, w.header.End-1, err, path)
}

// checkSegments checks that every segment with one of these entries is in the directory
// as it was written.
func (j *Journal) checkSegments(ctx context.Context, dir string, seqs []uint64) error {
	a, checked := j.archive.Load(), map[int]bool{}
	for _, seq := range seqs {
		i, ok := a.has(seq)
		if !ok {
			return fmt.Errorf("%w: entry %d is in no segment", ErrInvalid, seq)
		}
		if checked[i] {
			continue
		}
		if err := checkSegment(ctx, dir, a.sealed[i]); err != nil {
			return err
		}
		checked[i] = true
	}
	return nil
}

// checkSegment checks that a segment has the content that the log names.
func checkSegment(ctx context.Context, dir string, s Sealed) (err error) {
	f, err := os.Open(filepath.Join(dir, s.Segment))
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, readerOf(ctx, f)); err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.Digest {
		return fmt.Errorf("segment %s is not as it was written: its SHA-256 is %s, by the log %s", f.Name(), got, s.Digest)
	}
	return nil
}

// readerOf is a reader that ends with ctx.
func readerOf(ctx context.Context, r io.Reader) io.Reader { return &cancelReader{ctx.Err, r} }

type cancelReader struct {
	err func() error
	r   io.Reader
}

func (c *cancelReader) Read(b []byte) (int, error) {
	if err := c.err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
