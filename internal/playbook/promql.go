package playbook

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// What stands in a query for an expression while the playbook is loaded.
const (
	sampleText     = "\u2026" // a label's value
	sampleLabel    = "service_selector"
	sampleSelector = sampleLabel + `="` + sampleText + `"`
)

// promQLSlot is the place of an expression in a query, which decides how its
// value is escaped.
type promQLSlot struct {
	quoted   bool // inside the quotes of a label matcher's value
	regex    bool // right of =~ or !~: the value is matched literally
	selector bool // service.selector, between braces
	since    bool // exactly ${since}: may stay unfilled
	sample   string
}

// fill writes text into the slot without changing the structure of the query: a
// label's value never ends its quotes and never becomes a pattern.
func (s promQLSlot) fill(text string) (string, error) {
	switch {
	case s.quoted && s.regex:
		return escapePromQL(regexp.QuoteMeta(text)), nil
	case s.quoted:
		return escapePromQL(text), nil
	case s.selector:
		if strings.TrimSpace(text) == "" {
			return "", errors.New("the service has no selector, so the query would read the series of every service: set it in the catalog")
		}
		return CleanSelector(text)
	default:
		return text, nil // a number or duration, by its type
	}
}

// escapePromQL escapes text for a PromQL string in either kind of quotes. It
// also escapes the dollar, so that no label value can look like ${since}.
func escapePromQL(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == utf8.RuneError:
			b.WriteString(`\ufffd`) // PromQL refuses the character itself
		case r == '\\' || r == '"' || r == '\'' || r == '`' || r == '$':
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < utf8.RuneSelf && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// CleanSelector returns label matchers, without braces, as PromQL's parser prints them.
// Every selector from a file or an annotation goes through it before it stands between
// the braces of a query: of a text such as `x="y"} #` only what was parsed is left, so
// that nothing ends the braces or comments out what follows. White space alone is no matcher.
func CleanSelector(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	matchers, err := parser.ParseMetricSelector("{" + text + "}")
	if err != nil {
		return "", fmt.Errorf("%q is not a list of label matchers: %w", yamldoc.Clip(text), err)
	}
	if len(matchers) == 0 {
		return "", fmt.Errorf("%q holds no label matcher", yamldoc.Clip(text))
	}
	printed := make([]string, len(matchers))
	for i, m := range matchers {
		if m.Name == "__name__" {
			return "", fmt.Errorf("%q names a metric, only labels are allowed", yamldoc.Clip(text))
		}
		printed[i] = m.String()
	}
	return strings.Join(printed, ","), nil
}

// promQLLexer tracks the quotes of a query through its constant pieces.
type promQLLexer struct {
	quote     rune // open quote, 0 outside
	comment   bool
	backslash bool   // the last character inside quotes was an unpaired backslash
	before    string // the last two significant characters outside quotes
	operator  string // what preceded the open quote
}

func (l *promQLLexer) feed(text string) {
	for _, r := range text {
		switch {
		case l.comment:
			l.comment = r != '\n'
		case l.quote != 0 && l.backslash:
			l.backslash = false
		case l.quote != 0 && r == '\\' && l.quote != '`':
			l.backslash = true
		case l.quote != 0:
			if r == l.quote {
				l.quote, l.before = 0, ""
			}
		case r == '#':
			l.comment = true
		case r == '"' || r == '\'' || r == '`':
			l.quote, l.operator = r, l.before
		case unicode.IsSpace(r):
		default:
			if l.before += string(r); utf8.RuneCountInString(l.before) > 2 {
				_, size := utf8.DecodeRuneInString(l.before)
				l.before = l.before[size:]
			}
		}
	}
}

// slot decides whether and how an expression may be placed at the lexer's
// position.
func (l *promQLLexer) slot(x *compiled) (promQLSlot, *exprError) {
	const outside = "outside quotes only a number, a duration or service.selector is allowed, so that no label can change the query"
	switch {
	case l.comment:
		return promQLSlot{}, &exprError{Message: "${...} in a PromQL comment", Hint: "remove the comment"}
	case l.quote == '`' || l.backslash:
		return promQLSlot{}, &exprError{Message: "${...} in a raw string or after a backslash cannot be escaped", Hint: `put it between double quotes: label="${...}"`}
	case l.quote != 0:
		return l.quotedSlot(x)
	}
	l.before = "" // a filled-in value is not an operator
	switch {
	case strings.TrimSpace(x.Source) == "since":
		return promQLSlot{since: true, sample: "5m"}, nil
	case x.Type.IsExactType(cel.IntType) || x.Type.IsExactType(cel.DoubleType):
		return promQLSlot{sample: "1"}, nil
	case x.Type.IsExactType(cel.DurationType):
		return promQLSlot{sample: "5m"}, nil
	case strings.TrimSpace(x.Source) == "service.selector":
		return promQLSlot{selector: true, sample: sampleSelector}, nil
	default:
		return promQLSlot{}, &exprError{Message: fmt.Sprintf("a %s outside quotes in PromQL", typeName(x.Type)), Hint: outside}
	}
}

func (l *promQLLexer) quotedSlot(x *compiled) (promQLSlot, *exprError) {
	if !isScalar(x.Type) {
		return promQLSlot{}, &exprError{Message: fmt.Sprintf("a %s cannot be used in a query", typeName(x.Type))}
	}
	switch {
	case l.operator == "=~" || l.operator == "!~":
		return promQLSlot{quoted: true, regex: true, sample: sampleText}, nil
	case strings.HasSuffix(l.operator, "="):
		return promQLSlot{quoted: true, sample: sampleText}, nil
	default:
		return promQLSlot{}, &exprError{
			Message: "${...} in a PromQL string that is not a label matcher's value",
			Hint:    `use it in label="${...}"; regular expressions of functions are not escaped`,
		}
	}
}

// sampled is a query with samples in place of its expressions.
type sampled struct {
	text  string
	parts []part
	marks []sampleMark // one for each part
}

// sampleMark is where a part begins in the sampled text, in bytes, and in the
// source, in characters.
type sampleMark struct{ at, source int }

func sampleQuery(pieces []piece, parts []part) sampled {
	q := sampled{parts: parts}
	var b strings.Builder
	for i, p := range parts {
		q.marks = append(q.marks, sampleMark{b.Len(), pieces[i].offset})
		if p.expr != nil {
			b.WriteString(p.slot.sample)
		} else {
			b.WriteString(p.text)
		}
	}
	q.text = b.String()
	return q
}

// source returns the character of the source that a byte of the sampled text
// stems from.
func (q sampled) source(at int) int {
	offset := 0
	for i, m := range q.marks {
		if m.at <= at {
			offset = m.source
			if q.parts[i].expr == nil {
				offset += utf8.RuneCountInString(q.text[m.at:min(at, m.at+len(q.parts[i].text))])
			}
		}
	}
	return offset
}

// selects reports whether service.selector stands between the braces of a selector of
// the sampled text. Its sample alone is none: anybody can write that.
func (q sampled) selects(vs *parser.VectorSelector) bool {
	for i, m := range q.marks {
		if q.parts[i].expr != nil && q.parts[i].slot.selector && m.at >= int(vs.PosRange.Start) && m.at < int(vs.PosRange.End) {
			return true
		}
	}
	return false
}

// check parses the query.
func (q sampled) check() []exprError {
	problem, at := parseQuery(q.text)
	if problem == "" {
		return nil
	}
	return []exprError{{Offset: q.source(at), Message: "invalid PromQL: " + problem}}
}

// parseQuery returns the error in a query and its byte offset; "" if the query
// is valid.
func parseQuery(query string) (problem string, at int) {
	if strings.TrimSpace(query) == "" {
		return "empty query", 0
	}
	expr, err := parser.ParseExpr(query)
	if err != nil {
		var errs parser.ParseErrors
		if errors.As(err, &errs) && len(errs) > 0 {
			return errs[0].Err.Error(), min(max(0, int(errs[0].PositionRange.Start)), len(query))
		}
		return err.Error(), 0
	}
	if t := expr.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return fmt.Sprintf("is a %s, want an instant vector or a scalar, e.g. rate(metric[5m])", parser.DocumentedType(t)), 0
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var err error
		switch n := node.(type) {
		case *parser.MatrixSelector:
			err = yamldoc.Plausible(n.Range, maxWindow)
		case *parser.SubqueryExpr:
			err = yamldoc.Plausible(n.Range, maxWindow)
		case *parser.VectorSelector:
			if n.OriginalOffset < 0 || n.OriginalOffset > maxWindow {
				err = fmt.Errorf("is %s", n.OriginalOffset)
			}
		}
		if err != nil && problem == "" {
			problem, at = "a window or offset "+err.Error(), int(node.PositionRange().Start)
		}
		return nil
	})
	return problem, min(max(0, at), len(query))
}

// checkFilled parses a query after real values were filled in.
func checkFilled(query string) error {
	sampled := strings.ReplaceAll(query, "${since}", "5m")
	if problem, _ := parseQuery(sampled); problem != "" {
		return fmt.Errorf("query %q: invalid PromQL with the values filled in: %s", yamldoc.Clip(query), problem)
	}
	return nil
}
