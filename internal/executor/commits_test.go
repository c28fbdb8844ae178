package executor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// A commit is a run's when the run recorded it as what its change became, and nobody
// else's that names the run.
func TestCommittedByTheJournal(t *testing.T) {
	j, err := audit.OpenTemp("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	event := func(kind machine.EventKind, sha string) machine.Event {
		return machine.Event{Kind: kind, At: time.Now(), State: "fix", Data: json.RawMessage(`{"action":"apply","revision":"` + sha + `"}`)}
	}
	recs, err := records([]machine.Event{event(machine.CheckCompleted, "aaaa"), event(machine.Applied, "bbbb"), event(machine.Unwound, "cccc")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(t.Context(), audit.Append{Stream: streamOf("r-1"), Records: recs}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		run, sha string
		want     bool
	}{
		{"r-1", "bbbb", true},
		{"r-1", "cccc", true},
		{"r-1", "aaaa", false},
		{"r-1", "dddd", false},
		{"r-1", "", false},
		{"r-2", "bbbb", false},
	} {
		if got, err := (Commits{j}).Committed(tt.run, tt.sha); err != nil || got != tt.want {
			t.Errorf("run %s made %q: %t, %v, want %t", tt.run, tt.sha, got, err, tt.want)
		}
	}
}
