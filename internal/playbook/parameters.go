package playbook

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// with reads a step's parameters, checks them against its kind, and adds
// defaults. Steps give a relative parameter.
func (r *reader) with(m *yamldoc.Mapping, k *Kind, steps *Stepwise, at place) map[string]*Value {
	out := map[string]*Value{}
	var given []string
	path := m.At("with")
	node := m.Node
	if n := m.Get("with"); n != nil {
		node = n
		wm := r.fields(n, path, k.With)
		if wm == nil {
			return out
		}
		for _, pair := range wm.Pairs {
			given = append(given, pair.Name)
			if f, ok := fieldNamed(k.With, pair.Name); ok {
				out[pair.Name] = r.value(pair.Value, wm.At(pair.Name), f, at)
			}
		}
	}
	if steps != nil && steps.Relative {
		if slices.Contains(given, steps.Param) {
			r.d.Report(node, path+"."+steps.Param, "step.by is what each step changes", "remove "+steps.Param+" here")
		}
		given = append(given, steps.Param)
	}
	if r.misspelt[at.state] {
		return out
	}
	for _, f := range k.With {
		switch {
		case slices.Contains(given, f.Name):
		case f.Required:
			r.d.Report(node, path, fmt.Sprintf("%s: missing parameter %s, %s", k.Name, f.Name, article(f.Type.Name)), "")
		case f.Default != nil:
			out[f.Name] = &Value{source: fmt.Sprint(f.Default), field: f, constant: plainDefault(f.Default)}
		}
	}
	for _, group := range k.OneOf {
		n := 0
		for _, name := range group {
			if slices.Contains(given, name) {
				n++
			}
		}
		if n != 1 {
			r.d.Report(node, path, fmt.Sprintf("%s: want exactly one of %s, got %d", k.Name, strings.Join(group, ", "), n), "")
		}
	}
	r.lint(k, node, path, out)
	return out
}

// lint runs the kind's own check on the constant parameters.
func (r *reader) lint(k *Kind, node *yaml.Node, path string, with map[string]*Value) {
	if k.Lint == nil {
		return
	}
	constants := map[string]any{}
	for name, v := range with {
		constants[name] = v.literal()
	}
	for _, c := range k.Lint(constants) {
		n, at := node, path
		for _, name := range c.At {
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == name {
					n, at = n.Content[i+1], at+"."+name
					break
				}
			}
		}
		r.d.Report(n, at, c.Message, c.Hint)
	}
}

// literal returns a value as known before any run: its constant, or the
// constants of a map's entries; nil if only a run knows it.
func (v *Value) literal() any {
	if v.entries == nil {
		return v.constant
	}
	out := map[string]any{}
	for name, e := range v.entries {
		out[name] = e.literal()
	}
	return out
}

// plainDefault converts a declared default to the form in which values are
// stored.
func plainDefault(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case time.Duration:
		return FormatDuration(v)
	default:
		return v
	}
}

// fields reads a mapping with the declared fields as keys.
func (r *reader) fields(n *yaml.Node, path string, fields []Field) *yamldoc.Mapping {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	m := r.d.Mapping(n, path)
	if m == nil {
		return nil
	}
	for _, pair := range m.Pairs {
		if !slices.Contains(names, pair.Name) {
			hint := yamldoc.DidYouMean(pair.Name, names)
			if hint == "" {
				hint = "the step has no parameters"
			}
			r.d.Report(pair.Key, path, fmt.Sprintf("unknown parameter %q", yamldoc.Clip(pair.Name)), hint)
		}
	}
	return m
}

