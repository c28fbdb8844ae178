package sandbox

import (
	"fmt"
	"sync"
	"time"
)

// Clock is the time of a world. It is safe for concurrent use. The executor
// that works on the world shares it: pass [Clock.Now] and the pace it was made
// with.
type Clock struct {
	manual bool

	mu    sync.Mutex // guards what follows
	pace  float64
	from  time.Time // virtual
	since time.Time // real moment at which it was from
}

// NewClock returns a clock that shows start now and runs pace times as fast as
// the real one. The pace must be positive.
func NewClock(start time.Time, pace float64) (*Clock, error) {
	if !(pace > 0) || pace > maxPace {
		return nil, fmt.Errorf("sandbox clock: the pace is virtual seconds per real second, above 0 and at most %d, not %v", maxPace, pace)
	}
	return &Clock{pace: pace, from: start.Round(0), since: time.Now()}, nil
}

// maxPace is far more than a world can be simulated at.
const maxPace = 1_000_000

// NewManualClock returns a clock that shows start until somebody sets it.
func NewManualClock(start time.Time) *Clock {
	return &Clock{pace: 1, manual: true, from: start}
}

// Now returns the virtual time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.manual {
		return c.from
	}
	return c.from.Add(time.Duration(float64(time.Since(c.since)) * c.pace))
}

// Pace returns how many virtual seconds pass in a real one now.
func (c *Clock) Pace() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pace
}

// SetPace changes the pace of a running clock, for example to 1 while a person
// decides. It has no effect on a manual clock. An executor that knows another pace
// wakes up too early and reads the clock again; it is never late by more than the
// length of a wait.
func (c *Clock) SetPace(pace float64) error {
	if !(pace > 0) || pace > maxPace {
		return fmt.Errorf("sandbox clock: the pace is virtual seconds per real second, above 0 and at most %d, not %v", maxPace, pace)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.manual {
		c.from, c.since = c.now(), time.Now()
	}
	c.pace = pace
	return nil
}

// Set moves a manual clock. It panics for a running one and when time would go
// back: both are mistakes of a test.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.manual || now.Before(c.from) {
		panic(fmt.Sprintf("sandbox clock: cannot be set to %s", now)) // unreachable unless a test is wrong
	}
	c.from = now
}

// Advance moves a manual clock by d.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }
