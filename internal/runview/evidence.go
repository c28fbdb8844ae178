package runview

import (
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Evidence is what a run knows before it asks, in words: for each name the newest
// lines. What decided the way to the question comes first, so that a message that has
// no room for all of it says why. The zero value is empty.
type Evidence struct{ found []found }

type found struct {
	name  string // of the evidence, as conditions read it
	lines []string
}

// Add adds the lines of one piece of evidence in place of older ones.
func (e *Evidence) Add(name string, lines []string) {
	e.found = slices.DeleteFunc(slices.Clone(e.found), func(f found) bool { return f.name == name })
	if len(lines) > 0 {
		e.found = append(e.found, found{name, lines})
	}
}

// Decided records which edge was taken, the last one that is true: the evidence that
// its condition read comes first from now on.
func (e *Evidence) Decided(examined []machine.Examined) {
	names := DecidedBy(examined)
	rank := func(f found) int {
		if slices.Contains(names, f.name) {
			return 0
		}
		return 1
	}
	e.found = slices.Clone(e.found)
	slices.SortStableFunc(e.found, func(a, b found) int { return rank(a) - rank(b) })
}

// DecidedBy returns the names of the evidence that the condition of the edge taken read,
// the last one that is true.
func DecidedBy(examined []machine.Examined) []string {
	var names []string
	for _, x := range examined {
		if x.Result != playbook.True {
			continue
		}
		names = nil
		for _, v := range x.Values {
			name, _, _ := strings.Cut(v, ".")
			names = append(names, name)
		}
	}
	return names
}

// Lines returns all lines in their order.
func (e *Evidence) Lines() []string {
	var out []string
	for _, f := range e.found {
		out = append(out, f.lines...)
	}
	return out
}
