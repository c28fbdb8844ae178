package notify

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// archiveRun archives the journal as it is, with the bodies of run r-1.
func archiveRun(t *testing.T, journal *audit.Journal) {
	t.Helper()
	if err := journal.Snapshot(io.Discard); err != nil { // signs a checkpoint
		t.Fatal(err)
	}
	dir := t.TempDir()
	stretch, why, err := journal.Sealable(0, time.Now().Add(time.Hour), 1<<20)
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	if _, err := journal.Seal(t.Context(), dir, stretch, []string{runStreams}); err != nil {
		t.Fatal(err)
	}
	seqs, err := journal.Positions(runStreams + "r-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Drop(t.Context(), dir, seqs); err != nil {
		t.Fatal(err)
	}
}

// What is archived is too old to tell anybody: a new channel is not owed it, one that
// stood before it goes on after it, and so does one that owed a reminder of it.
func TestFeedPassesWhatIsArchived(t *testing.T) {
	journal := openJournal(t)
	appendKinds(t, journal, machine.GateOpened, machine.GateReminded)
	archiveRun(t, journal)
	end := journal.Size()

	added := &Feed{Name: "added", journal: journal}
	if err := added.begin(); err != nil || len(added.at.Owed) != 0 || added.at.Next != end {
		t.Errorf("a new channel begins at %+v, %v", added.at, err)
	}
	late := &Feed{Name: "late", journal: journal, log: slog.New(slog.DiscardHandler)}
	late.at.Owed = []uint64{1}
	if err := late.catchUp(t.Context()); err != nil || len(late.at.Owed) != 0 || late.at.Next != end {
		t.Errorf("a channel that was behind is at %+v, %v; want %d", late.at, err, end)
	}
}
