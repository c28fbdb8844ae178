package playbook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// elseConstant reports whether a query has an answer where there are no series at all, as
// by "or vector(0)" or absent().
func elseConstant(query string) bool {
	expr, err := parser.ParseExpr(query)
	return err == nil && answersNothing(expr)
}

// answersNothing reports whether an expression has an answer where no selector in it finds
// a series.
func answersNothing(expr parser.Expr) bool {
	switch e := expr.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return true
	case *parser.ParenExpr:
		return answersNothing(e.Expr)
	case *parser.UnaryExpr:
		return answersNothing(e.Expr)
	case *parser.StepInvariantExpr:
		return answersNothing(e.Expr)
	case *parser.SubqueryExpr:
		return answersNothing(e.Expr)
	case *parser.AggregateExpr:
		return answersNothing(e.Expr)
	case *parser.Call:
		if e.Func.Name == "absent" || e.Func.Name == "absent_over_time" || e.Func.Name == "scalar" {
			return true
		}
		return !slices.ContainsFunc(e.Args, func(a parser.Expr) bool { return !answersNothing(a) })
	case *parser.BinaryExpr:
		switch e.Op {
		case parser.LOR:
			return answersNothing(e.LHS) || answersNothing(e.RHS)
		case parser.LUNLESS:
			return answersNothing(e.LHS)
		default:
			return answersNothing(e.LHS) && answersNothing(e.RHS)
		}
	default: // a selector finds nothing
		return false
	}
}

// maxProofPast limits how far back a proof may read, by its ranges, those around them and
// its offsets: what was long ago moves a result too late, or for ever.
const maxProofPast = time.Hour

// provesNothing returns why the result of a query does not follow what the service does
// now, and the part of it that is at fault; "" if no reason is known. It is a list of
// known ways, and proves of no query that it means something.
func provesNothing(query string) (why, part string) {
	expr, err := parser.ParseExpr(query)
	if err != nil {
		return "", ""
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		w := fixed(node, path)
		if vs, ok := node.(*parser.VectorSelector); ok && w == "" {
			w = longPast(vs, path)
		}
		if w != "" && why == "" {
			why, part = w, textAt(query, node.PositionRange())
		}
		return nil
	})
	return why, part
}

// longPast returns why a selector reads too far back, by the ranges and offsets on the
// path to it together; "": it does not.
func longPast(vs *parser.VectorSelector, path []parser.Node) string {
	ranges, offsets := time.Duration(0), max(0, vs.OriginalOffset)
	for _, node := range path {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			ranges += n.Range
		case *parser.SubqueryExpr:
			ranges, offsets = ranges+n.Range, offsets+max(0, n.OriginalOffset)
		}
	}
	switch {
	case offsets > maxProofPast:
		return fmt.Sprintf("reads what was %s ago, at most %s is allowed in a proof", FormatDuration(offsets), FormatDuration(maxProofPast))
	case ranges > maxProofPast:
		return fmt.Sprintf("reads the last %s, at most %s is allowed in a proof", FormatDuration(ranges), FormatDuration(maxProofPast))
	default:
		return ""
	}
}

func textAt(query string, r posrange.PositionRange) string {
	from := min(max(0, int(r.Start)), len(query))
	return query[from:min(max(from, int(r.End)), len(query))]
}

// fixed returns why one node of a query, on whose path it stands, has the same result
// whatever the service does; "": no reason is known. What stands for a part of the result
// alone, as the divisor or what is counted, is not judged by its bounds.
func fixed(node parser.Node, path []parser.Node) string {
	if n, ok := node.(parser.Expr); ok && negates(n) && outermost(path, true, parser.SUM, parser.AVG, parser.MIN, parser.MAX) {
		return "is less the worse it is: leave out the sign, and say it by the operator of the condition"
	}
	switch n := node.(type) {
	case *parser.VectorSelector:
		return fixedTime(n.Timestamp != nil || n.StartOrEnd != 0, n.OriginalOffset)
	case *parser.SubqueryExpr:
		return fixedTime(n.Timestamp != nil || n.StartOrEnd != 0, n.OriginalOffset)
	case *parser.AggregateExpr:
		if n.Op == parser.GROUP && outermost(path, false, parser.AVG, parser.MIN, parser.MAX) {
			return "is 1 for every series"
		}
		if n.Op == parser.QUANTILE {
			return fixedQuantile(n.Param)
		}
		if (n.Op == parser.STDDEV || n.Op == parser.STDVAR) && !n.Without && len(n.Grouping) == 0 {
			return "is 0 for one series: say by or without which labels"
		}
	case *parser.Call:
		return fixedCall(n, path)
	case *parser.BinaryExpr:
		if n.ReturnBool && outermost(path, false) {
			return "compares with bool, which is 0 or 1: the operator and the value of the condition compare"
		}
		return fixedBinary(n)
	}
	return ""
}

