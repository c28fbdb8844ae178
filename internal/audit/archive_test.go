package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The streams whose bodies may leave the journal of these tests.
var goes = []string{"intake", "run/"}

// long ago is when the entries of an aged journal begin; each is a minute younger.
var longAgo = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// aged fills a journal with n entries of three streams, the last of which must stay.
func aged(t testing.TB, j *Journal, n int) {
	t.Helper()
	for i := range n {
		stream := []string{"intake", "run/" + strconv.Itoa(i/30), "control"}[i%3]
		r := rec("k", strings.Repeat("payload ", 100)+strconv.Itoa(i))
		r.Time = longAgo.Add(time.Duration(i) * time.Minute)
		mustAppend(t, j, Append{Stream: stream, After: Any, Records: []Record{r}})
	}
}

// droppable returns the entries of a stretch whose bodies may leave the journal.
func droppable(t testing.TB, j *Journal, end uint64) (seqs []uint64) {
	t.Helper()
	for r, err := range j.Log(0) {
		if err != nil && !errors.Is(err, ErrArchived) {
			t.Fatal(err)
		}
		if r.Seq < end && r.Stream != "control" && r.Stream != StreamArchive {
			seqs = append(seqs, r.Seq)
		}
	}
	return seqs
}

// archiveAll archives every stretch of the journal that is a day old at now, as the
// service does, and finishes what an earlier attempt left.
func archiveAll(ctx context.Context, t testing.TB, j *Journal, dir string) error {
	t.Helper()
	finish := func() error {
		left, err := j.Undropped()
		if err != nil {
			return err
		}
		for _, s := range left {
			if err := j.Drop(ctx, dir, droppable(t, j, s.End)); err != nil {
				return err
			}
			if err := j.Dropped(s); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		if err := finish(); err != nil {
			return err
		}
		s, _, err := j.Sealable(mustStatus(t, j).End, time.Now().Add(-24*time.Hour), 40_000)
		if err != nil || s.End == s.First {
			return err
		}
		if _, err := j.Seal(ctx, dir, s, goes); err != nil {
			return err
		}
	}
}

// archived returns a closed journal with archived entries, its key and its archive.
func archived(t testing.TB, n int) (path, key, dir string) {
	t.Helper()
	j := openTest(t, Options{NoSync: true, CheckpointEvery: 16})
	aged(t, j, n)
	dir = t.TempDir()
	if err := archiveAll(t.Context(), t, j, dir); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, one("intake", "k", "young"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Path(), j.PublicKey(), dir
}

func TestArchive(t *testing.T) {
	path, key, dir := archived(t, 300)
	r := mustVerify(t, path, key, VerifyOptions{Checker: testChecker(t)})
	// The last checkpoint of the 300 is over 288 of them; two of three entries may go.
	if r.Archived != 192 || r.Segments < 3 || r.Entries != 301+r.Segments {
		t.Errorf("%+v", r)
	}
	segments, err := VerifySegments(t.Context(), dir, key)
	if err != nil || uint64(len(segments)) != r.Segments {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	for _, s := range segments {
		if !s.OK() {
			t.Errorf("%s: %v", s.File, s.FirstBad)
		}
	}
	if first := segments[0]; first.First != 0 || !first.From.Equal(longAgo) {
		t.Errorf("%+v", first)
	}

	j := openAt(t, path, Options{Checker: testChecker(t)})
	if err := j.CheckEntries(time.Minute); err != nil {
		t.Error(err)
	}
	if n, err := j.Archived(); err != nil || n != 192 {
		t.Errorf("%d archived, %v", n, err)
	}
	kept, gone := 0, 0
	for r, err := range j.Log(0) {
		switch {
		case errors.Is(err, ErrArchived):
			gone++
			if r.Stream != "" || r.Data != nil {
				t.Fatalf("%+v", r)
			}
		case err != nil:
			t.Fatal(err)
		default:
			kept++
		}
	}
	if gone != 192 || kept != int(r.Entries)-192 {
		t.Errorf("the log has %d archived entries and %d others", gone, kept)
	}
	if n := len(collect(t, j.Stream("control", 0))); n != 100 {
		t.Errorf("stream control has %d of 100 records", n)
	}
	var absent *ArchivedError
	for _, err := range j.Stream("run/3", 0) {
		if !errors.As(err, &absent) || absent.Segment == "" || errors.Is(err, ErrCorrupt) {
			t.Errorf("an archived run: %v", err)
		}
	}
	if absent == nil {
		t.Error("an archived run has no records")
	}
	if head := mustHead(t, j, "run/3"); head != 10 {
		t.Errorf("its head is %d", head)
	}
}

// What leaves the journal is free within its file: the service takes notifications again
// when the archive has made room, without a smaller file.
func TestArchiveMakesRoom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	j := openTest(t, Options{NoSync: true, CheckpointEvery: 16})
	size := func() int64 {
		info, err := os.Stat(j.Path())
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	text := func() []byte { // no compression makes it shorter
		b := make([]byte, 1500)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	for i := range 900 {
		stream := []string{"intake", "run/1", "control"}[i%3]
		mustAppend(t, j, Append{Stream: stream, After: Any, Records: []Record{{Kind: "k", Data: text(), Time: longAgo.Add(time.Duration(i) * time.Minute)}}})
	}
	full, before := size(), j.Reusable()
	if err := archiveAll(t.Context(), t, j, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, one("intake", "k", "young")) // what the last removal freed counts from here on
	room := j.Reusable()
	if bodies := int64(600 * 1500); room-before < bodies*3/4 {
		t.Errorf("%d bytes of the file could be reused, then %d, with %d of bodies gone", before, room, bodies)
	}
	grown := size()
	for range 200 {
		mustAppend(t, j, Append{Stream: "control", After: Any, Records: []Record{{Kind: "k", Data: text()}}})
	}
	if size() != grown {
		t.Errorf("the file grew from %d to %d bytes, and then to %d", full, grown, size())
	}
	left := j.Reusable()
	if left > room-200*1500 {
		t.Errorf("%d bytes could be reused, and after 300,000 were written %d can", room, left)
	}
	path := j.Path()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_ = j.Reusable() // whoever scrapes metrics asks during a stop, too
	if again := openAt(t, path, Options{}).Reusable(); again < left {
		t.Errorf("after a restart %d bytes can be reused, before %d", again, left)
	}
}

// A body that is not there is archived only where the log says so, and only of the
// streams that may go. Everything else is damage.
func TestBodyMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		index  uint64
	}{
		"beyond the archive":      {"intake", 99},
		"of a stream that stays":  {"control", 3},
		"of the archive's record": {StreamArchive, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path, key, _ := archived(t, 300)
			var seq uint64
			editBolt(t, path, func(tx *bolt.Tx) error {
				at := bytes.Clone(tx.Bucket(bucketIndex).Get(appendIndexKey(nil, tt.stream, tt.index)))
				seq, _ = parseU64(at)
				leaf, _, _ := splitEntry(tx.Bucket(bucketLog).Get(at))
				return tx.Bucket(bucketLog).Put(at, leaf[:])
			})
			r, err := Verify(t.Context(), path, key, VerifyOptions{})
			if err != nil || r.OK() || r.FirstBad.Seq != seq {
				t.Errorf("entry %d has no body: %v, %v", seq, r.FirstBad, err)
			}
			j, err := Open(path, Options{})
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Error(err)
				}
				return
			}
			defer j.Close()
			for _, err = range j.Stream(tt.stream, tt.index) {
				break
			}
			if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrArchived) {
				t.Errorf("reading it: %v", err)
			}
		})
	}
}

