package approvals

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// What is left of an error budget, and when it is gone. What is not known for
// certain is not said.
func TestErrorBudget(t *testing.T) {
	const month = 28 * 24 * time.Hour
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	measured := func(monthBad, hourBad, earlier float64) slo.Measured {
		return slo.Measured{
			Objective: slo.Objective{Name: "ttft", Objective: 0.99},
			Counts:    []slo.Counts{{Bad: monthBad, Total: 100_000}, {Bad: hourBad, Total: 1000}, {Total: earlier}},
		}
	}
	missing := measured(750, 200, 50)
	missing.Reason = fault.Stale
	for name, c := range map[string]struct {
		measured slo.Measured
		want     *slack.Budget
	}{
		"a quarter is left, and is gone soon": {measured(750, 200, 50), &slack.Budget{Left: 0.25, Burn: 20, RunsOut: now.Add(month / 80)}},
		"it lasts":                            {measured(750, 1, 50), &slack.Budget{Left: 0.25, Burn: 0.1}},
		"nothing burns":                       {measured(0, 0, 50), &slack.Budget{Left: 1}},
		"overspent":                           {measured(2000, 100, 50), &slack.Budget{Left: -1, Burn: 10}},
		"not a number":                        {measured(math.NaN(), 200, 50), nil},
		"old samples":                         {missing, nil},
		"a part of the window":                {measured(750, 200, 0), nil},
		"its beginning is not known":          {measured(750, 200, math.NaN()), nil},
	} {
		got := budgetOf(c.measured, month, now)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateApproxTime(time.Second)); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

// away is a Prometheus that does not answer.
type away struct{}

func (away) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	return slo.Vector{}, errors.New("connection refused")
}

func TestErrorBudgetUnknown(t *testing.T) {
	b := ErrorBudget{Querier: away{}, Now: time.Now, Objectives: func(s playbook.Service) slo.Ask {
		return slo.Ask{Service: s.Selector, Objectives: make([]slo.Objective, len(s.SLOs))}
	}}
	for name, svc := range map[string]playbook.Service{
		"Prometheus is away": {Name: "chat", SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: time.Hour}}},
		"no objectives":      {Name: "chat"},
		"no window":          {Name: "chat", SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99}}},
	} {
		if got := b.Of(t.Context(), machine.State{Start: machine.Start{Service: svc}}); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
