package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A projection comes back as it was stored, over a restart. One that was damaged, or
// that belongs to another journal, is none.
func TestProjection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := Open(path, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("what was folded "), 10_000)
	get := func(j *Journal) []byte {
		t.Helper()
		b, err := j.Projection("dispatch")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if b := get(j); b != nil {
		t.Fatalf("a new journal has a projection of %d bytes", len(b))
	}
	if err := j.SaveProjection("dispatch", want); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(path, Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if !bytes.Equal(get(j), want) {
		t.Fatal("the projection changed over the restart")
	}

	file := path + ".dispatch"
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored {
		damaged := bytes.Clone(stored)
		damaged[i] ^= 1
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if get(j) != nil {
			t.Fatalf("a projection with a flipped bit in byte %d is taken", i)
		}
	}
	if err := os.WriteFile(file, stored[:len(stored)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if get(j) != nil {
		t.Error("half a projection is taken")
	}

	other, err := OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.WriteFile(other.Path()+".dispatch", stored, 0o600); err != nil {
		t.Fatal(err)
	}
	if get(other) != nil {
		t.Error("a projection of another journal is taken")
	}
}