// An entry without a body has one place in the index, as every other.
func TestArchivedIndex(t *testing.T) {
	path, key, _ := archived(t, 300)
	editBolt(t, path, func(tx *bolt.Tx) error {
		index := tx.Bucket(bucketIndex)
		return index.Put(appendIndexKey(nil, "intake", 4), bytes.Clone(index.Get(appendIndexKey(nil, "intake", 3))))
	})
	if r, err := Verify(t.Context(), path, key, VerifyOptions{}); err != nil || r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRestore(t *testing.T) {
	path, key, dir := archived(t, 300)
	before := mustVerify(t, path, key, VerifyOptions{})
	segments, err := VerifySegments(t.Context(), dir, key)
	if err != nil {
		t.Fatal(err)
	}
	restored := uint64(0)
	for _, s := range segments {
		r, err := Restore(t.Context(), path, s.File, key, testChecker(t))
		if err != nil || !r.Segment.OK() || r.Restored+r.Present != s.Entries {
			t.Fatalf("%+v, %v", r, err)
		}
		restored += r.Restored
	}
	after := mustVerify(t, path, key, VerifyOptions{Checker: testChecker(t)})
	if restored != before.Archived || after.Archived != 0 || after.Root != before.Root {
		t.Errorf("%d restored, before %+v, after %+v", restored, before, after)
	}
	if r, err := Restore(t.Context(), path, segments[0].File, key, nil); err != nil || r.Restored != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	j := openAt(t, path, Options{Checker: testChecker(t)})
	if n := len(collect(t, j.Stream("run/3", 0))); n != 10 {
		t.Errorf("the restored run has %d of 10 records", n)
	}
	if n, err := j.Archived(); err != nil || n != 0 {
		t.Errorf("%d archived, %v", n, err)
	}
	if _, err := Restore(t.Context(), path, segments[0].File, key, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
}

// Nothing is written when an entry of the file is not the one of the segment.
func TestRestoreOther(t *testing.T) {
	path, key, dir := archived(t, 300)
	segments, err := VerifySegments(t.Context(), dir, key)
	if err != nil {
		t.Fatal(err)
	}
	last := segments[0].Last
	editBolt(t, path, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketLog).Put(u64(last), bytes.Repeat([]byte{1}, 32))
	})
	if r, err := Restore(t.Context(), path, segments[0].File, key, nil); err == nil || r.Restored != 0 ||
		!strings.Contains(err.Error(), fmt.Sprintf("entry %d", last)) {
		t.Errorf("%+v, %v", r, err)
	}
	_, otherKey, otherDir := archived(t, 100)
	others, err := VerifySegments(t.Context(), otherDir, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), path, others[0].File, key, nil); err == nil {
		t.Error("a segment of another journal was restored")
	}
	if _, err := Restore(t.Context(), path, others[0].File, otherKey, nil); err == nil {
		t.Error("a segment of another journal, with its key, was restored")
	}
}

