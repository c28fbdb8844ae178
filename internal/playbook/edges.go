package playbook

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// edges reads next: the name of a state, or a list of edges.
func (r *reader) edges(n *yaml.Node, path string, s *State) []Edge {
	if n.Kind == yaml.ScalarNode {
		return []Edge{{To: r.target(n, path), Line: r.d.Line + n.Line, Column: n.Column}}
	}
	if n.Kind != yaml.SequenceNode {
		r.d.Report(n, path, "want a state's name or a list of edges, got "+yamldoc.Describe(n), "e.g. [{when: 'out.value > 1', to: a}, {to: b}]")
		r.broken = true
		return nil
	}
	var out []Edge
	for i, item := range n.Content {
		ep := fmt.Sprintf("%s[%d]", path, i)
		m := r.d.Mapping(item, ep, "when", "on", "to", "label")
		if m == nil {
			r.broken = true
			continue
		}
		e := Edge{Label: m.Text("label"), Line: r.d.Line + item.Line, Column: item.Column}
		if to := m.Need("to", "the state this edge leads to"); to != nil {
			e.To = r.target(to, m.At("to"))
		} else {
			r.broken = true
		}
		r.condition(m, s, &e)
		out = append(out, e)
	}
	return out
}

// condition reads when and on of an edge.
func (r *reader) condition(m *yamldoc.Mapping, s *State, e *Edge) {
	when, on := m.Get("when"), m.Get("on")
	if when != nil && on != nil {
		r.d.Report(on, m.Path, "an edge has both when and on", "write two edges")
		return
	}
	if on != nil {
		if word, ok := r.d.Text(on, m.At("on")); ok {
			e.On = r.signal(on, m.At("on"), word, s)
		}
		return
	}
	if when == nil {
		return
	}
	text, ok := r.d.Text(when, m.At("when"))
	if !ok {
		return
	}
	if word := strings.TrimSpace(text); signalOf(word) != "" && len(SignalsOf(s.Kind)) > 0 {
		e.On = r.signal(when, m.At("when"), word, s)
		return
	}
	var out *evidenceOf
	if k := r.c.kinds[s.Step]; k != nil {
		out = &evidenceOf{state: s.Name, name: s.Name, kind: k}
	} else if s.Kind == StateNotify && r.nodes[s].Has("once") {
		told := toldBy(s)
		out = &told
	}
	if out == nil && (s.Kind == StateCheck || s.Kind == StateLever || s.Kind == StateWait && s.Wait != nil && s.Wait.For == nil) {
		return // the unknown step is reported already; errors about out would repeat it
	}
	x, errs := r.env.compile(text, out, false)
	if len(errs) == 0 && !x.Type.IsExactType(cel.BoolType) {
		errs = []exprError{{Message: fmt.Sprintf("a condition must be true or false, this is %s", typeName(x.Type)), Hint: "compare it with something"}}
	}
	if len(errs) > 0 {
		r.d.reportExpr(when, m.At("when"), errs)
		return
	}
	e.When = &Condition{expr: x}
	r.seen = append(r.seen, sighting{state: s, next: true, node: when, path: m.At("when"), expr: x})
}

// SignalsOf returns the signals of a kind of state; only levers, gates and waits
// have any.
func SignalsOf(kind StateKind) []Signal {
	switch kind {
	case StateLever:
		return append(Verdicts(), OnRefused, OnDenied, OnExpired)
	case StateGate:
		return []Signal{OnApproved, OnDenied, OnExpired}
	case StateWait:
		return []Signal{OnHeld, OnExpired}
	default:
		return nil
	}
}

func (r *reader) signal(n *yaml.Node, path, word string, s *State) Signal {
	allowed := SignalsOf(s.Kind)
	if slices.Contains(allowed, Signal(word)) {
		return Signal(word)
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	hint := yamldoc.DidYouMean(word, words)
	if len(words) == 0 {
		hint = "only levers, gates and waits have signals; write a condition in when"
	}
	r.d.Report(n, path, fmt.Sprintf("a %s has no signal %q", s.Kind, yamldoc.Clip(word)), hint)
	return ""
}

// Text returns what the edge is taken on: its label, signal or condition; empty
// for an edge that is always taken and has no label.
func (e Edge) Text() string {
	switch {
	case e.Label != "":
		return e.Label
	case e.On != "":
		return string(e.On)
	case e.When != nil:
		return e.When.Source()
	default:
		return ""
	}
}

// always reports whether the edge is taken unconditionally.
func (e Edge) always() bool { return e.When == nil && e.On == "" }
