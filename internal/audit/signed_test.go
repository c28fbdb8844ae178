package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// keptJournal makes a journal of n entries that is synced, and so is kept track of
// outside its file, and closes it.
func keptJournal(t *testing.T, n int) (path, key string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	key = grow(t, path, n)
	return path, key
}

// grow appends n entries to the journal at path and closes it.
func grow(t *testing.T, path string, n int) (key string) {
	t.Helper()
	j := openAt(t, path, Options{})
	if n > 0 {
		batch := Append{Stream: "s", After: Any}
		for range n {
			batch.Records = append(batch.Records, rec("k", "truth"))
		}
		mustAppend(t, j, batch)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.PublicKey()
}

// unsign rewrites every entry without a key: consistent hashes, and no checkpoints.
func unsign(t *testing.T, path string) {
	t.Helper()
	tamper(t, tampering{forge: func(f *forgery) int {
		for i := range f.entries {
			f.entries[i] = []byte(strings.Replace(string(f.entries[i]), "truth", "lies!", 1))
		}
		clear(f.notes)
		return 0
	}}, path, 1)
}

func checkpointsIn(t *testing.T, path string) (n int) {
	t.Helper()
	editBolt(t, path, func(tx *bolt.Tx) error {
		n = tx.Bucket(bucketCheckpoints).Stats().KeyN
		return nil
	})
	return n
}

// refused opens the journal, which must be refused with these words and signed nothing.
func refused(t *testing.T, path string, o Options, words string) {
	t.Helper()
	before := checkpointsIn(t, path)
	j, err := Open(path, o)
	if err == nil {
		err = j.Close()
		t.Fatalf("it opened (and closed: %v); want %q", err, words)
	}
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %q", err, words)
	}
	if got := checkpointsIn(t, path); got != before {
		t.Errorf("the refused start left %d checkpoints, %d before", got, before)
	}
}

// TestStartRefusesRewritten: a log that was rewritten without the key, all checkpoints
// removed, is not signed by a start.
func TestStartRefusesRewritten(t *testing.T) {
	path, _ := keptJournal(t, 30)
	unsign(t, path)
	refused(t, path, Options{}, "do not continue the 30 that were signed")
	if err := os.Remove(projectionPath(path, signedName)); err != nil {
		t.Fatal(err)
	}
	refused(t, path, Options{}, "its last 30 entries are not signed")
}

// TestStartRefusesTail: entries that nobody signed are refused when there are more than
// the service leaves.
func TestStartRefusesTail(t *testing.T) {
	path, _ := keptJournal(t, 3)
	old := contents(t, projectionPath(path, signedName))
	grow(t, path, maxCheckpointEvery+3)
	editFile(t, projectionPath(path, signedName), func([]byte) []byte { return old })
	editBolt(t, path, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketCheckpoints).Cursor()
		for k, _ := c.Seek(u64(4)); k != nil; k, _ = c.Next() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	refused(t, path, Options{}, "its last 1027 entries are not signed")
}

// TestStartTakesFreshTail: as many young entries as the service may leave unsigned look
// like its own.
func TestStartTakesFreshTail(t *testing.T) {
	path, _ := keptJournal(t, 3)
	old := contents(t, projectionPath(path, signedName))
	grow(t, path, maxCheckpointEvery-2)
	editFile(t, projectionPath(path, signedName), func([]byte) []byte { return old })
	editBolt(t, path, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketCheckpoints).Cursor()
		for k, _ := c.Seek(u64(4)); k != nil; k, _ = c.Next() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if j := openAt(t, path, Options{}); j.Size() < maxCheckpointEvery {
		t.Errorf("it has %d entries", j.Size())
	}
}

