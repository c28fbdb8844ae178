package playbook

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"cel.dev/cel-go/cel"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Wait is how long a wait state waits: for a time, or until its check has held
// for a while. The step and the parameters of the check are the state's.
type Wait struct {
	For *Value // duration; nil: Until

	Until  *Condition // over the check's evidence, which is out
	Hold   *Value     // duration for which Until must hold without interruption; nil: once is enough
	Every  *Value     // duration between two checks
	Within *Value     // duration until the deadline; then the signal is expired
}

// Limits and defaults of a wait.
const (
	maxWait      = 30 * 24 * time.Hour
	maxEvery     = time.Hour
	leastWait    = 5 * time.Second
	defaultEvery = time.Minute
)

// waitFields lists the fields of the long form of wait.
func waitFields() []string { return []string{"check", "with", "until", "hold", "every", "within"} }

// waitStep returns the long form's mapping and the name of its check; nil for
// the short form. Errors are reported when the state is read.
func waitStep(m *yamldoc.Mapping) (n *yaml.Node, check string) {
	n = m.Get(string(StateWait))
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == string(StateCheck) {
			return n, n.Content[i+1].Value
		}
	}
	return n, ""
}

// wait reads a wait state.
func (r *reader) wait(m *yamldoc.Mapping, s *State, at place) *Wait {
	n, path := m.Get(string(StateWait)), m.At(string(StateWait))
	if n.Kind == yaml.ScalarNode {
		return &Wait{For: r.number(n, path, numberFor, at)}
	}
	wm := r.d.Mapping(n, path, waitFields()...)
	if wm == nil {
		return nil
	}
	w := &Wait{Every: constantDuration(NumberEvery, defaultEvery)}
	check := wm.Need("check", "the check that is asked again and again, e.g. slo.burn; a plain wait is a duration: wait: 10m")
	if check == nil {
		return w
	}
	if k := r.c.kinds[s.Step]; k != nil {
		s.With = r.with(wm, k, nil, at)
		if until := wm.Need("until", `the condition to wait for, e.g. out.status == "met"`); until != nil {
			w.Until = r.until1(until, wm.At("until"), s, k)
		}
	}
	if h := wm.Get("hold"); h != nil {
		w.Hold = r.number(h, wm.At("hold"), NumberHold, at)
	}
	if e := wm.Get("every"); e != nil {
		w.Every = r.number(e, wm.At("every"), NumberEvery, at)
	}
	if n := wm.Need("within", "the deadline, e.g. 2h; then the edge named expired is taken"); n != nil {
		w.Within = r.number(n, wm.At("within"), NumberWithin, at)
	}
	return w
}

// until1 reads the condition that a wait waits for.
func (r *reader) until1(n *yaml.Node, path string, s *State, k *Kind) *Condition {
	text, ok := r.d.Text(n, path)
	if !ok {
		return nil
	}
	x, errs := r.env.compile(text, &evidenceOf{state: s.Name, kind: k}, false)
	if len(errs) == 0 && !x.Type.IsExactType(cel.BoolType) {
		errs = []exprError{{Message: fmt.Sprintf("a condition must be true or false, this is %s", typeName(x.Type)), Hint: "compare it with something"}}
	}
	if len(errs) > 0 {
		r.d.reportExpr(n, path, errs)
		return nil
	}
	r.seen = append(r.seen, sighting{state: s, next: true, node: n, path: path, expr: x})
	return &Condition{expr: x}
}
