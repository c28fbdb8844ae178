package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"
)

const leaked = `pa"ss canary`

// leakyJournal has the text in two of five entries, and closes.
func leakyJournal(t *testing.T) (path, key string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := openAt(t, path, Options{})
	for _, text := range []string{"a", "x " + leaked + " y", "c", strings.Repeat(leaked+" ", 100), "e"} {
		mustAppend(t, j, one("run/1", "step", text))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, j.PublicKey()
}

func redactAll(t *testing.T, path string) Redacted {
	t.Helper()
	r, err := Redact(t.Context(), path, RedactOptions{Text: leaked, By: "user:ada", Reason: "leaked by a pod template"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRedact: the text is gone from the file, everything else is as it was, the log
// verifies against a checkpoint of before, and who and why are in it.
func TestRedact(t *testing.T) {
	path, key := leakyJournal(t)
	j := openAt(t, path, Options{})
	before := collect(t, j.Log(0))
	checkpoint, err := j.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	dry, err := Redact(t.Context(), path, RedactOptions{Text: leaked, By: "a", Reason: "b", DryRun: true})
	if err != nil || len(dry.Entries) != 2 {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	if r := mustVerify(t, path, key, VerifyOptions{}); len(r.Redacted) != 0 {
		t.Errorf("a dry run redacted %+v", r.Redacted)
	}
	if r := redactAll(t, path); len(r.Entries) != 2 || r.Entries[0].Seq != 1 || r.Entries[1].Seq != 3 {
		t.Fatalf("%+v", r)
	}
	if r := redactAll(t, path); len(r.Entries) != 0 {
		t.Errorf("a second time: %+v", r)
	}
	if _, _, err := Compact(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(contents(t, path), []byte("canary")) {
		t.Error("the file still has the text")
	}
	r := mustVerify(t, path, key, VerifyOptions{Checkpoint: checkpoint})
	if len(r.Redacted) != 2 || r.Redacted[0].Seq != 1 || r.Redacted[0].By != "user:ada" || r.Redacted[0].Reason == "" || r.Unsigned != 0 {
		t.Errorf("%+v", r)
	}
	j = openAt(t, path, Options{Checker: testChecker(t)})
	for i, rec := range collect(t, j.Log(0))[:5] {
		want := before[i]
		want.Data = bytes.ReplaceAll(want.Data, []byte(`pa\"ss canary`), []byte(redactedText))
		if rec.Digest() != want.Digest() {
			t.Errorf("entry %d is %s, want %s", i, rec.Data, want.Data)
		}
	}
	records := collect(t, j.Stream(StreamRedaction, 0))
	if len(records) != 2 || !strings.Contains(string(records[0].Data), `"by":"user:ada","reason":"leaked by a pod template"`) {
		t.Errorf("recorded %v", records)
	}
}

// TestRedactForged: a redaction counts only when the key signed it, for this entry and
// for what is left of it, and when the log records it.
func TestRedactForged(t *testing.T) {
	rewrite := func(seq uint64, change func(entry []byte) []byte) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			log := tx.Bucket(bucketLog)
			return log.Put(u64(seq), change(bytes.Clone(log.Get(u64(seq)))))
		}
	}
	for name, tt := range map[string]struct {
		do   func(tx *bolt.Tx) error
		says string
	}{
		"another text": {rewrite(1, func(b []byte) []byte {
			return bytes.Replace(b, []byte(redactedText), []byte("(approved)"), 1)
		}), "entry 1 (run/1 step"},
		"another text with its hash": {rewrite(1, func(b []byte) []byte {
			i := bytes.Index(b, []byte("responder/"))
			old := tlog.RecordHash(b[tlog.HashSize:i]).String()
			b = bytes.Replace(b, []byte(redactedText), []byte("(approved)"), 1)
			return bytes.Replace(b, []byte(old), []byte(tlog.RecordHash(b[tlog.HashSize:i]).String()), 1)
		}), "is not signed by the key"},
		"no statement": {rewrite(1, func(b []byte) []byte { return b[:bytes.Index(b, []byte("responder/"))] }), "has no statement"},
		"an entry nobody redacted": {func(tx *bolt.Tx) error {
			log := tx.Bucket(bucketLog)
			from, to := bytes.Clone(log.Get(u64(1))), bytes.Clone(log.Get(u64(2)))
			return log.Put(u64(2), append(to[:tlog.HashSize], from[tlog.HashSize:]...))
		}, "entry 2"},
	} {
		path, key := leakyJournal(t)
		redactAll(t, path)
		editBolt(t, path, tt.do)
		r, err := Verify(t.Context(), path, key, VerifyOptions{})
		if err != nil || r.OK() || !strings.Contains(r.FirstBad.String(), tt.says) {
			t.Errorf("%s: %v, %v; want %q", name, r.FirstBad, err, tt.says)
		}
	}
}

// TestRedactCrash: a crash at each boundary leaves a journal that verifies, and doing it
// again finishes.
func TestRedactCrash(t *testing.T) {
	for _, at := range []string{"commit-begin", "before-commit", "after-commit", "before-ack", "close-checkpoint", "close-marker"} {
		path, key := leakyJournal(t)
		crash := errors.New("crash")
		_, err := Redact(t.Context(), path, RedactOptions{Text: leaked, By: "a", Reason: "b", Open: Options{Failpoint: func(name string) error {
			if name == at {
				return crash
			}
			return nil
		}}})
		if err == nil {
			t.Errorf("%s: no error", at)
		}
		mustVerify(t, path, key, VerifyOptions{})
		redactAll(t, path)
		if r := mustVerify(t, path, key, VerifyOptions{}); len(r.Redacted) != 2 {
			t.Errorf("%s: %+v", at, r.Redacted)
		}
	}
}

// TestRedactRefuses: what would hide anything, or say nothing of who and why.
func TestRedactRefuses(t *testing.T) {
	path, _ := leakyJournal(t)
	for want, o := range map[string]RedactOptions{
		"at least 6 are needed":    {Text: "pass", By: "a", Reason: "b"},
		"which takes its place":    {Text: "redacted", By: "a", Reason: "b"},
		"who makes it and why":     {Text: leaked, By: " ", Reason: "b"},
		"needs who makes it":       {Text: leaked, By: "a"},
		"take more than 4096":      {Text: leaked, By: "a", Reason: strings.Repeat("x", 5000)},
		"journal.key is missing; ": {Text: leaked, By: "a", Reason: "b", Open: Options{Key: filepath.Join(t.TempDir(), KeyFile)}},
	} {
		if _, err := Redact(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestRedactedIsArchived: a redacted entry goes into a segment, which verifies with the
// public key, and comes back from it.
func TestRedactedIsArchived(t *testing.T) {
	path, key := leakyJournal(t)
	redactAll(t, path)
	j := openAt(t, path, Options{})
	dir := t.TempDir()
	s, err := j.Seal(t.Context(), dir, Stretch{First: 0, End: j.Size()}, []string{"run/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Drop(t.Context(), dir, []uint64{0, 1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(dir, s.Segment)
	if r, err := VerifySegment(t.Context(), segment, key); err != nil || !r.OK() || len(r.Redacted) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if bytes.Contains(contents(t, segment), []byte("canary")) {
		t.Error("the segment has the text")
	}
	if r, err := Restore(t.Context(), path, segment, key, nil); err != nil || r.Restored != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := mustVerify(t, path, key, VerifyOptions{}); len(r.Redacted) != 2 {
		t.Errorf("%+v", r.Redacted)
	}
}

// TestOlderSegmentKeepsText: a segment that was written before an entry was redacted has
// its text still.
func TestOlderSegmentKeepsText(t *testing.T) {
	path, key := leakyJournal(t)
	j := openAt(t, path, Options{})
	dir := t.TempDir()
	s, err := j.Seal(t.Context(), dir, Stretch{First: 0, End: j.Size()}, []string{"run/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	redactAll(t, path)
	segment := filepath.Join(dir, s.Segment)
	if !bytes.Contains(contents(t, segment), []byte("canary")) {
		t.Error("the segment lacks the text")
	}
	if r, err := VerifySegment(t.Context(), segment, key); err != nil || !r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
}
