package playbook

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

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
		w := fixed(node)
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

// fixed returns why one node of a query has the same result whatever the service does;
// "": no reason is known.
func fixed(node parser.Node) string {
	const bound = "holds the result within bounds, so it hides how bad the service is"
	switch n := node.(type) {
	case *parser.VectorSelector:
		return fixedTime(n.Timestamp != nil || n.StartOrEnd != 0, n.OriginalOffset)
	case *parser.SubqueryExpr:
		return fixedTime(n.Timestamp != nil || n.StartOrEnd != 0, n.OriginalOffset)
	case *parser.AggregateExpr:
		if n.Op == parser.GROUP {
			return "is 1 for every series"
		}
		if n.Op == parser.QUANTILE {
			return fixedQuantile(n.Param)
		}
		if (n.Op == parser.STDDEV || n.Op == parser.STDVAR) && !n.Without && len(n.Grouping) == 0 {
			return "is 0 for one series: say by or without which labels"
		}
	case *parser.Call:
		switch n.Func.Name {
		case "clamp", "clamp_max", "clamp_min", "sgn":
			return bound
		case "histogram_quantile", "quantile_over_time":
			return fixedQuantile(n.Args[0])
		case "present_over_time":
			return "is 1 for every series"
		}
	case *parser.BinaryExpr:
		if n.ReturnBool {
			return "compares with bool, which is 0 or 1: the operator and the value of the condition compare"
		}
		return fixedBinary(n)
	}
	return ""
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
	case parser.SUB, parser.ATAN2:
		if sameText(n) {
			return constant
		}
		if n.Op == parser.SUB && oneSign(n) {
			return "has always the same sign: one side selects what the other one does, and no more"
		}
	}
	return ""
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// sameText reports whether both sides of an operation are alike. The order of matchers
// makes no difference.
func sameText(n *parser.BinaryExpr) bool {
	left, _ := shape(n.LHS, true)
	right, _ := shape(n.RHS, true)
	return left == right
}

// oneSign reports whether both sides of a difference calculate the same of one metric,
// where one side has all matchers of the other: a part less its whole. It knows sums,
// counts and maxima, of which the part is never more.
func oneSign(n *parser.BinaryExpr) bool {
	left, ofLeft := shape(n.LHS, false)
	right, ofRight := shape(n.RHS, false)
	if left != right || len(ofLeft) != 1 || len(ofRight) != 1 || !grows(n.LHS) {
		return false
	}
	within := func(a, b map[string]bool) bool {
		for m := range a {
			if !b[m] {
				return false
			}
		}
		return true
	}
	return within(ofLeft[0], ofRight[0]) || within(ofRight[0], ofLeft[0])
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

// shape prints an expression without its outer parentheses, with the matchers of its
// selectors in order, or with none, and returns those of each selector.
func shape(expr parser.Expr, matchers bool) (text string, of []map[string]bool) {
	copied, err := parser.ParseExpr(inParens(expr).String())
	if err != nil {
		return inParens(expr).String(), nil // unreachable: what is printed can be read
	}
	for _, vs := range selectorsOf(copied) {
		slices.SortFunc(vs.LabelMatchers, func(a, b *labels.Matcher) int { return strings.Compare(a.String(), b.String()) })
		vs.LabelMatchers = slices.CompactFunc(vs.LabelMatchers, func(a, b *labels.Matcher) bool { return a.String() == b.String() })
		all := map[string]bool{}
		for _, m := range vs.LabelMatchers {
			all[m.String()] = true
		}
		of = append(of, all)
		if !matchers {
			vs.LabelMatchers = slices.DeleteFunc(vs.LabelMatchers, func(m *labels.Matcher) bool { return m.Name != labels.MetricName })
		}
	}
	return copied.String(), of
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

// numberOf returns the value of an expression that is a number, also one that is
// calculated or made a vector; false: it is not known to be one.
func numberOf(expr parser.Expr) (float64, bool) {
	switch e := inParens(expr).(type) {
	case *parser.NumberLiteral:
		return e.Val, true
	case *parser.UnaryExpr:
		v, ok := numberOf(e.Expr)
		if e.Op == parser.SUB {
			v = -v
		}
		return v, ok
	case *parser.Call:
		if slices.Contains([]string{"vector", "scalar", "abs", "ceil", "floor", "round"}, e.Func.Name) && len(e.Args) > 0 {
			v, ok := numberOf(e.Args[0])
			return roundedNumber(e.Func.Name, v), ok
		}
	case *parser.BinaryExpr:
		l, isLeft := numberOf(e.LHS)
		r, isRight := numberOf(e.RHS)
		if v, ok := calculate(e.Op, l, r); ok && isLeft && isRight {
			return v, true
		}
	}
	return 0, false
}

func roundedNumber(function string, v float64) float64 {
	switch function {
	case "abs":
		return math.Abs(v)
	case "ceil":
		return math.Ceil(v)
	case "floor":
		return math.Floor(v)
	case "round":
		return math.Round(v)
	default:
		return v
	}
}

func calculate(op parser.ItemType, l, r float64) (float64, bool) {
	switch op {
	case parser.ADD:
		return l + r, true
	case parser.SUB:
		return l - r, true
	case parser.MUL:
		return l * r, true
	case parser.DIV:
		return l / r, true
	case parser.MOD:
		return math.Mod(l, r), true
	case parser.POW:
		return math.Pow(l, r), true
	default:
		return 0, false
	}
}
