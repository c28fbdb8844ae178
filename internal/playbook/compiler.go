package playbook

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// compiler holds what compiling any playbook needs: the kinds and CEL's base
// environment. It is immutable once made and shared by all documents of a set.
type compiler struct {
	kinds  map[string]*Kind
	checks []string // names of kinds, sorted
	levers []string
	table  *typeTable
	base   *cel.Env
	types  map[string]*cel.Type // of the kinds' evidence
}

// newCompiler checks the kinds' declarations and makes CEL's environment.
func newCompiler(kinds []Kind) (*compiler, error) {
	table, err := newTypeTable()
	if err != nil {
		return nil, err
	}
	c := &compiler{kinds: map[string]*Kind{}, table: table, types: map[string]*cel.Type{}}
	for i := range kinds {
		if err := c.declare(&kinds[i]); err != nil {
			return nil, fmt.Errorf("kind %q: %w", kinds[i].Name, err)
		}
	}
	slices.Sort(c.checks)
	slices.Sort(c.levers)
	alert, err := table.declare("alert.type", alertFields())
	if err != nil {
		return nil, err
	}
	service, err := table.declare("service.type", serviceFields())
	if err != nil {
		return nil, err
	}
	c.base, err = cel.NewCustomEnv(
		cel.CustomTypeProvider(table), cel.CustomTypeAdapter(table.Registry),
		cel.StdLib(), ext.Strings(), ext.Math(), cel.Lib(minMax{}),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxExpression), cel.ExpressionNodeLimit(maxNodes),
		cel.ParserErrorRecoveryLimit(4),
		cel.Variable("alert", alert), cel.Variable("service", service),
		cel.Variable("run", cel.StringType), cel.Variable("now", cel.TimestampType), cel.Variable("since", cel.DurationType),
	)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return c, nil
}

// declare adds one kind.
func (c *compiler) declare(k *Kind) error {
	if k.Name == "" || c.kinds[k.Name] != nil {
		return errors.New("without a name, or declared twice")
	}
	switch k.Role {
	case RoleCheck:
		c.checks = append(c.checks, k.Name)
	case RoleLever:
		c.levers = append(c.levers, k.Name)
	default:
		return fmt.Errorf("unknown role %q", k.Role)
	}
	if _, err := c.table.declare("with:"+k.Name, k.With); err != nil {
		return err
	}
	t, err := c.table.declare("out:"+k.Name, k.Out)
	if err != nil {
		return err
	}
	c.kinds[k.Name], c.types[k.Name] = k, t
	return nil
}

// environments are CEL's environments of one playbook: one for each type that
// out can have. They are made on demand.
type environments struct {
	c      *compiler
	checks map[string]evidenceOf
	states []string
	plain  *cel.Env
	byOut  map[string]*cel.Env // by kind
}

// environments prepares a playbook whose states gather this evidence, by variable name.
func (c *compiler) environments(checks map[string]evidenceOf, states []string) (*environments, error) {
	opts := make([]cel.EnvOption, 0, len(checks))
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		opts = append(opts, cel.Variable(name, c.types[checks[name].kind.Name]))
	}
	plain, err := c.base.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return &environments{c: c, checks: checks, states: states, plain: plain, byOut: map[string]*cel.Env{}}, nil
}

// compile compiles source where out is the evidence of out's state (nil: none)
// and since may or may not be named.
func (e *environments) compile(source string, out *evidenceOf, since bool) (*expression, []exprError) {
	env := e.plain
	if out != nil {
		name := out.kind.Name
		if e.byOut[name] == nil {
			extended, err := e.plain.Extend(cel.Variable("out", e.c.types[name]))
			if err != nil {
				return nil, []exprError{{message: "set up CEL: " + err.Error()}}
			}
			e.byOut[name] = extended
		}
		env = e.byOut[name]
	}
	return compile(env, source, variables{table: e.c.table, checks: e.checks, out: out, since: since, states: e.states})
}

// minMax adds min(a, b) and max(a, b) on two numbers of one type.
type minMax struct{}

// CompileOptions implements cel.Library.
func (minMax) CompileOptions() []cel.EnvOption {
	return []cel.EnvOption{extremum("min", -1), extremum("max", 1)}
}

// ProgramOptions implements cel.Library.
func (minMax) ProgramOptions() []cel.ProgramOption { return nil }

// extremum declares a function of two numbers that gives the one whose
// comparison with the other is want. NaN wins: it must not vanish.
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
		x, _ := a.(types.Int)
		y, _ := b.(types.Int)
		if (x < y) == (want < 0) {
			return x
		}
		return y
	})
	return cel.Function(name,
		cel.Overload(name+"_int_int", []*cel.Type{cel.IntType, cel.IntType}, cel.IntType, pick),
		cel.Overload(name+"_double_double", []*cel.Type{cel.DoubleType, cel.DoubleType}, cel.DoubleType, pick))
}
