package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Alerts that nobody acts on do not fill the memory, however many there are; what
// had a run, or waits for one, is remembered all the same.
func TestMemoryOfIdleEpisodesIsBounded(t *testing.T) {
	x := newEpisodes()
	now := time.Now()
	x.put("acted", known{seen: now, runs: []runRef{{id: "r-1", playbook: "p"}}})
	x.put("waits", known{seen: now, firing: true, kind: KindSuppressed, reason: "a pause"})
	for i := range 10 * mostIdle {
		x.put(fmt.Sprint("idle-", i), known{seen: now, firing: true, kind: KindUnmatched})
	}
	if n := x.Size(); n > 2*mostIdle+2 {
		t.Errorf("%d episodes are remembered", n)
	}
	if !x.get("acted").had("p") || !x.get("waits").waits() {
		t.Errorf("forgotten: %+v, %+v", x.get("acted"), x.get("waits"))
	}
	last := fmt.Sprint("idle-", 10*mostIdle-1)
	if k := x.get(last); k.kind != KindUnmatched {
		t.Errorf("a repeat of the newest is taken for news: %+v", k)
	}
	k := x.get(last)
	k.runs = []runRef{{id: "r-2", playbook: "p"}}
	x.put(last, k)
	if _, idle := x.idle[last]; idle || !x.get(last).had("p") {
		t.Error("an episode that starts a run stays among the idle ones")
	}
}

// Nor do alerts that wait for a run: what exceeds the bound is remembered as if nobody
// acted on it, and an episode that had a run stays.
func TestMemoryOfWaitingEpisodesIsBounded(t *testing.T) {
	x := newEpisodes()
	now := time.Now()
	x.put("acted", known{seen: now, runs: []runRef{{id: "r-1", playbook: "p"}}})
	waits := known{seen: now, firing: true, kind: KindSuppressed, reason: "a pause", note: 7}
	for i := range 10 * mostWaiting {
		x.put(fmt.Sprint("waits-", i), waits)
	}
	if n := x.Size(); n > 2*mostIdle+mostWaiting+1 {
		t.Errorf("%d episodes are remembered", n)
	}
	if n := len(x.suppressed(now, nil)[7]); n != mostWaiting || !x.get("acted").had("p") {
		t.Errorf("%d wait, want %d; acted: %+v", n, mostWaiting, x.get("acted"))
	}
	for i := range 10 { // those that stop waiting make room
		x.put(fmt.Sprint("waits-", i), known{seen: now, runs: []runRef{{id: "r-2", playbook: "p"}}})
	}
	x.Prune(now.Add(EpisodesKept + time.Hour))
	if len(x.m) != 0 || x.waiting != 0 {
		t.Errorf("%d are remembered and %d counted as waiting after all were forgotten", len(x.m), x.waiting)
	}
}

// Nor do alerts that had a run: those that resolved make room, the oldest first. They
// are still known when they arrive again.
func TestMemoryOfActedEpisodesIsBounded(t *testing.T) {
	const most = 10
	d := loadFrom(t, openJournal(t))
	d.mostActed, d.mostIdle = most, 8
	now := time.Now()
	had := func(i int) string { return fmt.Sprint("had-", i) }
	for i := range most {
		d.put(had(i), known{firing: true, seen: now, runs: []runRef{{id: "r-1", playbook: "p"}}})
	}
	if !d.crowded(now) || !d.Crowded() {
		t.Error("more alerts get a run than may be remembered")
	}
	for i := range 6 {
		d.put(had(i), known{seen: now.Add(time.Duration(i)), resolved: now, runs: []runRef{{id: "r-1", playbook: "p"}}})
	}
	if !d.crowded(now.Add(lateWithin - time.Second)) {
		t.Error("what may still arrive late makes room")
	}
	later := now.Add(lateWithin + lookAgain)
	if d.crowded(later) || d.Crowded() || len(d.m) != most-4 {
		t.Errorf("after some resolved, %d are remembered, crowded: %v", len(d.m), d.Crowded())
	}
	if _, ok := d.m[had(4)]; !ok || d.get(had(0)).resolved.IsZero() || !d.get(had(9)).had("p") {
		t.Errorf("not the oldest makes room, or is forgotten: %+v, %+v", d.get(had(0)), d.m)
	}
	if k := (known{firing: true, seen: now, runs: []runRef{{id: "r-1", playbook: "p"}}}); k.past(now.Add(time.Hour)) || !k.past(now.Add(stillBelieved)) {
		t.Error("one that fires makes room too soon, or never where nobody mentions it")
	}
	restored := loadFrom(t, openJournal(t))
	restored.restore(d.Snapshot(), later)
	if len(restored.m) != most-4 || !restored.get(had(0)).had("p") {
		t.Errorf("after a restart %d are remembered, and %+v", len(restored.m), restored.get(had(0)))
	}
	d.take(map[string]known{had(0): {firing: true, seen: later}})
	if k, ok := d.m[had(0)]; !ok || !k.had("p") {
		t.Errorf("one that fires again is not of its run any more: %+v", k)
	}
}

