package main

import (
	"context"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	"github.com/inference-responder/responder/internal/goruntime"
)

const (
	// restInterval is how often the service looks whether a storm, or the
	// start, has left memory behind that it does not need.
	restInterval = 15 * time.Second
	// spareBytes is how much of it is worth a collection. An idle service has less.
	spareBytes = 32 << 20
	// settleAfter is when what only the start needed is let go.
	settleAfter = 5 * time.Second
)

// rest gives memory back to the system until ctx is done. The runtime would in
// the end; but what 10,000 alerts at once have left is there for minutes, and
// the pages of the journal that were read, and those of the program that the
// start or the storm ran through, count as ours until they are let go.
func (s *service) rest(ctx context.Context) error {
	tick := time.NewTicker(restInterval)
	defer tick.Stop()
	settled := time.NewTimer(settleAfter)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settled.C:
			s.restProgram()
		case <-tick.C:
			if spare() > spareBytes {
				debug.FreeOSMemory()
				s.restProgram()
			}
			if err := s.journal.LetGo(); err != nil {
				s.log.Debug("pages of the journal stay in memory", "err", err)
			}
		}
	}
}

// collect collects garbage while no run has anything to do.
func (s *service) collect(ctx context.Context) error {
	worked, end := s.journal.Watch()
	defer end()
	goruntime.CollectInPauses(ctx, worked, s.journal.Idle)
	return nil
}

func (s *service) keepProcessors(ctx context.Context) error {
	goruntime.KeepProcessors(ctx, s.log)
	return nil
}

func (s *service) restProgram() {
	if err := letGoOfProgram(); err != nil {
		s.log.Debug("pages of the program stay in memory", "err", err)
	}
}

// spare is the heap's garbage and free space, in bytes.
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
