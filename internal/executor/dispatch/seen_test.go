package dispatch

import (
	"fmt"
	"testing"
	"time"
)

// TestSeenIsBounded: of many episodes the newest are returned, in order, and that there
// are more is said.
func TestSeenIsBounded(t *testing.T) {
	x := newEpisodes()
	x.mostIdle = 5000
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for i := range 4000 {
		k := known{firing: i%2 == 0, seen: began.Add(time.Duration(i*7919%4000) * time.Second), kind: KindUnmatched, reason: "no playbook"}
		if i%4 == 0 {
			k.runs, k.kind, k.reason = []runRef{{id: "r-1", playbook: "p"}}, "", ""
		}
		x.put(fmt.Sprintf("%04x@t", i), k)
	}
	fires := true
	for name, tt := range map[string]struct {
		f     SeenFilter
		most  int
		want  int
		first time.Time
		more  bool
	}{
		"all":      {SeenFilter{}, 50, 50, began.Add(3999 * time.Second), true},
		"one":      {SeenFilter{Episode: "0001@"}, 50, 1, began.Add(7919 % 4000 * time.Second), false},
		"no run":   {SeenFilter{NoRun: true, Firing: &fires}, 2000, 1000, time.Time{}, false},
		"skipped":  {SeenFilter{Skip: 3990}, 50, 10, began.Add(9 * time.Second), false},
		"a page":   {SeenFilter{Skip: 100}, 50, 50, began.Add(3899 * time.Second), true},
		"beyond":   {SeenFilter{Skip: 5000}, 50, 0, time.Time{}, false},
		"no match": {SeenFilter{Episode: "zz"}, 50, 0, time.Time{}, false},
	} {
		got, more := x.Seen(tt.most, tt.f)
		if len(got) != tt.want || more != tt.more || !tt.first.IsZero() && !got[0].At.Equal(tt.first) {
			t.Errorf("%s: %d, more: %v, the first %+v", name, len(got), more, got[:min(len(got), 1)])
		}
		for i := range got {
			if i > 0 && got[i].At.After(got[i-1].At) || name == "no run" && (len(got[i].Runs) > 0 || !got[i].Firing) {
				t.Fatalf("%s: %d: %+v", name, i, got[i])
			}
		}
	}
}

// TestTallyOfAPeriod: an episode counts in the period in which it began to fire, once,
// whatever was mentioned of it later.
func TestTallyOfAPeriod(t *testing.T) {
	x := newEpisodes()
	x.mostIdle = 4
	day := func(n int) time.Time { return time.Date(2026, 5, n, 12, 0, 0, 0, time.UTC) }
	put := func(id string, began time.Time, k known) {
		if k.seen.IsZero() {
			k.seen = day(20)
		}
		x.put(id+"@"+began.Format(time.RFC3339Nano), k)
	}
	put("a", day(4), known{runs: []runRef{{id: "r-1", playbook: "p"}}})
	put("b", day(4), known{kind: KindUnmatched})
	put("c", day(5), known{kind: KindUnmatched})
	put("e", day(3), known{kind: KindNoService})
	x.put("odd", known{kind: KindSuppressed, seen: day(6)}) // its name does not tell when it began
	put("d", day(11), known{kind: KindUnmatched})           // the idle ones are full: they become the older ones
	put("b", day(4), known{kind: KindUnmatched})            // mentioned again
	got := x.Tally(SeenFilter{Since: day(4), Until: day(11)})
	if len(got) != 3 || got[KindMatched] != 1 || got[KindUnmatched] != 2 || got[KindSuppressed] != 1 {
		t.Errorf("of the period: %v", got)
	}
	seen, _ := x.Seen(10, SeenFilter{})
	once := map[string]bool{}
	for _, s := range seen {
		if once[s.Episode] {
			t.Errorf("%s is listed twice", s.Episode)
		}
		once[s.Episode] = true
	}
	sum := 0
	for _, n := range x.Tally(SeenFilter{}) {
		sum += n
	}
	if sum != len(once) || x.Size() != sum {
		t.Errorf("%d episodes are counted of %d, the size is %d", sum, len(once), x.Size())
	}
	if got := x.Tally(SeenFilter{Kind: KindUnmatched, Since: day(11)}); len(got) != 1 || got[KindUnmatched] != 1 {
		t.Errorf("unmatched since day 11: %v", got)
	}
}