func fixedCall(n *parser.Call, path []parser.Node) string {
	switch n.Func.Name {
	case "clamp", "clamp_max", "clamp_min", "sgn":
		if outermost(path, false, parser.SUM, parser.AVG, parser.MIN, parser.MAX, parser.TOPK, parser.BOTTOMK, parser.QUANTILE) {
			return "holds the result within bounds, so it hides how bad the service is"
		}
	case "histogram_quantile", "quantile_over_time":
		return fixedQuantile(n.Args[0])
	case "present_over_time":
		if outermost(path, false, parser.AVG, parser.MIN, parser.MAX) {
			return "is 1 for every series"
		}
	case "timestamp":
		if outermost(path, false, parser.SUM, parser.AVG, parser.MIN, parser.MAX) {
			return "is the time of a sample, whatever its value"
		}
	}
	return ""
}

// outermost reports whether what stands below a path is the result of the query, but for
// operations with a number, with scale only those that multiply or divide, functions, and
// the aggregations named.
func outermost(path []parser.Node, scale bool, aggregations ...parser.ItemType) bool {
	for _, node := range path {
		switch n := node.(type) {
		case *parser.BinaryExpr:
			_, isLeft := numberOf(n.LHS)
			_, isRight := numberOf(n.RHS)
			if !isLeft && !isRight && !isTime(n.RHS) || scale && n.Op != parser.MUL && n.Op != parser.DIV {
				return false
			}
		case *parser.AggregateExpr:
			if !slices.Contains(aggregations, n.Op) {
				return false
			}
		case *parser.Call:
			if scale || len(aggregations) == 0 || n.Func.Name == "count_over_time" || n.Func.Name == "sum_over_time" {
				return false
			}
		}
	}
	return true
}

// isTime reports whether an expression is the time of the query.
func isTime(expr parser.Expr) bool {
	call, ok := inParens(expr).(*parser.Call)
	return ok && call.Func.Name == "time"
}

// negates reports whether an expression is another one with its sign turned.
func negates(expr parser.Expr) bool {
	switch n := expr.(type) {
	case *parser.UnaryExpr:
		_, isNumber := numberOf(n.Expr)
		return n.Op == parser.SUB && !isNumber
	case *parser.BinaryExpr:
		left, isLeft := numberOf(n.LHS)
		right, isRight := numberOf(n.RHS)
		if isLeft == isRight || isLeft && !finite(left) || isRight && !finite(right) {
			return false
		}
		return n.Op == parser.SUB && isLeft && left <= 0 || (n.Op == parser.MUL || n.Op == parser.DIV) && (isLeft && left < 0 || isRight && right < 0)
	}
	return false
}

func fixedTime(at bool, offset time.Duration) string {
	switch {
	case at:
		return "reads a fixed time"
	case offset < 0:
		return fmt.Sprintf("reads what will be in %s", FormatDuration(-offset))
	default:
		return ""
	}
}

func fixedQuantile(q parser.Expr) string {
	if v, ok := numberOf(q); ok && !(v >= 0 && v <= 1) {
		return "is infinite: a quantile is from 0 to 1"
	}
	return ""
}

// fixedBinary returns why an operation has the same result for all values of a side.
func fixedBinary(n *parser.BinaryExpr) string {
	const constant = "is a constant"
	left, isLeft := numberOf(n.LHS)
	right, isRight := numberOf(n.RHS)
	if isLeft && isRight {
		return "" // a number
	}
	if isLeft && !finite(left) || isRight && !finite(right) {
		return "calculates with a number that is infinite or none"
	}
	switch n.Op {
	case parser.MUL:
		if isLeft && left == 0 || isRight && right == 0 {
			return constant
		}
	case parser.POW:
		if isLeft && (left == 0 || left == 1) || isRight && right == 0 {
			return constant
		}
	case parser.DIV, parser.MOD:
		if isLeft && left == 0 || isRight && right == 0 || sameText(n) {
			return constant
		}
	case parser.ADD:
		if left, ok := inParens(n.LHS).(*parser.UnaryExpr); ok && left.Op == parser.SUB {
			return fixedBinary(&parser.BinaryExpr{Op: parser.SUB, LHS: n.RHS, RHS: left.Expr})
		}
		if right, ok := inParens(n.RHS).(*parser.UnaryExpr); ok && right.Op == parser.SUB {
			return fixedBinary(&parser.BinaryExpr{Op: parser.SUB, LHS: n.LHS, RHS: right.Expr})
		}
	case parser.SUB, parser.ATAN2:
		if sameText(n) {
			return constant
		}
		if n.Op == parser.SUB && partLessWhole(n) {
			return "has always the same sign: the left side selects a part of what the right one does"
		}
	case parser.LOR:
		_, left := shape(n.LHS, true)
		_, right := shape(n.RHS, true)
		if slices.ContainsFunc(left, func(l map[string]bool) bool {
			return slices.ContainsFunc(right, func(r map[string]bool) bool { return maps.Equal(l, r) })
		}) {
			return "has another answer of the same series where the first one fails"
		}
	}
	return ""
}