func fieldNamed(fields []Field, name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// value reads one value of a declared field.
func (r *reader) value(n *yaml.Node, path string, f Field, at place) *Value {
	v := &Value{source: n.Value, field: f}
	switch f.Type.Name {
	case Object, Map:
		r.entries(n, path, f, at, v)
	case List:
		r.items(n, path, f, at, v)
	case String, Query:
		r.textValue(n, path, f, at, v)
	default:
		r.scalar(n, path, f, at, v)
	}
	return v
}

func (r *reader) entries(n *yaml.Node, path string, f Field, at place, v *Value) {
	v.entries = map[string]*Value{}
	var m *yamldoc.Mapping
	if f.Type.Name == Object {
		m = r.fields(n, path, f.Type.Fields)
	} else {
		m = r.d.Mapping(n, path)
	}
	if m == nil {
		return
	}
	for _, pair := range m.Pairs {
		ef, ok := fieldNamed(f.Type.Fields, pair.Name)
		if f.Type.Name == Map {
			ef, ok = elemField(pair.Name, f.Type), true
		}
		if ok {
			v.entries[pair.Name] = r.value(pair.Value, m.At(pair.Name), ef, at)
		}
	}
	for _, ef := range f.Type.Fields {
		if ef.Required && !m.Has(ef.Name) {
			r.d.Report(n, path, "missing field "+ef.Name, "")
		}
	}
}

func (r *reader) items(n *yaml.Node, path string, f Field, at place, v *Value) {
	v.items = []*Value{}
	if n.Kind != yaml.SequenceNode {
		r.d.Report(n, path, "want a list, got "+yamldoc.Describe(n), "")
		return
	}
	for i, item := range n.Content {
		name := fmt.Sprintf("%s[%d]", path, i)
		v.items = append(v.items, r.value(item, name, elemField(name, f.Type), at))
	}
}

// elemField returns the field of an element of a list or map; a text if the
// kind does not declare it.
func elemField(name string, t Type) Field {
	if t.Elem == nil {
		return Field{Name: name, Type: Type{Name: String}}
	}
	return Field{Name: name, Type: *t.Elem}
}

func (r *reader) textValue(n *yaml.Node, path string, f Field, at place, v *Value) {
	text, ok := r.d.Text(n, path)
	if !ok {
		return
	}
	if strings.TrimSpace(text) == "" {
		r.d.Report(n, path, "empty", "")
		return
	}
	parts, errs := compileText(text, f.Type.Name == Query, at)
	if len(errs) > 0 {
		r.d.reportExpr(n, path, errs)
		return
	}
	v.parts = parts
	r.saw(at, n, path, v)
	if f.Type.Name == Query {
		r.p.selectors = append(r.p.selectors, r.selectors(n, path, parts)...)
	}
	if len(parts) == 1 && parts[0].expr == nil {
		v.parts, v.constant = nil, parts[0].text
		if _, err := conform(parts[0].text, f); err != nil {
			r.d.Report(n, path, fmt.Sprintf("unknown %s %q", f.Name, yamldoc.Clip(text)), yamldoc.DidYouMean(text, f.Words()))
		}
	}
}

// saw records the expressions of a value for the analysis.
func (r *reader) saw(at place, n *yaml.Node, path string, v *Value) {
	for _, x := range v.expressions() {
		r.seen = append(r.seen, sighting{state: at.state, node: n, path: path, expr: x})
	}
}

// scalar reads a number, bool or duration, or one ${...} that yields it.
func (r *reader) scalar(n *yaml.Node, path string, f Field, at place, v *Value) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, "${") {
		*v = *r.templateAt(n, path, n.Value, f, at)
		return
	}
	constant, message, hint := constantOf(n, f)
	if message != "" {
		r.d.Report(n, path, message, hint)
		return
	}
	stored, err := conform(constant, f)
	if err != nil {
		r.d.Report(n, path, f.Name+" "+err.Error(), "")
		return
	}
	v.constant = stored
}

// templateAt reads text, which is a node's or the end of it, as one ${...} that
// yields the field.
func (r *reader) templateAt(n *yaml.Node, path, text string, f Field, at place) *Value {
	v := &Value{source: text, field: f}
	skipped := utf8.RuneCountInString(n.Value[:strings.LastIndex(n.Value, text)])
	x, errs := compileScalar(text, f.Type.Name, at)
	r.d.reportExpr(n, path, shift(errs, skipped))
	if x != nil {
		x.offset += skipped
	}
	v.expr = x
	r.saw(at, n, path, v)
	return v
}

// constantOf reads a scalar of a type. An error is returned as a message.
func constantOf(n *yaml.Node, f Field) (v any, message, hint string) {
	switch f.Type.Name {
	case Int:
		if i, ok := yamldoc.Int(n); ok {
			return i, "", ""
		}
	case Double:
		if f, ok := yamldoc.Float(n); ok {
			return f, "", ""
		}
	case Bool:
		if b, ok := yamldoc.Bool(n); ok {
			return b, "", ""
		}
	case Duration:
		_, most := durationLimits(f)
		return yamldoc.Duration(n, most)
	}
	return nil, fmt.Sprintf("want %s or ${...}, got %s", article(f.Type.Name), yamldoc.Describe(n)), ""
}

func article(t TypeName) string {
	switch t {
	case Int:
		return "a whole number"
	case Double:
		return "a number"
	case Bool:
		return "true or false"
	default:
		return "a " + string(t)
	}
}
