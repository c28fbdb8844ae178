package playbook

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// A series is assumed to be from 0 to mostOfSeries, unless its name says that it counts
// something small, such as bytes. A proof that every such value passes is none.
const (
	mostOfSeries = 1e6
	mostOfSmall  = 1e18
)

var smallUnit = regexp.MustCompile(`(?i)bytes|byte_|nanoseconds|microseconds|_ns\b|_us\b|timestamp|joules|hertz|flops`)

// HoldsAnyway returns why a comparison of a query's result holds whatever the service does;
// "": no reason is known. It calculates with the bounds of each part, so that it knows no
// connection between two parts: x - (x + 1) may be anything for it.
func HoldsAnyway(query, op string, value float64) string {
	expr, err := parser.ParseExpr(strings.ReplaceAll(query, "${since}", "5m"))
	if err != nil || !finite(value) {
		return ""
	}
	b := boundsOf(expr)
	holds := map[string]bool{"<": b.high < value, "<=": b.high <= value, ">": b.low > value, ">=": b.low >= value, "==": b.low == value && b.high == value}[op]
	if !holds {
		return ""
	}
	return fmt.Sprintf("holds for every value that the series may have: of series from 0 to %g the result is from %g to %g, always %s %g", mostOf(expr), b.low, b.high, op, value)
}

// mostOf is the largest value that a series of an expression is assumed to have.
func mostOf(expr parser.Expr) float64 {
	most := mostOfSeries
	for _, vs := range selectorsOf(expr) {
		if smallUnit.MatchString(metricOf(vs)) {
			most = mostOfSmall
		}
	}
	return most
}

// bounds are the lowest and the highest value that an expression may have.
type bounds struct {
	low, high float64
	one       bool // it has one series at most
}

var anything = bounds{low: math.Inf(-1), high: math.Inf(1)}

func boundsOf(expr parser.Expr) bounds {
	if v, ok := numberOf(expr); ok {
		return bounds{v, v, true}
	}
	switch e := inParens(expr).(type) {
	case *parser.VectorSelector, *parser.MatrixSelector:
		return bounds{high: mostOf(e)}
	case *parser.StepInvariantExpr:
		return boundsOf(e.Expr)
	case *parser.SubqueryExpr:
		return boundsOf(e.Expr)
	case *parser.UnaryExpr:
		b := boundsOf(e.Expr)
		if e.Op == parser.SUB {
			b.low, b.high = -b.high, -b.low
		}
		return b
	case *parser.AggregateExpr:
		return boundsOfAggregate(e)
	case *parser.Call:
		return boundsOfCall(e)
	case *parser.BinaryExpr:
		return boundsOfBinary(e)
	}
	return anything
}

// summed are the bounds of a sum of one or more of something.
func summed(b bounds, most float64) bounds {
	if b.high > 0 {
		b.high = max(b.high, most)
	}
	if b.low < 0 {
		b.low = min(b.low, -most)
	}
	return b
}

func boundsOfAggregate(e *parser.AggregateExpr) bounds {
	inner := boundsOf(e.Expr)
	b := inner
	switch e.Op {
	case parser.SUM:
		if !inner.one {
			b = summed(inner, mostOf(e.Expr))
		}
	case parser.COUNT:
		if b = (bounds{low: 1, high: mostOfSeries}); inner.one {
			b.high = 1
		}
	case parser.GROUP:
		b = bounds{low: 1, high: 1}
	case parser.STDDEV, parser.STDVAR:
		if b = (bounds{high: math.Inf(1)}); inner.one {
			b.high = 0
		}
	case parser.COUNT_VALUES:
		b = bounds{low: 1, high: mostOfSeries}
	}
	many := slices.Contains([]parser.ItemType{parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO, parser.COUNT_VALUES}, e.Op)
	b.one = !many && (inner.one || !e.Without && len(e.Grouping) == 0)
	return b
}

// monotone are functions of one number that grow with it, where it is not negative.
var monotone = map[string]func(float64) float64{
	"ceil": math.Ceil, "floor": math.Floor, "exp": math.Exp, "ln": math.Log, "log2": math.Log2, "log10": math.Log10, "sqrt": math.Sqrt, "atan": math.Atan,
	"deg": func(v float64) float64 { return v * 180 / math.Pi }, "rad": func(v float64) float64 { return v * math.Pi / 180 },
}

// calendar are functions of a time, with the most that each returns.
var calendar = map[string]float64{
	"minute": 59, "hour": 23, "day_of_week": 6, "day_of_month": 31, "days_in_month": 31, "day_of_year": 366, "month": 12,
}

