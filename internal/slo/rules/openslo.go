package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// openSLO holds what OpenSLO's documents of kind SLO refer to.
type openSLO struct {
	slis    map[string]*yamldoc.Mapping // spec of an SLI, by its name
	sources map[string]string           // type of a DataSource, by its name
}

// openKinds are the kinds of OpenSLO v1.
var openKinds = []string{"SLO", "SLI", "DataSource", "Service", "AlertPolicy", "AlertCondition", "AlertNotificationTarget"}

// openSLO reads what a document's kind is and keeps what others refer to. It
// reports whether the document is an SLO.
func (r *reader) openSLO(d *yamldoc.Document) bool {
	m := d.Mapping(d.Root, "", "apiVersion", "kind", "metadata", "spec")
	if m == nil {
		return false
	}
	if n := m.Get("apiVersion"); n.Value == "sloth.slok.dev/v1" {
		d.Report(n, m.At("apiVersion"), "Sloth's Kubernetes resources are not read", "write its spec as a document of version: prometheus/v1")
		return false
	}
	m.Constant("apiVersion", "openslo/v1")
	m.Need("kind", "one of "+strings.Join(openKinds, ", "))
	kind, name := m.Text("kind"), metadata(m).name
	n := m.Need("spec", "")
	if n == nil || kind == "" {
		return false
	}
	switch kind {
	case "SLO":
		return true
	case "SLI":
		if spec := d.Mapping(n, m.At("spec"), "description", "thresholdMetric", "ratioMetric"); spec != nil {
			r.open.slis[name] = spec
		}
	case "DataSource":
		if spec := d.Mapping(n, m.At("spec"), "description", "type", "connectionDetails"); spec != nil {
			spec.Need("type", "Prometheus")
			r.open.sources[name] = spec.Text("type")
		}
	case "Service":
	case "AlertPolicy", "AlertCondition", "AlertNotificationTarget":
		d.Report(m.Get("kind"), m.At("kind"), kind+" is not supported", "remove the document: the alerts are those of the usual four pairs of windows, and Alertmanager decides who is told")
	default:
		d.Report(m.Get("kind"), m.At("kind"), fmt.Sprintf("unknown kind %q", yamldoc.Clip(kind)), yamldoc.DidYouMean(kind, openKinds))
	}
	return false
}

type openMetadata struct {
	name                string
	labels, annotations map[string]string
}

// metadata reads the metadata of a document or of an inline SLI.
func metadata(m *yamldoc.Mapping) openMetadata {
	n := m.Need("metadata", "metadata has a name")
	if n == nil {
		return openMetadata{}
	}
	sub := m.Doc.Mapping(n, m.At("metadata"), "name", "displayName", "labels", "annotations")
	if sub == nil {
		return openMetadata{}
	}
	sub.Need("name", "")
	sub.Text("displayName")
	joinLists(sub.Get("labels"))
	return openMetadata{sub.Text("name"), readLabels(sub), templates(sub, "annotations", texts(sub, "annotations"))}
}

// joinLists makes one text of each list of label values, which OpenSLO allows: a label
// of Prometheus has one value.
func joinLists(labels *yaml.Node) {
	if labels == nil || labels.Kind != yaml.MappingNode {
		return
	}
	for i := 1; i < len(labels.Content); i += 2 {
		v := labels.Content[i]
		if v.Kind != yaml.SequenceNode || slices.ContainsFunc(v.Content, func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }) {
			continue
		}
		var all []string
		for _, n := range v.Content {
			all = append(all, n.Value)
		}
		*v = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.Join(all, ","), Line: v.Line, Column: v.Column}
	}
}

