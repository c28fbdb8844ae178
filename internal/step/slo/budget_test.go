package slo

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// away is a Prometheus that does not answer, and counts who asks.
type away struct {
	step.Querier
	asked int
}

func (a *away) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	a.asked++
	return slo.Vector{}, errors.New("connection refused")
}

// TestBudgetsAreRemembered: the samples of a month are not read at every look.
func TestBudgetsAreRemembered(t *testing.T) {
	q, b, now := &away{}, &budgets{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	x := slo.Measured{Objective: slo.Objective{Name: "ttft", Objective: 0.99, Period: 28 * 24 * time.Hour, Sources: []slo.Source{{Histogram: "ttft"}}}}
	for at, want := range []int{1, 1, 2} { // every six minutes
		got := b.of(t.Context(), q, `service="chat"`, x, now.Add(time.Duration(at)*6*time.Minute))
		if !math.IsNaN(got.Left) || got.Why == "" || q.asked != want {
			t.Errorf("after %d minutes: %+v, asked %d times", 6*at, got, q.asked)
		}
	}
	if b.of(t.Context(), q, `service="other"`, x, now); q.asked != 3 {
		t.Errorf("another service: asked %d times", q.asked)
	}
}

// TestBudgetWords: what is left, and how long it lasts at this burn.
func TestBudgetWords(t *testing.T) {
	burns := func(v float64) objectiveOut { return objectiveOut{Name: "ttft", BurnShort: &v} }
	o := slo.Objective{Name: "ttft", Period: 28 * 24 * time.Hour}
	for _, tt := range []struct {
		left  slo.Budget
		worst objectiveOut
		lasts time.Duration // -1: not told
		said  string
	}{
		{slo.Budget{Left: 0.25}, burns(28), 6 * time.Hour, "error budget of ttft over 4w: 25 % left, gone in 6h at this rate"},
		{slo.Budget{Left: 0.25}, burns(0.1), -1, "error budget of ttft over 4w: 25 % left"},
		{slo.Budget{Left: -0.5}, burns(28), 0, "error budget of ttft over 4w: overspent by 50 %"},
		{slo.Budget{Left: 0.25}, objectiveOut{Name: "ttft"}, -1, "error budget of ttft over 4w: 25 % left"},
		{slo.Budget{Left: math.NaN(), Why: "no requests"}, burns(28), -1, "error budget of ttft: not known: no requests"},
	} {
		out := burnOut{}
		said := out.budget(tt.left, o, tt.worst)
		lasts := time.Duration(-1)
		if out.Exhausted != nil {
			lasts = time.Duration(*out.Exhausted)
		}
		if said != tt.said || lasts != tt.lasts || (out.BudgetLeft == nil) != math.IsNaN(tt.left.Left) {
			t.Errorf("%q, lasts %s, want %q, %s", said, lasts, tt.said, tt.lasts)
		}
	}
}
