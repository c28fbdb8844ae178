package expression

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

	"github.com/inference-responder/responder/internal/yamldoc"
)

// uses lists the free variables of a checked expression, by name.
func (s Scope) uses(source string, tree *ast.AST) []Use {
	found := map[string]*Use{}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
			if u := found[rootIdent(e.AsSelect().Operand())]; u != nil {
				u.Guarded = true
			}
			return
		}
		if e.Kind() != ast.IdentKind || found[e.AsIdent()] != nil {
			return
		}
		if _, ok := s.Variable(e.AsIdent()); ok { // else it is bound by a macro
			found[e.AsIdent()] = &Use{Name: e.AsIdent(), Offset: offsetOf(source, tree.SourceInfo().GetStartLocation(e.ID()))}
		}
	}))
	out := make([]Use, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[name])
	}
	return out
}

// reads lists the longest selections from free variables, such as slo.status.
// The fields of what a macro iterates over are not listed, only the list.
func (s Scope) reads(tree *ast.AST) []string {
	var out []string
	var visit func(e ast.NavigableExpr)
	visit = func(e ast.NavigableExpr) {
		if name := rootIdent(e); name != "" {
			if _, ok := s.Variable(name); ok && !slices.Contains(out, chain(e)) {
				out = append(out, chain(e))
			}
			return
		}
		for _, c := range e.Children() {
			visit(c)
		}
	}
	visit(ast.NavigateAST(tree))
	return out
}

// chain writes a chain of selections: a.b.c.
func chain(e ast.Expr) string {
	if e.Kind() == ast.SelectKind {
		return chain(e.AsSelect().Operand()) + "." + e.AsSelect().FieldName()
	}
	return e.AsIdent()
}

// rootIdent returns the variable at the start of a chain of selections.
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
// has. Such a condition silently never holds.
func (s Scope) unknownWords(source string, tree *ast.AST) []Error {
	var errs []Error
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
			if field = s.enumField(tree, a); field == nil {
				a, b = b, a
				field = s.enumField(tree, a)
			}
			literals = []ast.Expr{b}
		case operators.In:
			field = s.enumField(tree, call.Args()[0])
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
				errs = append(errs, Error{
					Offset:  offsetOf(source, tree.SourceInfo().GetStartLocation(l.ID())),
					Message: fmt.Sprintf("%s is never %q", field.Name, yamldoc.Clip(string(word))),
					Hint:    yamldoc.DidYouMean(string(word), field.Words()),
				})
			}
		}
	}))
	return errs
}

// enumField returns the declared field that e selects, if its words are
// enumerated.
func (s Scope) enumField(tree *ast.AST, e ast.Expr) *Field {
	if e.Kind() != ast.SelectKind {
		return nil
	}
	sel := e.AsSelect()
	m, ok := s.Types.objects[tree.GetType(sel.Operand().ID()).TypeName()][sel.FieldName()]
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

// explain converts CEL's errors to ours, with hints.
func (s Scope) explain(source string, tree *ast.AST, errs []*common.Error) []Error {
	out := make([]Error, 0, len(errs))
	for _, e := range errs {
		x := Error{Offset: offsetOf(source, e.Location), Message: plainCELError(e.Message)}
		switch {
		case undeclared.MatchString(e.Message):
			name := undeclared.FindStringSubmatch(e.Message)[1]
			x.Message, x.Hint = fmt.Sprintf("unknown name %q", name), s.Hint(name)
		case noField.MatchString(e.Message):
			name := noField.FindStringSubmatch(e.Message)[1]
			x.Message, x.Hint = fmt.Sprintf("there is no field %q", name), s.hintForField(tree, e.ExprID, name)
		case noOverload.MatchString(e.Message):
			m := noOverload.FindStringSubmatch(e.Message)
			x.Message = fmt.Sprintf("%s cannot be applied to %s", strings.Trim(m[1], "_"), m[2])
			x.Hint = "compare and combine values of one type; int(), double() and string() convert"
		case strings.HasPrefix(x.Message, "Syntax error: "):
			problem, _, _ := strings.Cut(strings.TrimPrefix(x.Message, "Syntax error: "), " expecting ")
			x.Message = "not a CEL expression: " + strings.Replace(problem, "mismatched input '<EOF>'", "it ends too early", 1)
		}
		out = append(out, x)
	}
	return out
}

// hintForField lists the fields of the selected object.
func (s Scope) hintForField(tree *ast.AST, id int64, name string) string {
	hint := ""
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() != id || e.Kind() != ast.SelectKind {
			return
		}
		fields := s.fieldsOf(e.AsSelect().Operand())
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.Name
		}
		hint = yamldoc.DidYouMean(name, names)
	}))
	return hint
}

// fieldsOf returns the fields of the object at the end of a chain of
// selections; none if it is not a declared object.
func (s Scope) fieldsOf(e ast.Expr) []Field {
	switch e.Kind() {
	case ast.IdentKind:
		fields, _ := s.Variable(e.AsIdent())
		return fields
	case ast.SelectKind:
		of := s.fieldsOf(e.AsSelect().Operand())
		if i := slices.IndexFunc(of, func(f Field) bool { return f.Name == e.AsSelect().FieldName() }); i >= 0 {
			return of[i].Type.Fields
		}
	}
	return nil
}