// openObjectives reads the objectives of a document of kind SLO.
func (r *reader) openObjectives(d *yamldoc.Document) {
	before := len(r.problems)
	root := d.Mapping(d.Root, "", "apiVersion", "kind", "metadata", "spec")
	if root == nil || !root.Has("metadata") {
		return
	}
	quiet := len(r.problems)
	meta := metadata(root)
	r.problems = r.problems[:quiet] // what is wrong with it is reported already
	m := d.Mapping(root.Get("spec"), root.At("spec"),
		"description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod", "objectives", "alertPolicies")
	if m == nil {
		return
	}
	m.Text("description")
	m.Need("service", "the name of the service that the objective is about")
	m.Need("budgetingMethod", "Occurrences")
	if method := m.Text("budgetingMethod"); method != "" && method != "Occurrences" {
		d.Report(m.Get("budgetingMethod"), m.At("budgetingMethod"), fmt.Sprintf("%q is not supported: the budget is counted in events", yamldoc.Clip(method)), "write Occurrences")
	}
	if p := m.Get("alertPolicies"); p != nil && len(p.Content) > 0 {
		d.Report(p, m.At("alertPolicies"), "alert policies are not supported", "remove them: the alerts are those of the usual four pairs of windows")
	}
	base := found{doc: d, node: d.Root}
	base.Name, base.Period = meta.name, r.openPeriod(m)
	base.Labels = meta.labels
	base.Page.Annotations = r.alertAnnotations(meta)
	base.Ticket.Annotations = base.Page.Annotations
	sli := r.indicatorOfSLO(m)
	objectives := list(m, "objectives", "one or more, each with target or targetPercent")
	if sli == nil {
		return
	}
	for i, n := range objectives {
		f := base
		f.node, f.path = n, fmt.Sprintf("%s[%d]", m.At("objectives"), i)
		f.Labels = merged(base.Labels)
		if len(objectives) > 1 {
			f.Name = fmt.Sprintf("%s-%d", meta.name, i)
		}
		f.ID = m.Text("service") + "-" + f.Name
		if r.openObjective(&f, sli) && len(r.problems) == before {
			r.add(f, m.Text("service"), "", false)
		}
	}
}

// alertAnnotations returns the annotations that can be an alert's: the others are
// other programs' notes.
func (r *reader) alertAnnotations(meta openMetadata) map[string]string {
	out := map[string]string{}
	for name, text := range meta.annotations {
		if !strings.ContainsAny(name, "/.-") {
			out[name] = text
		}
	}
	return out
}

// openPeriod returns the period of the budget.
func (r *reader) openPeriod(m *yamldoc.Mapping) time.Duration {
	if !m.Has("timeWindow") {
		return r.Period
	}
	items := list(m, "timeWindow", "one rolling window, like {duration: 28d, isRolling: true}")
	if len(items) != 1 {
		if len(items) > 1 {
			m.Doc.Report(items[1], m.At("timeWindow")+"[1]", "a second window", "keep one")
		}
		return 0
	}
	w := m.Doc.Mapping(items[0], m.At("timeWindow")+"[0]", "duration", "isRolling", "calendar")
	if w == nil {
		return 0
	}
	if !w.Boolean("isRolling") || w.Has("calendar") {
		m.Doc.Report(items[0], w.Path, "windows of the calendar are not supported: a burn rate needs a period of fixed length", "write {duration: 28d, isRolling: true}")
		return 0
	}
	n := w.Need("duration", "like 28d")
	if n == nil {
		return 0
	}
	text := w.Text("duration")
	if strings.ContainsAny(text, "MQY") {
		m.Doc.Report(n, w.At("duration"), fmt.Sprintf("%q has no fixed length", yamldoc.Clip(text)), "write it in days, like 28d or 30d")
		return 0
	}
	d, message, hint := yamldoc.Duration(n, maxPeriod)
	if message != "" {
		m.Doc.Report(n, w.At("duration"), message, hint)
	}
	return d
}

// indicatorOfSLO returns the spec of the SLI, in the document or another one.
func (r *reader) indicatorOfSLO(m *yamldoc.Mapping) *yamldoc.Mapping {
	inline, ref := m.Get("indicator"), m.Text("indicatorRef")
	switch {
	case inline != nil && ref != "":
		m.Doc.Report(m.Get("indicatorRef"), m.At("indicatorRef"), "both indicator and indicatorRef", "keep one")
	case inline != nil:
		i := m.Doc.Mapping(inline, m.At("indicator"), "metadata", "spec")
		if i == nil {
			return nil
		}
		if i.Has("metadata") {
			metadata(i)
		}
		if n := i.Need("spec", "ratioMetric or thresholdMetric"); n != nil {
			return m.Doc.Mapping(n, i.At("spec"), "description", "thresholdMetric", "ratioMetric")
		}
	case ref != "":
		if sli := r.open.slis[ref]; sli != nil {
			return sli
		}
		m.Doc.Report(m.Get("indicatorRef"), m.At("indicatorRef"), fmt.Sprintf("no SLI is named %q in the files", yamldoc.Clip(ref)), "add its file with -f")
	case !m.Has("indicatorRef"):
		m.Doc.Report(m.Node, m.Path, "missing field indicator", "or indicatorRef; composite objectives are not supported")
	}
	return nil
}

