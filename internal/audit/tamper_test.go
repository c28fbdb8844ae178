package audit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
)

// tamperSeedsEnv is for the nightly run: how many seeds per kind of tampering.
const tamperSeedsEnv = "AUDIT_TAMPER_SEEDS"

// The log that is tampered with: entries enough for several checkpoints and
// tiles, in batches of one, with a checkpoint every tamperEvery entries.
const (
	tamperEntries = 300
	tamperEvery   = 40
)

// evidence is a log as its owner left it, and what the owner keeps elsewhere.
type evidence struct {
	file       []byte
	key        string // public
	signer     note.Signer
	private    []byte // journal.key
	root       string
	checkpoint []byte // over all entries
}

// gather makes a log of n entries.
func gather(t testing.TB, n int) *evidence {
	t.Helper()
	j := openTest(t, Options{NoSync: true, CheckpointEvery: tamperEvery})
	for i := range n {
		mustAppend(t, j, one(fmt.Sprintf("run/%d", i%7), "step", fmt.Sprint("payload ", i)))
	}
	cp, err := j.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	e := &evidence{key: j.PublicKey(), signer: j.keys.signer, checkpoint: cp, root: j.committed.Load().root().String()}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if e.file, err = os.ReadFile(j.Path()); err != nil {
		t.Fatal(err)
	}
	if e.private, err = os.ReadFile(filepath.Join(filepath.Dir(j.Path()), KeyFile)); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTamper: every tampering is found, and the right entry is named.
func TestTamper(t *testing.T) {
	seeds := 8
	if n, err := strconv.Atoi(os.Getenv(tamperSeedsEnv)); err == nil {
		seeds = n
	}
	e := gather(t, tamperEntries)
	other, _ := newKeys(t, e.signer.Name(), 7)
	for kind, list := range map[string][]tampering{"plain": plainTamperings(), "forged": forgedTamperings(other)} {
		for _, tt := range list {
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				dir := t.TempDir()
				for seed := range seeds {
					path := filepath.Join(dir, strconv.Itoa(seed))
					if err := os.WriteFile(path, e.file, 0o600); err != nil {
						t.Fatal(err)
					}
					n := tamper(t, tt, path, uint64(seed))
					judge(t, e, tt, path, n, seed)
				}
			})
		}
	}
}

// tamper applies a tampering to the log at path and returns the entry it hit.
func tamper(t *testing.T, tt tampering, path string, seed uint64) (n int) {
	t.Helper()
	editBolt(t, path, func(tx *bolt.Tx) (err error) {
		f := &forgery{rng: rand.New(rand.NewPCG(seed, 1)), notes: map[uint64][]byte{}}
		log := tx.Bucket(bucketLog).Cursor()
		for k, b := log.First(); k != nil; k, b = log.Next() {
			if _, record, ok := splitEntry(b); ok && !bytes.Equal(k, keyTree) {
				f.entries = append(f.entries, bytes.Clone(record))
			}
		}
		notes := tx.Bucket(bucketCheckpoints).Cursor()
		for k, b := notes.First(); k != nil; k, b = notes.Next() {
			size, _ := parseU64(k)
			f.notes[size] = bytes.Clone(b)
		}
		if tt.plain != nil {
			n, err = tt.plain(f, tx)
			return err
		}
		n = tt.forge(f)
		return f.rebuild(tx)
	})
	return n
}

// judge verifies the log and holds the finding against what was done to entry n.
func judge(t *testing.T, e *evidence, tt tampering, path string, n, seed int) {
	t.Helper()
	if tt.external {
		if r, err := Verify(t.Context(), path, e.key, VerifyOptions{}); err != nil || !r.OK() {
			t.Errorf("seed %d: without the exported checkpoint: %v, %v; should be consistent in itself", seed, r.FirstBad, err)
		}
	}
	for _, o := range []VerifyOptions{{Checkpoint: e.checkpoint}, {}} {
		if o.Checkpoint == nil && tt.external {
			continue
		}
		r, err := Verify(t.Context(), path, e.key, o)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		bad := r.FirstBad
		switch {
		case bad == nil:
			t.Errorf("seed %d: tampering with entry %d is not found", seed, n)
		case tt.plain != nil && (bad.Seq != uint64(n) || bad.Last != uint64(n)):
			t.Errorf("seed %d: entry %d was hit, found: %v", seed, n, bad)
		case bad.Seq > uint64(n) || bad.Last < uint64(n):
			t.Errorf("seed %d: entry %d was hit, found: %v", seed, n, bad)
		case tt.plain == nil && !tt.external && bad.Last-bad.Seq >= tamperEntries-tamperEvery && tt.name != "truncate":
			t.Errorf("seed %d: the range is no help: %v", seed, bad)
		}
	}
}

