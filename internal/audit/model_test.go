package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// A model is what the journal must hold, in the simplest form.
type model struct {
	log     []Record
	streams map[string][]Record
	cells   map[string]string
}

// TestModel drives a journal and the model with random calls and compares
// them, and at the end the tree with tlog's own over all leaves.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "audit-model-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "journal.db")
		o := Options{NoSync: true, CheckpointEvery: rapid.IntRange(1, 50).Draw(t, "every")}
		j, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { j.Close() }()
		m := &model{streams: map[string][]Record{}, cells: map[string]string{}}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { m.append(t, j) },
			"cell": func(t *rapid.T) {
				k, v := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.String().Draw(t, "value")
				if err := j.SetMeta(k, []byte(v)); err != nil {
					t.Fatal(err)
				}
				m.cells[k] = v
			},
			"reopen": func(t *rapid.T) {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				if j, err = Open(path, o); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) { m.compare(t, j) },
		})
		key := j.PublicKey()
		m.compareTree(t, j)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(t.Context(), path, key, VerifyOptions{})
		if err != nil || !r.OK() || r.Entries != uint64(len(m.log)) || r.Streams != uint64(len(m.streams)) || r.Unsigned != 0 {
			t.Fatalf("verify: %+v, %v, %v", r, r.FirstBad, err)
		}
	})
}

// append appends a random batch, to which the model knows the answer.
func (m *model) append(t *rapid.T, j *Journal) {
	var batch []Append
	ahead := map[string]int{}
	fits := true
	for range rapid.IntRange(1, 4).Draw(t, "appends") {
		a := Append{Stream: rapid.SampledFrom([]string{"intake", "run/1", "run/10", "run/2"}).Draw(t, "stream"), After: Any}
		head := uint64(len(m.streams[a.Stream]) + ahead[a.Stream])
		switch rapid.IntRange(0, 5).Draw(t, "after") {
		case 0:
			a.After = rapid.Uint64Max(head+1).Draw(t, "guess")
		case 1, 2, 3:
			a.After = head
		}
		fits = fits && (a.After == Any || a.After == head)
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			a.Records = append(a.Records, rec(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "kind"),
				strings.Repeat(rapid.StringN(0, 40, -1).Draw(t, "data"), rapid.SampledFrom([]int{1, 1, 1, 60}).Draw(t, "times"))))
		}
		ahead[a.Stream] += len(a.Records)
		batch = append(batch, a)
	}
	out, err := j.Append(t.Context(), batch...)
	if fits != (err == nil) || err != nil && !errors.Is(err, ErrConflict) {
		t.Fatalf("append: %v, the model says it fits: %v", err, fits)
	}
	for i := range out {
		s := out[i].Stream
		if out[i].Seq != uint64(len(m.log)) || out[i].Index != uint64(len(m.streams[s])) {
			t.Fatalf("record %+v is out of place", out[i])
		}
		m.log = append(m.log, out[i])
		m.streams[s] = append(m.streams[s], out[i])
	}
}

// compare reads the journal from random places.
func (m *model) compare(t *rapid.T, j *Journal) {
	if j.Size() != uint64(len(m.log)) {
		t.Fatalf("size %d, want %d", j.Size(), len(m.log))
	}
	from := rapid.IntRange(0, len(m.log)).Draw(t, "from")
	same(t, "log", m.log[from:], j.Log(uint64(from)))
	for s, want := range m.streams {
		from := rapid.IntRange(0, len(want)).Draw(t, "from")
		same(t, s, want[from:], j.Stream(s, uint64(from)))
		if head, err := j.Head(s); err != nil || head != uint64(len(want)) {
			t.Fatalf("head of %s: %d, %v, want %d", s, head, err, len(want))
		}
	}
	n := 0
	for _, err := range j.Streams("") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != len(m.streams) {
		t.Fatalf("%d streams, want %d", n, len(m.streams))
	}
	for k, want := range m.cells {
		if got, err := j.Meta(k); err != nil || string(got) != want {
			t.Fatalf("cell %s: %q, %v, want %q", k, got, err, want)
		}
	}
}

// same compares an iterator with what it must yield.
func same(t *rapid.T, what string, want []Record, seq func(func(Record, error) bool)) {
	i := 0
	for got, err := range seq {
		if err != nil || i >= len(want) {
			t.Fatalf("%s: record %d: %v, want %d records", what, i, err, len(want))
		}
		if !bytes.Equal(plain(&want[i]), plain(&got)) {
			t.Fatalf("%s: record %d: %s", what, i, cmp.Diff(want[i], got))
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("%s: %d records, want %d", what, i, len(want))
	}
}

// compareTree computes the root with tlog from the stored bytes, storing every
// hash as tlog does, and compares it with the journal's.
func (m *model) compareTree(t *rapid.T, j *Journal) {
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = hashes[x]
		}
		return out, nil
	})
	err := j.view(func(tx *bolt.Tx) error {
		n := int64(0)
		return tx.Bucket(bucketLog).ForEach(func(k, b []byte) error {
			if bytes.Equal(k, keyTree) {
				return nil
			}
			_, record, _ := splitEntry(b)
			more, err := tlog.StoredHashes(n, record, reader)
			hashes = append(hashes, more...)
			n++
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := tlog.TreeHash(int64(len(m.log)), reader)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.committed.Load().root(); got != want {
		t.Fatalf("root %v, tlog says %v", got, want)
	}
	b, err := j.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	key, err := parseKey(j.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := openCheckpoint(b, key); err != nil || c.root != want || fmt.Sprint(c.size) != fmt.Sprint(len(m.log)) {
		t.Fatalf("checkpoint %+v, %v", c, err)
	}
}
