package slo

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

const (
	// budgetFor is how long a measured budget serves: Prometheus reads all samples of
	// the period for it, and a wait asks every few seconds.
	budgetFor = 10 * time.Minute
	// budgetWithin bounds the question; without an answer the budget is unknown.
	budgetWithin = 5 * time.Second
	// mostBudgets bounds what is remembered.
	mostBudgets = 1000
)

// budgets remembers measured budgets, by service and objective.
type budgets struct {
	mu sync.Mutex // guards m
	m  map[string]budget
}

type budget struct {
	at time.Time
	slo.Budget
}

// of returns what is left of the error budget of an objective.
func (b *budgets) of(ctx context.Context, q step.Querier, service string, x slo.Measured, now time.Time) slo.Budget {
	key := service + "\x00" + x.Name()
	b.mu.Lock()
	was, known := b.m[key]
	b.mu.Unlock()
	if known && now.Sub(was.at).Abs() < budgetFor {
		return was.Budget
	}
	ctx, cancel := context.WithTimeout(ctx, budgetWithin)
	defer cancel()
	found := budget{now, slo.Budget{Left: math.NaN(), Burn: math.NaN(), Why: "none of its series answers for its period"}}
	all, err := slo.Budgets(ctx, q, service, x.Objective, now)
	if err != nil {
		found.Why = step.AsError(err).Error()
	}
	for _, one := range all {
		if one.Value == x.Value {
			found.Budget = one
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil || len(b.m) >= mostBudgets {
		b.m = map[string]budget{}
	}
	b.m[key] = found
	return found.Budget
}

// budget adds what is left of the error budget of the worst objective, and returns the
// line for people.
func (out *burnOut) budget(b slo.Budget, o slo.Objective, worst objectiveOut) string {
	if math.IsNaN(b.Left) {
		return "error budget of " + worst.Name + ": not known: " + b.Why
	}
	out.BudgetLeft = number(b.Left)
	fact := fmt.Sprintf("error budget of %s over %s: %s left", worst.Name, step.DurationText(o.Period), slo.Percent(b.Left))
	if b.Left < 0 {
		fact = fmt.Sprintf("error budget of %s over %s: overspent by %s", worst.Name, step.DurationText(o.Period), slo.Percent(-b.Left))
	}
	if worst.BurnShort == nil {
		return fact
	}
	if lasts, known := b.Lasts(*worst.BurnShort, o.Period); known {
		d := step.Duration(lasts.Round(time.Second))
		out.Exhausted = &d
		if b.Left > 0 {
			fact += fmt.Sprintf(", gone in %s at this rate", step.DurationText(lasts))
		}
	}
	return fact
}
