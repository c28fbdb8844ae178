package app

import (
	"fmt"
	"maps"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	slorules "github.com/inference-responder/responder/internal/slo/rules"
)

// RuleServices returns the configured services with their objectives, for rules
// that alert on them. Each has labels by which the service finds itself in such an
// alert. Discovered services are not among them: nothing is connected to.
func RuleServices(file string) ([]slorules.Service, error) {
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	entries := c.CatalogEntries()
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: no services: declare them under services, or give documents with -f", file)
	}
	resolver := catalog.New(catalog.Options{Entries: entries})
	var out []slorules.Service
	for _, e := range entries {
		s, err := ruleService(resolver, e)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// ruleService returns a service with the labels of its alerts: the scrape's name
// of it, or its own if others share that one.
func ruleService(resolver *catalog.Catalog, e catalog.Entry) (slorules.Service, error) {
	out := slorules.Service{
		Name: e.Service.Name, Engine: e.Service.Engine, Selector: e.Service.Selector, LoadTime: e.Service.LoadTime,
		Kind: e.Service.Workload.Kind, Workload: e.Service.Workload.Name, Source: e.Source,
	}
	for _, o := range e.Service.SLOs {
		out.SLOs = append(out.SLOs, slorules.SLO{
			Name: o.Name, Indicator: o.Measures(), Objective: o.Objective, Window: o.Window, Threshold: o.Threshold,
			Model: o.Model, Route: o.Route, By: o.By,
		})
	}
	var why string
	for _, name := range []string{e.Service.Workload.Name, e.Service.Name} {
		labels := map[string]string{"namespace": e.Service.Namespace, "service": name}
		found, because, err := resolver.Resolve(playbook.Alert{Labels: maps.Clone(labels)})
		if err != nil {
			return slorules.Service{}, err
		}
		if len(found) == 1 && found[0].Name == e.Service.Name {
			out.Labels = labels
			return out, nil
		}
		if why = because; len(found) == 1 {
			why = "it would belong to service " + found[0].Name
		}
	}
	return slorules.Service{}, fmt.Errorf("%s: an alert with the labels namespace=%q and service=%q would not find service %s: %s",
		e.Source, e.Service.Namespace, e.Service.Name, e.Service.Name, why)
}
