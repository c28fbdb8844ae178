package playbook

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// maxGather limits the checks of one gather state.
const maxGather = 16

// gathering reads the names and kinds of a gather's checks and adds them to the
// evidence that expressions can name.
func (r *reader) gathering(sn stateNode, checks map[string]evidenceOf) {
	n := sn.m.Get(string(StateGather))
	m := r.d.Mapping(n, sn.m.At(string(StateGather)))
	if m == nil {
		return
	}
	if len(m.Pairs) == 0 || len(m.Pairs) > maxGather {
		r.d.Report(n, m.Path, fmt.Sprintf("%d checks, want 1 to %d", len(m.Pairs), maxGather), "e.g. {slo: {check: slo.burn}, gpus: {check: gpu.health}}")
	}
	for _, pair := range m.Pairs {
		cm := r.d.Mapping(pair.Value, m.At(pair.Name), "check", "with")
		if !r.evidenceName(pair.Key, m.At(pair.Name), pair.Name, checks) || cm == nil || cm.Need("check", "the kind of check, e.g. slo.burn") == nil {
			r.broken = true
			continue
		}
		if kind := r.kindNamed(cm.Get("check"), cm.At("check"), "check", RoleCheck); kind != "" {
			r.gathers[pair.Name] = cm
			sn.state.Gather = append(sn.state.Gather, Gathering{Name: pair.Name, Step: kind})
			checks[variableOf(pair.Name)] = evidenceOf{state: sn.state.Name, name: pair.Name, kind: r.c.kinds[kind], gathered: true}
		}
	}
}

// evidenceName reports whether a word can name evidence of its own: it is no
// variable, no state and no other evidence.
func (r *reader) evidenceName(n *yaml.Node, path, name string, checks map[string]evidenceOf) bool {
	other, taken := checks[variableOf(name)]
	i := slices.IndexFunc(r.p.States, func(s *State) bool { return variableOf(s.Name) == variableOf(name) })
	switch {
	case !nameForm.MatchString(name):
		r.d.Report(n, path, fmt.Sprintf("invalid name of evidence %q", yamldoc.Clip(name)), nameHint)
	case reservedName(variableOf(name)):
		r.d.Report(n, path, fmt.Sprintf("%q is reserved in expressions", name), "choose another name")
	case i >= 0:
		r.d.Report(n, path, fmt.Sprintf("evidence %s has the name of a state", name), "choose another name")
	case taken:
		r.d.Report(n, path, fmt.Sprintf("evidence %s is already gathered in state %s", name, other.state), "names of evidence are unique in a playbook")
	default:
		return true
	}
	return false
}

// doubts checks what a run does when a check of a gather does not answer: it
// must not change anything, or end well, because something is unknown.
func (r *reader) doubts(s *State) {
	for i, e := range s.Next {
		path := fmt.Sprintf("%s.next[%d]", r.pathOf(s), i)
		lever, _ := r.p.acts(e.To)
		switch {
		case e.When != nil:
			r.doubt(s, e, path)
		case s.Kind != StateGather || !r.complete(s, i):
		case lever:
			r.d.Report(r.atEdge(e), path, "leads to a lever without a condition, also when a check of this gather did not answer",
				"give the lever a condition that is true on known evidence, and lead the last edge to people")
		default:
			if way := r.unproven(e.To, EndResolved, EndNoAction); way != nil {
				r.d.Report(r.atEdge(e), path, fmt.Sprintf("ends %s without a condition, also when a check of this gather did not answer%s", r.endOf(way), over(s, way)),
					"give it a condition that is true on known evidence, and lead the last edge to people; unknown is not resolved")
			}
		}
	}
}

// doubt reports an edge that is taken because evidence is unknown, and leads to
// a lever or to an end that says all is well.
func (r *reader) doubt(s *State, e Edge, path string) {
	name := e.When.expr.trueIfUnknown()
	if name == "" {
		return
	}
	if lever, _ := r.p.acts(e.To); lever {
		r.d.Report(r.atEdge(e), path, fmt.Sprintf("leads to a lever because %s is unknown", name), "lead to people, or to another check; unknown is no reason for a change")
		return
	}
	if way := r.unproven(e.To, EndResolved, EndNoAction); way != nil {
		r.d.Report(r.atEdge(e), path, fmt.Sprintf("ends %s because %s is unknown%s", r.endOf(way), name, over(s, way)), "lead to people, or to another check; unknown is not resolved")
	}
}

// trueIfUnknown returns gathered evidence whose being unknown makes the
// condition true, whatever everything else is; empty: there is none.
func (x *compiled) trueIfUnknown() string {
	for _, u := range x.uses {
		if !u.gathered {
			continue
		}
		unknown := []string{u.Name + "." + whyField}
		for _, f := range u.fields {
			unknown = append(unknown, u.Name+"."+f.Name)
		}
		for _, other := range x.uses {
			if other.Name != u.Name {
				unknown = append(unknown, other.Name)
			}
		}
		v, known, err := x.EvalPartly(map[string]any{u.Name: map[string]any{knownField: false}}, unknown...)
		if holds, ok := v.(bool); err == nil && known && ok && holds {
			return u.evidence
		}
	}
	return ""
}
