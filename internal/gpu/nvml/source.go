package nvml

import (
	"errors"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// driver is NVIDIA's library. Each of its calls, and of a card's, may hang for
// ever. Only one goroutine calls a driver; so it is with a card, but for its
// events.
type driver interface {
	// open loads and initializes the library. It may be called again, after an
	// error and after errClosed.
	open() error
	versions() (driver, library string)
	count() (int, error)
	card(index int) card
}

// card is one GPU. Its readings are made in three paces; each overwrites its
// part of the value it is given and nothing else. before is called before each
// call of the driver, with its name. An error is errClosed: everything else is
// in the readings.
type card interface {
	identify(g *gpu.GPU, before func(call string)) error // uuid, pci, name, serial; also a *callError
	fast(g *gpu.GPU, before func(call string)) error     // what changes by the second
	slow(g *gpu.GPU, before func(call string)) error     // counters and links
	fixed(g *gpu.GPU, before func(call string)) error    // limits and thresholds
	processes(before func(call string)) ([]process, gpu.Absence)
	// watch begins to watch the card's events. It comes after identify.
	watch(before func(call string)) (events, error)
}

// events is a stream of one card's events.
type events interface {
	// wait returns the next event, or false when none came within the time.
	wait(time.Duration) (event, bool, error)
	close()
}

// event is something the driver tells of a card.
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

// errClosed means that the driver was unloaded, or lost its state: open again.
var errClosed = errors.New("the driver was unloaded or restarted")

// Unavailable explains why the driver cannot be used at all, and what to do.
type Unavailable struct {
	Why     gpu.Absence
	Reason  string // e.g. libnvidia-ml.so.1 is not here
	Hint    string // what to do
	Restart bool   // this process can never use it, one that starts now can
}

// Error is the reason and the hint.
func (u *Unavailable) Error() string { return u.Reason + "; " + u.Hint }

// callError is a call of the driver that failed.
type callError struct {
	call string
	why  gpu.Absence
	text string // the driver's own words
}

// Error names the call and the driver's words.
func (e *callError) Error() string { return e.call + ": " + e.text }

// reasonOf is why an error of the driver leaves values unknown.
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
