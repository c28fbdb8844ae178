package playbook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds of times in a playbook.
const (
	maxTimeout  = time.Hour
	maxDecision = 7 * 24 * time.Hour
	maxProof    = 24 * time.Hour
	maxCooldown = 7 * 24 * time.Hour
	maxAge      = 24 * time.Hour
	maxBackoff  = 10 * time.Minute
	maxAttempts = 10
	leastSample = time.Second

	defaultInterval   = 15 * time.Second
	defaultMaxBurn    = 1.0
	defaultMinTraffic = 0.5
)

// reader reads the states of one playbook.
type reader struct {
	c     *compiler
	d     *document
	p     *Playbook
	names []string // of all states
	env   *environments
	nodes map[*State]*mapping
	seen  []sighting

	// broken says that states or edges could not be read: what the graph then
	// lacks would be reported twice.
	broken bool
}

// sighting is an expression with its place, for the analysis of evidence.
type sighting struct {
	state *State
	next  bool // in the state's next, where its own evidence is there
	node  *yaml.Node
	path  string
	expr  *expression
}

// reader finds out which state gathers which evidence and prepares CEL for it.
func (c *compiler) reader(d *document, p *Playbook, nodes []stateNode) *reader {
	r := &reader{c: c, d: d, p: p, nodes: map[*State]*mapping{}}
	checks := map[string]evidenceOf{}
	for _, sn := range nodes {
		r.names = append(r.names, sn.state.Name)
		r.nodes[sn.state] = sn.m
		r.kindOf(sn)
		if k := c.kinds[sn.state.Step]; k != nil && sn.state.Kind == StateCheck {
			checks[variableOf(sn.state.Name)] = evidenceOf{state: sn.state.Name, kind: k}
		}
	}
	env, err := c.environments(checks, r.names)
	if err != nil {
		d.report(nil, "", err.Error(), "")
		return nil
	}
	r.env = env
	return r
}

// stateKinds are the keys of which a state has exactly one.
func stateKinds() []string {
	return []string{string(StateCheck), string(StateLever), string(StateGate), string(StateDivert), string(StateNotify), string(StateEnd)}
}

// fieldsOf are the keys a state of a kind may have beside its kind's.
func fieldsOf(kind StateKind) []string {
	switch kind {
	case StateCheck:
		return []string{"title", "with", "next", "on_error", "timeout", "retry"}
	case StateLever:
		return []string{"title", "with", "autonomy", "approve", "verify", "guards", "next", "timeout", "retry"}
	case StateGate:
		return []string{"title", "approve", "next"}
	case StateNotify:
		return []string{"title", "next", "timeout", "retry"}
	default:
		return []string{"title"}
	}
}

