package playbook

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Bounds of one expression.
const (
	maxExpression = 4096    // characters
	maxNesting    = 64      // of the parser's recursion
	maxNodes      = 5_000   // of the syntax tree
	maxCost       = 200_000 // CEL's cost units, at run time
)

// expression is a compiled, type-checked CEL expression.
type expression struct {
	source  string
	program cel.Program
	typ     *cel.Type
	uses    []use
	offset  int // in characters, from the start of the text it stands in
}

// use is one free variable of an expression.
type use struct {
	name    string  // as written
	state   string  // of evidence: the state that gathers it
	fields  []Field // of evidence: its declared type
	guarded bool    // the expression asks has() of it
	offset  int     // in characters, of its first mention
}

// exprError is something wrong with an expression, at a character of it.
type exprError struct {
	offset  int // in characters from the expression's start
	message string
	hint    string
}

// eval evaluates the expression to a Go value.
func (x *expression) eval(s Scope) (any, error) {
	vars := make(map[string]any, len(x.uses))
	for _, u := range x.uses {
		v, err := s.variable(u)
		if err != nil {
			return nil, err
		}
		vars[u.name] = v
	}
	val, _, err := x.program.Eval(vars)
	if err != nil {
		return nil, errors.New(plainCELError(err.Error()))
	}
	return native(val)
}

// native gives the Go value of a result: bool, int64, float64, string,
// time.Duration or time.Time. Lists and objects are results of no use here.
func native(val ref.Val) (any, error) {
	switch v := val.(type) {
	case types.Bool, types.Int, types.Double, types.String, types.Duration, types.Timestamp:
		return v.Value(), nil
	default:
		return nil, fmt.Errorf("gave a %s", val.Type().TypeName())
	}
}

// plainCELError drops CEL's own decoration from a message.
func plainCELError(msg string) string {
	msg, _, _ = strings.Cut(msg, "\n")
	if msg == "operation cancelled: actual cost limit exceeded" {
		return "costs too much to evaluate: make it simpler or the evidence smaller"
	}
	return msg
}

// compile type-checks source in env. The variables it may use and what they
// stand for are looked up in vars.
func compile(env *cel.Env, source string, vars variables) (*expression, []exprError) {
	if n := len([]rune(source)); n > maxExpression {
		return nil, []exprError{{message: fmt.Sprintf("expression of %d characters; at most %d", n, maxExpression)}}
	}
	if strings.TrimSpace(source) == "" {
		return nil, []exprError{{message: "empty expression"}}
	}
	parsed, issues := env.Parse(source)
	if issues != nil && issues.Err() != nil {
		return nil, vars.explain(source, nil, issues.Errors())
	}
	tree := parsed.NativeRep()
	checked, issues := env.Check(parsed)
	for issues != nil && issues.Err() != nil {
		if !widenLiterals(tree, issues.Errors()) {
			return nil, vars.explain(source, tree, issues.Errors())
		}
		checked, issues = env.Check(parsed)
	}
	x := &expression{source: source, typ: checked.OutputType()}
	var errs []exprError
	if x.uses, errs = vars.uses(source, checked.NativeRep()); len(errs) > 0 {
		return nil, errs
	}
	if errs := vars.unknownWords(source, checked.NativeRep()); len(errs) > 0 {
		return nil, errs
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, []exprError{{message: plainCELError(err.Error())}}
	}
	x.program = program
	return x, nil
}

// widenLiterals makes 0 mean 0.0 beside a double, so that a condition may say
// out.value == 0. It changes the literals that the errors point at and
// reports whether there was one.
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

// offsetOf gives the character offset of a CEL location.
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
