package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/audit"
)

// TestSnapshotEqualsLog writes random histories, with starts in between that store a
// snapshot or not, as after a stop and after a crash: a start from the last snapshot
// knows what a start that reads the whole log does.
func TestSnapshotEqualsLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := openJournal(t)
		defer j.Close()
		ops := rapid.SliceOfN(rapid.IntRange(0, 99), 1, 120).Draw(rt, "ops")
		for i, n := range ops {
			if n < 12 {
				d := loadFrom(rt, j)
				if n < 8 { // else it crashes before it stores one
					if err := d.Save(d.Snapshot()); err != nil {
						rt.Fatal(err)
					}
				}
				continue
			}
			appendRecord(rt, j, i, n)
		}
		short := loadFrom(rt, j)
		if err := os.Remove(j.Path() + ".dispatch"); err != nil && !os.IsNotExist(err) {
			rt.Fatal(err)
		}
		whole := loadFrom(rt, j)
		diff := cmp.Diff([]map[string]known{whole.m, whole.idle, whole.older}, []map[string]known{short.m, short.idle, short.older},
			cmp.AllowUnexported(known{}, runRef{}))
		if diff != "" || !cmp.Equal(whole.cursor, short.cursor, cmp.AllowUnexported(cursor{}, Note{})) {
			rt.Fatalf("from the snapshot it knows other episodes than from the log (-log +snapshot):\n%s\ncursors %+v, %+v", diff, whole.cursor, short.cursor)
		}
	})
}

// A snapshot is not used when the stream has another past: the journal was restored
// from a copy and went on from there.
func TestSnapshotOfAnotherPast(t *testing.T) {
	for _, after := range []int{0, 5} { // records of the other past
		j := openJournal(t)
		for i := range 4 {
			appendRecord(t, j, i, 20+i)
		}
		d := loadFrom(t, j)
		s := d.Snapshot()
		if after == 0 {
			s.Size = j.Size() + 1
		} else {
			s.Episodes = append(s.Episodes, storedEpisode{ID: "never", Runs: [][2]int{{0, 0}}, Seen: time.Now().UnixNano()})
		}
		if err := d.Save(s); err != nil {
			t.Fatal(err)
		}
		if after > 0 {
			b, err := j.Projection(ProjectionName)
			if err != nil || b == nil {
				t.Fatal(err)
			}
			other := openJournal(t)
			for i := range after {
				appendRecord(t, other, 100+i, 20)
			}
			if err := other.SaveProjection(ProjectionName, b); err != nil {
				t.Fatal(err)
			}
			j = other
		}
		got, err := loadFrom(t, j).loadSnapshot(d.Head())
		if err != nil || got != nil {
			t.Errorf("%d records of another past: the snapshot is used (%v)", after, err)
		}
	}
}

func openJournal(t testing.TB) *audit.Journal {
	t.Helper()
	j, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// loadFrom starts a dispatcher that people released the run r-2 from at some time, and that keeps
// few idle episodes.
func loadFrom(t rapid.TB, j *audit.Journal) *Dispatcher {
	t.Helper()
	d := New(Options{Journal: j, Blames: func(string) bool { return false }, Log: slog.New(slog.DiscardHandler)})
	d.mostIdle = 4
	if j.Size() > 20 {
		d.Released("r-2", 20, nil)
	}
	if err := d.Load(time.Now()); err != nil {
		t.Fatal(err)
	}
	d.Leave()
	return d
}

// appendRecord adds what became of an alert.
func appendRecord(t rapid.TB, j *audit.Journal, i, n int) {
	t.Helper()
	kinds := []string{KindMatched, KindCoalesced, KindResolved, KindRefired, KindUnmatched, KindNoService, KindSuppressed, KindQuarantined, KindRepeated}
	kind := kinds[n%len(kinds)]
	r := Record{Notification: uint64(i), Index: uint64(i / 2), Upto: i % 2, Done: i%2 == 1, Episodes: []string{fmt.Sprintf("e%d@then", n%13)}}
	switch kind {
	case KindMatched, KindCoalesced:
		r.Run, r.Playbook = fmt.Sprintf("r-%d", n%5), fmt.Sprintf("p-%d", n%2)
	case KindUnmatched, KindNoService, KindSuppressed:
		r.Reason, r.Retry = fmt.Sprintf("reason %d", n%3), n%4 == 0
		if n%5 < 3 { // of a suppressed alert: a pause, unless it is asked again
			r.Playbook = "p-0"
		}
	}
	_, err := j.Append(context.Background(), audit.Append{
		Stream: Stream, After: audit.Any, Records: []audit.Record{{Kind: kind, Time: time.Now().UTC().Round(0), Data: encode(r)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
