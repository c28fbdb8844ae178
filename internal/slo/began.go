package slo

import (
	"context"
	"time"
)

// Ranger evaluates an expression over a stretch of time.
type Ranger interface {
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (Matrix, error)
}

// clearly is how many times what the objective allows a share must be to belong to
// the breach, so that chance around the objective does not.
const clearly = 1.5

// Began returns when the breach of the objective began: since when the bad share
// over the window has been clearly above the objective without a break, at most
// lookback ago. Where nobody measured, it began just before it was noticed.
func (m Measured) Began(ctx context.Context, q Ranger, now time.Time, window, lookback time.Duration) (time.Time, error) {
	expr := m.RatioQuery(window)
	if expr == "" {
		return now.Add(-window), nil
	}
	const every = time.Minute
	found, err := q.Range(ctx, expr, now.Add(-lookback), now, every)
	if err != nil {
		return time.Time{}, err
	}
	since, bad := now, false
	for _, s := range found.Series {
		for i := len(s.Points) - 1; i >= 0; i-- {
			p := s.Points[i]
			if since.Sub(p.At) > 2*every || !(p.Value > clearly*(1-m.Objective.Objective)) {
				break
			}
			since, bad = p.At, true
		}
	}
	switch {
	case !bad:
		return now.Add(-window), nil
	case now.Sub(since) < every:
		return now.Add(-every), nil // since the point before
	}
	return since, nil
}
