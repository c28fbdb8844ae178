package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
)

// OpenSandbox opens the simulated cluster of a scenario at start. Its time
// passes pace times as fast as the real one.
func OpenSandbox(scenario string, start time.Time, pace float64) (*sandbox.World, World, error) {
	clock, err := sandbox.NewClock(start, pace)
	if err != nil {
		return nil, World{}, err
	}
	sim, err := sandbox.New(scenario, clock)
	if err != nil {
		return nil, World{}, err
	}
	return sim, SandboxWorld(sim, machine.Anonymous), nil
}

// SandboxWorld is a simulated cluster as the service sees it. The owners of its
// services may decide, and so may more.
func SandboxWorld(sim *sandbox.World, more ...string) World {
	var entries []catalog.Entry
	for _, s := range sim.Services() {
		s.Owners = append(s.Owners, more...)
		entries = append(entries, catalog.Entry{Service: s, Source: "sandbox " + sim.Scenario().Name})
	}
	services := catalog.New(catalog.Options{Entries: entries, Tenants: sim})
	deps := step.Deps{
		Querier: sim, Workloads: sim, Fleet: sim, Changer: sim, Scalers: sim, Nodes: sim, NodeChanger: sim, GPUs: sim, Logs: sim, Events: sim, Pods: sim, Routes: sim, Services: services.Services,
		Prober: sim, Probes: sandboxProbes(sim), Objects: sim, Now: sim.Clock().Now,
	}
	if git := sim.Git(); git != nil {
		deps.Manifests, deps.Commits, deps.Pulls, deps.History, deps.Applications = git, git, git, git, git
	}
	return World{
		Deps:     deps,
		Resolve:  services.Resolve,
		Services: services.Services, Known: services.Known,
		GPUNodes: sim.GPUNodes, Inventory: sim,
		Now:  sim.Clock().Now,
		Pace: sim.Clock().Pace(),

		Simulated: simulated(sim, timesAsFast(sim.Clock().Pace())),
	}
}

// simulated returns what describes a simulated cluster to people, at a moment of its time.
// Pace tells how fast that passes; empty: as the real one.
func simulated(sim *sandbox.World, pace string) func(at time.Time) string {
	return func(at time.Time) string {
		name, past := sim.ScenarioAt(at)
		switch {
		case !past:
			return "the cluster, its Prometheus and the incident " + name + " are simulated, and times are of their clock" + pace + "."
		case name == "":
			name = "of this time"
		}
		return "the cluster, its Prometheus and the incident " + name + " were simulated, and times are of their clock. Another incident, " + sim.Scenario().Name + ", has followed."
	}
}

// timesAsFast describes the pace of a simulated cluster; empty: it is that of the real time.
func timesAsFast(pace float64) string {
	if pace == realPace {
		return ""
	}
	return fmt.Sprintf(", which runs %g times as fast", pace)
}

// goldenTokens is how many tokens of each answer a simulated service has on record.
const goldenTokens = 16

// sandboxProbes asks simulated engines for golden prompts, whose answers were recorded
// before anything went wrong.
func sandboxProbes(sim *sandbox.World) *golden.Probes {
	settings := map[string]golden.Settings{}
	for _, s := range sim.Services() {
		prompts := golden.Common().Prompts
		for i, p := range prompts {
			good := sim.Recorded(s.Name, p.Prompt, goldenTokens)
			prompts[i].Expect = &golden.Expected{
				Tokens: good.Tokens, Text: good.Text(), PromptTokens: len(good.Prompt), PromptDigest: golden.PromptDigest(good.Prompt),
			}
		}
		settings[s.Name] = golden.Settings{Endpoint: s.Endpoint, Model: s.Model, Engine: s.Engine, MaxTokens: goldenTokens, Recorded: prompts, Transport: sim}
	}
	p, err := golden.New(settings)
	if err != nil {
		panic(fmt.Sprintf("the probes of the sandbox: %s", err)) // unreachable unless a service's endpoint is no URL, which names of services cannot bring about
	}
	return p
}

// SandboxChannels print to the log whatever a policy or a playbook tells, by any
// name: nothing is configured in the sandbox, and nobody is paged from it.
func SandboxChannels(log *slog.Logger) *notify.Router {
	all := []notify.Member{{Name: "log", Default: true, Channel: logChannel{log}}}
	return notify.New(notify.Options{Channels: all, AnyName: true, Log: log})
}

// logChannel prints notices to the log.
type logChannel struct{ log *slog.Logger }

// Tell implements [notify.Channel].
func (l logChannel) Tell(_ context.Context, n notify.Notice) error {
	l.log.Info("channel told", "to", runview.OrText(strings.Join(n.To, ", "), "default"), "run", n.Run, "text", n.Text)
	return nil
}

// SandboxConfig is the configuration of a simulated service: nothing can break
// there, so levers may act as far as playbooks let them.
func SandboxConfig() config.Config {
	c := config.Default()
	c.Autonomy = playbook.Auto
	return c
}

// DefaultScenario is what --sandbox means without a name.
const DefaultScenario = "bad-rollout"
