package nvml

import (
	"errors"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// driver is NVIDIA's library. Each of its calls, and of a card's, may hang
// forever. Only one goroutine calls a driver, and only one a card, except for its
// events.
type driver interface {
	// open loads and initializes the library. It may be called again, after an
	// error and after errClosed.
	open() error
	versions() (driver, library string)
	count() (int, error)
	card(index int) card
}

// card is one GPU. Its readings have three paces. Each overwrites its own part of
// the given value and nothing else. before is called before each call of the
// driver, with its name. The only error is errClosed: all other failures are in
// the readings.
type card interface {
	identify(g *gpu.GPU, before func(call string)) error // uuid, pci, name, serial; also a *callError
	fast(g *gpu.GPU, before func(call string)) error     // what changes by the second
	slow(g *gpu.GPU, before func(call string)) error     // counters and links
	fixed(g *gpu.GPU, before func(call string)) error    // limits and thresholds
	processes(before func(call string)) ([]process, gpu.Absence)
	// watch starts watching the card's events. identify comes first.
	watch(before func(call string)) (events, error)
}

// events is a stream of one card's events.
type events interface {
	// wait returns the next event, or false when none came within the time.
	wait(time.Duration) (event, bool, error)
	close()
}

// event is an event of a card.
type event struct {
	typ  gpu.EventType
	data uint64
}

// process is a process that uses a GPU, as the driver lists it.
type process struct {
	pid       int64 // in the host's process namespace
	usedBytes uint64
	gi, ci    int // GPU and compute instance where the GPU is divided; -1: none
}

// errClosed means that the driver was unloaded or lost its state. It must be
// opened again.
var errClosed = errors.New("the driver was unloaded or restarted")

// Unavailable explains why the driver cannot be used at all, and what to do.
type Unavailable struct {
	Why     gpu.Absence
	Reason  string // e.g. libnvidia-ml.so.1 is not here
	Hint    string // what to do
	Restart bool   // this process can never use it, one that starts now can
}

// Error returns the reason and the hint.
func (u *Unavailable) Error() string { return u.Reason + "; " + u.Hint }

// callError is a failed call of the driver.
type callError struct {
	call string
	why  gpu.Absence
	text string // the driver's own words
}

// Error returns the call and the driver's text.
func (e *callError) Error() string { return e.call + ": " + e.text }

// reasonOf returns why an error of the driver leaves values unknown.
func reasonOf(err error) gpu.Absence {
	var u *Unavailable
	var e *callError
	switch {
	case errors.As(err, &u):
		return u.Why
	case errors.As(err, &e):
		return e.why
	default:
		return gpu.Failed
	}
}
