package goruntime

import (
	"context"
	"log/slog"
	"runtime"
	"time"
)

// enough is from how many processors on the runtime's own choice stays: one of
// them in a system call is then a small part.
const enough = 4

// followEvery is how long a changed limit of the container goes unseen.
const followEvery = time.Minute

// AddProcessor has Go run on one processor more than it would choose by itself,
// if it would choose fewer than four, and returns how many there are then.
//
// The journal's committer is in fdatasync most of the time, and there it keeps
// one of Go's processors until the scheduler takes it away: of two, half. The
// system has no more cores by this; they only never lie idle for it.
func AddProcessor() int {
	runtime.SetDefaultGOMAXPROCS()
	n := runtime.GOMAXPROCS(0)
	if n >= enough {
		return n // and the runtime follows the container's limit by itself
	}
	runtime.GOMAXPROCS(n + 1)
	return n + 1
}

// KeepProcessors calls AddProcessor at once and then every minute until ctx is
// done: a number that was set ends the runtime's own following of the
// container's limit. It logs the number when it is a new one.
func KeepProcessors(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for last := 0; ; {
		if n := AddProcessor(); n != last {
			log.Debug("processors of the Go runtime", "processors", n)
			last = n
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