// Every change of a segment is found, and the entry is named where it can be.
func TestSegmentTampered(t *testing.T) {
	_, key, dir := archived(t, 300)
	segments, err := VerifySegments(t.Context(), dir, key)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(segments[1].File)
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Index(whole, []byte("payload "))
	header := bytes.IndexByte(whole[len(segmentForm):], '\n') + len(segmentForm) + 1
	second := header + 4 + int(whole[header+2])<<8 + int(whole[header+3])
	for name, change := range map[string]func(b []byte) []byte{
		"a bit of a payload":     func(b []byte) []byte { b[body] ^= 1; return b },
		"a bit of a leaf hash":   func(b []byte) []byte { b[header+4] ^= 1; return b },
		"a length":               func(b []byte) []byte { b[header+3] ^= 1; return b },
		"a length out of range":  func(b []byte) []byte { b[header] = 0xff; return b },
		"the first entry gone":   func(b []byte) []byte { return append(b[:header], b[second:]...) },
		"cut within an entry":    func(b []byte) []byte { return b[:len(b)-5] },
		"cut after an entry":     func(b []byte) []byte { return b[:second] },
		"something at the end":   func(b []byte) []byte { return append(b, 0) },
		"a bit of the subtrees":  func(b []byte) []byte { return editHeader(b, `"tree":"`, 20) },
		"a bit of the signature": func(b []byte) []byte { return editHeader(b, `+`, 60) },
		"another first entry":    func(b []byte) []byte { return editHeader(b, `"first":`, 0) },
		"the form":               func(b []byte) []byte { b[0] = 'R'; return b },
		"nothing":                func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s"+SegmentSuffix)
			if err := os.WriteFile(path, change(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := VerifySegment(t.Context(), path, key); err == nil && r.OK() {
				t.Error("not found")
			}
		})
	}
	if err := os.Remove(segments[1].File); err != nil {
		t.Fatal(err)
	}
	again, err := VerifySegments(t.Context(), dir, key)
	if err != nil || again[1].OK() || again[1].FirstBad.Seq != segments[1].First {
		t.Errorf("a segment is gone: %+v, %v", again[1].FirstBad, err)
	}
}

// editHeader changes the byte that is so far behind a text of the header.
func editHeader(b []byte, text string, off int) []byte {
	i := bytes.Index(b, []byte(text)) + len(text) + off
	if b[i]++; b[i] == '\n' {
		b[i]++
	}
	return b
}

