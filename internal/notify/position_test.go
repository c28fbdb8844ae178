package notify

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

func openJournal(t *testing.T) *audit.Journal {
	t.Helper()
	journal, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	return journal
}

// appendKinds appends events without content to a run.
func appendKinds(t *testing.T, journal *audit.Journal, kinds ...machine.EventKind) {
	t.Helper()
	a := audit.Append{Stream: runStreams + "r-1", After: audit.Any}
	for _, kind := range kinds {
		a.Records = append(a.Records, audit.Record{Kind: string(kind), Time: time.Now(), Data: []byte("{}")})
	}
	if _, err := journal.Append(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// A channel that was removed and is added again is new.
func TestChannelThatIsAddedAgainIsNew(t *testing.T) {
	journal := openJournal(t)
	position := func(names ...string) string {
		t.Helper()
		for _, name := range names {
			f := &Feed{Name: name, journal: journal}
			if err := f.begin(); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := journal.Meta("feed/" + names[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	kept := position("kept", "gone")
	if err := forgetPositions(journal, []*Feed{{Name: "kept"}}); err != nil {
		t.Fatal(err)
	}
	appendKinds(t, journal, machine.RunStarted)
	if got := position("kept"); got != kept {
		t.Errorf("a channel that stays went from %s to %s", kept, got)
	}
	if got := position("gone"); got == kept {
		t.Errorf("a channel that was gone goes on from %s", got)
	}
}

// The position that an earlier version kept is a number.
func TestFeedPositionOfBefore(t *testing.T) {
	journal := openJournal(t)
	appendKinds(t, journal, machine.GateOpened, machine.GateEscalated)
	for raw, want := range map[string]uint64{"1": 1, `{"next":1}`: 1, "99999": 0} {
		if err := journal.SetMeta("feed/a", []byte(raw)); err != nil {
			t.Fatal(err)
		}
		f := &Feed{Name: "a", journal: journal}
		err := f.begin()
		if want == 0 {
			want = min(f.at.Next, journal.Size()) // no further than the log goes
		}
		if err != nil || f.at.Next != want || len(f.at.Owed) != 0 {
			t.Errorf("%s: %+v, %v", raw, f.at, err)
		}
	}
	if err := journal.SetMeta("feed/a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := (&Feed{Name: "a", journal: journal}).begin(); err == nil {
		t.Error("a position that is none is taken")
	}
}
