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
	// spareBytes is how much unused heap is worth a collection. An idle service has less.
	spareBytes = 32 << 20
)

// rest returns unused heap to the system until ctx is done. The runtime would
// do it too, but minutes after a burst of 10,000 alerts.
func (s *Service) rest(ctx context.Context) error {
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

// BoundGarbage makes the collector run earlier than usual, unless the
// environment says when. Bodies of a burst are garbage at once: half the usual
// headroom keeps 10,000 of them under 150 MiB. A fixed limit would stall large
// fleets.
func BoundGarbage(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
