package engine

import (
	"fmt"
	"maps"
	"slices"
)

// rule is a constraint between flags.
type rule struct {
	flags  []string // the flags of the rule
	source string
	// broken returns why the rule is violated; empty: it is not, as far as the
	// values show.
	broken func(s setting) string
}

// setting holds the values of flags as a change would leave them.
type setting struct {
	values  map[string]string // of the flags that are set; the others have their defaults
	numbers map[string]float64
	changed []string
}

// number returns the number that a flag is set to.
func (s setting) number(flag string) (float64, bool) {
	n, ok := s.numbers[flag]
	return n, ok
}

// is reports whether a flag is set to the value.
func (s setting) is(flag, value string) bool { return s.values[flag] == value }

// has reports whether a flag is set at all.
func (s setting) has(flag string) bool { _, ok := s.values[flag]; return ok }

// moves reports whether the change sets the flag.
func (s setting) moves(flag string) bool { return slices.Contains(s.changed, flag) }

// Related returns the flags whose values decide whether the named ones can be
// changed: the input of [Engine.Conflicts].
func (e Engine) Related(names ...string) []string {
	var out []string
	for _, p := range e.programs {
		for _, r := range p.rules {
			if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(r.flags, n) }) {
				out = append(out, r.flags...)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(f string) bool { return slices.Contains(names, f) })
}

// Conflicts returns the rules between flags that the values would break. values
// holds the flags that are set after the change, by the table's names; changed
// lists those that the change sets. An existing value that is invalid cannot be
// compared, which is a conflict too.
func (e Engine) Conflicts(values map[string]string, changed []string) []*Error {
	var out []*Error
	for _, p := range e.programs {
		for _, r := range p.rules {
			if !slices.ContainsFunc(changed, func(c string) bool { return slices.Contains(r.flags, c) }) {
				continue
			}
			if why := p.breaks(r, values, changed); why != "" {
				out = append(out, conflict(p, r, why))
			}
		}
	}
	return out
}

// Among returns the rules that these values break among themselves, whatever
// else is set.
func (e Engine) Among(values map[string]string) []*Error {
	var out []*Error
	changed := slices.Sorted(maps.Keys(values))
	for _, p := range e.programs {
		for _, r := range p.rules {
			if slices.ContainsFunc(r.flags, func(f string) bool { _, given := values[f]; return !given }) {
				continue
			}
			if why := p.breaks(r, values, changed); why != "" {
				out = append(out, conflict(p, r, why))
			}
		}
	}
	return out
}

func conflict(p *Program, r rule, why string) *Error {
	return &Error{Problem: Conflict, Flag: r.flags[0], Message: fmt.Sprintf("%s: %s (%s)", p.Title, why, r.source)}
}

// breaks evaluates a rule on the values of its flags.
func (p *Program) breaks(r rule, values map[string]string, changed []string) string {
	s := setting{values: map[string]string{}, numbers: map[string]float64{}, changed: changed}
	for _, name := range r.flags {
		value, ok := values[name]
		if !ok {
			continue
		}
		f, known := p.Flag(name)
		if !known {
			continue // unreachable unless a rule names a flag that the table lacks; a test prevents that
		}
		s.values[name] = value
		if f.Kind != Int && f.Kind != Size && f.Kind != Float || slices.Contains(f.Words, value) {
			continue
		}
		n, why := f.number(value)
		if why != "" {
			return fmt.Sprintf("--%s is set to %q, which is %s: its constraints cannot be checked", name, clip(value), why)
		}
		s.numbers[name] = n
	}
	return r.broken(s)
}
