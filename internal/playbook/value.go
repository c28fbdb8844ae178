package playbook

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"cel.dev/cel-go/cel"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Value is a parameter or a text of a playbook: a constant, or a template with
// ${CEL}. It is compiled against its declared type, immutable and safe for
// concurrent use.
type Value struct {
	source  string
	field   Field // its declaration: name, type, limits
	proof   bool  // a query of a proof, which has to prove something also with its values filled in
	refused bool  // as a proof

	constant any               // if nothing else is set
	expr     *compiled         // a number, bool or duration that is one ${...}
	parts    []part            // a text or query
	items    []*Value          // a list
	entries  map[string]*Value // a map or object
}

// part is a piece of a text: constant, or the value of an expression.
type part struct {
	text string
	expr *compiled
	raw  string     // of an expression: as written, with ${}
	slot promQLSlot // of an expression in a query: its place
}

// Source returns the value as written in the document.
func (v *Value) Source() string { return v.source }

// Eval returns the value: int64, float64, bool or string, or a []any or
// map[string]any of them. Durations are strings for [ParseDuration], so that
// the value survives JSON. Text from alerts and services in a query is escaped;
// if that is impossible, Eval returns an error. While Scope.Since is 0,
// ${since} stays in a query as written.
func (v *Value) Eval(s Scope) (any, error) {
	switch {
	case v.items != nil:
		out := make([]any, len(v.items))
		for i, item := range v.items {
			iv, err := item.Eval(s)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = iv
		}
		return out, nil
	case v.entries != nil:
		out := make(map[string]any, len(v.entries))
		for name, entry := range v.entries {
			ev, err := entry.Eval(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = ev
		}
		return out, nil
	case v.expr != nil:
		ev, err := v.expr.eval(s)
		if err != nil {
			return nil, fmt.Errorf("value %q: %w", v.source, err)
		}
		if ev, err = conform(ev, v.field); err != nil {
			return nil, fmt.Errorf("value %q: %w", v.source, err)
		}
		return ev, nil
	case v.parts != nil:
		return v.text(s)
	default:
		return v.constant, nil
	}
}

// Text evaluates a value that is a text or a query.
func (v *Value) Text(s Scope) (string, error) {
	ev, err := v.Eval(s)
	if err != nil {
		return "", err
	}
	text, ok := ev.(string)
	if !ok {
		return "", fmt.Errorf("value %q: is a %T, not a text", v.source, ev)
	}
	return text, nil
}

// Number evaluates a value that is a number.
func (v *Value) Number(s Scope) (float64, error) {
	ev, err := v.Eval(s)
	if err != nil {
		return 0, err
	}
	f, ok := ev.(float64)
	if !ok {
		return 0, fmt.Errorf("value %q: is a %T, not a number", v.source, ev)
	}
	return f, nil
}

// Int evaluates a value that is a whole number.
func (v *Value) Int(s Scope) (int, error) {
	ev, err := v.Eval(s)
	if err != nil {
		return 0, err
	}
	n, ok := ev.(int64)
	if !ok {
		return 0, fmt.Errorf("value %q: is a %T, not a whole number", v.source, ev)
	}
	return int(n), nil
}

// Duration evaluates a value that is a duration.
func (v *Value) Duration(s Scope) (time.Duration, error) {
	text, err := v.Text(s)
	if err != nil {
		return 0, err
	}
	d, err := ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("value %q: %w", v.source, err)
	}
	return d, nil
}

// text fills in a text or query.
func (v *Value) text(s Scope) (string, error) {
	query := v.field.Type.Name == Query
	var b strings.Builder
	for _, p := range v.parts {
		switch {
		case p.expr == nil:
			b.WriteString(p.text)
		case query && p.slot.since && s.Since == 0:
			b.WriteString(p.raw)
		default:
			pv, err := p.expr.eval(s)
			if err != nil {
				return "", fmt.Errorf("value %q: %w", yamldoc.Clip(p.raw), err)
			}
			text, err := formatScalar(pv)
			if err == nil && query {
				text, err = p.slot.fill(text)
			} else {
				text = oneLine(text)
			}
			if err != nil {
				return "", fmt.Errorf("value %q: %w", yamldoc.Clip(p.raw), err)
			}
			b.WriteString(text)
		}
	}
	if query {
		if err := checkFilled(b.String()); err != nil {
			return "", err
		}
		return b.String(), v.proves(s, b.String())
	}
	cv, err := conform(b.String(), v.field)
	if err != nil {
		return "", fmt.Errorf("value %q: %w", yamldoc.Clip(v.source), err)
	}
	return cv.(string), nil
}

