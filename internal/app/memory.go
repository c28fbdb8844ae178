package app

import (
	"context"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	"github.com/inference-responder/responder/internal/goruntime"
)

const (
	// restInterval is how often the service checks for unused heap.
	restInterval = 15 * time.Second
	// settled is how long after the start the open runs have been read.
	settled = 3 * time.Second
	// spareBytes is how much unused heap is worth a collection. An idle service has less.
	spareBytes = 32 << 20
)

// rest returns unused heap to the system until ctx is done. The runtime would
// do it too, but minutes after a burst of 10,000 alerts. What reading the journal at
// start left is returned first.
func (s *Service) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(settled):
		debug.FreeOSMemory()
	}
	tick := time.NewTicker(restInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if spare() > spareBytes {
				debug.FreeOSMemory()
			}
		}
	}
}

// collect collects garbage while no run has anything to do.
func (s *Service) collect(ctx context.Context) error {
	worked, end := s.journal.Watch()
	defer end()
	goruntime.CollectInPauses(ctx, worked, s.journal.Idle)
	return nil
}

func (s *Service) keepProcessors(ctx context.Context) error {
	goruntime.KeepProcessors(ctx, s.log)
	return nil
}

// spare returns the size of the heap's garbage and free space, in bytes.
func spare() uint64 {
	read := []runtimemetrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	runtimemetrics.Read(read)
	objects, free, live := read[0].Value.Uint64(), read[1].Value.Uint64(), read[2].Value.Uint64()
	return free + objects - min(objects, live)
}

// garbage is how much of it may gather. Bodies of a burst are garbage at once: half the
// usual share of a large heap keeps 10,000 of them under 150 MiB, and 32 MiB beside a
// small one save a sixth of the processor time of a body. Close to the limit of the
// container there is less room, see [goruntime.KeepLimit].
var garbage = goruntime.Room{Percent: 50, Least: 32 << 20}

// BoundGarbage has the collector keep that room, unless the environment says when it
// runs.
func BoundGarbage(getenv func(string) string) {
	if getenv("GOGC") == "" {
		garbage.Keep()
	}
	if getenv("GOMEMLIMIT") == "" {
		goruntime.KeepLimit()
	}
}