// kindOf reads which kind of state it is and, for steps, which step.
func (r *reader) kindOf(sn stateNode) {
	var found []string
	for _, k := range stateKinds() {
		if sn.m.has(k) {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		message := "no kind: a state has one of " + strings.Join(stateKinds(), ", ")
		if len(found) > 1 {
			message = strings.Join(found, " and ") + " in one state"
		}
		r.d.report(r.keyOf(sn), sn.m.path, message, "one state does one thing")
		r.broken = true
		return
	}
	s := sn.state
	s.Kind = StateKind(found[0])
	allowed := append([]string{found[0]}, fieldsOf(s.Kind)...)
	for _, pair := range sn.m.pairs {
		if !slices.Contains(allowed, pair.name) {
			r.d.report(pair.key, sn.m.path, fmt.Sprintf("%s state has no field %q", s.Kind, clip(pair.name)), didYouMean(pair.name, allowed))
		}
	}
	if title := sn.m.text("title"); title != "" {
		s.Title = title
	}
	if s.Kind == StateCheck || s.Kind == StateLever {
		r.stepOf(sn, found[0])
	}
}

// stepOf reads the name of a check or lever.
func (r *reader) stepOf(sn stateNode, key string) {
	n := sn.m.get(key)
	name, ok := r.d.text(n, sn.m.at(key))
	if !ok {
		return
	}
	names, role := r.c.checks, RoleCheck
	if sn.state.Kind == StateLever {
		names, role = r.c.levers, RoleLever
	}
	k := r.c.kinds[name]
	switch {
	case k == nil:
		r.d.report(n, sn.m.at(key), fmt.Sprintf("there is no %s %q", key, clip(name)), didYouMean(name, names))
	case k.Role != role:
		r.d.report(n, sn.m.at(key), fmt.Sprintf("%s is a %s", name, k.Role), fmt.Sprintf("write %s: %s", k.Role, name))
	default:
		sn.state.Step = name
	}
}

// keyOf gives a node at the state's name, for messages about the whole state.
func (r *reader) keyOf(sn stateNode) *yaml.Node {
	return &yaml.Node{Line: sn.state.Line - r.d.line, Column: sn.state.Column}
}

// state reads the rest of one state.
func (r *reader) state(sn stateNode) {
	s, m := sn.state, sn.m
	at := place{env: r.env, state: s}
	switch s.Kind {
	case StateCheck, StateLever:
		if k := r.c.kinds[s.Step]; k != nil {
			s.With = r.with(m, k, at)
		}
		s.Retry = r.retry(m, s)
	case StateGate, StateNotify:
		s.Message = r.value(m.get(string(s.Kind)), m.at(string(s.Kind)), Field{Name: string(s.Kind), Type: Type{Name: String}}, at)
		s.Retry = r.retry(m, s)
	case StateDivert:
		s.Divert = r.divert(m)
	case StateEnd:
		s.End = r.end(m)
	}
	m = m.only(append(fieldsOf(s.Kind), string(s.Kind)))
	s.Timeout = m.duration("timeout", maxTimeout)
	if n := m.get("autonomy"); n != nil {
		level := r.d.autonomy(n, m.at("autonomy"))
		s.Autonomy = &level
	}
	if n := m.get("approve"); n != nil {
		s.Approve = r.approve(n, m.at("approve"))
	}
	if n := m.get("verify"); n != nil {
		s.Verify = r.verify(n, m.at("verify"), at)
	}
	if n := m.get("guards"); n != nil {
		s.Guards = r.guards(n, m.at("guards"))
	}
	if n := m.get("on_error"); n != nil {
		s.OnError = r.target(n, m.at("on_error"))
	}
	if n := m.get("next"); n != nil {
		s.Next = r.edges(n, m.at("next"), s)
	}
}

func (r *reader) divert(m *mapping) string {
	n := m.get(string(StateDivert))
	name, ok := r.d.text(n, m.at(string(StateDivert)))
	switch {
	case !ok:
	case !nameForm.MatchString(name):
		r.d.report(n, m.at(string(StateDivert)), fmt.Sprintf("%q is not a playbook's name", clip(name)), nameHint)
	case name == r.p.Name:
		r.d.report(n, m.at(string(StateDivert)), "a playbook cannot divert to itself", "name another playbook or end the run")
	}
	return name
}

func (r *reader) end(m *mapping) Outcome {
	n := m.get(string(StateEnd))
	word, ok := r.d.text(n, m.at(string(StateEnd)))
	if !ok {
		return ""
	}
	words := []string{string(EndResolved), string(EndEscalated), string(EndNoAction)}
	if !slices.Contains(words, word) {
		r.d.report(n, m.at(string(StateEnd)), fmt.Sprintf("a run cannot end %q", clip(word)), didYouMean(word, words))
	}
	return Outcome(word)
}

func (r *reader) retry(m *mapping, s *State) Retry {
	n := m.get("retry")
	if n == nil {
		return Retry{}
	}
	rm := r.d.mapping(n, m.at("retry"), "attempts", "backoff")
	if rm == nil {
		return Retry{}
	}
	out := Retry{Backoff: rm.duration("backoff", maxBackoff)}
	out.Attempts, _ = rm.integer("attempts", 1, maxAttempts)
	if k := r.c.kinds[s.Step]; s.Kind == StateLever && k != nil && !k.Idempotent && out.Attempts > 1 {
		r.d.report(rm.get("attempts"), rm.at("attempts"), s.Step+" is not idempotent: it is applied once", "leave retry out")
	}
	return out
}

// target reads the name of another state.
func (r *reader) target(n *yaml.Node, path string) string {
	name, ok := r.d.text(n, path)
	r.broken = r.broken || r.p.byName[name] == nil
	if ok && r.p.byName[name] == nil {
		r.d.report(n, path, fmt.Sprintf("there is no state %q", clip(name)), didYouMean(name, r.names))
	}
	return name
}
