package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

const (
	// hang is the limit for one call of the driver. A caller learns of a hanging call
	// within a second.
	hang        = 500 * time.Millisecond
	reopenEvery = 10 * time.Second
)

// Options configure a Collector.
type Options struct {
	Library string        // name or path of the driver library; empty: libnvidia-ml.so.1
	Period  time.Duration // between two samples; 100 ms to 1 min, 0: 1 s
	Node    string        // this node's name
	BootID  string        // of the running kernel
	Agent   string        // version of this program
	Proc    string        // HostProc, to find the pods of processes that use GPUs; empty: the host's processes are not seen
	Bus     string        // PCIBus, to find GPUs that the driver does not list; empty: not looked at
	Log     *slog.Logger
}

// Collector reads the GPUs of this machine until its context is done. Its methods
// are safe for concurrent use and never wait for the driver.
type Collector struct {
	o      Options
	driver driver
	memory *memory
	reopen time.Duration // how often a driver that is not there is looked for
	flight inFlight      // of the goroutine that opens the driver

	mu       sync.Mutex // guards what follows; never held during a call of the driver
	state    error      // why there are no GPUs to read; nil: there are
	versions [2]string  // of driver and library
	since    time.Time  // when watching began
	most     int        // GPUs that there ever were
	workers  []*worker
}

var errStarting = errors.New("the driver has not answered yet")

// Start starts reading and returns at once.
func Start(ctx context.Context, o Options) (*Collector, error) {
	if o.Period == 0 {
		o.Period = time.Second
	}
	if o.Period < 100*time.Millisecond || o.Period > gpu.MaxPeriod {
		return nil, fmt.Errorf("nvml: a period of %s is not within 100ms and 1m", o.Period)
	}
	return start(ctx, o, newDriver(o.Library), reopenEvery), nil
}

func start(ctx context.Context, o Options, d driver, reopen time.Duration) *Collector {
	c := &Collector{o: o, driver: d, reopen: reopen, state: errStarting, memory: newMemory(o.Period)}
	go c.keep(ctx)
	return c
}

// keep opens the driver, retries while it is missing, and runs the workers while
// it is open.
func (c *Collector) keep(ctx context.Context) {
	told := ""
	for ctx.Err() == nil {
		err := c.once(ctx)
		c.flight.leave()
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		c.state, c.workers = err, nil
		c.mu.Unlock()
		if text := err.Error(); text != told {
			c.o.Log.Error("gpus cannot be read", "err", err)
			told = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.reopen):
		}
	}
}

// once opens the driver and reads until the driver is gone or ctx is done.
func (c *Collector) once(ctx context.Context) error {
	c.flight.enter("nvmlInit")
	if err := c.driver.open(); err != nil {
		return err
	}
	c.flight.enter("nvmlSystemGetDriverVersion")
	driver, library := c.driver.versions()
	c.flight.enter("nvmlDeviceGetCount")
	n, err := c.driver.count()
	c.flight.leave()
	if err != nil {
		return err
	}
	if n > gpu.MaxGPUs {
		return fmt.Errorf("the driver counts %d GPUs, more than %d", n, gpu.MaxGPUs)
	}

	// Goroutines that hang are left behind. This tells them to stop when they return.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan error, n)
	workers := make([]*worker, n)
	for i := range workers {
		workers[i] = &worker{card: c.driver.card(i), index: i, period: c.o.Period, proc: c.o.Proc, memory: c.memory, kick: make(chan struct{}, 1)}
	}
	c.memory.restart()
	bus, _ := onBus(c.o.Bus).Get()
	c.mu.Lock()
	c.state, c.versions, c.since, c.workers = nil, [2]string{driver, library}, time.Now(), workers
	c.most = max(c.most, n, int(bus))
	c.mu.Unlock()
	for _, w := range workers {
		go func() {
			if err := w.run(ctx); err != nil {
				gone <- err
			}
		}()
	}
	c.o.Log.Info("reading gpus", "gpus", n, "driver", driver, "library", library)
	select {
	case <-ctx.Done():
		return nil
	case err := <-gone:
		return err
	}
}

// Snapshot returns the current state. It never waits for the driver.
func (c *Collector) Snapshot() gpu.Snapshot {
	now := time.Now()
	c.mu.Lock()
	state, workers := c.state, c.workers
	s := gpu.Snapshot{
		Format: gpu.Format, Node: c.o.Node, BootID: c.o.BootID, Source: "nvml", Agent: c.o.Agent,
		Driver: c.versions[0], NVML: c.versions[1], TakenAt: now.UTC().Round(0), PeriodMS: c.o.Period.Milliseconds(),
	}
	if !c.since.IsZero() {
		s.Since = wall(c.since, now)
	}
	most := c.most
	c.mu.Unlock()

	if stuck := c.flight.stuck(now); stuck != nil {
		s.Errors = append(s.Errors, gpu.ReadError{What: "driver", Why: gpu.Timeout, Detail: stuck.String()})
	} else if state != nil {
		why := reasonOf(state)
		if errors.Is(state, errStarting) {
			why = gpu.NotRead
		}
		s.Errors = append(s.Errors, gpu.ReadError{What: "driver", Why: why, Detail: state.Error()})
	}
	missing, pending := false, state != nil // GPUs that are lost, and that may yet come
	for _, w := range workers {
		g, unidentified := w.snapshot(now)
		if unidentified != nil {
			s.Errors = append(s.Errors, *unidentified)
			missing = missing || unidentified.Why == gpu.Lost
			pending = pending || unidentified.Why != gpu.Lost
			continue
		}
		s.GPUs = append(s.GPUs, g)
	}
	if pending {
		return s
	}
	s.Expected = gpu.Known(int64(most))
	if !missing { // else one of them may be the one that cannot say its UUID
		s.GPUs = append(s.GPUs, c.memory.gone(s.GPUs, now)...)
	}
	return s
}

// Problem returns why no GPU can be read, or nil.
func (c *Collector) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
