package approvals

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

const (
	budgetBurn  = time.Hour       // the burn is that of the last hour
	budgetFresh = 5 * time.Minute // oldest sample that says anything about a time
)

// Querier evaluates PromQL. It may be called concurrently.
type Querier interface {
	Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error)
}

// ErrorBudget computes what is left of a service's error budget: by the error
// ratio with which the playbook proves a fix, over the window of the service's
// objective. A figure that is not certain is left out.
type ErrorBudget struct {
	Querier Querier
	Now     func() time.Time
}

// Of returns the error budget of a run's service; nil: unknown.
func (b ErrorBudget) Of(ctx context.Context, st machine.State) *slack.Budget {
	now := b.Now()
	ratio, objective, ok := st.Burn(now)
	if !ok {
		return nil
	}
	window := sloWindow(st.Start.Service, objective)
	if window <= 0 || !b.known(ctx, ratio, now) || !b.known(ctx, ratio, now.Add(-window*9/10)) {
		return nil // a part of the window would be taken for the whole
	}
	spent, ok := b.burn(ctx, ratio, objective, window, now)
	if !ok {
		return nil
	}
	out := &slack.Budget{Left: 1 - spent}
	if burn, ok := b.burn(ctx, ratio, objective, budgetBurn, now); ok {
		out.Burn = burn
		if burn > out.Left && out.Left > 0 { // within the window
			out.RunsOut = now.Add(time.Duration(out.Left / burn * float64(window)))
		}
	}
	return out
}

// sloWindow returns the window of the service's objectives with that value, if
// they agree; 0: unknown.
func sloWindow(s playbook.Service, objective float64) time.Duration {
	window := time.Duration(0)
	for _, o := range s.SLOs {
		if o.Objective != objective {
			continue
		}
		if window != 0 && window != o.Window {
			return 0
		}
		window = o.Window
	}
	return window
}

// burn returns how fast the budget burned over the last window. A rate of 1 over
// the objective's own window spends all of it.
func (b ErrorBudget) burn(ctx context.Context, ratio string, objective float64, window time.Duration, now time.Time) (float64, bool) {
	v, err := b.Querier.Instant(ctx, slo.Since(ratio, now.Add(-window), now, 0), now)
	if err != nil || len(v.Samples) != 1 || partial(v) {
		return 0, false
	}
	rate := slo.BurnRate(v.Samples[0].Value, objective)
	return rate, rate >= 0 && !math.IsInf(rate, 0)
}

// known reports whether the ratio had fresh samples at a time.
func (b ErrorBudget) known(ctx context.Context, ratio string, at time.Time) bool {
	ask, _, err := slo.FreshnessQuery(slo.Since(ratio, at.Add(-budgetFresh), at, 0))
	if err != nil || ask == "" {
		return false
	}
	v, err := b.Querier.Instant(ctx, ask, at)
	if err != nil || partial(v) {
		return false
	}
	newest, ok := slo.Newest(v)
	return ok && at.Sub(newest) <= budgetFresh
}

// partial reports whether Prometheus warns that the answer is not the whole.
func partial(v slo.Vector) bool {
	for _, w := range v.Warnings {
		if !strings.HasPrefix(w, "PromQL info") {
			return true
		}
	}
	return false
}