// TestJoined: an episode that a run began with started it, also after that run handed over
// to another one. Every other episode of a run joined it, and so did each of a run that a
// person started.
func TestJoined(t *testing.T) {
	now := time.Now()
	first := playbook.Alert{Fingerprint: "first", Status: playbook.Firing, StartsAt: now}
	second := playbook.Alert{Fingerprint: "second", Status: playbook.Firing, StartsAt: now}
	start := machine.Start{Run: "r-1", Playbook: "p", Alert: first}
	next := machine.Start{Run: "r-2", Playbook: "q", Alert: second, DivertedFrom: "r-1"}
	ended := machine.Ending{Divert: "q", Into: "r-2", Released: []string{first.Episode(), second.Episode()}}
	stays := machine.Ending{Divert: "q", Into: "r-2"}
	both := func(x *episodes, s machine.Start) {
		x.Has(first, s, now)
		x.Has(second, s, now)
	}
	for name, tt := range map[string]struct {
		fold          func(x *episodes)
		first, second bool // joined
	}{
		"open":    {func(x *episodes) { both(x, start) }, false, true},
		"by hand": {func(x *episodes) { both(x, machine.Start{Run: "r-1", Playbook: "p", By: "user:ada"}) }, true, true},
		"released into the next one, which is known later": {func(x *episodes) {
			both(x, start)
			x.Release("r-1", &ended)
			both(x, next)
		}, false, true},
		"released into the next one, which is known before": {func(x *episodes) {
			both(x, start)
			both(x, next)
			x.Release("r-1", &ended)
		}, false, true},
		"inherited at the start": {func(x *episodes) {
			both(x, start)
			x.Inherit(func(run string) (*machine.Ending, time.Time) {
				if run == "r-1" {
					return &stays, now
				}
				return nil, now
			})
		}, false, true},
		"the record tells": {func(x *episodes) {
			both(x, machine.Start{Run: "r-1", Playbook: "p"}) // what is left of one that cannot be read
			k := x.get(first.Episode())
			k.runs = with(k.runs, runRef{"r-1", "p", true})
			x.put(first.Episode(), k)
		}, false, true},
		"no run": {func(*episodes) {}, false, false},
	} {
		x := newEpisodes()
		tt.fold(x)
		if a, b := x.get(first.Episode()), x.get(second.Episode()); a.joined() != tt.first || b.joined() != tt.second {
			t.Errorf("%s: joined %v and %v, want %v and %v: %+v, %+v", name, a.joined(), b.joined(), tt.first, tt.second, a.runs, b.runs)
		}
	}
}

// TestReleaseIsNews: what was sent again while a run had the alert does not count as a
// repeat of the wait that follows.
func TestReleaseIsNews(t *testing.T) {
	a := playbook.Alert{Fingerprint: "first", Status: playbook.Firing, StartsAt: time.Now()}
	x := newEpisodes()
	x.Has(a, machine.Start{Run: "r-1", Playbook: "p", Alert: a}, time.Now())
	k := x.get(a.Episode())
	k.again(time.Now())
	x.put(a.Episode(), k)
	x.Release("r-1", &machine.Ending{Released: []string{a.Episode()}})
	if k := x.get(a.Episode()); k.kind != KindSuppressed || k.repeats != 0 || !k.repeated.IsZero() {
		t.Errorf("released by its run: %+v", k)
	}
}
