package executor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestRunsOfAPeriod: every run that began in the period is read once, page after page,
// and none is left out in silence: one that is archived or unreadable is named.
func TestRunsOfAPeriod(t *testing.T) {
	j, err := audit.Open(filepath.Join(t.TempDir(), "journal.db"), audit.Options{NoSync: true, CheckpointEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	now := time.Now()
	id := func(at time.Time) string {
		return "r-" + ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()
	}
	add := func(run string, kind machine.EventKind, data string) uint64 {
		t.Helper()
		out, err := j.Append(t.Context(), audit.Append{Stream: prefixRun + run, After: audit.Any, Records: []audit.Record{{Kind: string(kind), Data: []byte(data)}}})
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Seq
	}
	archived, unreadable := id(now.Add(-2*time.Hour)), id(now.Add(-time.Hour))
	leaves := []uint64{add(archived, machine.RunStarted, `{}`), add(archived, machine.RunEnded, `{"ending":{"outcome":"resolved"}}`)}
	archive(t, j, leaves)
	set := waitingSet(t)
	e, stop := liveWith(t, Options{
		Journal: j, Playbooks: func() *playbook.Set { return set }, Kinds: testKinds(), Services: testServices(), Steps: newWorld(time.Now), Autonomy: playbook.Auto,
	})
	defer stop()
	changed, end := j.Watch()
	defer end()
	for _, service := range []string{"a", "b", "c"} {
		admit(t, j, playbook.Notification{Alerts: []playbook.Alert{alertOf("Slow", service)}})
	}
	for len(e.Runs(Filter{})) < 3 {
		<-changed
	}
	add(unreadable, machine.RunStarted, `{"start":{"playbook":"of-another-time","digest":"sha256:0"}}`)
	add(unreadable, machine.RunEnded, `{"ending":{"outcome":"resolved"}}`)
	var want []string // newest first
	for _, s := range e.Runs(Filter{}) {
		if s.Start.Run != unreadable {
			want = append(want, s.Start.Run)
		}
	}
	read := func(p Period) (runs []string, all Part, pages int) {
		t.Helper()
		for {
			part, err := e.Began(t.Context(), p, func(s machine.State, events []machine.Event) {
				if len(events) == 0 || s.Head != uint64(len(events)) {
					t.Errorf("run %s has %d events, and a state of %d", s.Start.Run, len(events), s.Head)
				}
				runs = append(runs, s.Start.Run)
			})
			if err != nil {
				t.Fatal(err)
			}
			all.Archived, all.Unreadable = append(all.Archived, part.Archived...), append(all.Unreadable, part.Unreadable...)
			pages++
			if p.Before = part.Next; p.Before == "" {
				return runs, all, pages
			}
		}
	}
	whole := Period{Since: now.Add(-24 * time.Hour), Until: now.Add(time.Hour), Limit: 2}
	runs, part, pages := read(whole)
	if !slices.Equal(runs, want) || pages != 3 {
		t.Errorf("%v in %d pages, want %v in 3", runs, pages, want)
	}
	if diff := cmp.Diff(Part{Archived: []string{archived}, Unreadable: []string{unreadable}}, part); diff != "" {
		t.Error(diff)
	}
	if runs, part, _ := read(Period{Since: now.Add(-24 * time.Hour), Until: now.Add(-90 * time.Minute), Limit: 9}); len(runs) != 0 || len(part.Archived) != 1 || len(part.Unreadable) != 0 {
		t.Errorf("until before the runs: %v, %+v", runs, part)
	}
	if runs, part, _ := read(Period{Since: now.Add(30 * time.Minute), Until: now.Add(time.Hour), Limit: 9}); len(runs)+len(part.Archived)+len(part.Unreadable) != 0 {
		t.Errorf("after the runs: %v, %+v", runs, part)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Began(ctx, whole, func(machine.State, []machine.Event) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever asked is gone: %v", err)
	}
}

// archive moves the bodies of entries into a segment.
func archive(t *testing.T, j *audit.Journal, seqs []uint64) {
	t.Helper()
	dir := t.TempDir()
	s, why, err := j.Sealable(0, time.Now().Add(time.Hour), 1<<20)
	if err != nil || s.End == s.First {
		t.Fatalf("%+v, %s, %v", s, why, err)
	}
	sealed, err := j.Seal(t.Context(), dir, s, ArchivedStreams())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Drop(t.Context(), dir, seqs), j.Dropped(sealed)); err != nil {
		t.Fatal(err)
	}
}