// openObjective completes one objective of an SLO.
func (r *reader) openObjective(f *found, sli *yamldoc.Mapping) bool {
	m := f.doc.Mapping(f.node, f.path,
		"displayName", "op", "value", "target", "targetPercent", "timeSliceTarget", "timeSliceWindow", "indicator", "indicatorRef", "compositeWeight")
	if m == nil {
		return false
	}
	m.Text("displayName")
	for _, field := range []string{"timeSliceTarget", "timeSliceWindow", "indicator", "indicatorRef", "compositeWeight"} {
		if n := m.Get(field); n != nil {
			f.doc.Report(n, m.At(field), "not supported", "remove it: the budget is counted in events, of one indicator for all objectives")
		}
	}
	switch {
	case m.Has("target") && m.Has("targetPercent"):
		f.doc.Report(m.Get("targetPercent"), m.At("targetPercent"), "both target and targetPercent", "keep one")
	case m.Has("targetPercent"):
		f.Target = percentage(m, "targetPercent")
	case m.Need("target", "the share of good events, like 0.99; or targetPercent: 99") != nil:
		v, ok := m.Number("target")
		if ok && !(v > 0 && v < 1) {
			f.doc.Report(m.Get("target"), m.At("target"), number(v)+" is not between 0 and 1", "0.99 means 99 %; or write targetPercent")
		}
		f.Target = v
	}
	ratio, threshold := sli.Get("ratioMetric"), sli.Get("thresholdMetric")
	var ok bool
	switch {
	case ratio != nil && threshold != nil:
		sli.Doc.Report(threshold, sli.At("thresholdMetric"), "both ratioMetric and thresholdMetric", "keep one")
	case ratio != nil:
		for _, field := range []string{"op", "value"} {
			if n := m.Get(field); n != nil {
				f.doc.Report(n, m.At(field), "only of use for a thresholdMetric", "remove it")
			}
		}
		f.Ratio, ok = r.ratioMetric(sli)
	case threshold != nil:
		f.Ratio, ok = r.thresholdMetric(sli, m)
		f.Bad = "the time misses the threshold"
	default:
		sli.Doc.Report(sli.Node, sli.Path, "neither ratioMetric nor thresholdMetric", "write one")
	}
	return ok
}

// ratioMetric returns the share of bad events: of good and total, bad and total,
// or a ratio that is computed elsewhere.
func (r *reader) ratioMetric(sli *yamldoc.Mapping) (string, bool) {
	m := sli.Doc.Mapping(sli.Get("ratioMetric"), sli.At("ratioMetric"), "counter", "good", "bad", "total", "rawType", "raw")
	if m == nil {
		return "", false
	}
	counter := m.Boolean("counter")
	good, bad, total, raw := m.Get("good"), m.Get("bad"), m.Get("total"), m.Get("raw")
	switch {
	case raw != nil && (good != nil || bad != nil || total != nil):
		m.Doc.Report(raw, m.At("raw"), "raw beside good, bad or total", "keep one form")
	case raw != nil:
		q, ok := r.metricSource(m, "raw")
		m.Need("rawType", "success or failure")
		kind := m.Text("rawType")
		if !ok || kind == "" {
			return "", false
		}
		share, ok := q.overWindow(false)
		switch kind {
		case "success":
			return "1 - " + enclosed(share), ok
		case "failure":
			return enclosed(share), ok
		}
		m.Doc.Report(m.Get("rawType"), m.At("rawType"), fmt.Sprintf("unknown type %q", yamldoc.Clip(kind)), "success or failure")
	case good != nil && bad != nil:
		m.Doc.Report(bad, m.At("bad"), "both good and bad", "keep one")
	case good == nil && bad == nil:
		m.Doc.Report(m.Node, m.Path, "neither good nor bad nor raw", "write good and total, bad and total, or raw")
	default:
		field := "good"
		if bad != nil {
			field = "bad"
		}
		part, ok := r.metricSource(m, field)
		m.Need("total", "all events")
		all, too := r.metricSource(m, "total")
		if !ok || !too {
			return "", false
		}
		events, ok := part.overWindow(counter)
		of, too := all.overWindow(counter)
		if field == "bad" {
			return enclosed(events) + "\n/\n" + enclosed(of), ok && too
		}
		return fmt.Sprintf("1 - (\n  %s\n  /\n  %s\n)", enclosed(events), enclosed(of)), ok && too
	}
	return "", false
}

