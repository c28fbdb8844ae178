package playbook

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// Selector is a metric that a query of a playbook reads, with its place.
type Selector struct {
	File         string
	Line, Column int // of the metric's name
	Path         string
	Metric       string
	Matchers     []LabelMatcher // as written; without those of service.selector
}

// LabelMatcher is one label matcher of a [Selector], with its place.
type LabelMatcher struct {
	Line, Column int
	Label        string
	Open         bool // an expression gives the value

	matcher *labels.Matcher
}

// Absent reports whether the matcher asks for series without the label.
func (m LabelMatcher) Absent() bool {
	return !m.Open && m.matcher.Type == labels.MatchEqual && m.matcher.Value == ""
}

// Value returns the value that the matcher asks for; false if it is a pattern, a
// negation or not known before the run.
func (m LabelMatcher) Value() (string, bool) {
	return m.matcher.Value, !m.Open && m.matcher.Type == labels.MatchEqual
}

// Matches reports whether a label's value is one that the matcher asks for. It is
// true for every value if that is not known before the run.
func (m LabelMatcher) Matches(value string) bool { return m.Open || m.matcher.Matches(value) }

// String returns the matcher as PromQL.
func (m LabelMatcher) String() string { return m.matcher.String() }

// Selectors returns the metrics that the queries of the playbook read, in
// document order. Selectors that name no metric are left out.
func (p *Playbook) Selectors() []Selector { return slices.Clone(p.selectors) }

// selectors lists the selectors of a query that was parsed before.
func (r *reader) selectors(n *yaml.Node, path string, parts []part) []Selector {
	pieces, bad := split(n.Value)
	if bad != nil {
		return nil
	}
	q := sampleQuery(pieces, parts)
	var out []Selector
	for _, vs := range vectorSelectors(q.text) {
		s := Selector{File: r.d.File, Path: path, Metric: metricOf(vs)}
		if s.Metric == "" || s.Metric == sampleText {
			continue
		}
		from, to := int(vs.PosRange.Start), min(int(vs.PosRange.End), len(q.text))
		s.Line, s.Column = r.d.Place(n, q.source(from))
		for _, m := range vs.LabelMatchers {
			if m.Name == model.MetricNameLabel || m.Name == sampleLabel {
				continue
			}
			at := from
			if i := labelAt(q.text[from:to], m.Name); i >= 0 {
				at += i
			}
			lm := LabelMatcher{Label: m.Name, Open: strings.Contains(m.Value, sampleText), matcher: m}
			lm.Line, lm.Column = r.d.Place(n, q.source(at))
			s.Matchers = append(s.Matchers, lm)
		}
		out = append(out, s)
	}
	return out
}

// vectorSelectors returns the selectors of a query; none if it cannot be parsed.
func vectorSelectors(query string) []*parser.VectorSelector {
	expr, err := parser.ParseExpr(query)
	if err != nil {
		return nil
	}
	return selectorsOf(expr)
}

func selectorsOf(expr parser.Expr) (out []*parser.VectorSelector) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if vs, ok := node.(*parser.VectorSelector); ok {
			out = append(out, vs)
		}
		return nil
	})
	return out
}

// metricOf returns the name of the metric; empty if there is none, or a pattern.
func metricOf(vs *parser.VectorSelector) string {
	for _, m := range vs.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// labelAt returns where a label's matcher begins in a selector; -1: not found.
func labelAt(selector, label string) int {
	from := strings.Index(selector, "{")
	for from >= 0 && from < len(selector) {
		i := strings.Index(selector[from:], label)
		if i < 0 {
			return -1
		}
		i += from
		before := strings.TrimRight(selector[:i], " \t\n\"")
		after := strings.TrimLeft(selector[i+len(label):], " \t\n\"")
		if strings.HasSuffix(before, "{") || strings.HasSuffix(before, ",") {
			if strings.HasPrefix(after, "=") || strings.HasPrefix(after, "!") {
				return i
			}
		}
		from = i + 1
	}
	return -1
}
