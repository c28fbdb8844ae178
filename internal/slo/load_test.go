package slo

import (
	"math"
	"testing"
	"time"
)

// TestLoads: a saturated engine finishes no more than it can, so what piles up in
// its queue counts as arrived; longer prompts are more load at the same rate.
func TestLoads(t *testing.T) {
	progress := []Progress{{Running: "running", Waiting: "waiting", Finished: "finished", Prompts: "prompts"}}
	before := Span{Window: 5 * time.Minute, Offset: 10 * time.Minute}
	const change = 40.0 // scrape at which it changes: ten minutes ago
	piecewise := func(was, is float64) func(float64) float64 {
		return func(i float64) float64 { return was*min(i, change) + is*max(0, i-change) }
	}
	for name, tt := range map[string]struct {
		finished, prompts, waiting func(float64) float64
		times, waits               float64
	}{
		"as before":         {piecewise(30, 30), piecewise(30_000, 30_000), func(float64) float64 { return 0 }, 1, 0},
		"twice the traffic": {piecewise(30, 60), piecewise(30_000, 60_000), func(float64) float64 { return 0 }, 2, 0},
		"saturated at 1.2":  {piecewise(30, 36), piecewise(30_000, 36_000), func(i float64) float64 { return max(0, i-change) * 24 }, 2, 960},
		"longer prompts":    {piecewise(30, 30), piecewise(30_000, 90_000), func(float64) float64 { return 0 }, 3, 0},
		"a queue drains":    {piecewise(30, 30), piecewise(30_000, 30_000), func(i float64) float64 { return 2 * max(0, 90-i) }, 1, 20},
	} {
		w := &scraped{}
		w.add(t, `finished{service="chat"}`, tt.finished)
		w.add(t, `prompts{service="chat"}`, tt.prompts)
		w.add(t, `waiting{service="chat"}`, tt.waiting)
		w.add(t, `running{service="chat"}`, func(float64) float64 { return 8 })
		loads, err := Loads(t.Context(), w, `service="chat"`, progress, end, five, before)
		if err != nil {
			t.Fatal(err)
		}
		if got := loads[0].Times(loads[1]); math.Abs(got-tt.times) > 0.05 || math.Round(loads[0].Waiting) != tt.waits || loads[0].Running != 8 {
			t.Errorf("%s: %.2f times, %+v, want %v times and %v waiting", name, got, loads[0], tt.times, tt.waits)
		}
	}
	w := &scraped{}
	loads, err := Loads(t.Context(), w, `service="chat"`, progress, end, five, before)
	if err != nil || !math.IsNaN(loads[0].Times(loads[1])) || !math.IsNaN(loads[0].Waiting) {
		t.Errorf("nothing is measured: %+v, %v", loads, err)
	}
}

// TestHangingReplicas: requests that never finish are in no histogram, and count as
// bad: one replica of six is enough for a breach, and so are all of them.
func TestHangingReplicas(t *testing.T) {
	for name, hanging := range map[string]int{"none": 0, "one of six": 1, "all": 6} {
		w := &scraped{}
		for i := range 6 {
			sel := `service="chat",engine="0",pod="` + string(rune('a'+i)) + `"`
			rate := 100.0
			if i < hanging {
				rate = 0
			}
			w.add(t, "running{"+sel+"}", func(float64) float64 { return 20 })
			w.add(t, "waiting{"+sel+"}", func(float64) float64 { return 0 })
			w.add(t, "tokens{"+sel+"}", func(i float64) float64 { return rate * i })
			w.histogram(t, "ttft", sel, rate, rate)
		}
		a := ttft()
		a.Progress = []Progress{{Running: "running", Waiting: "waiting", Steps: []string{"tokens"}, Finished: "ttft_count"}}
		m, err := Measure(t.Context(), w, a, end, five)
		if err != nil || m.Measured[0].Reason != "" {
			t.Fatalf("%s: %v %+v", name, err, m)
		}
		want := Breached
		if hanging == 0 {
			want = Met
		}
		test := Test{Objective: 0.99, Factor: 14.4, Now: m.Measured[0].Counts[0]}
		if got, d := test.Stands(); got != want || len(m.Stuck) != hanging {
			t.Errorf("%s: %s, %d stuck: %s", name, got, len(m.Stuck), d.Text)
		}
		if d := test.Decide(); (d.Verdict == Verified) != (hanging == 0) {
			t.Errorf("%s: %s", name, d.Verdict)
		}
	}
}
