package dispatch

import (
	"fmt"
	"testing"
	"time"
)

// Alerts that nobody acts on do not fill the memory, however many there are; what
// had a run, or waits for one, is remembered all the same.
func TestMemoryOfIdleEpisodesIsBounded(t *testing.T) {
	x := newEpisodes()
	now := time.Now()
	x.put("acted", known{seen: now, runs: []runRef{{"r-1", "p"}}})
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
	k.runs = []runRef{{"r-2", "p"}}
	x.put(last, k)
	if _, idle := x.idle[last]; idle || !x.get(last).had("p") {
		t.Error("an episode that starts a run stays among the idle ones")
	}
}
