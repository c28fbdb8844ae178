package app

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/sandbox"
)

// ServedSandbox is a simulated cluster for a service with which people try Responder.
// Everybody may decide there.
func ServedSandbox(sim *sandbox.World) World {
	w := SandboxWorld(sim, machine.Anonymous)
	w.Sandbox = sim
	if w.Pace != realPace {
		w.Simulated = fmt.Sprintf("the cluster, its Prometheus and the incident %s are simulated, and times are of their clock, which runs %g times as fast, "+
			"and as fast as the real one while a question is open.", sim.Scenario().Name, w.Pace)
	}
	return w
}

// realPace is the pace of the real time.
const realPace = 1

// keepPace sets the sandbox's clock to the pace of real time while a question is open,
// and to the world's pace otherwise. A person then has the real time that the question
// names, at any pace.
func (s *Service) keepPace(ctx context.Context) error {
	changed, stop := s.journal.Watch()
	defer stop()
	sim := s.world.Sandbox
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
