package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// What keeps a configuration's journal.keep sane is the executor's need.
func TestLeastKeep(t *testing.T) {
	if config.LeastKeep < executor.KeepAtLeast {
		t.Errorf("journal.keep may be %s, the executor reads what is younger than %s", config.LeastKeep, executor.KeepAtLeast)
	}
}

// notify appends a notification that was decided, at that time.
func notifyAt(t *testing.T, j *audit.Journal, at time.Time, index uint64) {
	t.Helper()
	done, err := json.Marshal(dispatch.Record{Index: index, Done: true, Episodes: []string{fmt.Sprint(index)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(t.Context(),
		audit.Append{Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: dispatch.KindNotification, Time: at, Data: json.RawMessage(`{"alerts":[]}`)}}},
		audit.Append{Stream: dispatch.Stream, After: audit.Any, Records: []audit.Record{{Kind: dispatch.KindUnmatched, Time: at, Data: done}}},
	); err != nil {
		t.Fatal(err)
	}
}

// newTestRetention returns what archives a journal of that many notifications, one an
// hour since 100 days ago.
func newTestRetention(t *testing.T, n int, log *strings.Builder) *retention {
	t.Helper()
	j, err := audit.Open(filepath.Join(t.TempDir(), JournalFile), audit.Options{NoSync: true, CheckpointEvery: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		notifyAt(t, j, time.Now().Add(-100*24*time.Hour+time.Duration(i)*time.Hour), uint64(i))
	}
	return &retention{
		journal: j, keep: 20 * 24 * time.Hour, archive: filepath.Join(t.TempDir(), "archive"), now: time.Now,
		rule: func(now time.Time) (*executor.Retention, error) { return executor.NewRetention(j, now) },
		log:  slog.New(slog.NewTextHandler(log, nil)),
	}
}

// The service archives at its start and then every hour; what fails leaves everything
// where it is, is told, and is tried again.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newTestRetention(t, 100, &log)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.run(ctx)
		}()
		synctest.Wait()
		if n, err := r.journal.Archived(); err != nil || n != 0 || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "no such file") {
			t.Fatalf("without the directory: %d archived, %v, log %s", n, err, log.String())
		}
		if s, err := r.Status(); err != nil || s.Failed == nil || s.Next == nil {
			t.Errorf("%+v, %v", s, err)
		}
		if err := os.Mkdir(r.archive, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retainEvery)
		synctest.Wait()
		s, err := r.Status()
		if err != nil || s.Failed != nil || s.Archived != 199 || len(s.Segments) != 1 || !strings.Contains(s.Waits, "is not old enough; journal.keep is 20d") {
			t.Errorf("%+v, %v, log %s", s, err, log.String())
		}

		// What is taken in now is archived when it is old enough, and a day of it together.
		for i := range 30 {
			notifyAt(t, r.journal, time.Now(), uint64(100+i))
			time.Sleep(time.Hour)
		}
		time.Sleep(19 * 24 * time.Hour)
		if n, err := r.journal.Archived(); err != nil || n != 199 {
			t.Errorf("too early: %d archived, %v", n, err)
		}
		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		if s, err = r.Status(); err != nil || s.Archived < 247 || len(s.Segments) != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		cancel()
		<-ended
	})
}

// Without journal.archive nothing is archived, and the status says so.
func TestNoArchive(t *testing.T) {
	var log strings.Builder
	r := newTestRetention(t, 100, &log)
	r.archive = ""
	r.archiveOld(t.Context())
	if s, err := r.Status(); err != nil || s.Archived != 0 || s.Waits != noArchive || log.String() != "" {
		t.Errorf("%+v, %v, log %s", s, err, log.String())
	}
	if a, err := r.Archive(t.Context(), api.JournalArchiveRequest{}); err != nil || a.Waits != noArchive {
		t.Errorf("%+v, %v", a, err)
	}
}

// A dry run says what an archive does, and does nothing.
func TestRetentionDryRun(t *testing.T) {
	var log strings.Builder
	r := newTestRetention(t, 20, &log)
	if err := os.Mkdir(r.archive, 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := r.Archive(t.Context(), api.JournalArchiveRequest{DryRun: true})
	if err != nil || before.Stretch == nil || before.Stretch.Segment != "" {
		t.Fatalf("%+v, %v", before, err)
	}
	if n, err := r.journal.Archived(); err != nil || n != 0 {
		t.Errorf("%d archived, %v", n, err)
	}
	done, err := r.Archive(t.Context(), api.JournalArchiveRequest{})
	if err != nil || done.Stretch == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	if done.Stretch.Segment = ""; *done.Stretch != *before.Stretch {
		t.Errorf("said %+v, did %+v", before.Stretch, done.Stretch)
	}
}

// What another build counted is used when it cannot be counted anew.
func TestCountsOfArchived(t *testing.T) {
	var log strings.Builder
	r := newTestRetention(t, 100, &log)
	if err := os.Mkdir(r.archive, 0o700); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-95 * 24 * time.Hour)
	appendEvents(t, r.journal, "r-1",
		machine.Event{Kind: machine.RunStarted, At: at, Start: &machine.Start{Run: "r-1", Playbook: "pb"}},
		machine.Event{Kind: machine.RunEnded, At: at, Ending: &machine.Ending{Outcome: machine.OutcomeResolved}})
	for i := range 4 { // up to the next checkpoint
		notifyAt(t, r.journal, at, uint64(100+i))
	}
	lever := func(string, string) string { return "" }
	p := newProjection(r.journal, lever)
	if err := errors.Join(p.catchUp(), p.stop()); err != nil {
		t.Fatal(err)
	}
	want := p.runs.stored()
	if _, err := r.Archive(t.Context(), api.JournalArchiveRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.journal.Stream("run/r-1", 0) {
		if !errors.Is(err, audit.ErrArchived) {
			t.Fatalf("the run is not archived: %v", err)
		}
	}
	later := newProjection(r.journal, lever)
	later.build = "another"
	if err := later.catchUp(); err != nil {
		t.Fatal(err)
	}
	if got := later.runs.stored(); len(want) != 1 || !maps.Equal(got, want) {
		t.Errorf("another build counts %v, this one counted %v", got, want)
	}
}
