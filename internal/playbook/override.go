package playbook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Override is the autonomy that the configuration sets for a playbook, in place
// of what its document says.
type Override struct {
	Level  *Autonomy           `json:"level,omitempty"`  // of all its levers; nil: as the document says
	States map[string]Autonomy `json:"states,omitempty"` // of single levers, by state; each goes before Level
	By     string              `json:"by"`               // the setting, for messages
}

// String lists the levels and the setting: "auto, rollback suggest, by ...".
func (o Override) String() string {
	var parts []string
	if o.Level != nil {
		parts = append(parts, o.Level.String())
	}
	for _, state := range slices.Sorted(maps.Keys(o.States)) {
		parts = append(parts, state+" "+o.States[state].String())
	}
	return strings.Join(append(parts, "by "+o.By), ", ")
}

// Level returns the autonomy of a state by the playbook: what its document says,
// or what o says in place of it. The state's own level only lowers it. by is the
// setting of the configuration that the level comes from; empty: the document.
func (p *Playbook) Level(s *State, o *Override) (level Autonomy, by string) {
	level, by = p.LevelOf(s.Name, o)
	if s.Autonomy != nil && *s.Autonomy < level {
		level, by = *s.Autonomy, ""
	}
	return level, by
}

// LevelOf is Level without the state's own level.
func (p *Playbook) LevelOf(state string, o *Override) (level Autonomy, by string) {
	if o != nil {
		if level, ok := o.States[state]; ok {
			return level, o.By
		}
		if o.Level != nil {
			return *o.Level, o.By
		}
	}
	return p.Autonomy, ""
}

// Overrides are the levels of autonomy that a configuration sets in place of
// those that playbooks set, in the order of the file.
type Overrides []LevelSetting

// LevelSetting is one entry: the level of a playbook or of one of its levers.
type LevelSetting struct {
	Playbook string
	State    string // of the lever; empty: all levers of the playbook
	Level    Autonomy
	By       string // the setting, for messages: playbooks.autonomy of responder.yaml

	place Problem // of the entry, without a message
}

// Name returns the entry's key: PLAYBOOK or PLAYBOOK/STATE.
func (l LevelSetting) Name() string {
	if l.State == "" {
		return l.Playbook
	}
	return l.Playbook + "/" + l.State
}

// problem returns a problem of the entry.
func (l LevelSetting) problem(hint, format string, args ...any) Problem {
	p := l.place
	p.Message, p.Hint = fmt.Sprintf(format, args...), hint
	return p
}

// DecodeYAML reads a node of responder.yaml: a mapping of PLAYBOOK or
// PLAYBOOK/STATE to a level.
func (o *Overrides) DecodeYAML(doc *yamldoc.Document, n *yaml.Node, path string) {
	m := doc.Mapping(n, path)
	if m == nil {
		return
	}
	for _, p := range m.Pairs {
		at := m.At(p.Name)
		l := LevelSetting{By: path + " of " + doc.File, place: Problem{File: doc.File, Line: doc.Line + p.Key.Line, Column: p.Key.Column, Path: at}}
		l.Playbook, l.State, _ = strings.Cut(p.Name, "/")
		if l.Playbook == "" || strings.HasSuffix(p.Name, "/") {
			doc.Report(p.Key, at, "must name a playbook, or one of its levers", "write PLAYBOOK: LEVEL, or PLAYBOOK/STATE: LEVEL")
			continue
		}
		text, ok := doc.Text(p.Value, at)
		if !ok {
			continue
		}
		level, err := ParseAutonomy(text)
		if err != nil {
			doc.Report(p.Value, at, fmt.Sprintf("unknown autonomy level %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, []string{"observe", "suggest", "auto"}))
			continue
		}
		l.Level = level
		*o = append(*o, l)
	}
}

// Overridden returns the set with levels that a configuration sets. An entry
// that is about no lever of the set, or has no effect, is one of the [Problems].
func (s *Set) Overridden(by Overrides) (*Set, error) {
	if len(by) == 0 {
		return s, nil
	}
	out := *s
	out.overrides = map[string]*Override{}
	var problems Problems
	for _, l := range by {
		if p := s.unfit(l); p != nil {
			problems = append(problems, *p)
			continue
		}
		o := out.overrides[l.Playbook]
		if o == nil {
			o = &Override{By: l.By}
			out.overrides[l.Playbook] = o
		}
		if l.State == "" {
			o.Level = &l.Level
			continue
		}
		if o.States == nil {
			o.States = map[string]Autonomy{}
		}
		o.States[l.State] = l.Level
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return &out, nil
}

// unfit returns what is wrong with an entry; nil: nothing.
func (s *Set) unfit(l LevelSetting) *Problem {
	p := s.byName[l.Playbook]
	if p == nil {
		var names []string
		for _, p := range s.all {
			names = append(names, p.Name)
		}
		bad := l.problem(yamldoc.DidYouMean(l.Playbook, names), "no playbook %q is in force", yamldoc.Clip(l.Playbook))
		return &bad
	}
	if l.State == "" {
		return nil
	}
	var levers []string
	for _, st := range p.States {
		if st.Kind == StateLever {
			levers = append(levers, st.Name)
		}
	}
	st := p.State(l.State)
	if st == nil {
		bad := l.problem(yamldoc.DidYouMean(l.State, levers), "playbook %s has no state %q", p.Name, yamldoc.Clip(l.State))
		return &bad
	}
	if st.Kind != StateLever {
		bad := l.problem(yamldoc.DidYouMean(l.State, levers), "state %s of playbook %s is a %s: only levers have a level", st.Name, p.Name, st.Kind)
		return &bad
	}
	if st.Autonomy != nil && l.Level > *st.Autonomy {
		bad := l.problem("change the state's own level in "+p.Source, "%s has no effect: state %s of playbook %s itself says %s, which always holds", l.Level, st.Name, p.Name, st.Autonomy)
		return &bad
	}
	return nil
}

// Override returns what the configuration sets in place of a playbook's own
// autonomy; nil: nothing. The caller must not change it.
func (s *Set) Override(name string) *Override { return s.overrides[name] }

// Known returns the entries about playbooks that are in the set.
func (o Overrides) Known(s *Set) Overrides {
	var out Overrides
	for _, l := range o {
		if s.byName[l.Playbook] != nil {
			out = append(out, l)
		}
	}
	return out
}