// A fork by the holder of the key is sound in itself; it shows against the
// checkpoint, and only there.
func TestTamperFork(t *testing.T) {
	j := openTest(t, Options{NoSync: true, CheckpointEvery: tamperEvery})
	path, key := j.Path(), j.PublicKey()
	for i := range 100 {
		mustAppend(t, j, one("s", "k", fmt.Sprint(i)))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	grow := func(what string, n int) []byte {
		j := openAt(t, path, Options{NoSync: true, CheckpointEvery: tamperEvery})
		for range n {
			mustAppend(t, j, one("s", "k", what))
		}
		cp, err := j.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		return cp
	}
	first := grow("truth", 50)
	mustVerify(t, path, key, VerifyOptions{Checkpoint: first})
	editFile(t, path, func([]byte) []byte { return old })
	if err := os.Remove(markerPath(path)); err != nil {
		t.Fatal(err)
	}
	second := grow("lies", 80)
	mustVerify(t, path, key, VerifyOptions{})
	mustVerify(t, path, key, VerifyOptions{Checkpoint: second})
	r, err := Verify(t.Context(), path, key, VerifyOptions{Checkpoint: first})
	if err != nil || r.OK() || r.FirstBad.Last != 149 || r.External {
		t.Errorf("%+v %v, %v", r, r.FirstBad, err)
	}
}

// Checkpoints cannot be removed from a long log without leaving a stretch that
// the journal would never have left unsigned.
func TestTamperCheckpointsRemoved(t *testing.T) {
	e := gather(t, maxCheckpointEvery+1)
	for name, keep := range map[string]func(size uint64) bool{
		"all":      func(uint64) bool { return false },
		"all late": func(size uint64) bool { return size < 2 },
	} {
		path := filepath.Join(t.TempDir(), "journal.db")
		if err := os.WriteFile(path, e.file, 0o600); err != nil {
			t.Fatal(err)
		}
		tamper(t, tampering{forge: func(f *forgery) int {
			for size := range f.notes {
				if !keep(size) {
					delete(f.notes, size)
				}
			}
			return 0
		}}, path, 1)
		r, err := Verify(t.Context(), path, e.key, VerifyOptions{})
		if err != nil || r.OK() {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Verify takes only the key it was given: not the one in the file.
func TestTamperOtherIdentity(t *testing.T) {
	e := gather(t, 5)
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, e.file, 0o600); err != nil {
		t.Fatal(err)
	}
	_, other := newKeys(t, e.signer.Name(), 9)
	otherKey, err := note.NewEd25519VerifierKey(other.Name(), bytes.Repeat([]byte{3}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(t.Context(), path, otherKey, VerifyOptions{}); err != nil || r.OK() {
		t.Errorf("another key: %+v, %v", r, err)
	}
	if _, err := Verify(t.Context(), path, otherKey, VerifyOptions{Checkpoint: e.checkpoint}); err == nil {
		t.Error("a checkpoint of another key is accepted")
	}
	editBolt(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyPublic, []byte(otherKey)) })
	if r, err := Verify(t.Context(), path, e.key, VerifyOptions{}); err != nil || r.OK() {
		t.Errorf("another key in the file: %+v, %v", r, err)
	}
}

// TestVerifyCut: verifying a copy that was cut off says so, and nothing about
// how to run a service.
func TestVerifyCut(t *testing.T) {
	e := gather(t, tamperEntries)
	path := filepath.Join(t.TempDir(), "copy.db")
	for _, pages := range []int{2, 3, len(e.file) / 4096 / 4} {
		if err := os.WriteFile(path, e.file[:pages*4096], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Verify(t.Context(), path, e.key, VerifyOptions{Checker: testChecker(t)})
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("cut off: it has %d bytes, by its header ", pages*4096)) ||
			!strings.Contains(err.Error(), "verify another copy") || strings.Contains(err.Error(), "move") {
			t.Errorf("cut to %d pages: %v", pages, err)
		}
	}
}
