package slo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/fault"
)

// maxSelectors bounds the freshness query; an expression with more selectors
// is asked about its first ones.
const maxSelectors = 16

// FreshnessQuery builds the PromQL that tells when the newest sample behind
// each of the expressions' selectors was taken, and how many selectors it asks
// about. An instant query's own timestamp is the time of asking, whatever the
// age of the data: rate(x[5m]) still has a value four minutes after the target
// died. Selectors that mean the past on purpose (offset, @) are left out; with
// none left the query is empty. The error is a [*fault.Error] with reason Invalid.
//
// A selector whose window holds samples, but none within Prometheus's
// look-back, answers 0, the oldest of times. One without any samples does not
// answer: `errors or vector(0)` may rightly have none.
func FreshnessQuery(exprs ...string) (query string, selectors int, err error) {
	var terms []string
	seen := map[string]bool{}
	for _, expr := range exprs {
		root, err := parser.ParseExpr(expr)
		if err != nil {
			return "", 0, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("expression %s", clip(expr, 200)), Err: err}
		}
		parser.Inspect(root, func(node parser.Node, path []parser.Node) error {
			sel, ok := node.(*parser.VectorSelector)
			if !ok || len(terms) >= maxSelectors || shifted(node, path) {
				return nil
			}
			key := sel.String() + window(path)
			if !seen[key] {
				seen[key] = true
				terms = append(terms, term(sel, window(path), len(terms)))
			}
			return nil
		})
	}
	return strings.Join(terms, " or "), len(terms), nil
}

// term asks for the newest sample of one selector, labelled with its ordinal
// so that the terms can stand side by side.
func term(sel *parser.VectorSelector, window string, i int) string {
	tag := func(expr string) string {
		return fmt.Sprintf(`label_replace(%s,"selector","%d","","")`, expr, i)
	}
	newest := tag("max(timestamp(" + sel.String() + "))")
	if window == "" {
		return newest
	}
	return newest + " or " + tag("0 * max(present_over_time("+sel.String()+"["+window+"]))")
}

// window is the range of the matrix selector around a selector, if there is one.
func window(path []parser.Node) string {
	if len(path) == 0 {
		return ""
	}
	m, ok := path[len(path)-1].(*parser.MatrixSelector)
	if !ok || m.Range <= 0 {
		return ""
	}
	return strconv.FormatInt(m.Range.Milliseconds(), 10) + "ms"
}

func shifted(node parser.Node, path []parser.Node) bool {
	for _, n := range append([]parser.Node{node}, path...) {
		switch n := n.(type) {
		case *parser.VectorSelector:
			if n.OriginalOffset != 0 || n.OriginalOffsetExpr != nil || n.Timestamp != nil || n.StartOrEnd != 0 {
				return true
			}
		case *parser.SubqueryExpr:
			if n.OriginalOffset != 0 || n.OriginalOffsetExpr != nil || n.Timestamp != nil || n.StartOrEnd != 0 {
				return true
			}
		}
	}
	return false
}

// Newest reads the answer to a [FreshnessQuery]: the time of the newest sample
// of the selector that is furthest behind. False when no selector answered.
func Newest(v Vector) (time.Time, bool) {
	var oldest time.Time
	found := false
	for _, s := range v.Samples {
		sec, frac := int64(s.Value), s.Value-float64(int64(s.Value))
		at := time.Unix(sec, int64(frac*1e9)).UTC()
		if !found || at.Before(oldest) {
			oldest, found = at, true
		}
	}
	return oldest, found
}
