package playbook

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

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
	case *parser.AggregateExpr:
		v, ok := numberOf(e.Expr)
		switch e.Op {
		case parser.COUNT, parser.GROUP:
			return 1, ok
		case parser.SUM, parser.AVG, parser.MIN, parser.MAX:
			return v, ok
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

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
