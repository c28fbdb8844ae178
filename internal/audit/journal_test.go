package audit

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
)

// openTest opens a journal in a directory of the test.
func openTest(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Open(filepath.Join(t.TempDir(), "journal.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// rec is a record of one kind with a JSON string as its payload.
func rec(kind, data string) Record {
	b, _ := json.Marshal(data)
	return Record{Kind: kind, Data: b}
}

func TestAppendAndRead(t *testing.T) {
	j := openTest(t, Options{})
	ctx := t.Context()
	out, err := j.Append(ctx,
		Append{Stream: "intake", After: Any, Records: []Record{rec("notification", "a")}},
		Append{Stream: "run/1", After: 0, Records: []Record{rec("run.started", "b"), rec("step", "c")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 3 || out[2].Seq != 2 || out[2].Index != 1 || out[2].Stream != "run/1" {
		t.Fatalf("got %+v", out)
	}
	_, err = j.Append(ctx, Append{Stream: "run/1", After: 1, Records: []Record{rec("x", "d")}})
	var conflict *ConflictError
	if !errors.Is(err, ErrConflict) || !errors.As(err, &conflict) || conflict.Actual != 2 {
		t.Fatalf("got %v", err)
	}
	var kinds []string
	for r, err := range j.Log(0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, r.Kind)
	}
	if len(kinds) != 3 {
		t.Fatalf("got %v", kinds)
	}
	path := j.Path()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err != nil {
		t.Fatal(err)
	}
	j, err = Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if head, err := j.Head("run/1"); head != 2 || err != nil {
		t.Fatal(head, err)
	}
}
