package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Limits of one expression.
const (
	maxExpression = 4096    // characters
	maxNesting    = 64      // of the parser's recursion
	maxNodes      = 5_000   // of the syntax tree
	maxCost       = 200_000 // CEL's cost units, at run time
)

// Expression is a compiled, type-checked CEL expression. It is immutable and
// safe for concurrent use.
type Expression struct {
	Source string
	Type   *cel.Type // of the result
	Uses   []Use     // its free variables, by name
	Reads  []string  // what it reads of them, like slo.status, in order of first mention

	program cel.Program
	tree    *cel.Ast
	env     *cel.Env
}

// Use is one free variable of an expression.
type Use struct {
	Name    string
	Guarded bool // the expression calls has() on it
	Offset  int  // in characters, of its first mention
}

// Error is an error in an expression, at one of its characters. It is not a
// fault.Error: it concerns a text, not a failed request.
type Error struct {
	Offset  int // in characters from the expression's start
	Message string
	Hint    string // what to do about it; may be empty
}

// Eval evaluates the expression to a Go value: bool, int64, float64, string,
// time.Duration or time.Time. vars is a map by variable name or an activation.
// What cannot be evaluated is an error, never false or zero.
func (x *Expression) Eval(vars any) (any, error) {
	val, _, err := x.program.Eval(vars)
	if err != nil {
		return nil, errors.New(plainCELError(err.Error()))
	}
	return native(val)
}

// EvalPartly evaluates the expression while some variables are unknown. A field
// is named like lever.with. known is false if the result depends on an unknown
// variable. EvalPartly is slower than Eval and meant for explanations.
func (x *Expression) EvalPartly(vars any, unknown ...string) (value any, known bool, err error) {
	patterns := make([]*cel.AttributePatternType, len(unknown))
	for i, u := range unknown {
		name, field, deeper := strings.Cut(u, ".")
		patterns[i] = cel.AttributePattern(name)
		if deeper {
			patterns[i] = patterns[i].QualString(field)
		}
	}
	partial, err := cel.PartialVars(vars, patterns...)
	if err != nil {
		return nil, false, fmt.Errorf("evaluate partly: %w", err)
	}
	program, err := x.env.Program(x.tree, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return nil, false, fmt.Errorf("evaluate partly: %w", err)
	}
	val, _, err := program.Eval(partial)
	switch {
	case err != nil:
		return nil, false, errors.New(plainCELError(err.Error()))
	case types.IsUnknown(val):
		return nil, false, nil
	}
	value, err = native(val)
	return value, err == nil, err
}

// native returns the Go value of a result: bool, int64, float64, string,
// time.Duration or time.Time. Lists and objects are errors.
func native(val ref.Val) (any, error) {
	switch v := val.(type) {
	case types.Bool, types.Int, types.Double, types.String, types.Duration, types.Timestamp:
		return v.Value(), nil
	default:
		return nil, fmt.Errorf("the result is a %s", val.Type().TypeName())
	}
}

// plainCELError drops CEL's own decoration from a message.
func plainCELError(msg string) string {
	msg, _, _ = strings.Cut(msg, "\n")
	if msg == "operation cancelled: actual cost limit exceeded" {
		return "too expensive to evaluate: simplify the expression or reduce the evidence"
	}
	return msg
}

// Scope describes what an expression can name in one place.
type Scope struct {
	Env   *cel.Env // declares the variables; made by [Types.Environment] or extended from it
	Types *Types
	// Variable reports whether a word is a variable, and returns its fields if
	// it is an object.
	Variable func(name string) (fields []Field, ok bool)
	// Flat names functions of Env whose results are no longer than their
	// arguments, so that calls need no metering.
	Flat []string
	// Hint returns what to write in place of an unknown word.
	Hint func(name string) string
}

// Compile type-checks source in a scope. The errors name characters of source.
func Compile(source string, s Scope) (*Expression, []Error) {
	if n := len([]rune(source)); n > maxExpression {
		return nil, []Error{{Message: fmt.Sprintf("expression has %d characters, at most %d allowed", n, maxExpression)}}
	}
	if strings.TrimSpace(source) == "" {
		return nil, []Error{{Message: "empty expression"}}
	}
	parsed, issues := s.Env.Parse(source)
	if issues != nil && issues.Err() != nil {
		return nil, s.explain(source, nil, issues.Errors())
	}
	tree := parsed.NativeRep()
	checked, issues := s.Env.Check(parsed)
	for issues != nil && issues.Err() != nil {
		if !widenLiterals(tree, issues.Errors()) {
			return nil, s.explain(source, tree, issues.Errors())
		}
		checked, issues = s.Env.Check(parsed)
	}
	if errs := s.unknownWords(source, checked.NativeRep()); len(errs) > 0 {
		return nil, errs
	}
	x := &Expression{Source: source, Type: checked.OutputType(), Uses: s.uses(source, checked.NativeRep()), Reads: s.reads(checked.NativeRep()), tree: checked, env: s.Env}
	var err error
	opts := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if !bounded(checked.NativeRep(), s.Flat) {
		opts = append(opts, cel.CostLimit(maxCost))
	}
	if x.program, err = s.Env.Program(checked, opts...); err != nil {
		return nil, []Error{{Message: plainCELError(err.Error())}}
	}
	return x, nil
}

// bounded reports whether the size of an expression alone bounds its cost: it
// has no loops and calls nothing whose result can be much longer than its
// arguments. Metering, which doubles the cost, is then not needed.
func bounded(tree *ast.AST, flat []string) bool {
	ok := true
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			ok = false
		case ast.CallKind:
			switch name := e.AsCall().FunctionName(); name {
			case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional,
				operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
				operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
				operators.In, operators.Index, "startsWith", "endsWith", "contains":
			default:
				ok = ok && slices.Contains(flat, name)
			}
		default:
		}
	}))
	return ok
}

// widenLiterals turns integer literals into doubles where they are combined
// with a double, so that out.value == 0 compiles. It changes the literals that
// the errors point at and reports whether there was one.
func widenLiterals(tree *ast.AST, errs []*common.Error) bool {
	wrong := map[int64]bool{}
	for _, e := range errs {
		if strings.Contains(e.Message, "'(double, int)'") || strings.Contains(e.Message, "'(int, double)'") {
			wrong[e.ExprID] = true
		}
	}
	if len(wrong) == 0 {
		return false
	}
	changed := false
	factory := ast.NewExprFactory()
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !wrong[e.ID()] {
			return
		}
		for _, arg := range e.AsCall().Args() {
			if arg.Kind() != ast.LiteralKind {
				continue
			}
			if n, ok := arg.AsLiteral().(types.Int); ok {
				arg.SetKindCase(factory.NewLiteral(arg.ID(), types.Double(n)))
				changed = true
			}
		}
	}))
	return changed
}

// offsetOf returns the character offset of a CEL location.
func offsetOf(source string, loc common.Location) int {
	if loc == nil || loc.Line() < 1 {
		return 0
	}
	offset := 0
	for i, line := range strings.SplitAfter(source, "\n") {
		if i == loc.Line()-1 {
			return offset + max(0, loc.Column())
		}
		offset += len([]rune(line))
	}
	return 0
}
