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

const (
	budgetBurn  = time.Hour       // the burn is that of the last hour
	budgetFirst = 5 * time.Minute // at the beginning of the window there were requests for so long
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
		one := slo.Ask{Service: ask.Service, Objectives: ask.Objectives[i : i+1]}
		m, err := slo.Measure(ctx, b.Querier, one, now,
			slo.Span{Window: o.Window}, slo.Span{Window: budgetBurn}, slo.Span{Window: budgetFirst, Offset: o.Window * 9 / 10})
		if err != nil {
			return nil // what cannot be measured may be what is gone
		}
		for _, x := range m.Measured {
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

// budgetOf returns the budget of one measured objective; nil: unknown, also if
// requests are known for a part of the window only, which would be taken for the
// whole.
func budgetOf(x slo.Measured, window time.Duration, now time.Time) *slack.Budget {
	if x.Reason != "" || len(x.Counts) != 3 || !(x.Counts[2].Total > 0) {
		return nil
	}
	spent := slo.BurnRate(x.Counts[0].Ratio(), x.Objective.Objective)
	if !(spent >= 0) || math.IsInf(spent, 0) {
		return nil
	}
	out := &slack.Budget{Left: 1 - spent}
	if burn := slo.BurnRate(x.Counts[1].Ratio(), x.Objective.Objective); burn >= 0 && !math.IsInf(burn, 0) {
		out.Burn = burn
		if burn > out.Left && out.Left > 0 { // within the window
			out.RunsOut = now.Add(time.Duration(out.Left / burn * float64(window)))
		}
	}
	return out
}
