package rules

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/spelling"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// query is a PromQL query of a document.
type query struct {
	doc    *yamldoc.Document
	node   *yaml.Node
	path   string
	text   string
	custom bool // the engines have other buckets than their own
}

// windowAction is [Window] in any spacing.
var windowAction = regexp.MustCompile(`\{\{-?\s*\.window\s*-?\}\}`)

// sampleWindow stands for the window while a query is checked.
const sampleWindow = "5m"

func (q query) windowed() bool { return windowAction.MatchString(q.text) }

// template returns the query with [Window] in its one spelling.
func (q query) template() string {
	return strings.TrimSpace(windowAction.ReplaceAllString(q.text, Window))
}

// report adds a problem at a byte of the query that was checked.
func (q query) report(offset int, message, hint string) {
	for _, m := range windowAction.FindAllStringIndex(q.text, -1) {
		if offset <= m[0] {
			break
		}
		offset = max(m[0], offset+m[1]-m[0]-len(sampleWindow)) // to a byte of the text
	}
	offset = min(max(0, offset), len(q.text))
	q.doc.ReportAt(q.node, q.path, utf8.RuneCountInString(q.text[:offset]), message, hint)
}

// check reports what is wrong with the query: its syntax, series that no engine
// exports and bounds that no bucket has.
func (q query) check() bool {
	sample := windowAction.ReplaceAllString(q.text, sampleWindow)
	if at := strings.Index(sample, "{{"); at >= 0 {
		q.report(at, "a template other than "+Window, "write it out")
		return false
	}
	expr, err := parser.ParseExpr(sample)
	if err != nil {
		at, message := 0, err.Error()
		if all := parser.ParseErrors(nil); errors.As(err, &all) && len(all) > 0 {
			at, message = int(all[0].PositionRange.Start), all[0].Err.Error()
		}
		q.report(at, "not PromQL: "+message, "")
		return false
	}
	if t := expr.Type(); t != parser.ValueTypeVector {
		q.report(0, fmt.Sprintf("the query returns a %s, not an instant vector", t), "aggregate it, like sum(rate(x_total["+Window+"]))")
		return false
	}
	ok := true
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, is := n.(*parser.VectorSelector); is {
			ok = q.checkSeries(s) && ok
		}
		return nil
	})
	return ok
}

// exported returns the names of the series that engines export.
var exported = sync.OnceValue(engine.Metrics)

// bounds returns the bounds of the engines' histograms, by name; nil: not known.
var bounds = sync.OnceValue(func() map[string][]float64 {
	out := map[string][]float64{}
	for _, i := range engine.Indicators() {
		for _, s := range engine.Unstated().Series(i) {
			if s.Histogram != "" {
				out[s.Histogram] = s.Bounds
			}
		}
	}
	return out
})

// checkSeries refuses a series of an engine's name that no engine exports, and a
// bucket that its histogram lacks: both return nothing, and nothing never alerts.
func (q query) checkSeries(s *parser.VectorSelector) bool {
	at := int(s.PosRange.Start)
	if prefix := enginePrefix(s.Name); prefix != "" && !slices.Contains(exported(), s.Name) {
		hint := "see the names in the metrics of the engine"
		near := s.Name + "_total" // what Python's client adds to the name of a counter
		if !slices.Contains(exported(), near) {
			near = spelling.Nearest(s.Name, exported())
		}
		if near != "" {
			hint = "did you mean " + near + "?"
		}
		q.report(at, fmt.Sprintf("no engine exports a series %s", s.Name), hint)
		return false
	}
	histogram, is := strings.CutSuffix(s.Name, "_bucket")
	if !is {
		return true
	}
	for _, m := range s.LabelMatchers {
		if m.Name != "le" || m.Type != labels.MatchEqual {
			continue
		}
		bound, err := strconv.ParseFloat(m.Value, 64)
		if err != nil {
			q.report(at, fmt.Sprintf("le=%q is not a number", m.Value), "")
			return false
		}
		if math.IsInf(bound, 0) {
			continue
		}
		if _, near := bounded(engine.Series{Bounds: bounds()[histogram]}, bound); near != "" && !q.custom {
			q.report(at, fmt.Sprintf("no bucket of %s ends at %s s; the nearest are %s", histogram, m.Value, near), "take one of them, or configure the engine's buckets and add --custom-buckets")
			return false
		}
		if bound == math.Trunc(bound) && enginePrefix(s.Name) != "" {
			want := le(bound, engine.Series{})
			q.report(at, fmt.Sprintf("le=%q finds the bucket in some versions of Prometheus only: they write %s and %s.0", m.Value, number(bound), number(bound)), "write "+want)
			return false
		}
	}
	return true
}

// enginePrefix returns what the names of an engine's series begin with; empty: the
// series is not one.
func enginePrefix(name string) string {
	for _, p := range []string{"vllm:", "sglang:", "dynamo_frontend_"} {
		if strings.HasPrefix(name, p) {
			return p
		}
	}
	return ""
}

