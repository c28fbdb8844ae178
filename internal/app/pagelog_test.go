package app

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

// The page reads a stream by its places in the log, and names who did what.
func TestPageLog(t *testing.T) {
	j, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	for range 100 {
		var batch []audit.Append
		for k := range 100 {
			stream := fmt.Sprintf("run/r-%d", k)
			data := json.RawMessage(`{"by": "user:ada", "state": "triage"}`)
			if k == 0 {
				data = json.RawMessage(`{"by": {"other": 1}, "decision": {"by": "user:eve", "gate": "g-1"}}`)
			}
			batch = append(batch, audit.Append{Stream: stream, After: audit.Any, Records: []audit.Record{{Kind: "gate.decided", Data: data}}})
		}
		if _, err := j.Append(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	l := pageLog{j, time.Now}
	all := func(string) bool { return true }
	places, err := l.Positions("run/r-7")
	if err != nil || len(places) != 100 || places[0] != 7 {
		t.Fatalf("%d places, %v", len(places), err)
	}
	i := 90
	for e, err := range l.Stream("run/r-7", 90, all) {
		if err != nil || e.Seq != places[i] || e.By != "user:ada" {
			t.Fatalf("record %d: %+v, %v", i, e, err)
		}
		i++
	}
	if i != 100 {
		t.Errorf("the stream ends after %d", i)
	}
	for e, err := range l.Entries(0, all) {
		if err != nil {
			t.Fatal(err)
		}
		if e.By != "user:eve" {
			t.Errorf("the decision is by %q", e.By)
		}
		break
	}
	for e, err := range l.Entries(0, func(string) bool { return false }) {
		if err != nil || e.By != "" || e.Bytes == 0 {
			t.Errorf("an entry of a kind that nobody looks for is read: %+v, %v", e, err)
		}
		break
	}
	if hash, err := l.Leaf(7); err != nil || len(hash) != 44 {
		t.Errorf("leaf %q, %v", hash, err)
	}
	if _, err := l.Leaf(10_000); err == nil {
		t.Error("an entry that is not there has a hash")
	}
}

// The page verifies the open log, in the words of the command.
func TestPageLogVerifies(t *testing.T) {
	j, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if _, err := j.Append(t.Context(), audit.Append{Stream: "run/r-1", After: audit.Any, Records: []audit.Record{{Kind: "sampled", Data: json.RawMessage(`{}`)}}}); err != nil {
		t.Fatal(err)
	}
	read := uint64(0)
	v, err := pageLog{j, time.Now}.Verify(t.Context(), func(done, _ uint64) { read = done })
	if err != nil || !v.Intact || v.Standing != "intact" || v.Wrong != "" || read != 1 {
		t.Fatalf("%+v %v after %d entries", v, err, read)
	}
	facts := map[string]string{}
	for _, f := range v.Facts {
		facts[f[0]] = f[1]
	}
	if facts["entries"] != "1 in 1 stream" || facts["checkpoints"] != "1, the last over 1 entries" || facts["root"] == "" {
		t.Errorf("%q", facts)
	}
}