func boundsOfCall(e *parser.Call) bounds {
	if len(e.Args) == 0 {
		return bounds{low: 1, high: mostOfSmall, one: true} // the time
	}
	b := boundsOf(e.Args[0])
	limit := func(i int) bounds { return boundsOf(e.Args[i]) }
	switch name := e.Func.Name; name {
	case "clamp":
		return bounds{max(min(b.low, limit(2).low), limit(1).low), min(max(b.high, limit(1).high), limit(2).high), b.one}
	case "clamp_max":
		return bounds{min(b.low, limit(1).low), min(b.high, limit(1).high), b.one}
	case "clamp_min":
		return bounds{max(b.low, limit(1).low), max(b.high, limit(1).high), b.one}
	case "abs":
		return absolute(b)
	case "sgn":
		return bounds{sign(b.low), sign(b.high), b.one}
	case "round":
		return bounds{b.low - 1, b.high + 1, b.one}
	case "rate", "irate", "increase", "changes", "resets":
		return bounds{high: mostOf(e), one: b.one}
	case "sum_over_time":
		return summed(b, mostOf(e))
	case "count_over_time", "present_over_time":
		return bounds{low: 1, high: map[string]float64{"count_over_time": mostOfSeries, "present_over_time": 1}[name], one: b.one}
	case "stddev_over_time", "stdvar_over_time", "mad_over_time":
		return bounds{high: math.Inf(1), one: b.one}
	case "histogram_quantile", "quantile_over_time":
		return bounds{high: mostOf(e), one: limit(1).one}
	case "histogram_fraction":
		return bounds{high: 1}
	case "timestamp":
		return bounds{low: 1, high: mostOfSmall, one: b.one}
	case "avg_over_time", "min_over_time", "max_over_time", "last_over_time", "first_over_time", "vector", "scalar", "sort", "sort_desc", "label_replace", "label_join":
		return b
	case "sin", "cos", "tanh":
		return bounds{-1, 1, b.one}
	default:
		if most := calendar[name]; most > 0 {
			return bounds{0, most, b.one}
		}
		if f := monotone[name]; f != nil && b.low >= 0 {
			return bounds{f(b.low), f(b.high), b.one}
		}
		return bounds{anything.low, anything.high, b.one}
	}
}

func absolute(b bounds) bounds {
	switch {
	case b.low >= 0:
		return b
	case b.high <= 0:
		return bounds{-b.high, -b.low, b.one}
	default:
		return bounds{0, max(-b.low, b.high), b.one}
	}
}

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	default:
		return 0
	}
}

func boundsOfBinary(e *parser.BinaryExpr) bounds {
	l, r := boundsOf(e.LHS), boundsOf(e.RHS)
	one := l.one && r.one
	most := max(mostOf(e.LHS), mostOf(e.RHS))
	switch {
	case e.Op == parser.LAND, e.Op == parser.LUNLESS:
		return l
	case e.Op == parser.LOR:
		return bounds{low: min(l.low, r.low), high: max(l.high, r.high)}
	case e.ReturnBool:
		return bounds{0, 1, one}
	case e.Op == parser.GTR || e.Op == parser.GTE:
		return bounds{max(l.low, r.low), l.high, one}
	case e.Op == parser.LSS || e.Op == parser.LTE:
		return bounds{l.low, min(l.high, r.high), one}
	case e.Op == parser.EQLC:
		return bounds{max(l.low, r.low), min(l.high, r.high), one}
	case e.Op == parser.NEQ:
		return bounds{l.low, l.high, one}
	case e.Op == parser.ADD:
		return bounds{l.low + r.low, l.high + r.high, one}
	case e.Op == parser.SUB:
		return bounds{l.low - r.high, l.high - r.low, one}
	case e.Op == parser.MUL:
		return spanning(one, l.low*r.low, l.low*r.high, l.high*r.low, l.high*r.high)
	case e.Op == parser.DIV && partLessWhole(e):
		return bounds{0, 1, one}
	case e.Op == parser.DIV && (r.low > 0 || r.high < 0):
		return spanning(one, l.low/r.low, l.low/r.high, l.high/r.low, l.high/r.high)
	case e.Op == parser.DIV && l.low >= 0 && r.low >= 0:
		return bounds{0, max(most, l.high), one} // of a very small divisor
	case e.Op == parser.MOD && l.low >= 0 && r.low >= 0:
		return bounds{0, min(l.high, r.high), one}
	case e.Op == parser.POW && l.low >= 0:
		return bounds{0, math.Inf(1), one}
	}
	return bounds{anything.low, anything.high, one}
}

// spanning are the bounds of values; one of them may be none, as zero times infinity.
func spanning(one bool, all ...float64) bounds {
	if slices.ContainsFunc(all, math.IsNaN) {
		return bounds{anything.low, anything.high, one}
	}
	return bounds{slices.Min(all), slices.Max(all), one}
}