// overWindow returns the query over [Window]. A query of counters without it is
// that of their rates, as the meaning of counter says.
func (q query) overWindow(counter bool) (string, bool) {
	if q.windowed() {
		return q.template(), true
	}
	const hint = "write " + Window + " for the range, like sum(rate(x_total[" + Window + "]))"
	if !counter {
		q.report(0, "the query does not depend on the window", hint)
		return "", false
	}
	expr, err := parser.ParseExpr(q.text)
	if err != nil { // unreachable unless check was not called
		panic(err)
	}
	counters, at, why := summed(expr, false)
	if why != "" {
		q.report(at, why, hint)
		return "", false
	}
	text := q.text
	for i := len(counters) - 1; i >= 0; i-- {
		from, to := int(counters[i].PosRange.Start), int(counters[i].PosRange.End)
		rate := "rate(" + text[from:to] + "[" + Window + "])"
		if !counters[i].summed { // two rates of other labels have no ratio
			rate = "sum(" + rate + ")"
		}
		text = text[:from] + rate + text[to:]
	}
	return strings.TrimSpace(text), true
}

// counted is a counter of a query. summed is set if the query itself adds up its series.
type counted struct {
	*parser.VectorSelector
	summed bool
}

// summed returns the counters that a query adds up, in their order; why is not
// empty if it does something else, whose rate would mean something else.
func summed(n parser.Expr, within bool) (counters []counted, at int, why string) {
	switch n := n.(type) {
	case *parser.VectorSelector:
		if n.OriginalOffset != 0 || n.Timestamp != nil || n.StartOrEnd != 0 {
			return nil, int(n.PosRange.Start), "a counter with an offset or a time of its own"
		}
		return []counted{{n, within}}, 0, ""
	case *parser.ParenExpr:
		return summed(n.Expr, within)
	case *parser.AggregateExpr:
		if n.Op == parser.SUM {
			return summed(n.Expr, true)
		}
	case *parser.BinaryExpr:
		if n.Op == parser.ADD || n.Op == parser.SUB {
			left, at, why := summed(n.LHS, within)
			if why != "" {
				return nil, at, why
			}
			right, at, why := summed(n.RHS, within)
			return append(left, right...), at, why
		}
	}
	return nil, int(n.PositionRange().Start), "more than a sum of counters, so what it is over a window is not known"
}

// resulting are the labels that a query's series may have.
type resulting struct {
	names []string
	all   bool // any
}

func (r resulting) may(name string) bool { return r.all || slices.Contains(r.names, name) }

// resultLabels returns the labels that a share's series may have. It is an error
// if the share is not PromQL.
func resultLabels(ratio string) (resulting, error) {
	expr, err := parser.ParseExpr(strings.ReplaceAll(ratio, Window, sampleWindow))
	if err != nil {
		return resulting{}, err
	}
	return labelsOf(expr), nil
}

// enclosed returns a query in parentheses, which a comment in it must not swallow.
func enclosed(query string) string {
	if strings.Contains(query, "#") {
		query += "\n"
	}
	return "(" + query + ")"
}

func labelsOf(n parser.Expr) resulting {
	switch n := n.(type) {
	case *parser.ParenExpr:
		return labelsOf(n.Expr)
	case *parser.SubqueryExpr:
		return labelsOf(n.Expr)
	case *parser.StepInvariantExpr:
		return labelsOf(n.Expr)
	case *parser.UnaryExpr:
		return labelsOf(n.Expr)
	case *parser.AggregateExpr:
		if n.Without || n.Op == parser.TOPK || n.Op == parser.BOTTOMK {
			return resulting{all: true}
		}
		return resulting{names: n.Grouping}
	case *parser.BinaryExpr:
		l, r := labelsOf(n.LHS), labelsOf(n.RHS)
		return resulting{names: append(slices.Clone(l.names), r.names...), all: l.all || r.all}
	case *parser.NumberLiteral:
		return resulting{}
	case *parser.Call:
		if n.Func.Name == "vector" || n.Func.Name == "label_replace" || n.Func.Name == "label_join" {
			return resulting{all: n.Func.Name != "vector"}
		}
		var out resulting
		for _, a := range n.Args {
			if a.Type() != parser.ValueTypeScalar && a.Type() != parser.ValueTypeString {
				x := labelsOf(a)
				out = resulting{names: append(out.names, x.names...), all: out.all || x.all}
			}
		}
		return out
	}
	return resulting{all: true}
}

// indicatorOf returns the indicator that a query measures, by the series of
// engines in it; empty: it is not known.
func indicatorOf(text string) string {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return ""
	}
	buckets, failed := map[string]bool{}, false
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, is := n.(*parser.VectorSelector); is {
			if name, bucket := strings.CutSuffix(s.Name, "_bucket"); bucket {
				buckets[name] = true
			}
			failed = failed || counts(s)
		}
		return nil
	})
	for _, i := range []string{engine.TTFT, engine.ITL, engine.TPOT, engine.E2E} {
		for _, s := range engine.Unstated().Series(i) {
			switch {
			case !buckets[s.Histogram]:
			case i == engine.E2E && failed:
				return engine.Goodput
			default:
				return i
			}
		}
	}
	if failed {
		return engine.Errors
	}
	return ""
}

// counts reports whether a selector is of a counter of an engine's failed requests.
func counts(s *parser.VectorSelector) bool {
	for _, x := range engine.Unstated().Series(engine.Errors) {
		if s.Name != x.Failed.Name || enginePrefix(s.Name) == "" {
			continue
		}
		if x.Failed.Match == "" || slices.ContainsFunc(s.LabelMatchers, selectsFailed) {
			return true
		}
	}
	return false
}

// selectsFailed reports whether a matcher selects failed requests and no others.
func selectsFailed(m *labels.Matcher) bool {
	return (m.Matches("error") || m.Matches("500")) && !m.Matches("success") && !m.Matches("stop") && !m.Matches("200") && m.Name != model.MetricNameLabel
}
