package app

import (
	"context"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/sandbox"
)

// ServedSandbox is a simulated cluster for a service with which people try Responder.
// Everybody may decide there. Time passes at the pace while no question is open.
func ServedSandbox(sim *sandbox.World, pace float64) World {
	w := SandboxWorld(sim, machine.Anonymous)
	w.Sandbox, w.Pace = sim, pace
	if w.Pace != realPace {
		w.Simulated = simulated(sim, timesAsFast(w.Pace)+", and as fast as the real one while a question is open")
	}
	return w
}

const (
	realPace = 1 // the pace of the real time
	pacePoll = 100 * time.Millisecond
)

// keepPace sets the sandbox's clock to the pace of real time while a question is open,
// and to the world's pace otherwise. A person then has the real time that the question
// names, at any pace. Until the runs are loaded, nobody knows whether one is open, and the
// pace stays as it was left.
func (s *Service) keepPace(ctx context.Context) error {
	changed, stop := s.journal.Watch()
	defer stop()
	sim := s.world.Sandbox
	poll := time.NewTicker(pacePoll)
	defer poll.Stop()
	for s.executor.Ready() != nil {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	poll.Stop()
	for {
		pace := s.world.Pace
		for run := range s.executor.Open() {
			if run.Gate != nil {
				pace = realPace
				break
			}
		}
		if sim.Clock().Pace() != pace {
			if err := sim.SetPace(pace); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