// operators are those of a thresholdMetric: what good values are.
var operators = map[string]string{"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}

// thresholdMetric returns the share of the time in which a value is not good. A
// value that is not a number, such as a quantile of nothing, counts as neither.
func (r *reader) thresholdMetric(sli, objective *yamldoc.Mapping) (string, bool) {
	q, ok := r.metricSource(sli, "thresholdMetric")
	names := []string{"lte", "lt", "gte", "gt"}
	objective.Need("op", "one of "+strings.Join(names, ", "))
	objective.Need("value", "what the metric is compared with")
	op := objective.Text("op")
	if op != "" && !slices.Contains(names, op) {
		objective.Doc.Report(objective.Get("op"), objective.At("op"), fmt.Sprintf("unknown operator %q", yamldoc.Clip(op)), "one of "+strings.Join(names, ", "))
		return "", false
	}
	value, number := objective.Number("value")
	if !ok || op == "" || !number {
		return "", false
	}
	if q.windowed() {
		q.doc.Report(q.node, q.path, "the query of a threshold metric is looked at every minute, so it has no "+Window, "write a range, like 5m")
		return "", false
	}
	return fmt.Sprintf("1 - avg_over_time(((%s >= -Inf) %s bool %s)[%s:1m])", enclosed(strings.TrimSpace(q.text)), operators[op], strconv.FormatFloat(value, 'g', -1, 64), Window), true
}

var prometheusType = regexp.MustCompile(`(?i)^prometheus$`)

// metricSource reads the query of a metric, which Prometheus must be the source of.
func (r *reader) metricSource(m *yamldoc.Mapping, field string) (query, bool) {
	n := m.Get(field)
	if n == nil {
		return query{}, false
	}
	metric := m.Doc.Mapping(n, m.At(field), "metricSource")
	if metric == nil {
		return query{}, false
	}
	n = metric.Need("metricSource", "")
	if n == nil {
		return query{}, false
	}
	source := m.Doc.Mapping(n, metric.At("metricSource"), "metricSourceRef", "type", "spec")
	if source == nil {
		return query{}, false
	}
	kind, ref := source.Text("type"), source.Text("metricSourceRef")
	if kind == "" && ref != "" {
		if kind = r.open.sources[ref]; kind == "" {
			m.Doc.Report(source.Get("metricSourceRef"), source.At("metricSourceRef"), fmt.Sprintf("no DataSource is named %q in the files", yamldoc.Clip(ref)), "add its file with -f, or write type: Prometheus")
			return query{}, false
		}
	}
	if !prometheusType.MatchString(kind) {
		if kind == "" {
			m.Doc.Report(source.Node, source.Path, "missing field type", "write type: Prometheus")
		} else {
			m.Doc.Report(source.Node, source.Path, fmt.Sprintf("a source of type %q", yamldoc.Clip(kind)), "rules of Prometheus can only ask Prometheus")
		}
		return query{}, false
	}
	n = source.Need("spec", "spec has a query")
	if n == nil {
		return query{}, false
	}
	spec := m.Doc.Mapping(n, source.At("spec"), "query", "queryType")
	if spec == nil {
		return query{}, false
	}
	if t := spec.Text("queryType"); t != "" && !strings.EqualFold(t, "promql") {
		m.Doc.Report(spec.Get("queryType"), spec.At("queryType"), fmt.Sprintf("queries of type %q", yamldoc.Clip(t)), "write promql")
	}
	n = spec.Need("query", "a PromQL query")
	if n == nil {
		return query{}, false
	}
	text, ok := m.Doc.Text(n, spec.At("query"))
	q := query{doc: m.Doc, node: n, path: spec.At("query"), text: text, custom: r.CustomBuckets}
	return q, ok && q.check()
}
