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
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// What is left of an error budget, and when it is gone. What is not known for
// certain is not said.
func TestErrorBudget(t *testing.T) {
	const month = 28 * 24 * time.Hour
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		left, burn float64
		want       *slack.Budget
	}{
		"a quarter is left, and is gone soon": {0.25, 20, &slack.Budget{Left: 0.25, Burn: 20, RunsOut: now.Add(month / 80)}},
		"it lasts":                            {0.25, 0.1, &slack.Budget{Left: 0.25, Burn: 0.1}},
		"nothing burns":                       {1, 0, &slack.Budget{Left: 1}},
		"overspent":                           {-1, 10, &slack.Budget{Left: -1, Burn: 10}},
		"the burn is not known":               {0.25, math.NaN(), &slack.Budget{Left: 0.25}},
		"not known":                           {math.NaN(), 20, nil},
	} {
		got := budgetOf(slo.Budget{Left: c.left, Burn: c.burn}, month, now)
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
