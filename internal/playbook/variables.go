package playbook

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// variables is what an expression at one place of a playbook can name.
type variables struct {
	table  *typeTable
	checks map[string]evidenceOf // by variable name: the states that gather evidence
	out    *evidenceOf           // nil: out does not exist here
	since  bool                  // since exists here
	states []string              // all states, for hints
}

// evidenceOf is what a state yields.
type evidenceOf struct {
	state string
	kind  *Kind
}

// variableOf is the name under which a state's evidence can be read.
func variableOf(state string) string { return strings.ReplaceAll(state, "-", "_") }

// names lists what can be named, sorted.
func (v variables) names() []string {
	names := []string{"alert", "service", "run", "now"}
	if v.out != nil {
		names = append(names, "out")
	}
	if v.since {
		names = append(names, "since")
	}
	names = append(names, slices.Collect(maps.Keys(v.checks))...)
	slices.Sort(names)
	return names
}

// uses lists the free variables of a checked expression, and complains about
// those that do not exist at this place.
func (v variables) uses(source string, tree *ast.AST) ([]use, []exprError) {
	found := map[string]*use{}
	var errs []exprError
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
			if u := found[rootIdent(e.AsSelect().Operand())]; u != nil {
				u.guarded = true
			}
			return
		}
		if e.Kind() != ast.IdentKind || found[e.AsIdent()] != nil {
			return
		}
		u, err := v.use(e.AsIdent())
		offset := offsetOf(source, tree.SourceInfo().GetStartLocation(e.ID()))
		if err != nil {
			err.offset = offset
			errs = append(errs, *err)
		} else if u != nil {
			u.offset = offset
			found[u.name] = u
		}
	}))
	out := make([]use, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[name])
	}
	return out, errs
}

// use resolves one identifier; nil without an error: it is bound by a macro.
func (v variables) use(name string) (*use, *exprError) {
	switch name {
	case "alert", "service", "run", "now":
		return &use{name: name}, nil
	case "since":
		if !v.since {
			return nil, &exprError{message: "since is known only in verify.burn.error_ratio", hint: "it is the time since the fix"}
		}
		return &use{name: name}, nil
	case "out":
		return &use{name: name, state: v.out.state, fields: v.out.kind.Out}, nil
	}
	if ev, ok := v.checks[name]; ok {
		return &use{name: name, state: ev.state, fields: ev.kind.Out}, nil
	}
	return nil, nil
}

// rootIdent gives the variable a chain of selections starts at.
func rootIdent(e ast.Expr) string {
	for {
		switch e.Kind() {
		case ast.SelectKind:
			e = e.AsSelect().Operand()
		case ast.IdentKind:
			return e.AsIdent()
		default:
			return ""
		}
	}
}

// unknownWords finds comparisons of an enumerated field with a word it never
// has: a condition that silently never holds.
func (v variables) unknownWords(source string, tree *ast.AST) []exprError {
	var errs []exprError
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		var literals []ast.Expr
		var field *Field
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals:
			a, b := call.Args()[0], call.Args()[1]
			if field = v.enumField(tree, a); field == nil {
				a, b = b, a
				field = v.enumField(tree, a)
			}
			literals = []ast.Expr{b}
		case operators.In:
			field = v.enumField(tree, call.Args()[0])
			if list := call.Args()[1]; list.Kind() == ast.ListKind {
				literals = list.AsList().Elements()
			}
		}
		if field == nil {
			return
		}
		for _, l := range literals {
			if l.Kind() != ast.LiteralKind {
				continue
			}
			if word, ok := l.AsLiteral().(types.String); ok && !slices.Contains(field.Enum, string(word)) {
				errs = append(errs, exprError{
					offset:  offsetOf(source, tree.SourceInfo().GetStartLocation(l.ID())),
					message: fmt.Sprintf("%s is never %q", field.Name, clip(string(word))),
					hint:    didYouMean(string(word), field.Enum),
				})
			}
		}
	}))
	return errs
}

// enumField gives the declared field that e selects, when its words are enumerated.
func (v variables) enumField(tree *ast.AST, e ast.Expr) *Field {
	if e.Kind() != ast.SelectKind {
		return nil
	}
	sel := e.AsSelect()
	m, ok := v.table.objects[tree.GetType(sel.Operand().ID()).TypeName()][sel.FieldName()]
	if !ok || len(m.field.Enum) == 0 {
		return nil
	}
	return &m.field
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noField    = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '([^']*)'`)
)

// explain turns CEL's complaints into ours, with hints.
func (v variables) explain(source string, tree *ast.AST, errs []*common.Error) []exprError {
	out := make([]exprError, 0, len(errs))
	for _, e := range errs {
		x := exprError{offset: offsetOf(source, e.Location), message: plainCELError(e.Message)}
		switch {
		case undeclared.MatchString(e.Message):
			name := undeclared.FindStringSubmatch(e.Message)[1]
			x.message, x.hint = fmt.Sprintf("%q is not known here", name), v.hintFor(name)
		case noField.MatchString(e.Message):
			name := noField.FindStringSubmatch(e.Message)[1]
			x.message, x.hint = fmt.Sprintf("there is no field %q", name), v.hintForField(tree, e.ExprID, name)
		case noOverload.MatchString(e.Message):
			m := noOverload.FindStringSubmatch(e.Message)
			x.message = fmt.Sprintf("%s cannot be applied to %s", strings.Trim(m[1], "_"), m[2])
			x.hint = "compare and combine values of one type; int(), double() and string() convert"
		case strings.HasPrefix(x.message, "Syntax error: "):
			problem, _, _ := strings.Cut(strings.TrimPrefix(x.message, "Syntax error: "), " expecting ")
			x.message = "not a CEL expression: " + strings.Replace(problem, "mismatched input '<EOF>'", "it ends too early", 1)
		}
		out = append(out, x)
	}
	return out
}

func (v variables) hintFor(name string) string {
	if name == "out" {
		return "it exists only in the conditions of a check's or lever's next; name the state whose evidence you mean, e.g. triage.value"
	}
	if signalOf(name) != "" {
		return "a signal of levers and gates: write it alone, as {when: " + name + "}"
	}
	for _, s := range v.states {
		if variableOf(s) == name {
			return "state " + s + " gathers no evidence: only checks do"
		}
		if strings.HasPrefix(s, name+"-") {
			return "the evidence of state " + s + " is called " + variableOf(s)
		}
	}
	return didYouMean(name, v.names())
}

// hintForField names the fields of what a selection selects from, where that
// is a variable.
func (v variables) hintForField(tree *ast.AST, id int64, name string) string {
	hint := ""
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() != id || e.Kind() != ast.SelectKind || e.AsSelect().Operand().Kind() != ast.IdentKind {
			return
		}
		var fields []Field
		switch root := e.AsSelect().Operand().AsIdent(); root {
		case "alert":
			fields = alertFields()
		case "service":
			fields = serviceFields()
		default:
			if u, err := v.use(root); err == nil && u != nil {
				fields = u.fields
			}
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.Name
		}
		hint = didYouMean(name, names)
	}))
	return hint
}
