package playbook

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/expression"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// definition is an expression that spec.let names. A use of its name means the
// same as the expression between parentheses, also to the analysis.
type definition struct {
	source string
	typ    *cel.Type
	node   *yaml.Node // of the name
	path   string
	used   bool
}

var letForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// lets reads spec.let. A definition names evidence, variables and the definitions
// above it, so that none can depend on itself.
func (r *reader) lets(n *yaml.Node) {
	m := r.d.Mapping(n, "spec.let")
	if m == nil {
		return
	}
	r.env.lets = map[string]*definition{}
	for at, pair := range m.Pairs {
		path := m.At(pair.Name)
		if !r.letName(pair, path) {
			continue
		}
		source, ok := r.d.Text(pair.Value, path)
		if !ok {
			continue
		}
		x, errs := r.env.compile(source, nil, false)
		if len(errs) == 0 && !isScalar(x.Type) {
			errs = []exprError{{Message: fmt.Sprintf("a definition must be a number, text, truth value or time, this is %s", typeName(x.Type))}}
		}
		if len(errs) > 0 {
			r.broken = true
			for i := range errs {
				if other := definedWord(errs[i].Message, m.Pairs[at+1:]); other != "" {
					errs[i].Hint = "a definition reads those above it: define " + other + " first"
				}
				if definedWord(errs[i].Message, m.Pairs[at:at+1]) != "" {
					errs[i].Hint = "a definition cannot read itself"
				}
			}
			// What names a definition that is refused itself is not an error of its own.
			errs = slices.DeleteFunc(errs, func(e exprError) bool { return definedWord(e.Message, m.Pairs[:at]) != "" })
			r.d.reportExpr(pair.Value, path, errs)
			continue
		}
		written, _ := expand(source, r.env.lets)
		if err := r.env.define(pair.Name, &definition{source: written, typ: x.Type, node: pair.Key, path: path}); err != nil {
			r.d.Report(pair.Value, path, err.Error(), "")
		}
	}
}

// definedWord returns which of the definitions an error calls unknown; empty: none.
func definedWord(message string, among []yamldoc.Pair) string {
	for _, pair := range among {
		if message == fmt.Sprintf("unknown name %q", pair.Name) {
			return pair.Name
		}
	}
	return ""
}

// letName reports whether a word can be defined.
func (r *reader) letName(pair yamldoc.Pair, path string) bool {
	_, evidence := r.env.checks[pair.Name]
	state := slices.ContainsFunc(r.names, func(s string) bool { return variableOf(s) == pair.Name })
	switch {
	case !letForm.MatchString(pair.Name):
		r.d.Report(pair.Key, path, fmt.Sprintf("invalid name %q", yamldoc.Clip(pair.Name)), "lower-case letters, digits and underscores, starting with a letter")
	case reservedName(pair.Name) || signalOf(pair.Name) != "":
		r.d.Report(pair.Key, path, fmt.Sprintf("%q is reserved in expressions", pair.Name), "choose another name")
	case evidence || state:
		r.d.Report(pair.Key, path, fmt.Sprintf("%s is the name of a state or of evidence", pair.Name), "choose another name")
	default:
		return true
	}
	return false
}

// unused reports definitions that no expression names.
func (r *reader) unused() {
	for _, name := range slices.Sorted(maps.Keys(r.env.lets)) {
		if d := r.env.lets[name]; !d.used && !r.broken {
			r.d.Report(d.node, d.path, "never used", "remove it, or use it in a condition or ${...}")
		}
	}
}

// define adds a definition to the environments as a variable of its type.
func (e *environments) define(name string, d *definition) error {
	plain, err := e.plain.Extend(cel.Variable(name, d.typ))
	if err != nil {
		return fmt.Errorf("set up CEL: %w", err)
	}
	e.plain, e.byOut = plain, map[string]*cel.Env{}
	e.lets[name] = d
	return nil
}

// expand writes definitions out in a source, where they are names and not the
// field of something or part of a text. It returns what it expanded.
func expand(source string, lets map[string]*definition) (expanded string, names []string) {
	var b strings.Builder
	runes := []rune(source)
	for i := 0; i < len(runes); {
		switch r := runes[i]; {
		case r == '"' || r == '\'':
			end := textEnd(runes, i)
			b.WriteString(string(runes[i:end]))
			i = end
		case wordRune(r):
			end := i
			for end < len(runes) && wordRune(runes[end]) {
				end++
			}
			word := string(runes[i:end])
			before := strings.TrimRight(string(runes[:i]), " \t\n")
			if d := lets[word]; d != nil && !strings.HasSuffix(before, ".") {
				word = "(" + d.source + ")"
				names = append(names, string(runes[i:end]))
			}
			b.WriteString(word)
			i = end
		default:
			b.WriteRune(r)
			i++
		}
	}
	return b.String(), names
}

func wordRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// textEnd returns the index after the text that begins at from.
func textEnd(runes []rune, from int) int {
	for i := from + 1; i < len(runes); i++ {
		switch runes[i] {
		case '\\':
			i++
		case runes[from]:
			return i + 1
		}
	}
	return len(runes)
}

// written compiles an expression with its definitions written out. x is the
// expression as the author wrote it, which has passed already.
func (v variables) written(env *cel.Env, x *expression.Expression, lets map[string]*definition) (*expression.Expression, []exprError) {
	source, names := expand(x.Source, lets)
	if len(names) == 0 {
		return x, nil
	}
	for _, name := range names {
		lets[name].used = true
	}
	long, errs := expression.Compile(source, expression.Scope{Env: env, Types: v.table, Variable: v.fields, Hint: v.hintFor})
	if len(errs) > 0 {
		return nil, []exprError{{Message: "with " + strings.Join(names, ", ") + " written out: " + errs[0].Message, Hint: errs[0].Hint}}
	}
	at := map[string]int{}
	for _, u := range x.Uses {
		at[u.Name] = u.Offset
	}
	for i := range long.Uses {
		u := &long.Uses[i]
		if offset, ok := at[u.Name]; ok {
			u.Offset = offset
		} else {
			u.Offset = at[names[0]]
		}
	}
	long.Source = x.Source
	return long, nil
}