// sameText reports whether both sides of an operation are alike. The order of matchers
// makes no difference.
func sameText(n *parser.BinaryExpr) bool {
	left, _ := shape(n.LHS, true)
	right, _ := shape(n.RHS, true)
	return left == right
}

// partLessWhole reports whether both sides of a difference calculate the same of one
// metric, where the left one has all matchers of the right one, so that it is never more.
// It knows sums, counts and maxima. The whole less a part of it is what is bad, or the rest.
func partLessWhole(n *parser.BinaryExpr) bool {
	left, ofLeft := shape(n.LHS, false)
	right, ofRight := shape(n.RHS, false)
	if left != right || len(ofLeft) != 1 || len(ofRight) != 1 || !grows(n.LHS) {
		return false
	}
	for m := range ofRight[0] {
		if !ofLeft[0][m] {
			return false
		}
	}
	return true
}

// grows reports whether more series make the result of an expression no less.
func grows(expr parser.Expr) bool {
	grows := true
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector, *parser.MatrixSelector, *parser.ParenExpr, nil:
		case *parser.Call:
			grows = grows && slices.Contains([]string{"rate", "irate", "increase", "avg_over_time", "last_over_time", "max_over_time", "min_over_time", "sum_over_time"}, n.Func.Name)
		case *parser.AggregateExpr:
			grows = grows && slices.Contains([]parser.ItemType{parser.SUM, parser.COUNT, parser.MAX}, n.Op)
		default:
			grows = false
		}
		return nil
	})
	return grows
}

// shape prints an expression without what does not change its result, nor offsets shorter
// than a minute, with the matchers of its selectors in order, or with none, and returns
// those of each selector.
func shape(expr parser.Expr, matchers bool) (text string, of []map[string]bool) {
	copied, err := parser.ParseExpr(essence(expr).String())
	if err != nil {
		return essence(expr).String(), nil // unreachable: what is printed can be read
	}
	for _, vs := range selectorsOf(copied) {
		if vs.OriginalOffset.Abs() < time.Minute {
			vs.OriginalOffset, vs.Offset = 0, 0
		}
		slices.SortFunc(vs.LabelMatchers, func(a, b *labels.Matcher) int { return strings.Compare(a.String(), b.String()) })
		vs.LabelMatchers = slices.CompactFunc(vs.LabelMatchers, func(a, b *labels.Matcher) bool { return a.String() == b.String() })
		all := map[string]bool{}
		for _, m := range vs.LabelMatchers {
			all[m.String()] = true
		}
		of = append(of, all)
		if !matchers {
			vs.LabelMatchers = slices.DeleteFunc(vs.LabelMatchers, func(m *labels.Matcher) bool { return m.Name != model.MetricNameLabel })
		}
	}
	return copied.String(), of
}

// essence is an expression without parentheses, times 1, plus 0, and a sum of sums or a
// maximum of maxima, around it.
func essence(expr parser.Expr) parser.Expr {
	expr = inParens(expr)
	switch e := expr.(type) {
	case *parser.BinaryExpr:
		left, isLeft := numberOf(e.LHS)
		right, isRight := numberOf(e.RHS)
		switch {
		case isLeft && (e.Op == parser.MUL && left == 1 || e.Op == parser.ADD && left == 0):
			return essence(e.RHS)
		case isRight && ((e.Op == parser.MUL || e.Op == parser.DIV) && right == 1 || (e.Op == parser.ADD || e.Op == parser.SUB) && right == 0):
			return essence(e.LHS)
		}
	case *parser.AggregateExpr:
		inner, ok := essence(e.Expr).(*parser.AggregateExpr)
		if ok && inner.Op == e.Op && (e.Op == parser.SUM || e.Op == parser.MAX || e.Op == parser.MIN) && !e.Without && len(e.Grouping) == 0 {
			return essence(&parser.AggregateExpr{Op: e.Op, Expr: inner.Expr})
		}
	}
	return expr
}

func inParens(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}
