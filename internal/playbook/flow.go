package playbook

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxStates limits the size of a playbook.
const maxStates = 250

// analyse refuses playbooks that could misbehave: states that cannot be reached
// or left, unhandled results, changes nobody can approve, verify or undo, and
// evidence that may not have been gathered.
func (r *reader) analyse() {
	if len(r.p.States) > maxStates {
		r.d.Report(r.d.Root, "spec.states", fmt.Sprintf("%d states, at most %d allowed", len(r.p.States), maxStates), "split it with divert")
		return
	}
	for _, s := range r.p.States {
		r.whole(s)
		r.covers(s)
		r.doubts(s)
		r.fallsThrough(s)
	}
	r.ends()
	start := r.p.State(r.p.Start)
	if start == nil || r.circles() || r.broken {
		return
	}
	r.reachable(start)
	r.stepsOn()
	r.endless()
	r.looksFirst(start)
	r.gathered(start)
}

// at returns the node for messages about a state: its name.
func (r *reader) at(s *State) *yaml.Node {
	return &yaml.Node{Line: s.Line - r.d.Line, Column: s.Column}
}

func (r *reader) atEdge(e Edge) *yaml.Node {
	return &yaml.Node{Line: e.Line - r.d.Line, Column: e.Column}
}

func (r *reader) pathOf(s *State) string { return "spec.states." + s.Name }

// whole checks that a state has the blocks its kind needs.
func (r *reader) whole(s *State) {
	switch s.Kind {
	case StateCheck, StateGather, StateNotify, StateWait:
		r.needs(s, "next", len(s.Next) > 0, "every state leads to another or ends the run")
	case StateGate:
		r.needs(s, "next", len(s.Next) > 0, "every state leads to another or ends the run")
		r.needs(s, "approve", s.Approve != nil, "it sets who decides, and within what time")
	case StateLever:
		r.needs(s, "next", len(s.Next) > 0, "every state leads to another or ends the run")
		level := r.p.Autonomy
		if s.Autonomy != nil {
			if level = min(level, *s.Autonomy); *s.Autonomy > r.p.Autonomy {
				r.d.Report(r.nodes[s].Get("autonomy"), r.pathOf(s)+".autonomy",
					fmt.Sprintf("%s is higher than the playbook's %s and has no effect", *s.Autonomy, r.p.Autonomy), "a state can only lower it")
			}
		}
		if level > Observe {
			r.needs(s, "approve", s.Approve != nil, "a service or policy may ask for approval even where this playbook says auto")
		}
	}
}

// needs reports a missing block, unless it is present but broken.
func (r *reader) needs(s *State, name string, there bool, hint string) {
	if n := r.nodes[s].Get(name); n == nil || (!there && n.Kind == yaml.SequenceNode && len(n.Content) == 0) {
		r.d.Report(r.at(s), r.pathOf(s), fmt.Sprintf("a %s without %s", s.Kind, name), hint)
	}
}

// covers checks that exactly one edge is taken in every case.
func (r *reader) covers(s *State) {
	if len(s.Next) == 0 || s.Kind == "" {
		return
	}
	var on []Signal
	for i, e := range s.Next {
		path := fmt.Sprintf("%s.next[%d]", r.pathOf(s), i)
		if e.always() && i < len(s.Next)-1 && r.complete(s, i) {
			r.d.Report(r.atEdge(s.Next[i+1]), fmt.Sprintf("%s.next[%d]", r.pathOf(s), i+1),
				"never taken: the edge before it is always taken", "put edges without a condition last")
			return
		}
		if e.On != "" && slices.Contains(on, e.On) {
			r.d.Report(r.atEdge(e), path, fmt.Sprintf("a second edge on %s is never taken", e.On), "keep one")
		}
		on = append(on, e.On)
	}
	if last := s.Next[len(s.Next)-1]; last.always() {
		return
	}
	var missing []string
	for _, sig := range SignalsOf(s.Kind) {
		// An expired gate uses on_expiry if no edge is named for it, and what
		// needs people ends with them.
		if sig != OnExpired && (s.Kind != StateLever || !sig.NeedsPeople()) && !slices.Contains(on, sig) {
			missing = append(missing, string(sig))
		}
	}
	switch {
	case len(SignalsOf(s.Kind)) == 0, s.Kind == StateWait && s.Wait != nil && s.Wait.For != nil:
		r.d.Report(r.at(s), r.pathOf(s)+".next", "possibly no edge holds, and the run would be stuck", "add a last edge without a condition: {to: ...}")
	case len(missing) > 0:
		r.d.Report(r.at(s), r.pathOf(s)+".next", "no edge for "+strings.Join(missing, ", "), "add them, or a last edge without a condition: {to: ...}")
	}
}

