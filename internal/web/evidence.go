package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// evidence is the result of one check.
type evidence struct {
	Title, Step string
	At          time.Time
	Facts       []string
	More        int
	State       string
	Query       string // the query, if known
	Decided     bool   // the condition of the newest edge read it
}

// collected returns the evidence in the order of its collection.
func collected(run machine.State) []evidence {
	var out []evidence
	for name, e := range run.Evidence {
		if e == nil {
			continue
		}
		facts := e.Facts
		if e.Unknown != "" {
			facts = []string{"unknown: " + e.Unknown}
		}
		n := min(len(facts), maxFacts)
		out = append(out, evidence{State: name, Title: title(run.Playbook, name), Step: e.Step, At: e.At, Facts: facts[:n], More: len(facts) - n})
	}
	slices.SortFunc(out, func(a, b evidence) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Title, b.Title)) })
	return out
}

// rank puts the evidence that decided first.
func (e evidence) rank() int {
	if e.Decided {
		return 0
	}
	return 1
}
