package playbook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Levels are the levels that one setting of the configuration has for a playbook.
type Levels struct {
	Level  *Autonomy           `json:"level,omitempty"`  // of all its levers; nil: as the document says
	States map[string]Autonomy `json:"states,omitempty"` // of single levers, by state; each goes before Level
	By     string              `json:"by"`               // the setting, for messages
}

// Override is the autonomy that the configuration sets for a playbook, in place
// of what its document says.
type Override struct {
	Levels

	// OfService is what the entry of the run's service sets for this playbook. It
	// goes before the rest, and stands in place of the service's own level too.
	OfService *Levels `json:"ofService,omitempty"`
}

// String lists the levels and the setting: "auto, rollback suggest, by ...".
func (l Levels) String() string {
	var parts []string
	if l.Level != nil {
		parts = append(parts, l.Level.String())
	}
	for _, state := range slices.Sorted(maps.Keys(l.States)) {
		parts = append(parts, state+" "+l.States[state].String())
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(append(parts, "by "+l.By), ", ")
}

// String lists the levels of the service and those for all.
func (o Override) String() string {
	switch text := o.Levels.String(); {
	case o.OfService == nil:
		return text
	case text == "":
		return o.OfService.String()
	default:
		return o.OfService.String() + "; else " + text
	}
}

// of returns what is set for a state.
func (l *Levels) of(state string) (level Autonomy, ok bool) {
	if l == nil {
		return Observe, false
	}
	if level, ok = l.States[state]; !ok && l.Level != nil {
		level, ok = *l.Level, true
	}
	return level, ok
}

// Holder is whose level a [Part] is.
type Holder string

// The holders of parts.
const (
	HeldByService  Holder = "service"
	HeldByPlaybook Holder = "playbook"
	HeldByBoth     Holder = "service and playbook" // an entry of the service about the playbook or lever
	HeldByState    Holder = "state"
)

// Part is one of the levels whose lowest a state has: that of the service, the
// playbook or the state itself.
type Part struct {
	Level   Autonomy
	Holder  Holder
	Setting string // of the configuration that it comes from; empty: the holder's own
}

// Parts returns the levels of service, playbook and state, in this order. An
// entry of the service about the playbook or lever stands in place of the first
// two, another setting of the configuration in place of the document's. The
// levels of the installation and the policy are not among them.
func (p *Playbook) Parts(s *State, service Autonomy, o *Override) []Part {
	var out []Part
	if part, ok := p.ofService(s.Name, o); ok {
		out = append(out, part)
	} else {
		out = append(out, Part{Level: service, Holder: HeldByService}, p.own(s.Name, o))
	}
	if s.Autonomy != nil {
		out = append(out, Part{Level: *s.Autonomy, Holder: HeldByState})
	}
	return out
}

// Allowed returns the lowest of the parts of a state.
func (p *Playbook) Allowed(s *State, service Autonomy, o *Override) Autonomy {
	level := Auto
	for _, part := range p.Parts(s, service, o) {
		level = min(level, part.Level)
	}
	return level
}

// ofService returns what the service's entry sets for a state of the playbook.
func (p *Playbook) ofService(state string, o *Override) (Part, bool) {
	if o == nil {
		return Part{}, false
	}
	level, ok := o.OfService.of(state)
	if !ok {
		return Part{}, false
	}
	return Part{Level: level, Holder: HeldByBoth, Setting: o.OfService.By}, true
}

// own returns the playbook's part for a state.
func (p *Playbook) own(state string, o *Override) Part {
	if o != nil {
		if level, ok := o.of(state); ok {
			return Part{Level: level, Holder: HeldByPlaybook, Setting: o.By}
		}
	}
	return Part{Level: p.Autonomy, Holder: HeldByPlaybook}
}

// Level returns the playbook's level for all its levers: what its document says,
// or what o says in place of it.
func (p *Playbook) Level(o *Override) Autonomy { return p.own("", o).Level }

// Overrides are the levels of autonomy that a configuration sets in place of
// those that services and playbooks set, in the order of the file.
type Overrides []LevelSetting

// LevelSetting is one entry: the level of a playbook, of one of its levers, or of
// a kind of lever in all playbooks. Exactly one of Playbook and Kind is set.
type LevelSetting struct {
	Service  string // only for this service; empty: for all
	Playbook string
	State    string // of the lever; empty: all levers of the playbook
	Kind     string // of lever, e.g. kube.scale
	Level    Autonomy
	By       string // the setting, for messages: playbooks.autonomy of responder.yaml

	place Problem // of the entry, without a message
}

// Name returns the entry's key: PLAYBOOK, PLAYBOOK/STATE or KIND.
func (l LevelSetting) Name() string {
	if l.State == "" {
		return cmp.Or(l.Playbook, l.Kind)
	}
	return l.Playbook + "/" + l.State
}

// Path returns where the configuration has the entry:
// playbooks.autonomy.PLAYBOOK.
func (l LevelSetting) Path() string { return l.place.Path }

// covers reports whether the entry is about a state of a playbook.
func (l LevelSetting) covers(p *Playbook, st *State) bool {
	switch {
	case l.Service != "" && !p.Serves(l.Service):
		return false
	case l.Kind != "":
		return st.Kind == StateLever && st.Step == l.Kind
	default:
		return p.Name == l.Playbook && (l.State == "" || l.State == st.Name)
	}
}

// problem returns a problem of the entry.
func (l LevelSetting) problem(hint, format string, args ...any) *Problem {
	p := l.place
	p.Message, p.Hint = fmt.Sprintf(format, args...), hint
	return &p
}

// DecodeYAML reads a node of responder.yaml: a mapping of PLAYBOOK,
// PLAYBOOK/STATE or KIND to a level. The name of a kind has a dot, that of a
// playbook has none.
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
			doc.Report(p.Key, at, "must name a playbook, one of its levers, or a kind of lever", "write PLAYBOOK: LEVEL, PLAYBOOK/STATE: LEVEL, or a kind such as kube.scale: LEVEL")
			continue
		}
		if l.State == "" && strings.Contains(l.Playbook, ".") {
			l.Playbook, l.Kind = "", l.Playbook
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
	out.overrides = map[overrideKey]*Levels{}
	scopes := map[string]Overrides{}
	var problems Problems
	for _, l := range by {
		if p := s.unfit(l); p != nil {
			problems = append(problems, *p)
			continue
		}
		scopes[l.Service] = append(scopes[l.Service], l)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	out.ofService = scopes
	for service, entries := range scopes {
		for _, p := range s.all {
			if l := p.levelsOf(entries); l != nil {
				out.overrides[overrideKey{p.Name, service}] = l
			}
		}
	}
	return &out, nil
}

// overrideKey is a playbook and a service; an empty one: all services.
type overrideKey struct{ playbook, service string }

// levelsOf resolves the entries of one scope for a playbook; nil: none is about
// it. An entry about a lever goes before the others. Of an entry about the
// playbook and one about the kind, neither is nearer: the lower one holds.
func (p *Playbook) levelsOf(entries Overrides) *Levels {
	o := &Levels{States: map[string]Autonomy{}}
	for _, l := range entries {
		if l.Playbook == p.Name && l.State == "" {
			o.Level, o.By = &l.Level, l.By
		}
	}
	for _, st := range p.States {
		for _, l := range entries {
			if l.Kind == "" || !l.covers(p, st) {
				continue
			}
			level, ok := o.of(st.Name)
			if !ok {
				level = l.Level
			}
			o.States[st.Name], o.By = min(level, l.Level), l.By
		}
	}
	for _, l := range entries {
		if l.Playbook == p.Name && l.State != "" {
			o.States[l.State], o.By = l.Level, l.By
		}
	}
	if len(o.States) == 0 {
		o.States = nil
	}
	if o.By == "" {
		return nil
	}
	return o
}

// Override returns what the configuration sets in place of a playbook's own
// autonomy, for a service; nil: nothing. An empty service asks what is set for
// all. The caller must not change it.
func (s *Set) Override(name, service string) *Override {
	all, own := s.overrides[overrideKey{playbook: name}], s.overrides[overrideKey{name, service}]
	if service == "" {
		own = nil
	}
	switch {
	case all == nil && own == nil:
		return nil
	case all == nil:
		return &Override{OfService: own}
	default:
		return &Override{Levels: *all, OfService: own}
	}
}

// OfService returns the levels that the entry of a service sets, by their keys.
func (s *Set) OfService(name string) map[string]Autonomy {
	if name == "" || len(s.ofService[name]) == 0 {
		return nil
	}
	out := map[string]Autonomy{}
	for _, l := range s.ofService[name] {
		out[l.Name()] = l.Level
	}
	return out
}

// unfit returns what is wrong with an entry; nil: nothing.
func (s *Set) unfit(l LevelSetting) *Problem {
	if l.Kind != "" {
		return s.unfitKind(l)
	}
	p := s.byName[l.Playbook]
	if p == nil {
		var names []string
		for _, p := range s.all {
			names = append(names, p.Name)
		}
		return l.problem(yamldoc.DidYouMean(l.Playbook, names), "no playbook %q is in force", yamldoc.Clip(l.Playbook))
	}
	if l.Service != "" && !p.Serves(l.Service) {
		return l.problem("the playbook lists its services: "+strings.Join(p.services, ", "), "has no effect: playbook %s never runs for service %s", p.Name, l.Service)
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
	switch {
	case st == nil:
		return l.problem(yamldoc.DidYouMean(l.State, levers), "playbook %s has no state %q", p.Name, yamldoc.Clip(l.State))
	case st.Kind != StateLever:
		return l.problem(yamldoc.DidYouMean(l.State, levers), "state %s of playbook %s is a %s: only levers have a level", st.Name, p.Name, st.Kind)
	case st.Autonomy != nil && l.Level > *st.Autonomy:
		return l.problem("change the state's own level in "+p.Source, "%s has no effect: state %s of playbook %s itself says %s, which always holds", l.Level, st.Name, p.Name, st.Autonomy)
	default:
		return nil
	}
}

// unfitKind is unfit for an entry about a kind of lever.
func (s *Set) unfitKind(l LevelSetting) *Problem {
	var kinds []string
	found, free, last := false, false, ""
	for _, p := range s.all {
		for _, st := range p.States {
			if st.Kind == StateLever && !slices.Contains(kinds, st.Step) {
				kinds = append(kinds, st.Step)
			}
			if l.covers(p, st) {
				found = true
				if st.Autonomy == nil || l.Level <= *st.Autonomy {
					free = true
				} else {
					last = fmt.Sprintf("state %s of playbook %s itself says %s", st.Name, p.Name, st.Autonomy)
				}
			}
		}
	}
	switch {
	case !slices.Contains(kinds, l.Kind):
		return l.problem(yamldoc.DidYouMean(l.Kind, kinds), "no playbook in force has a lever %q", yamldoc.Clip(l.Kind))
	case !found:
		return l.problem("", "has no effect: no playbook with a lever %s runs for service %s", l.Kind, l.Service)
	case !free:
		return l.problem("change the levels of the states", "%s has no effect: %s, which always holds", l.Level, last)
	default:
		return nil
	}
}

// Hidden returns the entries of a configuration that decide the level of no
// state, because others go before them.
func (s *Set) Hidden(by Overrides) []LevelSetting {
	var out []LevelSetting
	for _, l := range by {
		covered, decides := false, false
		for _, p := range s.all {
			for _, st := range p.States {
				if st.Kind != StateLever && st.Kind != StateGate || !l.covers(p, st) {
					continue
				}
				covered = true
				level, _ := s.overrides[overrideKey{p.Name, l.Service}].of(st.Name)
				decides = decides || level == l.Level
			}
		}
		if covered && !decides {
			out = append(out, l)
		}
	}
	return out
}

// Known returns the entries about playbooks and kinds of lever that are in the
// set.
func (o Overrides) Known(s *Set) Overrides {
	var out Overrides
	for _, l := range o {
		known := s.byName[l.Playbook] != nil
		for _, p := range s.all {
			known = known || l.Kind != "" && slices.ContainsFunc(p.States, func(st *State) bool { return l.covers(p, st) })
		}
		if known {
			out = append(out, l)
		}
	}
	return out
}

// Of returns the entries as those of a service.
func (o Overrides) Of(service string) Overrides {
	out := slices.Clone(o)
	for i := range out {
		out[i].Service = service
	}
	return out
}