// fallsThrough refuses an edge to a lever that is taken for whatever no other
// edge names: after a change that had no effect or made it worse, or a question
// that was denied, the next change needs a look at the service or a word for it.
func (r *reader) fallsThrough(s *State) {
	approved := slices.ContainsFunc(s.Next, func(e Edge) bool { return e.On == OnApproved })
	if s.Kind != StateLever && (s.Kind != StateGate || !approved) {
		return // the only edge of a gate is that of its approval
	}
	for i, e := range s.Next {
		if lever, _ := r.p.acts(e.To); !lever || !e.always() || !r.complete(s, i) {
			continue
		}
		results := "an unproven result of this lever"
		if s.Kind == StateGate {
			results = "a denial"
		}
		r.d.Report(r.atEdge(e), fmt.Sprintf("%s.next[%d]", r.pathOf(s), i), fmt.Sprintf("leads to a lever on %s that no edge names", results),
			"look again first: lead to a check or a gather; or name the results that call for the lever: {when: "+string(fallsOn(s))+", to: "+e.To+"}")
	}
}

// fallsOn returns a signal that an edge without one would be taken on.
func fallsOn(s *State) Signal {
	if s.Kind == StateGate {
		return OnDenied
	}
	return OnNoEffect
}

// complete reports whether edge i was read without errors. An edge with a
// broken condition only looks as if it were always taken.
func (r *reader) complete(s *State, i int) bool {
	n := r.nodes[s].Get("next")
	if n.Kind != yaml.SequenceNode || i >= len(n.Content) {
		return true
	}
	for _, key := range n.Content[i].Content {
		if key.Value == "when" || key.Value == "on" {
			return false
		}
	}
	return true
}

// step is one transition from a state to another.
type step struct {
	to    string
	error bool // the check could not answer; its evidence is missing
}

// steps lists the transitions out of a state.
func steps(s *State) []step {
	var out []step
	for _, e := range s.Next {
		out = append(out, step{to: e.To})
	}
	if s.Steps != nil && s.Steps.Via != "" {
		out = append(out, step{to: s.Steps.Via})
	}
	if s.OnError != "" {
		out = append(out, step{to: s.OnError, error: true})
	}
	return out
}

// circles reports cycles on which nothing changes and nobody is waited for: a
// run would look again at once, with the same result. A way back over a lever,
// a gate or a wait is allowed: a lever is tried once in a run, and the machine
// limits how often and for how long a run comes back.
func (r *reader) circles() bool {
	const (
		open = 1
		done = 2
	)
	found := false
	seen := map[*State]int{}
	var trail []string
	var visit func(s *State)
	visit = func(s *State) {
		seen[s] = open
		trail = append(trail, s.Name)
		for _, st := range steps(s) {
			to := r.p.byName[st.to]
			switch {
			case to == nil || !to.hurries():
			case seen[to] == open:
				circle := append(slices.Clone(trail[slices.Index(trail, to.Name):]), to.Name)
				r.d.Report(r.at(s), r.pathOf(s)+".next", "cycle without a lever, a gate or a wait: "+strings.Join(circle, " -> "),
					"a run must end; lead to another state, or use retry in the step")
				found = true
			case seen[to] == 0:
				visit(to)
			}
		}
		trail = trail[:len(trail)-1]
		seen[s] = done
	}
	for _, s := range r.p.States {
		if seen[s] == 0 && s.hurries() {
			visit(s)
		}
	}
	return found
}

// hurries reports whether a run leaves the state again without a change, a
// person or a pause.
func (s *State) hurries() bool {
	return s.Kind == StateCheck || s.Kind == StateGather || s.Kind == StateNotify
}

