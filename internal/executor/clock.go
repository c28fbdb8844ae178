package executor

import (
	"container/heap"
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

// timers holds when runs want to be looked at, so that ten thousand waiting runs
// cost ten thousand small entries. It is the loop's.
type timers struct {
	clock clock
	queue timerQueue
}

type timerEntry struct {
	at    time.Time
	run   *run
	index int
}

// set has the run looked at then, and not at the time set before; zero: never.
func (t *timers) set(r *run, at time.Time) {
	switch {
	case at.IsZero() && r.timer == nil:
	case at.IsZero():
		heap.Remove(&t.queue, r.timer.index)
		r.timer = nil
	case r.timer == nil:
		r.timer = &timerEntry{at: at, run: r}
		heap.Push(&t.queue, r.timer)
	default:
		r.timer.at = at
		heap.Fix(&t.queue, r.timer.index)
	}
}

// due removes the runs whose time has come.
func (t *timers) due() (due []*run) {
	now := t.clock.now()
	for len(t.queue) > 0 && !t.queue[0].at.After(now) {
		entry := heap.Pop(&t.queue).(*timerEntry)
		entry.run.timer = nil
		due = append(due, entry.run)
	}
	return due
}

// next is how long to wait for the next, in real time.
func (t *timers) next() time.Duration {
	if len(t.queue) == 0 {
		return time.Hour
	}
	return max(t.clock.real(t.queue[0].at), time.Millisecond)
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
