package playbook

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// piece is a piece of a text before compilation.
type piece struct {
	text   string // constant text, or the expression inside ${}
	dollar bool   // it is an expression
	offset int    // of text in the source, in characters
}

// split splits a text at its ${...}. $${ is an escaped ${. Braces and quotes
// inside an expression belong to CEL.
func split(source string) ([]piece, *exprError) {
	runes := []rune(source)
	var out []piece
	var text strings.Builder
	start := 0
	flush := func() {
		if text.Len() > 0 {
			out = append(out, piece{text: text.String(), offset: start})
			text.Reset()
		}
	}
	for i := 0; i < len(runes); i++ {
		switch {
		case hasPrefix(runes[i:], "$${"):
			text.WriteString("${")
			i += 2
		case hasPrefix(runes[i:], "${"):
			flush()
			end := closing(runes, i+2)
			if end < 0 {
				return nil, &exprError{Offset: i, Message: "${ without }", Hint: "write $${ for a literal ${"}
			}
			out = append(out, piece{text: string(runes[i+2 : end]), dollar: true, offset: i + 2})
			i, start = end, end+1
		default:
			text.WriteRune(runes[i])
		}
	}
	flush()
	return out, nil
}

func hasPrefix(runes []rune, prefix string) bool {
	for i, r := range prefix {
		if i >= len(runes) || runes[i] != r {
			return false
		}
	}
	return true
}

// closing returns the index of the } that ends the expression starting at from;
// -1 if there is none.
func closing(runes []rune, from int) int {
	depth := 0
	var quote rune
	for i := from; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote != 0 && r == '\\':
			i++
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '{':
			depth++
		case r == '}' && depth == 0:
			return i
		case r == '}':
			depth--
		}
	}
	return -1
}

// place is the place of a value, which determines the variables it can name.
type place struct {
	env   *environments
	since bool
	state *State
}

// compileText compiles a text or query with its ${...}.
func compileText(source string, query bool, at place) ([]part, []exprError) {
	pieces, bad := split(source)
	if bad != nil {
		return nil, []exprError{*bad}
	}
	var parts []part
	var errs []exprError
	var lex promQLLexer
	for _, p := range pieces {
		if !p.dollar {
			parts = append(parts, part{text: p.text})
			lex.feed(p.text)
			continue
		}
		x, xerrs := at.env.compile(p.text, nil, at.since)
		if len(xerrs) > 0 {
			errs = append(errs, shift(xerrs, p.offset)...)
			continue
		}
		x.offset = p.offset
		np := part{expr: x, raw: "${" + p.text + "}"}
		if query {
			slot, problem := lex.slot(x)
			if problem != nil {
				problem.Offset = p.offset
				errs = append(errs, *problem)
				continue
			}
			np.slot = slot
		} else if !isScalar(x.Type) {
			errs = append(errs, exprError{Offset: p.offset, Message: fmt.Sprintf("a %s cannot be used in a text", typeName(x.Type))})
			continue
		}
		parts = append(parts, np)
	}
	if len(errs) == 0 && query {
		errs = sampleQuery(pieces, parts).check()
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return parts, nil
}

// compileScalar compiles a value that must be one ${...} of the wanted type.
func compileScalar(source string, want TypeName, at place) (*compiled, []exprError) {
	pieces, bad := split(source)
	if bad != nil {
		return nil, []exprError{*bad}
	}
	if len(pieces) != 1 || !pieces[0].dollar {
		return nil, []exprError{{Message: fmt.Sprintf("want %s or one ${...}, got the text %q", article(want), yamldoc.Clip(source))}}
	}
	x, errs := at.env.compile(pieces[0].text, nil, at.since)
	if len(errs) > 0 {
		return nil, shift(errs, pieces[0].offset)
	}
	x.offset = pieces[0].offset
	if !fits(x.Type, want) {
		return nil, []exprError{{
			Offset:  pieces[0].offset,
			Message: fmt.Sprintf("the expression is %s, the parameter is %s", typeName(x.Type), want),
			Hint:    "int(), double() and duration() convert",
		}}
	}
	return x, nil
}

func shift(errs []exprError, by int) []exprError {
	for i := range errs {
		errs[i].Offset += by
	}
	return errs
}

func isScalar(t *cel.Type) bool {
	for _, s := range []*cel.Type{cel.StringType, cel.IntType, cel.DoubleType, cel.BoolType, cel.DurationType, cel.TimestampType} {
		if t.IsExactType(s) {
			return true
		}
	}
	return false
}

// typeName returns the language's name of a CEL type.
func typeName(t *cel.Type) string {
	switch {
	case t.IsExactType(cel.DurationType):
		return string(Duration)
	case t.IsExactType(cel.TimestampType):
		return string(Timestamp)
	case t.Kind() == cel.StructKind:
		return string(Object)
	default:
		return t.String()
	}
}
