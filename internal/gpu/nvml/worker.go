package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// Intervals of the slower readings.
const (
	slowEvery  = 10 * time.Second
	fixedEvery = 5 * time.Minute
)

// eventWait is the length of one wait for events. It limits how long a stopped
// collector lingers; a wait of twice that length hangs.
const eventWait = 5 * time.Second

// inFlight holds the call of the driver that a goroutine is in, for other
// goroutines.
type inFlight struct{ p atomic.Pointer[pending] }

// pending is a call that has not returned yet.
type pending struct {
	call  string
	since time.Time
}

// enter is called before each call. A call that took too long is remembered until
// leave: what was read before it is outdated, however quick the next calls are.
func (f *inFlight) enter(call string) {
	now := time.Now()
	if f.stuck(now) == nil {
		f.p.Store(&pending{call, now})
	}
}

// leave is called when the readings are published.
func (f *inFlight) leave() { f.p.Store(nil) }

// stuck returns the call that has been going on for too long, if any.
func (f *inFlight) stuck(now time.Time) *pending {
	if p := f.p.Load(); p != nil && now.Sub(p.since) >= hang {
		return p
	}
	return nil
}

// String returns the call and since when it runs, by the present clock.
func (p *pending) String() string {
	return fmt.Sprintf("%s has not returned since %s", p.call, wall(p.since, time.Now()).Format(time.RFC3339))
}

// worker samples one GPU in a goroutine of its own, the only one that calls the
// driver for it. A second goroutine waits for its events.
type worker struct {
	card   card
	index  int
	period time.Duration
	proc   string // of the host's processes; empty: they cannot be seen
	memory *memory
	flight inFlight
	kick   chan struct{} // asks for the slow readings now: something happened

	mu      sync.Mutex        // guards what follows; never held during a call of the driver
	gpu     gpu.GPU           // as last read, without its history; its UUID is empty until it could be identified
	err     error             // why it could not be identified
	history *history          // nil until then
	watched gpu.Reading[bool] // whether events come
	heard   time.Time         // when that was seen last
	since   time.Time         // since when they have come, and were noted, without a break; zero: they do not
}

// run samples until ctx is done or the driver is closed.
func (w *worker) run(ctx context.Context) error {
	tick := time.NewTicker(w.period)
	defer tick.Stop()
	var slow, fixed time.Time // when they were read last
	for {
		now := time.Now()
		wantSlow := slow.IsZero() || now.Sub(slow) >= slowEvery
		wantFixed := fixed.IsZero() || now.Sub(fixed) >= fixedEvery
		known, err := w.sample(ctx, wantSlow, wantFixed)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if wantSlow && known {
			slow = now
		}
		if wantFixed && known {
			fixed = now
		}
		select {
		case <-tick.C: // it fell due while the driver did not return: that one is missed
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.kick:
			slow = time.Time{}
		case <-tick.C:
		}
	}
}

// sample reads once and publishes the result; known is false if the GPU could not
// be identified. The only error is errClosed.
func (w *worker) sample(ctx context.Context, slow, fixed bool) (known bool, _ error) {
	defer w.flight.leave()
	w.mu.Lock()
	g := w.gpu
	w.mu.Unlock()
	g.Index, g.Errors = w.index, nil
	err := w.read(ctx, &g, slow, fixed)
	if ctx.Err() != nil {
		return false, nil // nobody waits for it any more: what it read is of a driver that is gone
	}
	now := time.Now()
	g.TakenAt = now
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gpu, w.err = g, err
	if g.UUID == "" {
		return false, closedOnly(err)
	}
	if w.history == nil {
		w.history = w.memory.of(g.UUID)
		w.since = now // what came before had nowhere to go
	}
	w.history.add(g, now)
	return true, closedOnly(err)
}

