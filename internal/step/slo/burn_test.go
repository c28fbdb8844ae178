package slo

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// TestEnding: a breach that gets better by itself is told from one that goes on,
// also when it is younger than the recent part of the window.
func TestEnding(t *testing.T) {
	bad := func(share float64) slo.Counts { return slo.Counts{Bad: share * 600, Total: 600} }
	none := slo.Counts{}
	tests := []struct {
		name                            string
		earlier, recent, former, latest slo.Counts
		ending                          bool
		words                           string
	}{
		{"goes on", bad(0.40), bad(0.41), bad(0.40), bad(0.42), false, "level, 40 % to 41 %"},
		{"falls to a third", bad(0.60), bad(0.20), bad(0.22), bad(0.18), true, "falling, 60 % to 20 %: ends by itself"},
		{"falls a little", bad(0.60), bad(0.50), bad(0.50), bad(0.50), false, "falling, 60 % to 50 %"},
		{"a blip of a minute", bad(0.08), bad(0.50), bad(0.95), bad(0.05), true, "falling, 95 % to 5 %: ends by itself"},
		{"a burst goes on", bad(0), bad(0.50), bad(0.10), bad(0.90), false, "rising, 0 % to 50 %"},
		{"a scrape a minute", bad(0.08), bad(0.50), none, none, false, "rising, 8 % to 50 %"},
	}
	for _, tt := range tests {
		x := slo.Measured{Objective: slo.Objective{Name: "ttft", Indicator: "ttft", Objective: 0.99}, Counts: make([]slo.Counts, 6)}
		x.Counts[spanShort], x.Counts[spanLong] = bad(0.40), bad(0.10)
		x.Counts[spanEarlier], x.Counts[spanRecent], x.Counts[spanFormer], x.Counts[spanLatest] = tt.earlier, tt.recent, tt.former, tt.latest
		o, fact := judge(x, burnWith{Short: step.Duration(5 * time.Minute), Factor: 14.4}, false)
		if o.Ending != tt.ending || !strings.HasSuffix(fact, tt.words) {
			t.Errorf("%s: ending %t, %q, want %t, ...%s", tt.name, o.Ending, fact, tt.ending, tt.words)
		}
	}
}
