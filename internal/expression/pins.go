package expression

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Pin is a comparison of a text field with words that must hold for the whole
// expression to hold. As && is false when either side is false, whatever the
// other side is, an expression with a failed pin is false and not an error.
type Pin struct {
	Variable, Field string   // e.g. service, namespace
	Words           []string // the field has to be one of them
}

// Pins lists the comparisons service.field == "word" and service.field in
// ["word", ...] that are joined by && at the top of the expression.
func (x *Expression) Pins() []Pin {
	var out []Pin
	var visit func(e ast.Expr)
	visit = func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.LogicalAnd:
			for _, a := range args {
				visit(a)
			}
		case operators.Equals:
			if p, ok := pin(args[0], args[1:2]); ok {
				out = append(out, p)
			} else if p, ok := pin(args[1], args[0:1]); ok {
				out = append(out, p)
			}
		case operators.In:
			if args[1].Kind() != ast.ListKind {
				return
			}
			if p, ok := pin(args[0], args[1].AsList().Elements()); ok {
				out = append(out, p)
			}
		}
	}
	visit(x.tree.NativeRep().Expr())
	return out
}

// pin reads variable.field and texts; ok is false if they are something else.
func pin(field ast.Expr, words []ast.Expr) (Pin, bool) {
	if field.Kind() != ast.SelectKind || field.AsSelect().IsTestOnly() || field.AsSelect().Operand().Kind() != ast.IdentKind {
		return Pin{}, false
	}
	p := Pin{Variable: field.AsSelect().Operand().AsIdent(), Field: field.AsSelect().FieldName()}
	for _, w := range words {
		if w.Kind() != ast.LiteralKind {
			return Pin{}, false
		}
		text, ok := w.AsLiteral().(types.String)
		if !ok {
			return Pin{}, false
		}
		p.Words = append(p.Words, string(text))
	}
	return p, len(p.Words) > 0
}
