package cluster

import (
	"context"
	"fmt"
	"maps"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	slorules "github.com/inference-responder/responder/internal/slo/rules"
)

// RuleServices returns the configured services with their objectives, for rules
// that alert on them; with discovered also those that the cluster has now. Each has
// labels by which the service finds itself in such an alert.
func RuleServices(ctx context.Context, file string, discovered bool) ([]slorules.Service, error) {
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	options := catalog.Options{Entries: c.CatalogEntries(), Defaults: c.ServiceDefaults(), Ceiling: c.Autonomy}
	if discovered {
		if !c.Discovery.Enabled {
			return nil, fmt.Errorf("%s finds no services in a cluster: set discovery.enabled, or leave --discovered out", file)
		}
		if _, err := openKubernetes(c, &app.World{}, &options); err != nil {
			return nil, c.Blame(err, "kubernetes")
		}
	}
	services := catalog.New(options)
	if err := services.Refresh(ctx); err != nil {
		return nil, err
	}
	entries, err := services.Entries()
	switch {
	case err != nil:
		return nil, err
	case len(entries) == 0 && discovered:
		return nil, fmt.Errorf("%s: no services: declare them under services, or label workloads in the cluster", file)
	case len(entries) == 0 && c.Discovery.Enabled:
		return nil, fmt.Errorf("%s: no services: add --discovered for those in the cluster, or declare them under services", file)
	case len(entries) == 0:
		return nil, fmt.Errorf("%s: no services: declare them under services, or give documents with -f", file)
	}
	var out []slorules.Service
	for _, e := range entries {
		s, err := RuleService(services.Resolve, e.Service, e.Source)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// RuleService returns a service that is declared at source, with the labels of its
// alerts: the scrape's name of it, or its own if others share that one. Alerts are
// resolved to services by resolve.
func RuleService(resolve func(playbook.Alert) ([]playbook.Service, string, error), s playbook.Service, source string) (slorules.Service, error) {
	out := slorules.Service{
		Name: s.Name, Engine: s.Engine, Selector: s.Selector, LoadTime: s.LoadTime,
		Kind: s.Workload.Kind, Workload: s.Workload.Name, Source: source,
	}
	for _, o := range s.SLOs {
		out.SLOs = append(out.SLOs, slorules.SLO{
			Name: o.Name, Indicator: o.Measures(), Objective: o.Objective, Window: o.Window, Threshold: o.Threshold,
			Model: o.Model, Route: o.Route, By: o.By, Custom: o.CustomBuckets,
		})
	}
	var why string
	for _, name := range []string{s.Workload.Name, s.Name} {
		labels := map[string]string{"namespace": s.Namespace, "service": name}
		found, because, err := resolve(playbook.Alert{Labels: maps.Clone(labels)})
		if err != nil {
			return slorules.Service{}, err
		}
		if len(found) == 1 && found[0].Name == s.Name {
			out.Labels = labels
			return out, nil
		}
		if why = because; len(found) == 1 {
			why = "it would belong to service " + found[0].Name
		}
	}
	return slorules.Service{}, fmt.Errorf("%s: an alert with the labels namespace=%q and service=%q would not find service %s: %s",
		source, s.Namespace, s.Name, s.Name, why)
}
