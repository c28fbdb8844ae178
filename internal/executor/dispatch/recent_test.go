package dispatch

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/playbook"
)

func notificationOf(alerts int) playbook.Notification {
	n := playbook.Notification{Version: "4", Status: playbook.Firing, ReceivedAt: time.Now().UTC().Round(0)}
	for i := range alerts {
		n.Alerts = append(n.Alerts, playbook.Alert{
			Fingerprint: fmt.Sprintf("%016x", i), Status: playbook.Firing, StartsAt: n.ReceivedAt, Labels: map[string]string{"alertname": "Slow"},
		})
	}
	return n
}

// What is handed over in memory is what the journal holds, in its order, whoever
// sends at the same time.
func TestHandedOverAsJournaled(t *testing.T) {
	j := openJournal(t)
	defer j.Close()
	intake, err := NewIntake(j, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			for k := range 20 {
				if _, err := intake.Admit(t.Context(), notificationOf(1+(i*k)%5)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	o := Options{Journal: j, Blames: func(string) bool { return false }, Log: slog.New(slog.DiscardHandler)}
	reads := New(o)
	o.Intake = intake
	handed := New(o)
	met := 0
	for met < 160 {
		want, err := reads.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(intake.recent.from(uint64(met))) != len(want) {
			t.Fatalf("%d notifications are at hand from %d on, the journal has %d", len(intake.recent.notes), met, len(want))
		}
		got, err := handed.Next()
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Note{})); err != nil || diff != "" {
			t.Fatalf("%v (-journal +handed over):\n%s", err, diff)
		}
		met += len(want)
		reads.cursor.index, handed.cursor.index = uint64(met), uint64(met)
	}
	if got := intake.recent.from(uint64(met)); len(got) != 0 || intake.recent.alerts != 0 || len(intake.recent.notes) != 0 {
		t.Errorf("%d notifications and %d alerts are left", len(intake.recent.notes), intake.recent.alerts)
	}
}

// Memory holds only so many, and the journal has what it lacks.
func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i, alerts := range []int{1, mostRecent, 2, mostRecent - 3, 1} {
		r.add(Note{index: uint64(i), data: notificationOf(alerts)})
	}
	if r.alerts != mostRecent || len(r.notes) != 3 {
		t.Errorf("%d alerts of %d notifications are held, want %d of 3", r.alerts, len(r.notes), mostRecent)
	}
	for index, want := range []int{1, 0, 2, 1, 0} {
		if got := r.from(uint64(index)); len(got) != want {
			t.Errorf("%d notifications from %d on, want %d", len(got), index, want)
		}
	}
	if r.alerts != 0 {
		t.Errorf("%d alerts are left", r.alerts)
	}
}
