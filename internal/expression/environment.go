package expression

import (
	"fmt"
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
)

// Environment returns a CEL environment with the standard library, strings,
// math, min and max, times in UTC unless a zone is named, and limits on
// expressions. Options declare the variables.
func (t *Types) Environment(opts ...cel.EnvOption) (*cel.Env, error) {
	env, err := cel.NewCustomEnv(append([]cel.EnvOption{
		cel.CustomTypeProvider(t), cel.CustomTypeAdapter(t.Registry),
		cel.StdLib(), ext.Strings(), ext.Math(), cel.Lib(minMax{}),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxExpression), cel.ExpressionNodeLimit(maxNodes),
		cel.ParserErrorRecoveryLimit(4),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return env, nil
}

// minMax adds min(a, b) and max(a, b) on two numbers of one type, or two
// durations.
type minMax struct{}

// CompileOptions implements cel.Library.
func (minMax) CompileOptions() []cel.EnvOption {
	return []cel.EnvOption{extremum("min", -1), extremum("max", 1)}
}

// ProgramOptions implements cel.Library.
func (minMax) ProgramOptions() []cel.ProgramOption { return nil }

// extremum declares a function of two values that returns the one whose
// comparison with the other is want. If either is NaN it returns NaN, so that
// NaN does not vanish.
func extremum(name string, want types.Int) cel.EnvOption {
	pick := cel.BinaryBinding(func(a, b ref.Val) ref.Val {
		if x, ok := a.(types.Double); ok {
			y, _ := b.(types.Double)
			if math.IsNaN(float64(x)) || math.IsNaN(float64(y)) {
				return types.Double(math.NaN())
			}
			if (x < y) == (want < 0) {
				return x
			}
			return y
		}
		if a.(traits.Comparer).Compare(b) == want {
			return a
		}
		return b
	})
	return cel.Function(name,
		cel.Overload(name+"_int_int", []*cel.Type{cel.IntType, cel.IntType}, cel.IntType, pick),
		cel.Overload(name+"_double_double", []*cel.Type{cel.DoubleType, cel.DoubleType}, cel.DoubleType, pick),
		cel.Overload(name+"_duration_duration", []*cel.Type{cel.DurationType, cel.DurationType}, cel.DurationType, pick))
}
