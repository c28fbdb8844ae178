package fleet

import (
	"context"
	"sync"
	"time"
)

// lookFor is how long a measurement of a service serves every run that asks: when
// many services breach at once, each of their runs asks about the same others.
const lookFor = 15 * time.Second

// looks shares measurements of services between runs.
type looks struct {
	mu sync.Mutex // guards m
	m  map[string]*look
}

type look struct {
	when  time.Time
	done  chan struct{} // closed when found is set
	found party
}

// at returns a service as it was measured a moment ago, or measures it. It waits
// for a measurement under way until ctx ends; the service is unknown then, and where
// it cannot be measured. The next run tries again.
func (l *looks) at(ctx context.Context, p party, now time.Time, measure func(*party) error) party {
	l.mu.Lock()
	if l.m == nil {
		l.m = map[string]*look{}
	}
	was := l.m[p.svc.Name]
	if was == nil || now.Sub(was.when).Abs() >= lookFor {
		fresh := &look{when: now, done: make(chan struct{}), found: p}
		l.m[p.svc.Name] = fresh
		l.mu.Unlock()
		defer close(fresh.done)
		if err := measure(&fresh.found); err != nil {
			fresh.found = p
			l.mu.Lock()
			if l.m[p.svc.Name] == fresh {
				delete(l.m, p.svc.Name)
			}
			l.mu.Unlock()
		}
		return fresh.found
	}
	l.mu.Unlock()
	select {
	case <-was.done:
		p.stands, p.burn, p.since = was.found.stands, was.found.burn, was.found.since
	case <-ctx.Done():
	}
	return p
}
