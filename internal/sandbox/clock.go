package sandbox

import (
	"fmt"
	"sync"
	"time"
)

// Clock is the time of a world. It is safe for concurrent use. The executor
// that works on the world shares it: pass [Clock.Now] and [Clock.Pace].
type Clock struct {
	pace   float64
	start  time.Time // virtual
	began  time.Time // real
	manual bool

	mu  sync.Mutex // guards now
	now time.Time  // of a manual clock
}

// NewClock gives a clock that shows start now and runs pace times as fast as
// the real one. The pace must be positive.
func NewClock(start time.Time, pace float64) (*Clock, error) {
	if !(pace > 0) || pace > 1e6 {
		return nil, fmt.Errorf("sandbox clock: the pace is virtual seconds per real second, above 0 and at most 1000000, not %v", pace)
	}
	return &Clock{pace: pace, start: start, began: time.Now()}, nil
}

// NewManualClock gives a clock that shows start until somebody sets it.
func NewManualClock(start time.Time) *Clock {
	return &Clock{pace: 1, manual: true, now: start}
}

// Now is the virtual time.
func (c *Clock) Now() time.Time {
	if !c.manual {
		return c.start.Add(time.Duration(float64(time.Since(c.began)) * c.pace))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pace is how many virtual seconds pass in a real one.
func (c *Clock) Pace() float64 { return c.pace }

// Set moves a manual clock. It panics for a running one and when time would go
// back: both are mistakes of a test.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.manual || now.Before(c.now) {
		panic(fmt.Sprintf("sandbox clock: cannot be set to %s", now)) // unreachable unless a test is wrong
	}
	c.now = now
}

// Advance moves a manual clock by d.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }
