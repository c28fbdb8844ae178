package playbook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Limits of times in a playbook.
const (
	maxTimeout  = time.Hour
	maxDecision = 7 * 24 * time.Hour
	maxQuorum   = 100
	maxProof    = 24 * time.Hour
	maxCooldown = 7 * 24 * time.Hour
	maxAge      = 24 * time.Hour
	maxReady    = 100_000
	maxBackoff  = 10 * time.Minute
	maxAttempts = 10
	leastSample = time.Second

	defaultInterval   = 15 * time.Second
	defaultWithin     = 20 * time.Minute // of a proof by the service's objectives
	defaultHold       = 3 * time.Minute
	defaultMaxBurn    = 1.0
	defaultMinTraffic = 0.5
)

// reader reads the states of one playbook.
type reader struct {
	c     *compiler
	d     document
	p     *Playbook
	names []string // of all states
	env   *environments
	nodes map[*State]*yamldoc.Mapping
	seen  []sighting

	misspelt map[*State]bool // it has an unknown field: what seems to be missing may be there

	gathers map[string]*yamldoc.Mapping // the checks inside gather states, by the name of their evidence

	// broken is set if states or edges could not be read: what the graph then
	// lacks would be reported twice.
	broken bool
}

// sighting is an expression with its place, for the analysis of evidence.
type sighting struct {
	state *State
	next  bool // in the state's next, where its own evidence exists
	node  *yaml.Node
	path  string
	expr  *compiled
}

// reader collects which state gathers which evidence and prepares CEL for it.
func (c *compiler) reader(d document, p *Playbook, nodes []stateNode) *reader {
	r := &reader{c: c, d: d, p: p, nodes: map[*State]*yamldoc.Mapping{}, misspelt: map[*State]bool{}, gathers: map[string]*yamldoc.Mapping{}}
	checks := map[string]evidenceOf{}
	for _, sn := range nodes {
		r.names = append(r.names, sn.state.Name)
		r.nodes[sn.state] = sn.m
		r.kindOf(sn)
		if k := c.kinds[sn.state.Step]; k != nil && (sn.state.Kind == StateCheck || sn.state.Kind == StateWait) {
			checks[variableOf(sn.state.Name)] = evidenceOf{state: sn.state.Name, name: sn.state.Name, kind: k}
		}
		if sn.state.Kind == StateNotify && sn.m.Has("once") {
			checks[variableOf(sn.state.Name)] = toldBy(sn.state)
		}
	}
	for _, sn := range nodes {
		if sn.state.Kind == StateGather {
			r.gathering(sn, checks)
		}
	}
	env, err := c.environments(checks, r.names)
	if err != nil {
		d.Report(nil, "", err.Error(), "")
		return nil
	}
	r.env = env
	return r
}

// stateKinds lists the keys of which a state has exactly one.
func stateKinds() []string {
	return []string{string(StateCheck), string(StateGather), string(StateLever), string(StateGate), string(StateWait), string(StateDivert), string(StateNotify), string(StateEnd)}
}

// fieldsOf lists the further keys that a state of a kind may have.
func fieldsOf(kind StateKind) []string {
	switch kind {
	case StateCheck:
		return []string{"title", "with", "next", "on_error", "timeout", "retry"}
	case StateGather:
		return []string{"title", "next", "timeout"}
	case StateLever:
		return []string{"title", "with", "autonomy", "step", "approve", "verify", "undo", "guards", "next", "timeout", "retry"}
	case StateGate:
		return []string{"title", "approve", "next"}
	case StateWait:
		return []string{"title", "next", "timeout"}
	case StateNotify:
		return []string{"title", "to", "once", "next", "timeout", "retry"}
	default:
		return []string{"title"}
	}
}

// kindOf reads the kind of a state and, for checks and levers, its step.
func (r *reader) kindOf(sn stateNode) {
	var found []string
	for _, k := range stateKinds() {
		if sn.m.Has(k) {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		message := "missing kind: want one of " + strings.Join(stateKinds(), ", ")
		if len(found) > 1 {
			message = strings.Join(found, " and ") + " in one state"
		}
		r.d.Report(r.keyOf(sn), sn.m.Path, message, "a state has exactly one kind")
		r.broken = true
		return
	}
	s := sn.state
	s.Kind = StateKind(found[0])
	allowed := append([]string{found[0]}, fieldsOf(s.Kind)...)
	for _, pair := range sn.m.Pairs {
		if !slices.Contains(allowed, pair.Name) {
			r.misspelt[s] = s.Kind == StateCheck || s.Kind == StateLever
			r.d.Report(pair.Key, sn.m.Path, fmt.Sprintf("%s state has no field %q", s.Kind, yamldoc.Clip(pair.Name)), yamldoc.DidYouMean(pair.Name, allowed))
		}
	}
	if title := sn.m.Text("title"); title != "" {
		s.Title = title
	}
	switch s.Kind {
	case StateCheck, StateLever:
		role := map[bool]Role{true: RoleLever, false: RoleCheck}[s.Kind == StateLever]
		s.Step = r.kindNamed(sn.m.Get(found[0]), sn.m.At(found[0]), found[0], role)
	case StateWait:
		if n, check := waitStep(sn.m); check != "" {
			s.Step = r.kindNamed(mappingValue(n, string(StateCheck)), sn.m.At(found[0])+".check", string(StateCheck), RoleCheck)
		}
	}
}

// mappingValue returns the value of a key of a mapping that has it.
func mappingValue(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil // unreachable unless the caller did not look
}

// kindNamed reads the name of a kind of this role; empty if there is none.
func (r *reader) kindNamed(n *yaml.Node, path, key string, role Role) string {
	name, ok := r.d.Text(n, path)
	if !ok {
		return ""
	}
	names := r.c.checks
	if role == RoleLever {
		names = r.c.levers
	}
	k := r.c.kinds[name]
	switch {
	case k == nil:
		r.d.Report(n, path, fmt.Sprintf("unknown %s %q", key, yamldoc.Clip(name)), yamldoc.DidYouMean(name, names))
	case k.Role != role:
		r.d.Report(n, path, fmt.Sprintf("%s is a %s", name, k.Role), fmt.Sprintf("write %s: %s", k.Role, name))
	default:
		return name
	}
	return ""
}

// keyOf returns the node of the state's name, for messages about the whole
// state.
func (r *reader) keyOf(sn stateNode) *yaml.Node {
	return &yaml.Node{Line: sn.state.Line - r.d.Line, Column: sn.state.Column}
}

// state reads the rest of one state.
func (r *reader) state(sn stateNode) {
	s, m := sn.state, sn.m
	at := place{env: r.env, state: s}
	switch s.Kind {
	case StateCheck, StateLever:
		if k := r.c.kinds[s.Step]; k != nil {
			s.Steps = r.stepwise(m, s, k, at)
			s.With, s.Request, s.Restarts = r.with(m, k, s.Steps, at), k.Request, k.Restarts
			if s.Kind == StateLever {
				s.Class = cmp.Or(k.Class, ClassSetting)
			}
			if r.onNode(s) {
				r.evident(m, s)
			}
			if s.Steps != nil {
				r.stepped(m, s)
			}
		}
		s.Retry = r.retry(m, s, at)
	case StateGather:
		for i := range s.Gather {
			g := &s.Gather[i]
			g.With = r.with(r.gathers[g.Name], r.c.kinds[g.Step], nil, at)
		}
	case StateGate, StateNotify:
		s.Message = r.value(m.Get(string(s.Kind)), m.At(string(s.Kind)), Field{Name: string(s.Kind), Type: Type{Name: String}}, at)
		s.Retry = r.retry(m, s, at)
		if n := m.Get("once"); n != nil && s.Kind == StateNotify {
			s.Once = r.value(n, m.At("once"), Field{Name: "once", Type: Type{Name: String}}, at)
		}
	case StateWait:
		s.Wait = r.wait(m, s, at)
	case StateDivert:
		s.Divert = r.divert(m)
	case StateEnd:
		s.End = r.end(m)
	}
	m = m.Only(append(fieldsOf(s.Kind), string(s.Kind)))
	if n := m.Get("timeout"); n != nil {
		s.Timeout = r.number(n, m.At("timeout"), NumberTimeout, at)
	}
	if n := m.Get("to"); n != nil {
		s.To = r.channels(n, m.At("to"))
	}
	if n := m.Get("autonomy"); n != nil {
		level := r.d.autonomy(n, m.At("autonomy"))
		s.Autonomy = &level
	}
	if n := m.Get("approve"); n != nil {
		s.Approve = r.approve(n, m.At("approve"), r.onNode(s), at)
	}
	if n := m.Get("verify"); n != nil && s.Class == ClassHold {
		r.d.Report(n, m.At("verify"), "a lever of class hold takes no verify", "it heals nothing: the proof is that the rollout stands still")
	} else if n != nil {
		s.Verify = r.verify(n, m.At("verify"), at)
	} else if s.Kind == StateLever {
		s.Verify = proofOf(s.Class)
	}
	if n := m.Get("undo"); n != nil {
		s.Undo = r.undo(n, m.At("undo"), s.Class)
	}
	if n := m.Get("guards"); n != nil {
		s.Guards = r.guards(n, m.At("guards"), at)
	}
	if n := m.Get("on_error"); n != nil {
		s.OnError = r.target(n, m.At("on_error"))
	}
	if n := m.Get("next"); n != nil {
		s.Next = r.edges(n, m.At("next"), s)
	}
}

// undo reads after which verdicts a lever's change is taken back at once. It can
// only tighten what the class says: faulty hardware never goes back because an
// SLO is red, and a rollback is never undone for being slow.
func (r *reader) undo(n *yaml.Node, path string, class Class) []Signal {
	allowed := []string{string(OnNoEffect), string(OnInconclusive)}
	switch class {
	case ClassHardware, ClassRepaired:
		r.d.Report(n, path, fmt.Sprintf("a lever of class %s has no undo", class), "the evidence about the hardware decides, not the SLO")
		return nil
	case ClassHold:
		r.d.Report(n, path, "a lever of class hold has no undo", "taken back, the release that it holds would go on")
		return nil
	case ClassRollback:
		allowed = allowed[:1]
	}
	var out []Signal
	texts, nodes := r.d.Texts(n, path)
	for i, text := range texts {
		if !slices.Contains(allowed, text) {
			r.d.Report(nodes[i], path, fmt.Sprintf("%q is no verdict that can be undone", yamldoc.Clip(text)), yamldoc.DidYouMean(text, allowed))
			continue
		}
		out = append(out, Signal(text))
	}
	return out
}

// channels reads the channels of a notify state. The service checks the names
// against its configuration when it loads the playbook.
func (r *reader) channels(n *yaml.Node, path string) []string {
	names, nodes := r.d.Texts(n, path)
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.d.Report(n, path, "no channels", "name configured channels, or remove 'to' to use the default ones")
	}
	for i, name := range names {
		switch {
		case !nameForm.MatchString(name):
			r.d.Report(nodes[i], path, fmt.Sprintf("invalid channel name %q", yamldoc.Clip(name)), nameHint)
		case slices.Contains(names[:i], name):
			r.d.Report(nodes[i], path, fmt.Sprintf("duplicate channel %q", name), "keep one")
		}
	}
	return names
}

func (r *reader) divert(m *yamldoc.Mapping) string {
	n := m.Get(string(StateDivert))
	name, ok := r.d.Text(n, m.At(string(StateDivert)))
	switch {
	case !ok:
	case !nameForm.MatchString(name):
		r.d.Report(n, m.At(string(StateDivert)), fmt.Sprintf("invalid playbook name %q", yamldoc.Clip(name)), nameHint)
	case name == r.p.Name:
		r.d.Report(n, m.At(string(StateDivert)), "a playbook cannot divert to itself", "name another playbook or end the run")
	}
	return name
}

func (r *reader) end(m *yamldoc.Mapping) Outcome {
	n := m.Get(string(StateEnd))
	word, ok := r.d.Text(n, m.At(string(StateEnd)))
	if !ok {
		return ""
	}
	words := []string{string(EndResolved), string(EndEscalated), string(EndNoAction)}
	if !slices.Contains(words, word) {
		r.d.Report(n, m.At(string(StateEnd)), fmt.Sprintf("unknown outcome %q", yamldoc.Clip(word)), yamldoc.DidYouMean(word, words))
	}
	return Outcome(word)
}

// retry reads how often a step is attempted. A lever that is not idempotent is
// applied once, so its attempts must be known now.
func (r *reader) retry(m *yamldoc.Mapping, s *State, at place) Retry {
	n := m.Get("retry")
	if n == nil {
		return Retry{}
	}
	rm := r.d.Mapping(n, m.At("retry"), "attempts", "backoff")
	if rm == nil {
		return Retry{}
	}
	var out Retry
	if n := rm.Get("backoff"); n != nil {
		out.Backoff = r.number(n, rm.At("backoff"), NumberBackoff, at)
	}
	if n := rm.Get("attempts"); n != nil {
		out.Attempts = r.number(n, rm.At("attempts"), NumberAttempts, at)
	}
	once := out.Attempts == nil || out.Attempts.expr == nil && out.Attempts.constant == nil || out.Attempts.constant == int64(1)
	if k := r.c.kinds[s.Step]; s.Kind == StateLever && k != nil && !k.Idempotent && !once {
		r.d.Report(rm.Get("attempts"), rm.At("attempts"), s.Step+" is not idempotent and is applied once", "remove retry")
	}
	return out
}

