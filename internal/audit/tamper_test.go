package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
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
	for _, name := range [][]byte{bucketLog, bucketHashes, bucketStreams, bucketIndex, bucketCheckpoints} {
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
	tiles := map[uint64][]byte{}
	heads := map[string]uint64{}
	for n, b := range f.entries {
		r, err := decodeRecord(b)
		if err != nil {
			return err
		}
		r.Seq, r.Index = uint64(n), heads[r.Stream]
		heads[r.Stream]++
		b = encodeRecord(&r)
		leaf := tlog.RecordHash(b)
		tr.add(leaf)
		tiles[r.Seq/tileSize] = append(tiles[r.Seq/tileSize], leaf[:]...)
		if err := tx.Bucket(bucketLog).Put(u64(r.Seq), b); err != nil {
			return err
		}
		if err := tx.Bucket(bucketIndex).Put(appendIndexKey(nil, r.Stream, r.Index), u64(r.Seq)); err != nil {
			return err
		}
	}
	for n, tile := range tiles {
		if err := tx.Bucket(bucketHashes).Put(u64(n), tile); err != nil {
			return err
		}
	}
	for s, head := range heads {
		if err := tx.Bucket(bucketStreams).Put([]byte(s), u64(head)); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put(keyTree, tr.encode())
}

// resign replaces the checkpoints by ones that fit, signed with another key.
func (f *forgery) resign(s note.Signer) {
	var tr tree
	for n, b := range f.entries {
		tr.add(tlog.RecordHash(b))
		if f.notes[uint64(n+1)] != nil {
			f.notes[uint64(n+1)], _ = signCheckpoint(&tr, s)
		}
	}
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
	// external says that only the exported checkpoint can show it.
	external bool
}

// swapValues exchanges the values of two entries.
func swapValues(f *forgery, tx *bolt.Tx, a, b int) error {
	log := tx.Bucket(bucketLog)
	if err := log.Put(u64(uint64(a)), f.entries[b]); err != nil {
		return err
	}
	return log.Put(u64(uint64(b)), f.entries[a])
}

// tamperings of single cells.
func plainTamperings() []tampering {
	return []tampering{
		{name: "edit", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			f.alter(n)
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), f.entries[n])
		}},
		{name: "edit any byte", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry()
			b := bytes.Clone(f.entries[n])
			b[f.rng.IntN(len(b))] ^= byte(1 + f.rng.IntN(255))
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), b)
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
			return n, tx.Bucket(bucketLog).Put(u64(uint64(n)), f.entries[n-1])
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
			tile := bytes.Clone(tx.Bucket(bucketHashes).Get(u64(uint64(n / tileSize))))
			tile[n%tileSize*tlog.HashSize+f.rng.IntN(tlog.HashSize)] ^= 1
			return n, tx.Bucket(bucketHashes).Put(u64(uint64(n/tileSize)), tile)
		}},
		{name: "leaf hashes removed", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			n := f.entry() / tileSize
			return n * tileSize, tx.Bucket(bucketHashes).Delete(u64(uint64(n)))
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
		{name: "head", plain: func(f *forgery, tx *bolt.Tx) (int, error) {
			return tamperEntries - 7, tx.Bucket(bucketStreams).Put([]byte("run/"+strconv.Itoa((tamperEntries-7)%7)), u64(3))
		}},
	}
}

// tamperings by someone who knows how the log works but lacks the key.
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
			f.notes[2*tamperEvery], _ = signCheckpoint(&tr, other)
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
			f.entries = append(f.entries, bytes.Clone(b))
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
