package rehearsal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// answer is what a state finds, or what becomes of it.
type answer struct {
	found  map[string]finding // checks: by the name of the evidence; of a check alone its state's name
	signal playbook.Signal    // levers and gates
	told   bool               // notify with once: another run has told it
}

// finding is what one check answers.
type finding struct {
	value map[string]any // typed as the kind declares it
	why   string         // why it does not answer; empty: it does
}

// ago is a time before the one at which a check answers.
type ago time.Duration

// at returns a value with its relative times filled in.
func at(v any, now time.Time) any {
	switch v := v.(type) {
	case ago:
		return now.Add(-time.Duration(v)).UTC().Format(time.RFC3339Nano)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = at(e, now)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = at(e, now)
		}
		return out
	default:
		return v
	}
}

// results reads the answers of states, over those that all cases have: a case
// that sets one field of a check's evidence keeps the others.
func (r *reader) results(n *yaml.Node, path string, common map[string][]answer) map[string][]answer {
	out := maps.Clone(common)
	m := r.d.Mapping(n, path)
	if m == nil {
		return out
	}
	for _, pair := range m.Pairs {
		s := r.stateNamed(pair.Key, path, pair.Name)
		if s == nil {
			continue
		}
		items := []*yaml.Node{pair.Value}
		if pair.Value.Kind == yaml.SequenceNode {
			items = pair.Value.Content
		}
		var answers []answer
		for _, item := range items {
			a := r.answer(item, m.At(pair.Name), s)
			if usual := common[s.Name]; len(usual) == 1 {
				a.found = over(usual[0].found, a.found)
			}
			answers = append(answers, a)
		}
		out[s.Name] = answers
	}
	return out
}

// over returns findings with the fields of others in place of their own.
func over(usual, own map[string]finding) map[string]finding {
	if usual == nil {
		return own
	}
	out := maps.Clone(usual)
	for name, f := range own {
		if was := out[name]; was.value != nil && f.value != nil {
			merged := maps.Clone(was.value)
			maps.Copy(merged, f.value)
			f.value = merged
		}
		out[name] = f
	}
	return out
}

// answer reads one answer of a state.
func (r *reader) answer(n *yaml.Node, path string, s *playbook.State) answer {
	switch {
	case s.Kind == playbook.StateGather:
		out := map[string]finding{}
		if m := r.d.Mapping(n, path, s.Gathers()...); m != nil {
			for _, g := range s.Gather {
				if v := m.Get(g.Name); v != nil {
					out[g.Name] = r.finding(v, m.At(g.Name), r.kinds[g.Step])
				}
			}
		}
		return answer{found: out}
	case s.Step != "" && s.Kind != playbook.StateLever: // a check, or a wait for one
		return answer{found: map[string]finding{s.Name: r.finding(n, path, r.kinds[s.Step])}}
	case s.Kind == playbook.StateLever:
		return answer{signal: playbook.Signal(r.word(n, path, signalsOf(playbook.StateLever)))}
	case s.Kind == playbook.StateGate:
		return answer{signal: playbook.Signal(r.word(n, path, signalsOf(playbook.StateGate)))}
	case s.Kind == playbook.StateNotify && s.Once != nil:
		return answer{told: r.word(n, path, []string{"first", "told"}) == "told"}
	default:
		r.d.Report(n, path, fmt.Sprintf("state %s is a %s and has no result", s.Name, s.Kind), "")
		return answer{}
	}
}

func signalsOf(kind playbook.StateKind) []string {
	var out []string
	for _, s := range playbook.SignalsOf(kind) {
		out = append(out, string(s))
	}
	return out
}

// word reads one of several words.
func (r *reader) word(n *yaml.Node, path string, words []string) string {
	text, ok := r.d.Text(n, path)
	if ok && !slices.Contains(words, text) {
		r.d.Report(n, path, fmt.Sprintf("unknown result %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, words))
	}
	return text
}

// finding reads what a check answers: its evidence, or as a text why it has none.
func (r *reader) finding(n *yaml.Node, path string, k playbook.Kind) finding {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return finding{why: n.Value}
	}
	if n.Kind != yaml.MappingNode {
		r.d.Report(n, path, "want the evidence of "+k.Name+", got "+yamldoc.Describe(n), "or a text that says why there is none")
		return finding{}
	}
	v, _ := r.object(n, path, k.Out).(map[string]any)
	return finding{value: v}
}

// object reads an object of declared fields. What is left out is absent.
func (r *reader) object(n *yaml.Node, path string, fields []playbook.Field) any {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	m := r.d.Mapping(n, path, names...)
	if m == nil {
		return nil
	}
	out := map[string]any{}
	for _, f := range fields {
		if v := m.Get(f.Name); v != nil {
			out[f.Name] = r.value(v, m.At(f.Name), f)
		}
	}
	return out
}

// value reads one value of a declared type.
func (r *reader) value(n *yaml.Node, path string, f playbook.Field) any {
	switch f.Type.Name {
	case playbook.Object:
		return r.object(n, path, f.Type.Fields)
	case playbook.Map:
		out := map[string]any{}
		if m := r.d.Mapping(n, path); m != nil {
			for _, pair := range m.Pairs {
				out[pair.Name] = r.element(pair.Value, m.At(pair.Name), f.Type.Elem)
			}
		}
		return out
	case playbook.List:
		out := []any{}
		if n.Kind != yaml.SequenceNode {
			r.d.Report(n, path, "want a list, got "+yamldoc.Describe(n), "")
		}
		for i, item := range n.Content {
			out = append(out, r.element(item, fmt.Sprintf("%s[%d]", path, i), f.Type.Elem))
		}
		return out
	default:
		return r.scalar(n, path, f)
	}
}

func (r *reader) element(n *yaml.Node, path string, t *playbook.Type) any {
	if t != nil {
		return r.value(n, path, playbook.Field{Name: path, Type: *t})
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.d.Report(n, path, err.Error(), "")
	}
	return v
}

func (r *reader) scalar(n *yaml.Node, path string, f playbook.Field) any {
	switch f.Type.Name {
	case playbook.Int:
		if v, ok := yamldoc.Int(n); ok {
			return v
		}
	case playbook.Double:
		if v, ok := yamldoc.Float(n); ok {
			return v
		}
	case playbook.Bool:
		if v, ok := yamldoc.Bool(n); ok {
			return v
		}
	case playbook.Timestamp:
		return r.moment(n, path)
	default:
		text, ok := r.d.Text(n, path)
		if ok && len(f.Enum) > 0 && !slices.Contains(f.Enum, text) {
			r.d.Report(n, path, fmt.Sprintf("%s is never %q", f.Name, yamldoc.Clip(text)), yamldoc.DidYouMean(text, f.Words()))
		}
		return text
	}
	r.d.Report(n, path, fmt.Sprintf("want %s, got %s", f.Type.Name, yamldoc.Describe(n)), "")
	return nil
}

// moment reads a time, or how long before the check it was.
func (r *reader) moment(n *yaml.Node, path string) any {
	text := n.Value
	if span, relative := strings.CutPrefix(text, "-"); relative {
		if d, err := yamldoc.ParseDuration(span); err == nil {
			return ago(d)
		}
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		r.d.Report(n, path, fmt.Sprintf("%q is no time", yamldoc.Clip(text)), "write how long before the check it was, e.g. -10m, or 2026-01-07T12:00:00Z")
	}
	return text
}