// TestStartRefusesCutBack: an older copy is refused, until somebody says that it is meant.
func TestStartRefusesCutBack(t *testing.T) {
	path, _ := keptJournal(t, 10)
	old, mark := contents(t, path), contents(t, markerPath(path))
	grow(t, path, 5)
	editFile(t, path, func([]byte) []byte { return old })
	editFile(t, markerPath(path), func([]byte) []byte { return mark })
	refused(t, path, Options{}, "it has 10 entries, and by "+projectionPath(path, signedName)+" 15 were signed")
	if err := os.Remove(projectionPath(path, signedName)); err != nil {
		t.Fatal(err)
	}
	for _, missing := range []bool{true, false} { // the next start finds what this one writes
		j := openAt(t, path, Options{})
		if got := j.Unkept() != ""; got != missing {
			t.Errorf("no checkpoint beside the file: %q", j.Unkept())
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStartAfterCrash: a crash between the commit and the write beside the file leaves an
// older checkpoint there, or none in a journal of before; neither is refused, and both
// are brought up to date.
func TestStartAfterCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	key := grow(t, path, 0)
	stages := [][]byte{contents(t, projectionPath(path, signedName)), nil}
	for range 3 {
		grow(t, path, 5)
		stages = append(stages, contents(t, projectionPath(path, signedName)))
	}
	for i, stage := range stages {
		file := projectionPath(path, signedName)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if stage != nil {
			editFileOrCreate(t, file, stage)
		}
		size := mustVerify(t, path, key, VerifyOptions{}).Entries
		grow(t, path, 1)
		v, err := parseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		s, err := readSigned(path, v)
		if err != nil || s == nil || s.tree.size != size+1 {
			t.Errorf("stage %d: kept %+v, %v; want %d entries", i, s, err, size+1)
		}
	}
}

func editFileOrCreate(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStartRefusesForeignSigned: what is kept beside the file counts only with the
// journal's own signature.
func TestStartRefusesForeignSigned(t *testing.T) {
	path, _ := keptJournal(t, 3)
	other, _ := keptJournal(t, 3)
	file := projectionPath(path, signedName)
	own := contents(t, file)
	forged := bytes.Clone(own)
	if at := len(signedForm) + 30; forged[at] == 'A' {
		forged[at] = 'B'
	} else {
		forged[at] = 'A'
	}
	for name, b := range map[string][]byte{
		"of another journal": contents(t, projectionPath(other, signedName)),
		"cut off":            own[:len(own)/2],
		"another tree":       forged,
	} {
		editFileOrCreate(t, file, b)
		if _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "remove this file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPublished: a checkpoint in a directory elsewhere shows that file and the checkpoint
// beside it were both replaced by older ones.
func TestPublished(t *testing.T) {
	path, key := keptJournal(t, 10)
	old, mark, signed := contents(t, path), contents(t, markerPath(path)), contents(t, projectionPath(path, signedName))
	elsewhere := t.TempDir()
	j := openAt(t, path, Options{Published: elsewhere})
	mustAppend(t, j, one("s", "k", "truth"))
	if err := j.sign(); err != nil {
		t.Fatal(err)
	}
	p, ok, err := j.LastCheckpoint()
	if err != nil || !ok || p.Size != 11 {
		t.Fatalf("%+v %t %v", p, ok, err)
	}
	for range 2 { // again: nothing happens
		if err := j.Publish(elsewhere, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, path, key, VerifyOptions{Checkpoint: p.Note})
	if err := openAt(t, path, Options{Published: elsewhere}).Close(); err != nil {
		t.Fatal(err)
	}
	editFile(t, path, func([]byte) []byte { return old })
	editFile(t, markerPath(path), func([]byte) []byte { return mark })
	editFile(t, projectionPath(path, signedName), func([]byte) []byte { return signed })
	refused(t, path, Options{Published: elsewhere}, "published as "+elsewhere)
	if _, err := Open(path, Options{Published: filepath.Join(elsewhere, "unmounted")}); err == nil || !strings.Contains(err.Error(), "must exist") {
		t.Errorf("a directory that is missing: %v", err)
	}
}

// TestKeyApart: the private key lives where it is put, and nowhere else.
func TestKeyApart(t *testing.T) {
	path, apart := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "signing.key")
	for range 2 {
		j := openAt(t, path, Options{Key: apart})
		mustAppend(t, j, one("s", "k", "truth"))
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := exists(filepath.Join(filepath.Dir(path), KeyFile)); there || err != nil {
		t.Errorf("the key is beside the journal: %t, %v", there, err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, errKey) || !strings.Contains(err.Error(), KeyFile+" is missing") {
		t.Errorf("without the key: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Key: apart}); !errors.Is(err, errKey) || !strings.Contains(err.Error(), "the log was removed") {
		t.Errorf("without the log: %v", err)
	}
}

// TestVerifyUnsigned: entries that nobody signed are told of once the service must have
// signed them, or their times are still to come.
func TestVerifyUnsigned(t *testing.T) {
	path, key := keptJournal(t, 5)
	now := time.Now()
	if r := mustVerify(t, path, key, VerifyOptions{Now: now.Add(time.Hour)}); r.Overdue != "" || !r.Beside || r.External {
		t.Errorf("a signed log: %+v", r)
	}
	unsign(t, path)
	beside := projectionPath(path, signedName)
	r, err := Verify(t.Context(), path, key, VerifyOptions{Now: now})
	if err != nil || r.OK() || !strings.Contains(r.FirstBad.Problem, "forked: the checkpoint kept beside it over 5 entries has another root") {
		t.Errorf("rewritten a moment ago, with the checkpoint beside it: %+v %v", r, err)
	}
	editFile(t, beside, func(b []byte) []byte { return b[:len(b)-1] })
	if r := mustVerify(t, path, key, VerifyOptions{Now: now}); r.Beside || r.Unread == "" {
		t.Errorf("a checkpoint that cannot be read: %+v", r)
	}
	if err := os.Remove(beside); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]string{
		time.Second: "", time.Hour: "the oldest is of ", -time.Hour: "still to come",
	} {
		r := mustVerify(t, path, key, VerifyOptions{Now: now.Add(after)})
		if r.Unsigned != 5 || (r.Overdue == "") != (want == "") || !strings.Contains(r.Overdue, want) {
			t.Errorf("%s later: %d unsigned, %q; want %q", after, r.Unsigned, r.Overdue, want)
		}
	}
}

// FuzzSigned: no text is too odd for the file that keeps the last signed size, nor for a
// public key, and nobody but the key's holder writes one that is believed.
func FuzzSigned(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal.db")
	j, err := Open(path, Options{})
	if err != nil {
		f.Fatal(err)
	}
	mustAppend(f, j, one("s", "k", "truth"))
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(projectionPath(path, signedName))
	if err != nil {
		f.Fatal(err)
	}
	key, err := parseKey(j.PublicKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, j.PublicKey())
	f.Add(bytes.Replace(good, []byte("\n"), []byte("\r\n"), 1), "PRIVATE+KEY+x")
	f.Add([]byte(signedForm+"AAAA\n\n"), "x+0+A")
	f.Fuzz(func(t *testing.T, b []byte, public string) {
		if s, err := parseSigned(b, key); err == nil && s == nil || err == nil && !bytes.Equal(b, good) {
			t.Errorf("%q is believed", b)
		}
		if v, err := parseKey(public); err == nil && (v == nil || strings.HasPrefix(strings.TrimSpace(public), "PRIVATE+KEY+")) {
			t.Errorf("%q is taken for a public key", public)
		}
	})
}

// TestKeyAlone: whoever has the key and not the file begins no log with it, redacts nothing,
// and the journal is as it was.
func TestKeyAlone(t *testing.T) {
	path, key := keptJournal(t, 3)
	before := contents(t, path)
	stolen := filepath.Join(t.TempDir(), "journal.db")
	editFileOrCreate(t, filepath.Join(filepath.Dir(stolen), KeyFile), contents(t, filepath.Join(filepath.Dir(path), KeyFile)))
	if j, err := Open(stolen, Options{}); err == nil {
		t.Errorf("a log was begun with the key: %v", j.Close())
	}
	if _, err := Redact(t.Context(), stolen, RedactOptions{Text: "truth", By: "user:mallory", Reason: "x"}); err == nil {
		t.Error("an entry was redacted without the file")
	}
	if !bytes.Equal(before, contents(t, path)) {
		t.Error("the journal's file changed")
	}
	if r := mustVerify(t, path, key, VerifyOptions{}); len(r.Redacted) != 0 || r.Unsigned != 0 {
		t.Errorf("%+v", r)
	}
}