func (w *worker) read(ctx context.Context, g *gpu.GPU, slow, fixed bool) error {
	if g.UUID == "" {
		if err := w.card.identify(g, w.flight.enter); err != nil {
			return err
		}
	}
	if fixed {
		if err := w.card.fixed(g, w.flight.enter); err != nil {
			return err
		}
	}
	if slow {
		w.watch(ctx)
		if err := w.card.slow(g, w.flight.enter); err != nil {
			return err
		}
		g.Pods = w.holders(*g)
	}
	return w.card.fast(g, w.flight.enter)
}

// watch starts watching the GPU's events, unless they are watched already.
func (w *worker) watch(ctx context.Context) {
	w.mu.Lock()
	already, _ := w.watched.Get()
	w.mu.Unlock()
	if already {
		return
	}
	stream, err := w.card.watch(w.flight.enter)
	if err != nil {
		w.setWatched(gpu.Unknown[bool](reasonOf(err)))
		return
	}
	w.setWatched(gpu.Known(true))
	go func() {
		defer stream.close()
		w.listen(ctx, stream)
	}()
}

func (w *worker) setWatched(r gpu.Reading[bool]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	before, _ := w.watched.Get()
	switch on, _ := r.Get(); {
	case !on:
		w.since = time.Time{}
	case !before:
		w.since = now
	}
	w.watched, w.heard = r, now
}

// watching reports whether events arrive. A wait that did not return in time may
// hold one back. The caller holds the lock.
func (w *worker) watching(now time.Time) gpu.Reading[bool] {
	if on, _ := w.watched.Get(); on && now.Sub(w.heard) > 2*eventWait {
		return gpu.Unknown[bool](gpu.Timeout)
	}
	return w.watched
}

// listen records events until ctx is done or no more can come.
func (w *worker) listen(ctx context.Context, stream events) {
	for ctx.Err() == nil {
		e, ok, err := stream.wait(eventWait)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.setWatched(gpu.Unknown[bool](reasonOf(err)))
			return
		}
		w.setWatched(gpu.Known(true))
		if ok {
			w.happened(e, time.Now())
		}
	}
}

// happened records an event and triggers the slow readings at once.
func (w *worker) happened(e event, at time.Time) {
	w.mu.Lock()
	if w.history != nil {
		w.history.happened(at, e)
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default: // it was asked already
	}
}

// holders returns the pods that hold the GPU.
func (w *worker) holders(g gpu.GPU) gpu.Reading[[]gpu.Pod] {
	if w.proc == "" {
		return gpu.Unknown[[]gpu.Pod](gpu.NotRead)
	}
	processes, why := w.card.processes(w.flight.enter)
	if why != "" {
		return gpu.Unknown[[]gpu.Pod](why)
	}
	return podsOf(w.proc, g, processes)
}

// snapshot returns the current state of the GPU, or why it cannot be identified.
func (w *worker) snapshot(now time.Time) (gpu.GPU, *gpu.ReadError) {
	stuck := w.flight.stuck(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gpu
	if g.UUID == "" {
		return g, w.unidentified(stuck)
	}
	if stuck != nil {
		g = g.WithoutReadings(gpu.Timeout)
		g.Errors = []gpu.ReadError{{What: "driver", Why: gpu.Timeout, Detail: stuck.String()}}
	}
	g.EventsWatched = w.watching(now)
	if since := w.history.unbroken(w.since); !since.IsZero() {
		g.EventsSince = wall(since, now)
	}
	g.TakenAt = wall(g.TakenAt, now)
	w.history.into(&g, now)
	return g, nil
}

func (w *worker) unidentified(stuck *pending) *gpu.ReadError {
	e := &gpu.ReadError{What: fmt.Sprintf("gpus[%d]", w.index), Why: gpu.NotRead, Detail: "not read yet"}
	switch {
	case stuck != nil:
		e.Why, e.Detail = gpu.Timeout, stuck.String()
	case w.err != nil:
		e.Why, e.Detail = reasonOf(w.err), w.err.Error()
	}
	return e
}

// closedOnly returns the error if it ends sampling.
func closedOnly(err error) error {
	if errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// wall converts a time to the present wall clock.
func wall(at, now time.Time) time.Time { return now.Add(-now.Sub(at)).Round(0).UTC() }
