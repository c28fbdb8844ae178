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
			k.runs, k.kind, k.reason = []runRef{{"r-1", "p"}}, "", ""
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
