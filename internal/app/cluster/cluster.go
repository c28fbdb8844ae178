package cluster

import (
	"log/slog"
	"time"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// Open returns the world of a configuration: its cluster, its Prometheus
// and its services. It connects to nothing: what is down now may be up when it
// is needed. A command that ends passes temp and keeps no clone of a repository,
// because a service next to it has its own locked; a service passes nil.
func Open(c config.Config, temp app.TempDir, log *slog.Logger) (app.World, error) {
	w := app.World{Deps: step.Deps{Log: log, Networks: c.Probes.Prefixes()}, Now: time.Now, Pace: 1}
	options := catalog.Options{Entries: c.CatalogEntries(), Defaults: c.ServiceDefaults(), Ceiling: c.Autonomy, Namespaces: c.Discovery.Namespaces, Interval: c.Discovery.Interval, Log: log}
	var err error
	if w.Deps.Templates, err = jobs.Open(c.Jobs); err != nil {
		return w, c.Blame(err, "jobs")
	}
	if w.Deps.Querier, err = openPrometheus(c); err != nil {
		return w, c.Blame(err, "prometheus")
	}
	api, err := openKubernetes(c, &w, &options)
	if err != nil {
		return w, c.Blame(err, "kubernetes")
	}
	if err := openGPUs(c, api, &w.Deps, log); err != nil {
		return w, c.Blame(err, "gpu.agents")
	}
	if w.Deps.Repairs, err = openRepairs(c); err != nil {
		return w, err
	}
	open := openGit
	if temp != nil {
		open = func(c config.Config, log *slog.Logger) (*GitOps, error) { return OpenGitOnce(c, temp, log) }
	}
	if w.Deps.Probes, err = openProbes(c); err != nil {
		return w, c.Blame(err, "services")
	}
	git, err := open(c, log)
	if err != nil {
		return w, c.Blame(err, "gitops")
	}
	git.into(&w.Deps)
	w.Close = git.Close
	if err := app.OpenNotifications(c, &w, log); err != nil {
		return w, err
	}
	services := catalog.New(options)
	w.Resolve, w.Services, w.Known = services.Resolve, services.Services, services.Known
	w.Deps.Services = services.Services
	if len(c.NodePools) > 0 {
		w.Deps.NodeOwners = c.NodePools.Owners
	}
	w.Prepare, w.Run, w.Missing = services.Refresh, services.Run, services.Missing
	return w, nil
}

// openPrometheus makes the client of Prometheus; nil: none is configured.
func openPrometheus(c config.Config) (step.Querier, error) {
	if c.Prometheus.URL == "" {
		return nil, nil
	}
	return Prometheus(c.Prometheus)
}

// Prometheus makes the client of a Prometheus. It does not connect.
func Prometheus(p config.Prometheus) (*slo.Prometheus, error) {
	return slo.NewPrometheus(slo.Options{URL: p.URL, Timeout: p.Timeout, BearerTokenFile: p.TokenFile, CAFile: p.CAFile})
}

// Kubernetes makes the client of a cluster. It does not connect.
func Kubernetes(k config.Kubernetes) (*kube.Client, error) {
	return kube.New(kube.Options{Kubeconfig: k.Kubeconfig, Context: k.Context, QPS: float32(k.QPS)})
}

// openKubernetes makes the client of the cluster, for the steps and for the
// discovery of services; nil: none is configured.
func openKubernetes(c config.Config, w *app.World, options *catalog.Options) (*kube.Client, error) {
	if !c.Kubernetes.Configured() {
		return nil, nil
	}
	client, err := Kubernetes(c.Kubernetes)
	if err != nil {
		return nil, err
	}
	w.Deps.Workloads, w.Deps.Changer, w.Deps.Objects, w.Deps.Logs = client, client, client, client
	w.Deps.Capacity, w.Deps.Fleet, w.Deps.Events, w.Deps.Pods, w.Deps.Scalers = client, client, client, client, client
	w.Deps.Nodes, w.Deps.NodeChanger = client, client
	w.Deps.Routes, w.Deps.Jobs = client, client
	w.GPUNodes, w.Inventory, options.Tenants = client.GPUNodes, client, client
	if c.Discovery.Enabled {
		options.Lister = client
	}
	return client, nil
}

// openProbes makes what asks engines for golden prompts; nil: no service has a probe.
func openProbes(c config.Config) (*golden.Probes, error) {
	settings := map[string]golden.Settings{}
	for _, one := range catalog.ProbedServices(c.Services) {
		p := one.Probe
		settings[one.Service.Name] = golden.Settings{
			Endpoint: p.Endpoint, Path: p.Path, Model: p.Model, Engine: one.Service.Engine, TokenFile: p.TokenFile, EngineToken: p.EngineToken, CAFile: p.CAFile,
			PromptsFile: p.PromptsFile, MaxTokens: p.MaxTokens, Timeout: p.Timeout, Every: p.Every, Replicas: p.Replicas, Port: p.Port, TokensPerHour: p.TokensPerHour,
			Networks: c.Probes.Prefixes(),
		}
	}
	if len(settings) == 0 {
		return nil, nil
	}
	return golden.New(settings)
}
