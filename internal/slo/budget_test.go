package slo

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

// TestBudgets: what is left of a budget over its period, from scrapes; a history that
// is too short is not taken for the whole.
func TestBudgets(t *testing.T) {
	const change = 60.0 // scrape at which it changes: five minutes ago
	for name, tt := range map[string]struct {
		bad, from float64 // share since the change, first scrape
		left      float64
		why       string
	}{
		"nothing burns":         {0, 0, 1, ""},
		"a third burned at 2 %": {0.02, 0, 1 - 2.0/3, ""},
		"overspent":             {0.5, 0, 1 - 50.0/3, ""},
		"too short a history":   {0.02, 40, math.NaN(), "no requests are known of the beginning of its 15m0s: Prometheus keeps less, or the service is younger"},
	} {
		w := &scraped{}
		counter := func(rate func(i float64) float64) func(float64) float64 {
			return func(i float64) float64 {
				if i < tt.from {
					return math.NaN()
				}
				return rate(i)
			}
		}
		for le, share := range map[string]float64{"0.5": 1 - tt.bad, "+Inf": 1} {
			w.add(t, `ttft_bucket{service="chat",le="`+le+`"}`, counter(func(i float64) float64 { return 100 * (min(i, change) + share*max(0, i-change)) }))
		}
		w.add(t, `ttft_count{service="chat"}`, counter(func(i float64) float64 { return 100 * i }))
		o := ttft().Objectives[0]
		o.Period = 15 * time.Minute
		got, err := Budgets(t.Context(), w, `service="chat"`, o, end)
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %v %v", name, got, err)
		}
		if b := got[0]; math.IsNaN(b.Left) != math.IsNaN(tt.left) || math.Abs(b.Left-tt.left) > 0.02*math.Abs(tt.left)+0.01 || !strings.Contains(b.Why, tt.why) || (b.Why == "") != (tt.why == "") {
			t.Errorf("%s: %+v, want %v left", name, b, tt.left)
		}
	}
	if got, err := Budgets(t.Context(), &scraped{}, `service="chat"`, ttft().Objectives[0], end); err != nil || got[0].Why != "the objective has no period" {
		t.Errorf("%+v %v", got, err)
	}
}

// TestBudgetOf: what is not known for certain is not said.
func TestBudgetOf(t *testing.T) {
	measured := func(monthBad, hourBad, earlier float64) Measured {
		return Measured{
			Objective: Objective{Name: "ttft", Objective: 0.99, Period: 28 * 24 * time.Hour},
			Counts:    []Counts{{Bad: monthBad, Total: 100_000}, {Bad: hourBad, Total: 1000}, {Total: earlier}},
		}
	}
	missing := measured(750, 200, 50)
	missing.Reason = fault.Stale
	for name, c := range map[string]struct {
		measured   Measured
		left, burn float64
		lasts      time.Duration
	}{
		"a quarter is left":          {measured(750, 200, 50), 0.25, 20, 28 * 24 * time.Hour / 80},
		"it lasts":                   {measured(750, 1, 50), 0.25, 0.1, -1},
		"overspent":                  {measured(2000, 100, 50), -1, 10, 0},
		"not a number":               {measured(math.NaN(), 200, 50), math.NaN(), 20, -1},
		"old samples":                {missing, math.NaN(), math.NaN(), -1},
		"a part of the period":       {measured(750, 200, 0), math.NaN(), 20, -1},
		"its beginning is not known": {measured(750, 200, math.NaN()), math.NaN(), 20, -1},
		"the last hour is not known": {measured(750, math.NaN(), 50), 0.25, math.NaN(), -1},
	} {
		b := budgetOf(c.measured)
		lasts, known := b.Lasts(b.Burn, c.measured.Objective.Period)
		if !known {
			lasts = -1
		}
		near := func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-9 }
		if !near(b.Left, c.left) || !near(b.Burn, c.burn) || (lasts-c.lasts).Abs() > time.Second {
			t.Errorf("%s: %+v lasts %s, want %v, %v, %s", name, b, lasts, c.left, c.burn, c.lasts)
		}
	}
}

// TestSpentWithoutRequests: where no request ended, they may all hang: nothing is known to
// be spent.
func TestSpentWithoutRequests(t *testing.T) {
	got := spendingOf(Measured{
		Objective: Objective{Name: "ttft", Objective: 0.99, Period: 28 * 24 * time.Hour},
		Counts:    []Counts{{Total: 1000}, {Total: 50}, {Total: 0}, {Total: 100}},
	}, 2)
	if c := got.Counts[0]; c.Total != 0 || !math.IsNaN(c.Bad) || !math.IsNaN(got.Shares[0]) {
		t.Errorf("no request ended: %+v, %g of the budget", c, got.Shares[0])
	}
	if c := got.Counts[1]; c.Bad != 0 || got.Shares[1] != 0 {
		t.Errorf("none was bad: %+v, %g of the budget", c, got.Shares[1])
	}
}

// TestSpent: each stretch of time has the requests of that time, from scrapes; a share
// needs the whole period, and what no scrape saw is not known.
func TestSpent(t *testing.T) {
	const change = 60.0 // scrape at which it changes: five minutes ago
	for name, tt := range map[string]struct {
		from  float64 // first scrape
		share float64 // of the budget that the burning stretch spent
		why   string
	}{
		"the whole period":    {0, 50.0 / 3, ""},
		"too short a history": {40, math.NaN(), "no requests are known of the beginning of its 15m0s: Prometheus keeps less, or the service is younger"},
	} {
		w := &scraped{}
		counter := func(good float64) func(float64) float64 {
			return func(i float64) float64 {
				if i < tt.from {
					return math.NaN()
				}
				return 100 * (min(i, change) + good*max(0, i-change))
			}
		}
		w.add(t, `ttft_bucket{service="chat",le="0.5"}`, counter(0.5))
		w.add(t, `ttft_bucket{service="chat",le="+Inf"}`, counter(1))
		w.add(t, `ttft_count{service="chat"}`, counter(1))
		o := ttft().Objectives[0]
		o.Period = 15 * time.Minute
		got, err := Spent(t.Context(), w, `service="chat"`, o, end, Span{Window: 2 * time.Minute, Offset: 6 * time.Minute}, Span{Window: 5 * time.Minute}, Span{Window: time.Millisecond, Offset: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %v %v", name, got, err)
		}
		calm, burning, short := got[0].Counts[0], got[0].Counts[1], got[0].Counts[2]
		if calm.Bad > 1 || calm.Total < 500 || math.Abs(burning.Ratio()-0.5) > 0.05 || !math.IsNaN(short.Total) {
			t.Errorf("%s: before %+v, then %+v, in a moment %+v", name, calm, burning, short)
		}
		share := got[0].Shares[1]
		if math.IsNaN(share) != math.IsNaN(tt.share) || math.Abs(share-tt.share) > 0.1*tt.share || got[0].Why != tt.why {
			t.Errorf("%s: it spent %g of the budget, want %g; why %q", name, share, tt.share, got[0].Why)
		}
	}
}
