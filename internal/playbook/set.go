package playbook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Set is an immutable set of playbooks with an index over their matchers. It
// is safe for concurrent use.
type Set struct {
	all      []*Playbook // by name
	byName   map[string]*Playbook
	digest   string
	warnings Problems

	overrides map[overrideKey]*Levels // see Overridden
	ofService map[string]Overrides    // the entries of each service

	index   []labelIndex // of the matcher sets that name a value
	pattern []entry      // of the matcher sets that name only patterns
}

// labelIndex finds matcher sets by the value of one label.
type labelIndex struct {
	label  string
	values map[string][]entry
}

// entry is one matcher set of a playbook.
type entry struct {
	set   matcherSet
	which int // index of the playbook in Set.all
}

// NewSet returns a set of playbooks. Duplicate names and cycles of diverts are
// [Problems]. A divert to a missing playbook is only a warning, because sets
// are rolled out file by file.
func NewSet(playbooks []*Playbook) (*Set, error) {
	s := &Set{all: slices.Clone(playbooks), byName: map[string]*Playbook{}}
	slices.SortStableFunc(s.all, func(a, b *Playbook) int { return cmp.Compare(a.Name, b.Name) })
	var problems Problems
	for _, p := range s.all {
		if first := s.byName[p.Name]; first != nil {
			problems = append(problems, p.problem(p.States[0], "metadata.name", fmt.Sprintf("playbook %s is already defined in %s", p.Name, first.Source), "names are unique"))
			continue
		}
		s.byName[p.Name] = p
	}
	problems = append(problems, s.diverts()...)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, p := range s.all {
		fmt.Fprintf(h, "%s %s\n", p.Name, p.Digest)
	}
	s.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	s.build()
	return s, nil
}

// build makes the index. Each matcher set is indexed by the one of its keys
// whose values are the rarest in all playbooks, so that few sets are tried for
// an alert.
func (s *Set) build() {
	type cell struct{ label, value string }
	common := map[cell]int{}
	for _, p := range s.all {
		for _, ms := range p.match {
			for _, k := range ms.keys() {
				for _, v := range k.values {
					common[cell{k.label, v}]++
				}
			}
		}
	}
	at := map[string]int{} // label to its place in s.index
	for i, p := range s.all {
		for _, ms := range p.match {
			var best key
			least := math.MaxInt
			for _, k := range ms.keys() {
				n := 0
				for _, v := range k.values {
					n += common[cell{k.label, v}]
				}
				if n < least {
					best, least = k, n
				}
			}
			if best.label == "" {
				s.pattern = append(s.pattern, entry{set: ms, which: i})
				continue
			}
			if _, ok := at[best.label]; !ok {
				at[best.label] = len(s.index)
				s.index = append(s.index, labelIndex{label: best.label, values: map[string][]entry{}})
			}
			values := s.index[at[best.label]].values
			for _, v := range best.values {
				values[v] = append(values[v], entry{set: ms, which: i})
			}
		}
	}
}

