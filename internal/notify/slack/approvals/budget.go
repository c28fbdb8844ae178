package approvals

import (
	"context"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// ErrorBudget computes what is left of a service's error budget: of the
// objective of which the least is left, over its own window. A figure that is
// not certain is left out.
type ErrorBudget struct {
	Querier    slo.Asker
	Objectives func(playbook.Service) slo.Ask // how a service's objectives are measured
	Now        func() time.Time
}

// Of returns the error budget of a run's service; nil: unknown.
func (b ErrorBudget) Of(ctx context.Context, st machine.State) *slack.Budget {
	now := b.Now()
	ask := b.Objectives(st.Start.Service)
	var least *slack.Budget
	for i, o := range st.Start.Service.SLOs {
		if i >= len(ask.Objectives) || o.Window <= 0 {
			continue
		}
		one := ask.Objectives[i]
		one.Period = o.Window
		all, err := slo.Budgets(ctx, b.Querier, ask.Service, one, now)
		if err != nil {
			return nil // what cannot be measured may be what is gone
		}
		for _, x := range all {
			left := budgetOf(x, o.Window, now)
			if left == nil {
				return nil
			}
			if least == nil || left.Left < least.Left {
				least = left
			}
		}
	}
	return least
}

// budgetOf returns a budget as it is shown; nil: unknown.
func budgetOf(b slo.Budget, window time.Duration, now time.Time) *slack.Budget {
	if math.IsNaN(b.Left) {
		return nil
	}
	out := &slack.Budget{Left: b.Left}
	if !math.IsNaN(b.Burn) {
		out.Burn = b.Burn
	}
	if lasts, known := b.Lasts(b.Burn, window); known && lasts > 0 {
		out.RunsOut = now.Add(lasts)
	}
	return out
}