// TestArchiveRefused: when the archive cannot take a segment, nothing leaves the
// journal, and the next attempt, with the reason gone, does it.
func TestArchiveRefused(t *testing.T) {
	full := func(at string) func(string) error {
		return func(name string) error {
			if name == at {
				return syscall.ENOSPC
			}
			return nil
		}
	}
	for name, tt := range map[string]struct {
		fail    func(string) error
		prepare func(t *testing.T, dir, first string) (undo func())
		says    string
	}{
		"the directory is missing": {
			prepare: func(t *testing.T, dir, _ string) func() {
				must(t, os.Remove(dir))
				return func() { must(t, os.Mkdir(dir, 0o700)) }
			},
			says: "no such file",
		},
		"it is a file": {
			prepare: func(t *testing.T, dir, _ string) func() {
				must(t, os.Remove(dir))
				must(t, os.WriteFile(dir, nil, 0o600))
				return func() { must(t, os.Remove(dir)); must(t, os.Mkdir(dir, 0o700)) }
			},
			says: "not a directory",
		},
		"the disk is full": {fail: full("segment-written"), says: "no space left"},
		"another file is in its place": {
			prepare: func(t *testing.T, _, first string) func() {
				must(t, os.WriteFile(first, []byte("somebody's"), 0o600))
				return func() { must(t, os.Remove(first)) }
			},
			says: "another file in the place of entries 0 to ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fail := tt.fail
			j := openTest(t, Options{NoSync: true, CheckpointEvery: 16, Failpoint: func(name string) error {
				if fail == nil {
					return nil
				}
				return fail(name)
			}})
			aged(t, j, 100)
			dir := filepath.Join(t.TempDir(), "archive")
			must(t, os.Mkdir(dir, 0o700))
			undo := func() {}
			if tt.prepare != nil {
				s, _, err := j.Sealable(mustStatus(t, j).End, time.Now(), 40_000)
				must(t, err)
				undo = tt.prepare(t, dir, filepath.Join(dir, segmentName(j.Origin(), s.First, s.End)))
			}
			err := archiveAll(t.Context(), t, j, dir)
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "nothing has left the journal") {
				t.Fatalf("%v", err)
			}
			if n, err := j.Archived(); err != nil || n != 0 || len(j.Segments()) != 0 || j.Err() != nil {
				t.Errorf("%d archived in %d segments, %v, %v", n, len(j.Segments()), err, j.Err())
			}
			undo()
			fail = nil
			must(t, archiveAll(t.Context(), t, j, dir))
			if n, err := j.Archived(); err != nil || n != 64 {
				t.Errorf("%d archived, %v", n, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A body leaves only when the segment is in the archive as it was written, and only one
// that may.
func TestDropRefused(t *testing.T) {
	j := openTest(t, Options{NoSync: true, CheckpointEvery: 16})
	aged(t, j, 100)
	dir := t.TempDir()
	s, _, err := j.Sealable(mustStatus(t, j).End, time.Now(), 40_000)
	must(t, err)
	sealed, err := j.Seal(t.Context(), dir, s, goes)
	must(t, err)
	if err := j.Drop(t.Context(), dir, []uint64{0, 2}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a stream that stays: %v", err)
	}
	if err := j.Drop(t.Context(), dir, []uint64{s.End}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an entry that is not archived: %v", err)
	}
	file := filepath.Join(dir, sealed.Segment)
	editFile(t, file, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	if err := j.Drop(t.Context(), dir, []uint64{0}); err == nil || !strings.Contains(err.Error(), "not as it was written") {
		t.Errorf("a segment that was changed: %v", err)
	}
	must(t, os.Remove(file))
	if err := j.Drop(t.Context(), dir, []uint64{0}); err == nil {
		t.Error("dropped without the segment")
	}
	if n, err := j.Archived(); err != nil || n != 0 || j.Err() != nil {
		t.Errorf("%d archived, %v, %v", n, err, j.Err())
	}
	mustAppend(t, j, one("intake", "k", "the log goes on"))
}

// TestArchiveCrash kills a process that archives, at every step, and shows that every
// entry is in the journal or in the archive, that both verify, and that doing it again
// finishes.
func TestArchiveCrash(t *testing.T) {
	type point struct {
		at  string
		nth int
	}
	var points []point
	for _, at := range ArchiveFailpoints() {
		points = append(points, point{at, 1}, point{at, 2})
	}
	// Commits of the record of a segment, of its bodies and of the cell, in turn.
	for _, at := range []string{"commit-begin", "before-commit", "after-commit", "before-ack"} {
		for nth := 1; nth <= 6; nth++ {
			points = append(points, point{at, nth})
		}
	}
	j := openTest(t, Options{NoSync: true, CheckpointEvery: 16})
	aged(t, j, 300)
	must(t, j.Close())
	var want []Record
	reader, err := OpenReader(t.Context(), j.Path(), nil)
	must(t, err)
	want = collect(t, reader.Log(0))
	must(t, reader.Close())
	for _, p := range points {
		t.Run(fmt.Sprintf("%s/%d", p.at, p.nth), func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), t.TempDir()
			must(t, os.CopyFS(home, os.DirFS(filepath.Dir(j.Path()))))
			must(t, os.Chmod(filepath.Join(home, KeyFile), 0o600))
			path := filepath.Join(home, filepath.Base(j.Path()))
			crashArchiving(t, path, dir, p.at, p.nth)
			nothingLost(t, path, dir, j.PublicKey(), want)

			again := openAt(t, path, Options{Checker: testChecker(t), CheckpointEvery: 16})
			must(t, archiveAll(t.Context(), t, again, dir))
			must(t, again.Close())
			nothingLost(t, path, dir, j.PublicKey(), want)
			r := mustVerify(t, path, j.PublicKey(), VerifyOptions{})
			if r.Archived != 200 {
				t.Errorf("the repeat left %d of 200 bodies archived", r.Archived)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// nothingLost checks that a closed journal verifies, that every entry without a body is
// in a segment that verifies, and that restoring yields the log as it was.
func nothingLost(t *testing.T, path, dir, key string, want []Record) {
	t.Helper()
	r := mustVerify(t, path, key, VerifyOptions{Checker: testChecker(t)})
	copied := filepath.Join(t.TempDir(), "copy.db")
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(copied, b, 0o600))
	if r.Segments > 0 {
		segments, err := VerifySegments(t.Context(), dir, key)
		must(t, err)
		for _, s := range segments {
			if !s.OK() {
				t.Fatalf("%s: %v", s.File, s.FirstBad)
			}
			if _, err := Restore(t.Context(), copied, s.File, key, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader, err := OpenReader(t.Context(), copied, nil)
	must(t, err)
	got := collect(t, reader.Log(0))
	must(t, reader.Close())
	if len(got) < len(want) || !slices.EqualFunc(got[:len(want)], want, func(a, b Record) bool { return a.Digest() == b.Digest() }) {
		t.Fatalf("restored, the log has %d entries, and those before are not the %d that it had", len(got), len(want))
	}
}

// Appends and reads go on while bodies leave the file.
func TestArchiveConcurrently(t *testing.T) {
	j := openTest(t, Options{NoSync: true, CheckpointEvery: 16})
	aged(t, j, 1000)
	dir := t.TempDir()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				mustAppend(t, j, one("intake", "k", strconv.Itoa(i)))
			}
		}
	})
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, err := range j.Log(0) {
				if err != nil && !errors.Is(err, ErrArchived) {
					t.Error(err)
					return
				}
			}
		}
	})
	err := archiveAll(t.Context(), t, j, dir)
	close(stop)
	group.Wait()
	must(t, err)
	must(t, j.Close())
	if r := mustVerify(t, j.Path(), j.PublicKey(), VerifyOptions{Checker: testChecker(t)}); r.Archived == 0 {
		t.Error("nothing is archived")
	}
}

func FuzzSegment(f *testing.F) {
	_, key, dir := archived(f, 40)
	segments, err := VerifySegments(f.Context(), dir, key)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(segments[0].File)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "s"+SegmentSuffix)
		must(t, os.WriteFile(path, b, 0o600))
		if r, err := VerifySegment(t.Context(), path, key); err == nil && r.OK() && !bytes.Equal(b, whole) {
			if r.Root != segments[0].Root {
				t.Errorf("another segment verifies: %+v", r)
			}
		}
	})
}

func mustStatus(t testing.TB, j *Journal) Status {
	t.Helper()
	s, err := j.Status()
	must(t, err)
	return s
}
