package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/executor/machine"
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
	return sim, sandboxWorld(sim, machine.Anonymous), nil
}

// sandboxWorld is a simulated cluster as the service sees it. The owners of its
// services may decide, and so may more.
func sandboxWorld(sim *sandbox.World, more ...string) world {
	var entries []catalog.Entry
	for _, s := range sim.Services() {
		s.Owners = append(s.Owners, more...)
		entries = append(entries, catalog.Entry{Service: s, Source: "sandbox " + sim.Scenario().Name})
	}
	services := catalog.New(catalog.Options{Entries: entries, Tenants: sim})
	return world{
		Deps: step.Deps{
			Querier: sim, Workloads: sim, Changer: sim, Nodes: sim, NodeChanger: sim, GPUs: sim, Services: services.Services,
			Prober: sim, Now: sim.Clock().Now,
		},
		Resolve:  services.Resolve,
		Services: services.Services,
		GPUNodes: sim.GPUNodes,
		Now:      sim.Clock().Now,
		Pace:     sim.Clock().Pace(),
	}
}

// sandboxChannels print to the log whatever a policy or a playbook tells, by any
// name: nothing is configured in the sandbox, and nobody is paged from it.
func sandboxChannels(log *slog.Logger) *channels {
	c := &channels{
		log: log, byName: map[string]channel{"log": logChannel{log}}, defaults: []string{"log"},
		told: map[string][]string{}, any: true,
	}
	c.feeds = []feedOptions{c.escalating(feedOptions{name: "log"})}
	return c
}

// logChannel tells the log.
type logChannel struct{ log *slog.Logger }

func (l logChannel) tell(_ context.Context, n step.Notice) error {
	l.log.Info("channel told", "to", orText(strings.Join(n.To, ", "), "default"), "run", n.Run, "text", n.Text)
	return nil
}

// completeScenarios lets shells complete a flag with the incidents.
func completeScenarios(cmd *cobra.Command, flag string) {
	// The error is of a flag that does not exist; the caller has added it.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(scenarioNames(), cobra.ShellCompDirectiveNoFileComp))
}

// scenarioNames lists the incidents that can be simulated.
func scenarioNames() []string {
	var names []string
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}