// reachable reports unreachable states.
func (r *reader) reachable(start *State) {
	seen := r.walk(start, nil)
	for _, s := range r.p.States {
		if _, ok := seen[s.Name]; !ok {
			r.d.Report(r.at(s), r.pathOf(s), "unreachable state", "add an edge to it or remove it")
		}
	}
}

// stepsOn reports levers to which nothing leads back from the state between two
// steps: the second one would never be made.
func (r *reader) stepsOn() {
	for _, s := range r.p.States {
		if s.Steps == nil || s.Steps.Via == "" {
			continue
		}
		via := r.p.byName[s.Steps.Via]
		if _, ok := r.walk(via, func(at *State) bool { return at == s })[s.Name]; !ok {
			r.d.Report(r.at(s), r.pathOf(s)+".step.via", "no edge leads from "+via.Name+" back to "+s.Name, "add one, or remove via: the next step then follows at once")
		}
	}
}

// endless reports states from which no end can be reached.
func (r *reader) endless() {
	ends := map[string]bool{}
	for more := true; more; {
		more = false
		for _, s := range r.p.States {
			if ends[s.Name] {
				continue
			}
			over := s.Kind == StateEnd || s.Kind == StateDivert
			if over || slices.ContainsFunc(steps(s), func(st step) bool { return ends[st.to] }) {
				ends[s.Name], more = true, true
			}
		}
	}
	for _, s := range r.p.States {
		if !ends[s.Name] {
			r.d.Report(r.at(s), r.pathOf(s)+".next", "leads to no end", "a run must end; lead to a state with end or divert")
			return // the other states of the cycle lead to none either
		}
	}
}

// walk returns the states that can be reached from start, each with its
// predecessor. Where without holds for a state, only its error transition is
// taken.
func (r *reader) walk(start *State, without func(*State) bool) map[string]string {
	from := map[string]string{start.Name: ""}
	queue := []*State{start}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, st := range steps(s) {
			to := r.p.byName[st.to]
			if to == nil || (!st.error && without != nil && without(s)) {
				continue
			}
			if _, ok := from[to.Name]; !ok {
				from[to.Name] = s.Name
				queue = append(queue, to)
			}
		}
	}
	return from
}

// path formats the path that walk found.
func path(from map[string]string, to string) string {
	var names []string
	for at := to; at != ""; at = from[at] {
		names = append(names, at)
	}
	slices.Reverse(names)
	return strings.Join(names, " -> ")
}

// looks reports whether the state reads the world.
func (s *State) looks() bool {
	return s.Kind == StateCheck || s.Kind == StateGather || s.Kind == StateWait && s.Step != ""
}

// looksFirst reports levers that can be reached before any check.
func (r *reader) looksFirst(start *State) {
	blind := r.walk(start, func(s *State) bool { return s.looks() })
	for _, s := range r.p.States {
		if _, ok := blind[s.Name]; ok && s.Kind == StateLever {
			r.d.Report(r.at(s), r.pathOf(s), "lever before any check: "+path(blind, s.Name), "add a check before it")
		}
	}
}

// gathered reports expressions that read evidence which some path to their
// state does not gather.
func (r *reader) gathered(start *State) {
	walks := map[string]map[string]string{}
	for _, seen := range r.seen {
		for _, u := range seen.expr.uses {
			if u.state == "" || u.Name == "out" || u.Guarded || (seen.next && u.state == seen.state.Name) {
				continue
			}
			if walks[u.state] == nil {
				walks[u.state] = r.walk(start, func(s *State) bool { return s.Name == u.state })
			}
			if _, without := walks[u.state][seen.state.Name]; !without {
				continue
			}
			problem := exprError{
				Offset:  seen.expr.offset + u.Offset,
				Message: fmt.Sprintf("evidence of %s is missing on the path %s", u.evidence, path(walks[u.state], seen.state.Name)),
				Hint:    fmt.Sprintf("gather it first, or guard it: has(%s.FIELD) && ...", u.Name),
			}
			if u.gathered {
				problem.Hint = fmt.Sprintf("gather it first, or guard it: %s.known && ...", u.Name)
			}
			r.d.reportExpr(seen.node, seen.path, []exprError{problem})
		}
	}
}
