package app

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/web"
)

// Why budgets are unknown, for people.
const (
	noPrometheus = "no Prometheus is configured, prometheus.url names one"
	unanswered   = "no answer from Prometheus, the service's log shows why"
)

// budgetFresh is how long error budgets serve all viewers: they are about weeks.
const budgetFresh = time.Minute

// budgets asks Prometheus what is left of error budgets.
type budgets struct {
	q    step.Querier // nil: none is configured
	now  func() time.Time
	log  *slog.Logger
	kept *answers[[]web.Budget]
}

func newBudgets(q step.Querier, now func() time.Time, log *slog.Logger) *budgets {
	return &budgets{q: q, now: now, log: log, kept: newAnswers[[]web.Budget](now, budgetFresh)}
}

// of returns the budgets of a service's objectives, in their order.
func (b *budgets) of(ctx context.Context, svc playbook.Service) []web.Budget {
	if b.q == nil {
		return unknownBudgets(svc, noPrometheus)
	}
	all, err := b.kept.get(ctx, svc.Name, func(ctx context.Context) ([]web.Budget, error) { return b.ask(ctx, svc), nil })
	if err != nil {
		return unknownBudgets(svc, err.Error())
	}
	return all
}

// ask asks for all objectives at the same time. One that is not answered is unknown.
func (b *budgets) ask(ctx context.Context, svc playbook.Service) []web.Budget {
	measured, now := step.Objectives(svc), b.now()
	each := make([][]web.Budget, len(svc.SLOs))
	var all sync.WaitGroup
	for i, o := range svc.SLOs {
		all.Go(func() { each[i] = b.askOne(ctx, measured.Service, o, measured.Objectives[i], now) })
	}
	all.Wait()
	return slices.Concat(each...)
}

// inTurn asks for one objective after the other.
func (b *budgets) inTurn(ctx context.Context, svc playbook.Service) (out []web.Budget) {
	if b.q == nil {
		return unknownBudgets(svc, noPrometheus)
	}
	measured, now := step.Objectives(svc), b.now()
	for i, o := range svc.SLOs {
		out = append(out, b.askOne(ctx, measured.Service, o, measured.Objectives[i], now)...)
	}
	return out
}

func (b *budgets) askOne(ctx context.Context, service string, o playbook.SLO, measured slo.Objective, now time.Time) (out []web.Budget) {
	found, err := slo.Budgets(ctx, b.q, service, measured, now)
	if err != nil {
		b.log.Info("no error budget for the pages", "err", err)
		if ctx.Err() != nil {
			return []web.Budget{unknownBudget(o, errUnanswered.Error())}
		}
		return []web.Budget{unknownBudget(o, unanswered)}
	}
	for _, x := range found {
		out = append(out, budgetOf(o, x))
	}
	return out
}

func budgetOf(o playbook.SLO, x slo.Budget) web.Budget {
	out := web.Budget{Objective: o.Name, Value: x.Value, Left: x.Left, Burn: x.Burn, Why: x.Why}
	if math.IsNaN(x.Left) {
		return out
	}
	if lasts, known := x.Lasts(x.Burn, o.Window); known {
		out.Lasts = lasts
	}
	return out
}

func unknownBudgets(svc playbook.Service, why string) (out []web.Budget) {
	for _, o := range svc.SLOs {
		out = append(out, unknownBudget(o, why))
	}
	return out
}

func unknownBudget(o playbook.SLO, why string) web.Budget {
	return web.Budget{Objective: o.Name, Left: math.NaN(), Burn: math.NaN(), Why: why}
}
