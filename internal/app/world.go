package app

import (
	"context"
	"errors"
	"time"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/alertmanager"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
)

// TempDir makes a temporary directory. The returned function removes it.
type TempDir func(pattern string) (name string, remove func() error, err error)

// World is what a service watches and acts on. A cluster with its Prometheus
// is one, the sandbox is another; everything else of the service is the same
// for both.
type World struct {
	Deps step.Deps

	// Channels are where people are told, beside the log; nil: none.
	Channels *notify.Router

	// Slack is where runs ask and people decide; nil: nowhere.
	Slack *workspace

	// Silences silences alerts whose cure is being proven; nil: they are heard.
	Silences *alertmanager.Silences

	// Resolve finds the services an alert is about, and says why when there is
	// none or more than one.
	Resolve func(playbook.Alert) (services []playbook.Service, why string, err error)

	// Services lists the catalog, for `responder services`.
	Services func() []playbook.Service

	// Known is Services, and an error if services may be missing from it.
	Known func() ([]playbook.Service, error)

	// GPUNodes names the nodes that have GPUs; nil: there is no cluster.
	GPUNodes func(ctx context.Context) ([]string, error)

	// Inventory lists nodes and what runs on them, for pages; nil: there is no cluster.
	Inventory Inventory

	// Now is the time that the world lives in, Pace how many of its seconds
	// pass in a real one. Zero values: the real time at its own pace.
	Now  func() time.Time
	Pace float64

	// Sandbox is the simulated cluster that people can steer through the service;
	// nil: the world is real, or somebody else steers it.
	Sandbox *sandbox.World

	// Simulated tells people what was simulated at a moment; nil: the world is real.
	Simulated func(at time.Time) string

	// Prepare asks once for what has to be known before an alert can be
	// understood. A service starts without it and says what is missing; a dry
	// run does not. Nil: nothing.
	Prepare func(ctx context.Context) error

	// Run is work of the world's own, such as discovery or simulated traffic,
	// until ctx is done. Nil: none.
	Run func(ctx context.Context) error

	// Close gives back what the world holds, after Run has returned. Nil: nothing.
	Close func() error

	// Missing reports what the world cannot answer now, one line each, for
	// readiness. Nil: nothing is missing.
	Missing func() []string
}

// NoSuchNode reports of a node that nobody answered for when the cluster has none
// of that name.
func (w World) NoSuchNode(ctx context.Context, answers []gpu.Answer) []gpu.Answer {
	for i, a := range answers {
		if w.Deps.Nodes == nil || !errors.Is(a.Err, gpu.ErrNoAgent) && !errors.Is(a.Err, dcgm.ErrNoSeries) {
			continue
		}
		if e := new(fault.Error); errors.As(lookUp(ctx, w.Deps.Nodes, a.Node), &e) && e.Reason == fault.NotFound {
			answers[i].Err = errors.New("the cluster has no node of that name")
		}
	}
	return answers
}

func lookUp(ctx context.Context, nodes step.Nodes, name string) error {
	_, err := nodes.Node(ctx, name)
	return err
}

// ConfiguredServices returns the services that the configuration lists, without
// those that are discovered.
func ConfiguredServices(c config.Config) []playbook.Service {
	var services []playbook.Service
	for _, e := range c.CatalogEntries() {
		services = append(services, e.Service)
	}
	return services
}
