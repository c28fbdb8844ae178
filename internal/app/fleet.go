package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/web"
)

const (
	fleetStale  = 5 * time.Minute // older budgets are unknown
	fleetAtOnce = 8               // services whose budgets are asked for at the same time
)

// fleet is what is left of the error budgets of all services, for the first page. However
// many people look, Prometheus is asked once a minute, for so many services as it answers in
// the time that a page waits; next time the others come first.
type fleet struct {
	services func() ([]playbook.Service, error)
	of       func(context.Context, playbook.Service) []web.Budget
	now      func() time.Time
	asked    *answers[struct{}]

	mu   sync.Mutex // guards last
	last map[string]fleetAnswer
}

type fleetAnswer struct {
	at  time.Time
	all []web.Budget
}

func newFleet(services func() ([]playbook.Service, error), of func(context.Context, playbook.Service) []web.Budget, now func() time.Time) *fleet {
	return &fleet{services: services, of: of, now: now, asked: newAnswers[struct{}](now, budgetFresh), last: map[string]fleetAnswer{}}
}

// all returns the budgets of every objective. One that is not known, or no longer, has the
// reason.
func (f *fleet) all(ctx context.Context) (out []web.ServiceBudget) {
	services, _ := f.services() // the page says elsewhere why some may be missing
	if _, err := f.asked.get(ctx, "", func(ctx context.Context) (struct{}, error) { return struct{}{}, f.ask(ctx, services) }); err != nil && ctx.Err() != nil {
		return nil // the viewer has left
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, svc := range services {
		budgets := unknownBudgets(svc, "it was not read in the last "+playbook.FormatDuration(fleetStale))
		if last, ok := f.last[svc.Name]; ok && f.now().Sub(last.at) < fleetStale {
			budgets = last.all
		}
		for _, b := range budgets {
			out = append(out, web.ServiceBudget{Service: svc.Name, Budget: b})
		}
	}
	return out
}

// ask asks for the budgets of services, those first that were not asked for the longest.
func (f *fleet) ask(ctx context.Context, services []playbook.Service) error {
	f.mu.Lock()
	last := map[string]fleetAnswer{} // without services that are no more
	for _, svc := range services {
		if of, ok := f.last[svc.Name]; ok {
			last[svc.Name] = of
		}
	}
	f.last = last
	order := slices.Clone(services)
	slices.SortStableFunc(order, func(a, b playbook.Service) int { return last[a.Name].at.Compare(last[b.Name].at) })
	f.mu.Unlock()
	var workers sync.WaitGroup
	next := make(chan playbook.Service)
	for range fleetAtOnce {
		workers.Go(func() {
			for svc := range next {
				at, all := f.now(), f.of(ctx, svc)
				if ctx.Err() != nil {
					continue
				}
				f.mu.Lock()
				f.last[svc.Name] = fleetAnswer{at, all}
				f.mu.Unlock()
			}
		})
	}
	for _, svc := range order {
		if ctx.Err() != nil || len(svc.SLOs) == 0 {
			continue
		}
		next <- svc
	}
	close(next)
	workers.Wait()
	return ctx.Err()
}
