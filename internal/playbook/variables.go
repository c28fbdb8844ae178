package playbook

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/inference-responder/responder/internal/expression"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// variables are the names that an expression can use in one place of a
// playbook.
type variables struct {
	table  *expression.Types
	checks map[string]evidenceOf // by variable name: the states that gather evidence
	out    *evidenceOf           // nil: out does not exist here
	since  bool                  // since exists here
	states []string              // all states, for hints
	lets   map[string]*definition
}

// evidenceOf is the evidence of a state.
type evidenceOf struct {
	state    string
	name     string // of the evidence: the state's, or its own in a gather
	kind     *Kind
	gathered bool // in a gather: it may be unknown
}

// fields returns the fields that an expression can read of the evidence.
func (e evidenceOf) fields() []Field {
	if e.gathered {
		return gatheredFields(e.kind.Out)
	}
	return e.kind.Out
}

// variableOf returns the name of the variable with a state's evidence.
func variableOf(state string) string { return strings.ReplaceAll(state, "-", "_") }

// names returns all names that can be used, sorted.
func (v variables) names() []string {
	names := []string{"alert", "alerts", "service", "run", "now"}
	if v.out != nil {
		names = append(names, "out")
	}
	if v.since {
		names = append(names, "since")
	}
	names = append(names, slices.Collect(maps.Keys(v.checks))...)
	names = append(names, slices.Collect(maps.Keys(v.lets))...)
	slices.Sort(names)
	return names
}

// exprError is an error in an expression, at one of its characters.
type exprError = expression.Error

// compiled is a compiled expression of a playbook.
type compiled struct {
	*expression.Expression
	uses   []use
	offset int // in characters, from the start of the surrounding text
}

// use is one free variable of an expression.
type use struct {
	expression.Use
	state    string  // of evidence: the state that gathers it
	evidence string  // its name: that of the state, or its own in a gather
	gathered bool    // it may be unknown
	fields   []Field // of evidence: its declared type
}

// eval evaluates the expression to a Go value.
func (x *compiled) eval(s Scope) (any, error) {
	vars, err := x.variables(s)
	if err != nil {
		return nil, err
	}
	if unknown, why := x.unknown(s); len(unknown) > 0 {
		v, known, err := x.EvalPartly(vars, unknown...)
		if err == nil && !known {
			err = errors.New(why)
		}
		return v, err
	}
	return x.Eval(vars)
}

// variables returns the values of the expression's free variables.
func (x *compiled) variables(s Scope) (map[string]any, error) {
	vars := make(map[string]any, len(x.uses))
	for _, u := range x.uses {
		v, err := s.variable(u)
		if err != nil {
			return nil, err
		}
		vars[u.Name] = v
	}
	return vars, nil
}

// compile type-checks source in env, which declares these variables.
func (v variables) compile(env *cel.Env, source string) (*compiled, []exprError) {
	x, errs := expression.Compile(source, expression.Scope{Env: env, Types: v.table, Variable: v.fields, Hint: v.hintFor})
	if len(errs) == 0 {
		x, errs = v.written(env, x, v.lets)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	out := &compiled{Expression: x}
	for _, u := range x.Uses {
		if u.Name == "since" && !v.since {
			errs = append(errs, exprError{Offset: u.Offset, Message: "since exists only in verify.burn.error_ratio", Hint: "it is the time since the fix"})
		}
		w := v.use(u)
		if w.gathered && slices.Contains(x.Reads, u.Name+"."+knownField) {
			w.Guarded = true // the expression handles what is not known
		}
		out.uses = append(out.uses, w)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

// fields reports whether a word is a variable, and returns its fields.
func (v variables) fields(name string) ([]Field, bool) {
	switch name {
	case "alert":
		return alertFields(), true
	case "service":
		return ServiceFields(), true
	case "run", "now", "since", "alerts":
		return nil, true
	case "out":
		if v.out == nil {
			return nil, false
		}
		return v.out.kind.Out, true
	}
	if v.lets[name] != nil {
		return nil, true
	}
	ev, ok := v.checks[name]
	if !ok {
		return nil, false
	}
	return ev.fields(), true
}

// use returns the evidence of a free variable.
func (v variables) use(u expression.Use) use {
	switch ev, ok := v.checks[u.Name]; {
	case u.Name == "out":
		return use{Use: u, state: v.out.state, evidence: v.out.state, fields: v.out.kind.Out}
	case ok:
		return use{Use: u, state: ev.state, evidence: ev.name, gathered: ev.gathered, fields: ev.kind.Out}
	default:
		return use{Use: u}
	}
}

func (v variables) hintFor(name string) string {
	if name == "out" {
		return "it exists only in the conditions of the next of a check, a lever, or a notify with once; name the state that gathers the evidence, e.g. triage.value"
	}
	if signalOf(name) != "" {
		return "a signal of levers and gates: write it alone, as {when: " + name + "}"
	}
	for _, s := range v.states {
		if variableOf(s) == name {
			return "state " + s + " has no evidence of its own: only checks do, and a notify with once; a gather's evidence has the names that it gives"
		}
		if strings.HasPrefix(s, name+"-") {
			return "the evidence of state " + s + " is called " + variableOf(s)
		}
	}
	return yamldoc.DidYouMean(name, v.names())
}