// target reads the name of another state.
func (r *reader) target(n *yaml.Node, path string) string {
	name, ok := r.d.Text(n, path)
	r.broken = r.broken || r.p.byName[name] == nil
	if ok && r.p.byName[name] == nil {
		r.d.Report(n, path, fmt.Sprintf("unknown state %q", yamldoc.Clip(name)), yamldoc.DidYouMean(name, r.names))
	}
	return name
}

// evident requires that the node of a lever is read from the evidence of checks.
// Whoever can send an alert writes its labels.
func (r *reader) evident(m *yamldoc.Mapping, s *State) {
	node := s.With["node"]
	if node == nil {
		return // reported before
	}
	from := "a constant"
	for _, x := range node.expressions() {
		for _, u := range x.uses {
			if u.state != "" && from == "a constant" {
				from = ""
			} else if u.state == "" {
				from = u.Name
			}
		}
	}
	switch {
	case from != "":
	case slices.ContainsFunc(node.parts, func(p part) bool { return p.expr == nil && p.text != "" }):
		from = "a text around it"
	}
	if from != "" {
		r.unsafe(s, mappingValue(m.Get("with"), "node"), m.At("with.node"), "the node of a lever must be read from the evidence of a check, not from "+from,
			"check that node first, e.g. look: {check: gpu.health, with: {node: ...}}, and write ${look.nodes[0].name}")
	}
}

// unsafe reports what is wrong with a lever. Of a recorded document it is kept, so
// that the lever is not run.
func (r *reader) unsafe(s *State, n *yaml.Node, path, message, hint string) {
	if r.c.recorded {
		s.Unsafe = message
		return
	}
	r.d.Report(n, path, message, hint)
}

// onNode reports whether the state is a lever that changes a node.
func (r *reader) onNode(s *State) bool {
	k := r.c.kinds[s.Step]
	if s.Kind != StateLever || k == nil {
		return false
	}
	_, node := fieldNamed(k.With, "node")
	return node
}
