package app

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/web"
)

// Limits of the error budgets on pages.
const (
	budgetTimeout  = 2 * time.Second // a page waits no longer
	budgetFresh    = time.Minute     // an answer serves all viewers for so long; it is about weeks
	budgetServices = 64              // answers that are kept
)

// budgets asks Prometheus what is left of error budgets. Answers, and failures too, are kept
// for a moment, so that many viewers cost one query for each objective.
type budgets struct {
	q   step.Querier // nil: none is configured
	now func() time.Time
	log *slog.Logger

	flight singleflight.Group
	mu     sync.Mutex // guards kept
	kept   map[string]keptBudgets
}

type keptBudgets struct {
	at  time.Time
	all []web.Budget
}

func newBudgets(q step.Querier, now func() time.Time, log *slog.Logger) *budgets {
	return &budgets{q: q, now: now, log: log, kept: map[string]keptBudgets{}}
}

// of returns the budgets of a service's objectives, in their order.
func (b *budgets) of(ctx context.Context, svc playbook.Service) []web.Budget {
	if b.q == nil {
		return unknownBudgets(svc, "no Prometheus is configured, prometheus.url names one")
	}
	b.mu.Lock()
	k, ok := b.kept[svc.Name]
	b.mu.Unlock()
	if age := b.now().Sub(k.at); ok && age >= 0 && age < budgetFresh {
		return k.all
	}
	answer := b.flight.DoChan(svc.Name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), budgetTimeout)
		defer cancel()
		all := b.ask(ctx, svc)
		b.keep(svc.Name, keptBudgets{b.now(), all})
		return all, nil
	})
	select {
	case r := <-answer:
		return r.Val.([]web.Budget)
	case <-ctx.Done():
		return unknownBudgets(svc, errUnanswered.Error())
	}
}

// keep keeps an answer in place of those that are too old, or of any when there are many.
func (b *budgets) keep(service string, k keptBudgets) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, old := range b.kept {
		if len(b.kept) >= budgetServices || k.at.Sub(old.at) >= budgetFresh {
			delete(b.kept, other)
		}
	}
	b.kept[service] = k
}

// ask asks for all objectives at the same time.
func (b *budgets) ask(ctx context.Context, svc playbook.Service) []web.Budget {
	measured, now := step.Objectives(svc), b.now()
	each := make([][]web.Budget, len(svc.SLOs))
	var group errgroup.Group
	group.SetLimit(4)
	for i, o := range svc.SLOs {
		group.Go(func() error {
			all, err := slo.Budgets(ctx, b.q, measured.Service, measured.Objectives[i], now)
			for _, x := range all {
				each[i] = append(each[i], budgetOf(o, x))
			}
			if err != nil {
				b.log.Info("no error budget for the page of the service", "err", err)
				why := "no answer from Prometheus, the service's log shows why"
				if ctx.Err() != nil {
					why = errUnanswered.Error()
				}
				each[i] = []web.Budget{{Objective: o.Name, Why: why}}
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	var out []web.Budget
	for _, x := range each {
		out = append(out, x...)
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
		out = append(out, web.Budget{Objective: o.Name, Why: why})
	}
	return out
}
