package executor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// TestLeaving: only decided notifications that nothing waits for, decisions, and ended
// runs that nobody is still to be told of, leave the journal.
func TestLeaving(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	old, lately := now.Add(-100*24*time.Hour), now.Add(-time.Hour)
	j, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	add := func(stream, kind string, at time.Time, data string) uint64 {
		t.Helper()
		out, err := j.Append(t.Context(), audit.Append{Stream: stream, After: audit.Any, Records: []audit.Record{{Kind: kind, Time: at, Data: []byte(data)}}})
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Seq
	}
	const started, entered, ended = string(machine.RunStarted), string(machine.StateEntered), string(machine.RunEnded)
	run := func(id string, kinds ...string) (seqs []uint64) {
		for _, kind := range kinds {
			seqs = append(seqs, add(prefixRun+id, kind, old, `{}`))
		}
		return seqs
	}
	notification := func() uint64 {
		return add(dispatch.StreamIntake, dispatch.KindNotification, old, `{"alerts":[]}`)
	}
	decided := func(kind string, at time.Time, r dispatch.Record) uint64 {
		return add(dispatch.Stream, kind, at, string(encode(r)))
	}

	plain, waits, joined := notification(), notification(), notification()
	done := run("r-done", started, entered, ended)
	run("r-open", started, entered)
	owed := run("r-owed", started, ended)
	late := run("r-late", started, ended, string(machine.DecisionIgnored))
	spans := run("r-spans", started)
	add(streamControl, KindNoticeDue, old, `{"key":"a","run":"r-owed","text":"x"}`)
	add(streamControl, KindNoticeDue, old, `{"key":"b","run":"r-done","text":"x"}`)
	add(streamControl, KindNotice, old, `{"key":"b","text":"x"}`)
	decision := decided(dispatch.KindUnmatched, old, dispatch.Record{Notification: plain, Index: 0, Done: true, Episodes: []string{"p@1"}})
	suppressed := decided(dispatch.KindSuppressed, lately, dispatch.Record{Notification: waits, Index: 1, Done: true, Episodes: []string{"w@1"}, Reason: "paused"})
	decided(dispatch.KindMatched, lately, dispatch.Record{Notification: joined, Index: 2, Done: true, Episodes: []string{"j@1"}, Run: "r-open", Playbook: "p"})
	end := j.Size()
	spans = append(spans, add(prefixRun+"r-spans", ended, old, `{}`))

	rule, err := NewRetention(j, now)
	if err != nil {
		t.Fatal(err)
	}
	l, err := rule.Leaving(0, end)
	if err != nil || l.Waits != "" {
		t.Fatalf("%+v, %v", l, err)
	}
	want := slices.Concat([]uint64{plain}, done, late, []uint64{decision, suppressed}) // the last decision is the cursor
	if slices.Sort(l.Entries); !slices.Equal(l.Entries, want) || l.Notifications != 1 || l.Decisions != 2 || l.Runs != 2 || l.Kept != 1 {
		t.Errorf("%+v; want the entries %v", l, want)
	}
	// A run leaves whole, with the stretch that has its end.
	if l, err = rule.Leaving(end, j.Size()); err != nil || l.Runs != 1 || !slices.Contains(l.Entries, spans[0]) {
		t.Errorf("%+v, %v; want all of r-spans, %v", l, err, spans)
	}
	// A run that stayed leaves with the stretch in which people were told of it.
	told := add(streamControl, KindNotice, old, `{"key":"a","text":"x"}`)
	if rule, err = NewRetention(j, now); err != nil {
		t.Fatal(err)
	}
	if l, err = rule.Leaving(told, j.Size()); err != nil || l.Runs != 1 || !slices.Equal(l.Entries, owed) {
		t.Errorf("%+v, %v; want all of r-owed, %v", l, err, owed)
	}
	// What is not decided keeps its stretch.
	add(dispatch.StreamIntake, dispatch.KindNotification, old, `{"alerts":[]}`)
	if l, err = rule.Leaving(end, j.Size()); err != nil || !strings.Contains(l.Waits, "is not decided yet") {
		t.Errorf("%+v, %v", l, err)
	}
}
