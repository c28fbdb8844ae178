package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// routeKinds lists the kinds of objects whose split of requests a lever can change.
func routeKinds() []string { return []string{"HTTPRoute", "InferenceService"} }

// warm returns the declared revision with the kinds filled in.
func (w Warm) warm() playbook.Warm {
	if w == (Warm{}) {
		return playbook.Warm{}
	}
	out := playbook.Warm{Route: playbook.Workload(w.Route), Backend: w.Backend, Workload: playbook.Workload(w.Workload), Each: w.Each}
	out.Route.Kind = cmp.Or(out.Route.Kind, "HTTPRoute")
	if out.Workload.Name != "" {
		out.Workload.Kind = cmp.Or(out.Workload.Kind, "Deployment")
	}
	return out
}

// validateWarm returns what is wrong with the warm revision of a service.
func validateWarm(s playbook.Service) []problem {
	w := s.Warm
	if w == (playbook.Warm{}) {
		return nil
	}
	var ps []problem
	add := func(field, message, hint string) { ps = append(ps, problem{"warm." + field, message, hint}) }
	if s.Workload.Kind == kube.Rollout {
		ps = append(ps, problem{"warm", "has no meaning for a Rollout, whose requests Argo Rollouts moves", "remove warm; rollout.hold aborts a rollout"})
	}
	if !slices.Contains(routeKinds(), w.Route.Kind) {
		add("route.kind", fmt.Sprintf("unknown kind %q", w.Route.Kind), "HTTPRoute or InferenceService")
	}
	if w.Route.Name == "" {
		add("route.name", "is missing", "name the object that splits the requests")
	}
	if w.Each < 0 || w.Each > 100 {
		add("percent_per_replica", fmt.Sprintf("%g is not above 0 and at most 100", w.Each), "percent of the requests; remove it for the default")
	}
	if w.Route.Kind == "InferenceService" {
		if w.Backend != "" || w.Workload != (playbook.Workload{}) {
			add("backend", "has no meaning for an InferenceService", "remove backend and workload: KServe's status names the revision before")
		}
		return ps
	}
	if w.Backend == "" {
		add("backend", "is missing", "name the backend of the route that is the warm revision")
	}
	switch {
	case w.Workload.Name == "":
		add("workload.name", "is missing", "name the Deployment or StatefulSet whose pods serve behind the backend")
	case w.Workload.Kind == kube.Rollout || !slices.Contains(workloadKinds, w.Workload.Kind):
		add("workload.kind", fmt.Sprintf("unknown kind %q", w.Workload.Kind), "Deployment or StatefulSet")
	case w.Workload == s.Workload:
		add("workload", "is the service's own workload", "name the one with the last-good revision, which runs beside it")
	}
	return ps
}