// proves returns why a query of a proof proves nothing with its values filled in; nil: it
// is of no proof, or no reason is known. ${since} is the window that a proof has to read,
// however long it is.
func (v *Value) proves(s Scope, filled string) error {
	switch {
	case !v.proof:
		return nil
	case v.asksSince() && s.Since > 0:
		s.Since = 0
		_, err := v.text(s)
		return err
	}
	if why, part := provesNothing(strings.ReplaceAll(filled, "${since}", "5m")); why != "" {
		return fmt.Errorf("query %q proves nothing: %q %s", yamldoc.Clip(filled), yamldoc.Clip(part), why)
	}
	return nil
}

// oneLine replaces the line breaks of a value that is filled into a text: only the
// playbook's author breaks its lines, and no label adds one that looks like the author's.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Zl, unicode.Zp) || r >= '\n' && r <= '\r' || r == '\u0085' {
			return ' '
		}
		return r
	}, text)
}

// formatScalar writes a scalar into a text.
func formatScalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", fmt.Errorf("is %v, want a finite number", v)
		}
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case time.Duration:
		if v < 0 {
			return "", fmt.Errorf("is %s: negative", v)
		}
		return FormatDuration(v), nil
	case time.Time:
		return v.UTC().Format(time.RFC3339), nil
	default:
		return "", fmt.Errorf("is a %T, which cannot be used in a text", v)
	}
}

// conform checks a value against its field and converts it to its stored form.
func conform(v any, f Field) (any, error) {
	switch v := v.(type) {
	case int64:
		if f.Type.Name == Double {
			return float64(v), inBounds(float64(v), f)
		}
		return v, inBounds(float64(v), f)
	case float64:
		return v, inBounds(v, f)
	case time.Duration:
		return conformDuration(v, f)
	case string:
		if f.Type.Name == Duration {
			d, err := ParseDuration(v)
			if err != nil {
				return nil, err
			}
			return conformDuration(d, f)
		}
		if len(f.Enum) > 0 && !slices.Contains(f.Enum, v) {
			return nil, fmt.Errorf("is %q; allowed: %s", yamldoc.Clip(v), strings.Join(f.Words(), ", "))
		}
	}
	return v, nil
}

// conformDuration checks a duration against its field and returns its text.
func conformDuration(d time.Duration, f Field) (any, error) {
	least, most := durationLimits(f)
	if err := yamldoc.Plausible(d, most); err != nil {
		return nil, err
	}
	if d < least {
		return nil, fmt.Errorf("is %s, must be at least %s", FormatDuration(d), FormatDuration(least))
	}
	return FormatDuration(d), nil
}

func inBounds(v float64, f Field) error {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("is %v, want a finite number", v)
	case f.Min != nil && v < *f.Min:
		return fmt.Errorf("is %v, want at least %v", v, *f.Min)
	case f.Max != nil && v > *f.Max:
		return fmt.Errorf("is %v, want at most %v", v, *f.Max)
	case f.Above != nil && v <= *f.Above:
		return fmt.Errorf("is %v, want more than %v", v, *f.Above)
	case f.Below != nil && v >= *f.Below:
		return fmt.Errorf("is %v, want less than %v", v, *f.Below)
	default:
		return nil
	}
}

// maxWindow limits durations of parameters and PromQL windows.
const maxWindow = 92 * 24 * time.Hour

// fits reports whether an expression of CEL type have can be used for a
// parameter of type want.
func fits(have *cel.Type, want TypeName) bool {
	switch want {
	case Int:
		return have.IsExactType(cel.IntType)
	case Double:
		return have.IsExactType(cel.DoubleType) || have.IsExactType(cel.IntType)
	case Bool:
		return have.IsExactType(cel.BoolType)
	case Duration:
		return have.IsExactType(cel.DurationType) || have.IsExactType(cel.StringType)
	default:
		return false
	}
}

// sample returns a query with samples in place of its expressions; false if it
// could not be compiled.
func (v *Value) sample() (sampled, bool) {
	if text, ok := v.constant.(string); ok {
		return sampled{text: text}, true
	}
	pieces, bad := split(v.source)
	if bad != nil || len(v.parts) == 0 {
		return sampled{}, false
	}
	return sampleQuery(pieces, v.parts), true
}

// expressions lists the expressions inside a value.
func (v *Value) expressions() []*compiled {
	var out []*compiled
	if v == nil {
		return nil
	}
	if v.expr != nil {
		out = append(out, v.expr)
	}
	for _, p := range v.parts {
		if p.expr != nil {
			out = append(out, p.expr)
		}
	}
	for _, item := range v.items {
		out = append(out, item.expressions()...)
	}
	for _, entry := range v.entries {
		out = append(out, entry.expressions()...)
	}
	return out
}
