package rules

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// slothLabels are the labels of Sloth's own series, which annotations of its
// documents may speak of and its dashboards select.
func slothLabels(service, name string) map[string]string {
	return map[string]string{"sloth_id": service + "-" + name, "sloth_service": service, "sloth_slo": name}
}

// sloth reads a Sloth prometheus/v1 document.
func (r *reader) sloth(d *yamldoc.Document) {
	m := d.Mapping(d.Root, "", "version", "service", "labels", "slo_plugins", "slos")
	if m == nil {
		return
	}
	m.Constant("version", "prometheus/v1")
	m.Need("service", "the name of the service that the objectives are about")
	service := m.Text("service")
	refusePlugins(m, "slo_plugins")
	common := readLabels(m)
	for i, n := range list(m, "slos", "one or more objectives") {
		r.slothSLO(d, n, fmt.Sprintf("slos[%d]", i), service, common)
	}
}

func (r *reader) slothSLO(d *yamldoc.Document, n *yaml.Node, path, service string, common map[string]string) {
	m := d.Mapping(n, path, "name", "description", "objective", "plugins", "labels", "sli", "alerting")
	if m == nil {
		return
	}
	m.Need("name", "unique in the service, like ttft")
	m.Text("description")
	refusePlugins(m, "plugins")
	f := found{doc: d, node: n, path: path}
	f.Name = m.Text("name")
	f.ID = service + "-" + f.Name
	f.Target = percentage(m, "objective")
	f.Period = r.Period
	f.Labels = merged(common, readLabels(m), slothLabels(service, f.Name))
	ok := false
	if f.Ratio, ok = r.slothSLI(m); !ok {
		return
	}
	own := r.slothAlerting(m, &f)
	r.add(f, service, own, r.KeepNames)
}

// percentage reads an objective that is written in percent.
func percentage(m *yamldoc.Mapping, field string) float64 {
	const hint = "a percentage, like 99.9"
	if m.Need(field, hint) == nil {
		return 0
	}
	v, ok := m.Number(field)
	switch {
	case !ok:
	case v > 0 && v <= 1:
		m.Doc.Report(m.Get(field), m.At(field), number(v)+" is a percentage here", fmt.Sprintf("write %s if you mean the share", number(100*v)))
	case !(v > 0 && v < 100):
		m.Doc.Report(m.Get(field), m.At(field), number(v)+" is not between 0 and 100", hint)
	}
	return v / 100
}

// refusePlugins reports plugins: code that only Sloth runs.
func refusePlugins(m *yamldoc.Mapping, field string) {
	if n := m.Get(field); n != nil {
		m.Doc.Report(n, m.At(field), "plugins of Sloth are programs that only Sloth runs", "write what they stand for: the queries, or the labels")
	}
}

// slothSLI returns the share of bad events.
func (r *reader) slothSLI(m *yamldoc.Mapping) (string, bool) {
	n := m.Need("sli", "events with error_query and total_query, or raw with error_ratio_query")
	if n == nil {
		return "", false
	}
	sli := m.Doc.Mapping(n, m.At("sli"), "raw", "events", "plugin")
	if sli == nil {
		return "", false
	}
	refusePlugins(sli, "plugin")
	events, raw := sli.Get("events"), sli.Get("raw")
	switch {
	case events != nil && raw != nil:
		m.Doc.Report(raw, sli.At("raw"), "both events and raw", "keep one")
	case events != nil:
		e := m.Doc.Mapping(events, sli.At("events"), "error_query", "total_query")
		if e == nil {
			return "", false
		}
		bad, ok := r.windowed(e, "error_query")
		total, too := r.windowed(e, "total_query")
		return enclosed(bad) + "\n/\n" + enclosed(total), ok && too
	case raw != nil:
		e := m.Doc.Mapping(raw, sli.At("raw"), "error_ratio_query")
		if e == nil {
			return "", false
		}
		bad, ok := r.windowed(e, "error_ratio_query")
		return enclosed(bad), ok
	case !sli.Has("plugin"):
		m.Doc.Report(n, m.At("sli"), "neither events nor raw", "events has error_query and total_query, raw has error_ratio_query")
	}
	return "", false
}

// windowed reads a query over [Window].
func (r *reader) windowed(m *yamldoc.Mapping, field string) (string, bool) {
	n := m.Need(field, "a PromQL query over "+Window)
	if n == nil {
		return "", false
	}
	text, ok := m.Doc.Text(n, m.At(field))
	if !ok {
		return "", false
	}
	q := query{doc: m.Doc, node: n, path: m.At(field), text: text, custom: r.CustomBuckets}
	if !q.check() {
		return "", false
	}
	if !q.windowed() {
		m.Doc.Report(n, q.path, "the query does not depend on the window", "write "+Window+" for the range, like rate(x_total["+Window+"])")
		return "", false
	}
	return q.template(), true
}

// slothAlerting reads the alerts of an objective and returns their name.
func (r *reader) slothAlerting(m *yamldoc.Mapping, f *found) string {
	n := m.Get("alerting")
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: m.Node.Line, Column: m.Node.Column}
	}
	a := m.Doc.Mapping(n, m.At("alerting"), "name", "labels", "annotations", "page_alert", "ticket_alert")
	if a == nil {
		return ""
	}
	common, annotations := templates(a, "labels", readLabels(a)), templates(a, "annotations", texts(a, "annotations"))
	for _, x := range []struct {
		field, severity string
		into            *Alert
	}{{"page_alert", "page", &f.Page}, {"ticket_alert", "ticket", &f.Ticket}} {
		x.into.Labels = merged(map[string]string{"sloth_severity": x.severity}, common)
		x.into.Annotations = merged(map[string]string{
			"title": "(" + x.severity + ") {{$labels.sloth_service}} {{$labels.sloth_slo}} SLO error budget burn rate is too fast.",
		}, annotations)
		if sub := a.Get(x.field); sub != nil {
			if s := m.Doc.Mapping(sub, a.At(x.field), "disable", "labels", "annotations"); s != nil {
				x.into.Disabled = s.Boolean("disable")
				x.into.Labels = merged(x.into.Labels, templates(s, "labels", readLabels(s)))
				x.into.Annotations = merged(x.into.Annotations, templates(s, "annotations", texts(s, "annotations")))
			}
		}
	}
	if f.Page.Disabled && f.Ticket.Disabled {
		return a.Text("name")
	}
	a.Need("name", "the name of the alerts; or disable page_alert and ticket_alert")
	return a.Text("name")
}
