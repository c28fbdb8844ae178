package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
)

// defaultScenario is what --sandbox means without a name.
const defaultScenario = "bad-rollout"

// openSandbox opens the simulated cluster of a scenario at the present moment.
// Its time passes pace times as fast as the real one.
func openSandbox(scenario string, start time.Time, pace float64) (*sandbox.World, world, error) {
	clock, err := sandbox.NewClock(start, pace)
	if err != nil {
		return nil, world{}, err
	}
	sim, err := sandbox.New(scenario, clock)
	if err != nil {
		return nil, world{}, err
	}
	return sim, sandboxWorld(sim), nil
}

// sandboxWorld is a simulated cluster as the service sees it.
func sandboxWorld(sim *sandbox.World) world {
	return world{
		Deps:     step.Deps{Querier: sim, Workloads: sim, Changer: sim, Prober: sim, Now: sim.Clock().Now},
		Resolve:  func(a playbook.Alert) ([]playbook.Service, string, error) { return resolveByLabels(sim.Services(), a) },
		Services: sim.Services,
		Now:      sim.Clock().Now,
		Pace:     sim.Clock().Pace(),
	}
}

// resolveByLabels finds the services whose namespace and name an alert carries
// as its labels namespace and service, as the sandbox's rules write them.
func resolveByLabels(services []playbook.Service, a playbook.Alert) ([]playbook.Service, string, error) {
	want := a.Labels["namespace"] + "/" + a.Labels["service"]
	var names []string
	for _, s := range services {
		if s.Namespace+"/"+s.Workload.Name == want {
			return []playbook.Service{s}, "", nil
		}
		names = append(names, s.Namespace+"/"+s.Workload.Name)
	}
	return nil, fmt.Sprintf("the labels namespace and service say %q; the sandbox has %s", want, strings.Join(names, ", ")), nil
}

// scenarioNames lists the incidents there are.
func scenarioNames() []string {
	var names []string
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}
