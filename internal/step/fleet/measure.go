package fleet

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// each calls do for every position, a few at a time.
func each(n int, do func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, sideBySide) {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// fleet is what was measured.
type fleet struct {
	own    party
	others []party // at most maxServices-1
	rest   int     // services that were not measured
}

// measure measures this service and the first others of the catalog. An error means
// that this service could not be measured.
func (c breaches) measure(ctx context.Context, in step.Input) (fleet, error) {
	f := fleet{own: party{svc: in.Service}}
	if c.services != nil {
		for _, svc := range c.services() {
			switch {
			case svc.Name == in.Service.Name:
				f.own.svc.Gateway = cmp.Or(f.own.svc.Gateway, svc.Gateway)
			case len(f.others) == maxServices-1:
				f.rest++
			default:
				f.others = append(f.others, party{svc: svc, stands: slo.Unknown})
			}
		}
	}
	factor := func(period time.Duration) float64 { return step.AlertFactor(in.Alert, period) }
	if err := c.stands(ctx, &f.own, in.Now, factor); err != nil {
		return fleet{}, err
	}
	usual := func(time.Duration) float64 { return 0 } // the alert is not theirs
	each(len(f.others), func(i int) {
		f.others[i] = c.looks.at(ctx, f.others[i], in.Now, func(p *party) error {
			return c.stands(ctx, p, in.Now, usual)
		})
		if p := &f.others[i]; p.stands == slo.Breached && p.burn < clearBurn {
			p.stands = slo.Unknown
		}
	})
	return f, nil
}

// stands measures one service.
func (c breaches) stands(ctx context.Context, p *party, now time.Time, factor func(time.Duration) float64) error {
	p.stands = slo.Unknown
	if len(p.svc.SLOs) == 0 || p.svc.Selector == "" {
		return nil
	}
	m, err := slo.Measure(ctx, c.q, step.Objectives(p.svc), now, slo.Span{Window: shortWindow}, slo.Span{Window: longWindow})
	if err != nil {
		return err
	}
	met, began := 0, 0
	for _, x := range m.Measured {
		if x.Reason != "" {
			continue
		}
		test := slo.Test{Objective: x.Objective.Objective, Factor: factor(x.Objective.Period), Now: x.Counts[0]}
		s, d := test.Stands()
		if s == slo.Unknown { // too few requests: the long window decides
			test.Now = x.Counts[1]
			s, d = test.Stands()
		}
		switch s {
		case slo.Met:
			met++
		case slo.Breached:
			p.stands, p.burn = slo.Breached, max(p.burn, d.Burn)
			if began++; began > maxBegan {
				continue
			}
			if at, err := x.Began(ctx, c.q, now, shortWindow, lookback); err == nil && (p.since.IsZero() || at.Before(p.since)) {
				p.since = at
			}
		}
	}
	switch {
	case len(m.Stuck) > 0:
		p.stands, p.burn = slo.Breached, math.Inf(1)
	case p.stands != slo.Breached && met == len(m.Measured):
		p.stands = slo.Met
	}
	return nil
}