// problem returns a problem of the playbook, at one of its states.
func (p *Playbook) problem(at *State, path, message, hint string) Problem {
	file, _, _ := cutLast(p.Source, ":")
	out := Problem{File: file, Path: path, Message: message, Hint: hint}
	if at != nil {
		out.Line, out.Column = at.Line, at.Column
	}
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// diverts warns of diverts to missing playbooks and refuses cycles.
func (s *Set) diverts() Problems {
	const (
		open = 1
		done = 2
	)
	var problems Problems
	seen := map[*Playbook]int{}
	var visit func(p *Playbook, trail []string)
	visit = func(p *Playbook, trail []string) {
		seen[p] = open
		for _, st := range p.States {
			if st.Kind != StateDivert {
				continue
			}
			path := "spec.states." + st.Name + ".divert"
			next := s.byName[st.Divert]
			switch {
			case next == nil:
				s.warnings = append(s.warnings, p.problem(st, path, fmt.Sprintf("divert to playbook %s, which is not loaded", st.Divert), "a run that reaches this state is escalated"))
			case seen[next] == open:
				circle := strings.Join(append(trail, p.Name, next.Name), " -> ")
				problems = append(problems, p.problem(st, path, "cycle of diverts: "+circle, "end or escalate one of them"))
			case seen[next] == 0:
				visit(next, append(slices.Clip(trail), p.Name))
			}
		}
		seen[p] = done
	}
	for _, p := range s.all {
		if seen[p] == 0 && s.byName[p.Name] == p {
			visit(p, nil)
		}
	}
	s.warnings = s.warnings.Sorted()
	return problems
}

// All returns the playbooks, sorted by name. The caller must not change the
// slice.
func (s *Set) All() []*Playbook { return s.all }

// ByName returns the playbook of a name; nil if there is none.
func (s *Set) ByName(name string) *Playbook { return s.byName[name] }

// Digest returns the SHA-256 of the names and digests of all playbooks, as
// "sha256:<hex>".
func (s *Set) Digest() string { return s.digest }

// Warnings returns suspicious but valid parts of the set.
func (s *Set) Warnings() Problems { return s.warnings }

// Match returns the playbooks that match the alert, sorted by name.
func (s *Set) Match(a Alert) []*Playbook { return s.AppendMatch(nil, a) }

// AppendMatch appends the playbooks that match the alert to dst, sorted by
// name. It allocates only to grow dst.
func (s *Set) AppendMatch(dst []*Playbook, a Alert) []*Playbook {
	base := len(dst)
	for i := range s.index {
		value, ok := a.Labels[s.index[i].label]
		if !ok {
			continue
		}
		entries := s.index[i].values[value]
		for j := range entries {
			dst = s.appendIf(dst, base, &entries[j], a.Labels)
		}
	}
	for i := range s.pattern {
		dst = s.appendIf(dst, base, &s.pattern[i], a.Labels)
	}
	return dst
}

// appendIf inserts the entry's playbook, in order and once, if it matches.
func (s *Set) appendIf(dst []*Playbook, base int, e *entry, alert map[string]string) []*Playbook {
	p := s.all[e.which]
	at := len(dst)
	for at > base && dst[at-1].Name >= p.Name {
		if dst[at-1] == p {
			return dst
		}
		at--
	}
	if !e.set.matches(alert) {
		return dst
	}
	return slices.Insert(dst, at, p)
}

// MatchResult reports whether and why a playbook matches an alert.
type MatchResult struct {
	Playbook *Playbook   `json:"-"`
	Name     string      `json:"playbook"`
	Matched  bool        `json:"matched"`
	Sets     []SetResult `json:"sets"` // one for each entry of match; one match suffices
}

// SetResult is the result of one matcher set.
type SetResult struct {
	Matchers string     `json:"matchers"`
	Matched  bool       `json:"matched"`
	Failed   []Mismatch `json:"failed,omitempty"`
}

// Mismatch is a matcher that does not hold, with the label value it was
// compared with.
type Mismatch struct {
	Matcher string `json:"matcher"`
	Label   string `json:"label"`
	Value   string `json:"value"`
	Missing bool   `json:"missing,omitempty"` // the alert has no such label
}

// String describes the mismatch.
func (m Mismatch) String() string {
	if m.Missing {
		return fmt.Sprintf("%s: the alert has no label %s", m.Matcher, m.Label)
	}
	return fmt.Sprintf("%s: %s is %q", m.Matcher, m.Label, m.Value)
}

// Explain returns for every playbook, sorted by name, whether it matches the
// alert and which matchers failed on which label values.
func (s *Set) Explain(a Alert) []MatchResult {
	out := make([]MatchResult, 0, len(s.all))
	for _, p := range s.all {
		r := MatchResult{Playbook: p, Name: p.Name}
		for _, ms := range p.match {
			sr := SetResult{Matchers: ms.source, Matched: true}
			for _, m := range ms.matchers {
				value, ok := a.Labels[m.Name]
				if !m.Matches(value) {
					sr.Matched = false
					sr.Failed = append(sr.Failed, Mismatch{Matcher: m.String(), Label: m.Name, Value: value, Missing: !ok})
				}
			}
			r.Matched = r.Matched || sr.Matched
			r.Sets = append(r.Sets, sr)
		}
		out = append(out, r)
	}
	return out
}
