package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/playbook"
)

// clue is a label that may name a service, and how it does.
type clue struct {
	label  string
	means  func(s *playbook.Service, value string) bool
	strict bool // a value that fits none of the remaining services is a contradiction
	weak   bool // decides only where no label before it is in the alert
}

// clues are in the order of their weight. The service label of an alert is the
// scrape's name for it, so it never contradicts a deployment or pod. Several
// services may serve one model, so a model says nothing about an alert that
// names another service or pod.
var clues = []clue{
	{label: "service", means: func(s *playbook.Service, v string) bool {
		return v == s.Workload.Name || v == s.Name || strings.HasSuffix(s.Name, "/"+v)
	}},
	{label: "deployment", strict: true, means: workloadIs("Deployment")},
	{label: "statefulset", strict: true, means: workloadIs("StatefulSet")},
	{label: "pod", means: podOf},
	{label: "model_name", weak: true, means: func(s *playbook.Service, v string) bool { return s.Model != "" && v == s.Model }},
}

func workloadIs(kind string) func(*playbook.Service, string) bool {
	return func(s *playbook.Service, v string) bool { return s.Workload.Kind == kind && s.Workload.Name == v }
}

// podOf reports whether a pod's name has the form that the workload's
// controllers create: name-hash-random for a Deployment, name-ordinal for a
// StatefulSet.
func podOf(s *playbook.Service, pod string) bool {
	rest, ok := strings.CutPrefix(pod, s.Workload.Name+"-")
	if !ok {
		return false
	}
	if s.Workload.Kind == "StatefulSet" {
		return rest != "" && strings.Trim(rest, "0123456789") == ""
	}
	return strings.Count(rest, "-") == 1
}

// Resolve returns the services of an alert: exactly one if it can be
// determined. With none or several, why describes what was considered. With
// one, why describes what determined it, if the alert's labels alone did not.
//
// An entry whose matchers fit decides. Otherwise the services of the alert's
// namespace are narrowed by the labels service, deployment, statefulset, pod
// and model_name, in this order; a model_name does not decide against another
// of them. An alert with none of them and the label node
// belongs to the service that has most GPUs there; the cluster is asked for at
// most two seconds.
func (c *Catalog) Resolve(a playbook.Alert) (services []playbook.Service, why string, err error) {
	entries, err := c.Entries()
	if err != nil {
		return nil, "", err
	}
	set := make(model.LabelSet, len(a.Labels))
	for k, v := range a.Labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	var hits []*Entry
	for i := range entries {
		if slices.ContainsFunc(entries[i].Match, func(m matchers) bool { return m.Matches(set) }) {
			hits = append(hits, &entries[i])
		}
	}
	if len(hits) == 0 {
		if hits, why, err = c.byLabels(entries, a); err != nil {
			return nil, "", err
		}
	}
	for _, e := range hits {
		services = append(services, e.Service)
	}
	if len(hits) > 1 {
		why = fmt.Sprintf("%d services fit: %s; add a match to one of them that only its alerts satisfy", len(hits), names(hits))
	}
	if len(hits) == 0 && len(entries) == 0 {
		why = "the catalog is empty: configure services, or label their workloads " + labelService + "=true and enable discovery"
	}
	return services, why, nil
}

// byLabels narrows the services of the alert's namespace.
func (c *Catalog) byLabels(entries []Entry, a playbook.Alert) ([]*Entry, string, error) {
	var left []*Entry
	namespace, scoped := a.Labels["namespace"]
	for i := range entries {
		if !scoped || entries[i].Service.Namespace == namespace {
			left = append(left, &entries[i])
		}
	}
	if len(left) == 0 {
		return nil, fmt.Sprintf("no service of the catalog is in namespace %q", namespace), nil
	}
	named := slices.ContainsFunc(clues, func(c clue) bool { return a.Labels[c.label] != "" })
	if node := a.Labels["node"]; node != "" && !named && c.tenants.source != nil {
		hit, why, err := c.byNode(left, node)
		if hit == nil {
			return nil, why, err
		}
		return []*Entry{hit}, why, nil
	}
	hits, why := byClues(left, a)
	return hits, why, nil
}

func byClues(left []*Entry, a playbook.Alert) ([]*Entry, string) {
	var used []string
	found := false
	for _, c := range clues {
		v := a.Labels[c.label]
		if v == "" {
			continue
		}
		weak := c.weak && !found && len(used) > 0
		used = append(used, fmt.Sprintf("%s=%q", c.label, v))
		var next []*Entry
		for _, e := range left {
			if !weak && c.means(&e.Service, v) {
				next = append(next, e)
			}
		}
		switch {
		case len(next) > 0:
			left, found = next, true
		case c.strict:
			return nil, fmt.Sprintf("%s=%q fits none of %s", c.label, v, names(left))
		}
	}
	switch {
	case found:
		return left, ""
	case len(used) == 0:
		return nil, "the alert names no service: it has none of the labels service, deployment, statefulset, pod, model_name"
	default:
		return nil, fmt.Sprintf("no service fits %s; candidates: %s; if the alert belongs to one of them, add a match to it", strings.Join(used, ", "), names(left))
	}
}

// names lists the first services for a message.
func names(es []*Entry) string {
	const most = 5
	var b strings.Builder
	for i, e := range es {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(es)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(e.Service.Name)
	}
	return b.String()
}
