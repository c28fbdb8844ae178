package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A copy of a log can be read with nothing but the file, and reading leaves
// the file as it was.
func TestReaderReadsACopy(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(filepath.Join(dir, "journal.db"), Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"first", "second"} {
		if _, err := j.Append(context.Background(), Append{Stream: "s", After: Any, Records: []Record{{Kind: kind, Data: []byte(`{}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenReader(context.Background(), j.Path(), nil); !errors.Is(err, ErrLocked) {
		t.Errorf("a file that a service has open: %v, want ErrLocked", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, before, 0o400); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(context.Background(), copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for rec, err := range r.Log(0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, rec.Kind)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if len(kinds) != 2 || kinds[0] != "first" || kinds[1] != "second" {
		t.Errorf("read %v", kinds)
	}
	if after, err := os.ReadFile(copied); err != nil || string(after) != string(before) {
		t.Errorf("reading changed the file: %v", err)
	}
}
