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
	fleetFresh  = 5 * time.Minute        // a service is asked for no more often
	fleetStale  = 15 * time.Minute       // older budgets are unknown
	fleetAtOnce = 3                      // queries at the same time
	fleetWithin = 20 * time.Second       // for the budgets of one service
	fleetRound  = time.Minute            // in which a look has services asked for; the next look goes on
	fleetWait   = 100 * time.Millisecond // for which a page waits, which is to take 200 ms: a small fleet is read by then
)

// fleet is what is left of the error budgets of all services, for the first page. They are
// read in the background while somebody looks.
type fleet struct {
	services func() ([]playbook.Service, error)
	of       func(context.Context, playbook.Service) []web.Budget // with one query at a time
	now      func() time.Time

	mu    sync.Mutex // guards the fields below
	last  map[string]fleetAnswer
	round chan struct{} // closed when the budgets were read; nil: they are not being read
	ended time.Time     // when a round ended last
}

type fleetAnswer struct {
	tried time.Time // when it was asked for last
	at    time.Time // when all was
	all   []web.Budget
}

func newFleet(services func() ([]playbook.Service, error), of func(context.Context, playbook.Service) []web.Budget, now func() time.Time) *fleet {
	return &fleet{services: services, of: of, now: now, last: map[string]fleetAnswer{}}
}

// all returns the budgets of every objective. One that is not known, or no longer, has the
// reason. The error tells why services may be missing.
func (f *fleet) all(ctx context.Context) (out []web.ServiceBudget, missing error) {
	services, missing := f.services()
	if round := f.begin(ctx, services); round != nil {
		wait := time.NewTimer(fleetWait)
		defer wait.Stop()
		select {
		case <-round:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, svc := range services {
		var at time.Time
		why := "it was not read in the last " + playbook.FormatDuration(fleetStale)
		if f.round != nil {
			why = "it is being read, and was not in the last " + playbook.FormatDuration(fleetStale)
		}
		budgets := unknownBudgets(svc, why)
		if last, ok := f.last[svc.Name]; ok && f.now().Sub(last.at) < fleetStale {
			budgets, at = last.all, last.at
		}
		for _, b := range budgets {
			out = append(out, web.ServiceBudget{Service: svc.Name, Read: at, Budget: b})
		}
	}
	return out, missing
}

// read returns when budgets were read last: a page that was made before is out of date.
func (f *fleet) read() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// begin has the services asked for that are due, those first that were not for the longest.
// It returns a channel that is closed when they were; nil: somebody else looked before, or
// none is due.
func (f *fleet) begin(ctx context.Context, services []playbook.Service) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.round != nil {
		return nil
	}
	last := map[string]fleetAnswer{} // without services that are no more
	var due []playbook.Service
	for _, svc := range services {
		of, ok := f.last[svc.Name]
		if ok {
			last[svc.Name] = of
		}
		if len(svc.SLOs) > 0 && f.now().Sub(of.tried) >= fleetFresh {
			due = append(due, svc)
		}
	}
	f.last = last
	if len(due) == 0 {
		return nil
	}
	slices.SortStableFunc(due, func(a, b playbook.Service) int { return last[a.Name].tried.Compare(last[b.Name].tried) })
	round := make(chan struct{})
	f.round = round
	go func() {
		f.ask(context.WithoutCancel(ctx), due) // for those who look later, too
		f.mu.Lock()
		f.round, f.ended = nil, f.now()
		f.mu.Unlock()
		close(round)
	}()
	return round
}

// ask asks for the budgets of services until the round is over.
func (f *fleet) ask(ctx context.Context, due []playbook.Service) {
	over := time.After(fleetRound)
	next := make(chan playbook.Service)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(next)
	for range fleetAtOnce {
		workers.Go(func() {
			for svc := range next {
				f.askOne(ctx, svc)
			}
		})
	}
	for _, svc := range due {
		select {
		case next <- svc:
		case <-over:
			return
		}
	}
}

// askOne asks for the budgets of one service. If that takes too long, or one is not answered,
// what was known stays until it is stale. What was not answered is asked for again soon.
func (f *fleet) askOne(ctx context.Context, svc playbook.Service) {
	ctx, cancel := context.WithTimeout(ctx, fleetWithin)
	defer cancel()
	tried, all := f.now(), f.of(ctx, svc)
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.last[svc.Name]
	failed := slices.ContainsFunc(all, func(b web.Budget) bool { return b.Why == unanswered })
	if ctx.Err() == nil && !failed || tried.Sub(was.at) >= fleetStale {
		was.at, was.all = tried, all
	}
	if was.tried = tried; failed && ctx.Err() == nil {
		was.tried = tried.Add(failedFresh - fleetFresh)
	}
	f.last[svc.Name] = was
}
