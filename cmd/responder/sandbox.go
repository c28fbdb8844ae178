package main

import (
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
)

// defaultScenario is what --sandbox means without a name.
const defaultScenario = "bad-rollout"

// openSandbox opens the simulated cluster of a scenario at start. Its time
// passes pace times as fast as the real one.
func openSandbox(scenario string, start time.Time, pace float64) (*sandbox.World, world, error) {
	clock, err := sandbox.NewClock(start, pace)
	if err != nil {
		return nil, world{}, err
	}
	sim, err := sandbox.New(scenario, clock)
	if err != nil {
		return nil, world{}, err
	}
	return sim, sandboxWorld(sim, anonymous), nil
}

// anonymous is who decides where nobody has to authenticate.
const anonymous = "user:anonymous"

// sandboxWorld is a simulated cluster as the service sees it. The owners of its
// services may decide, and so may more.
func sandboxWorld(sim *sandbox.World, more ...string) world {
	var entries []catalog.Entry
	for _, s := range sim.Services() {
		s.Owners = append(s.Owners, more...)
		entries = append(entries, catalog.Entry{Service: s, Source: "sandbox " + sim.Scenario().Name})
	}
	services := catalog.New(catalog.Options{Entries: entries})
	return world{
		Deps:     step.Deps{Querier: sim, Workloads: sim, Changer: sim, Prober: sim, Now: sim.Clock().Now},
		Resolve:  services.Resolve,
		Services: services.Services,
		Now:      sim.Clock().Now,
		Pace:     sim.Clock().Pace(),
	}
}

// scenarioNames lists the incidents that can be simulated.
func scenarioNames() []string {
	var names []string
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}
