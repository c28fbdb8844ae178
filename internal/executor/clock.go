package executor

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// clock is the time runs live in. Where it runs at another pace than the real
// one (sandbox, demo), waiting is shortened accordingly.
type clock struct {
	source func() time.Time
	pace   float64
}

// now is the present without the monotonic part, as the log stores it.
func (c clock) now() time.Time { return c.source().UTC().Round(0) }

// real is how long to wait in real time until at.
func (c clock) real(at time.Time) time.Duration {
	d := at.Sub(c.now())
	if d <= 0 {
		return 0
	}
	return c.scaled(d)
}

// scaled is how long a time of the runs lasts in real time.
func (c clock) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.pace)
}

// timers wakes runs at their times, from one goroutine, so that ten thousand
// waiting runs cost ten thousand small entries.
type timers struct {
	clock clock
	fire  func(*run)

	mu    sync.Mutex // guards queue
	queue timerQueue
	poke  chan struct{}
}

type timerEntry struct {
	at    time.Time
	run   *run
	index int
}

func newTimers(c clock, fire func(*run)) *timers {
	return &timers{clock: c, fire: fire, poke: make(chan struct{}, 1)}
}

// set wakes the run at that time, and not at the one set before; zero: never.
func (t *timers) set(r *run, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case at.IsZero() && r.timer == nil:
		return
	case at.IsZero():
		heap.Remove(&t.queue, r.timer.index)
		r.timer = nil
	case r.timer == nil:
		r.timer = &timerEntry{at: at, run: r}
		heap.Push(&t.queue, r.timer)
	case r.timer.at.Equal(at):
		return
	default:
		r.timer.at = at
		heap.Fix(&t.queue, r.timer.index)
	}
	if len(t.queue) > 0 && t.queue[0].run == r {
		select {
		case t.poke <- struct{}{}:
		default:
		}
	}
}

// run fires until ctx is done.
func (t *timers) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, next := t.take()
		for _, r := range due {
			t.fire(r)
		}
		if len(due) > 0 {
			continue
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-t.poke:
		case <-timer.C:
		}
	}
}

// take removes the runs that are due and says how long to wait for the next.
func (t *timers) take() (due []*run, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.now()
	for len(t.queue) > 0 && !t.queue[0].at.After(now) {
		entry := heap.Pop(&t.queue).(*timerEntry)
		entry.run.timer = nil
		due = append(due, entry.run)
	}
	if len(t.queue) == 0 {
		return due, time.Hour
	}
	return due, max(t.clock.real(t.queue[0].at), time.Millisecond)
}

// timerQueue is a heap by time.
type timerQueue []*timerEntry

func (q timerQueue) Len() int           { return len(q) }
func (q timerQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *timerQueue) Push(x any) {
	entry := x.(*timerEntry)
	entry.index = len(*q)
	*q = append(*q, entry)
}

// Pop implements heap.Interface.
func (q *timerQueue) Pop() any {
	old := *q
	entry := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return entry
}
