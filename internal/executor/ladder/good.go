package ladder

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Verified is what a run proved to be good: the settings its lever made, and
// the commit that has them. What was merely deployed, or undone, is not.
type Verified struct {
	Revision string            `json:"revision,omitempty"` // commit; empty: the change is in no repository, or not all of it was seen
	Settings []machine.Setting `json:"settings"`
}

// Good is the value of one variable of a service that was last verified.
type Good struct {
	Service  string    `json:"service"`
	Variable string    `json:"variable"` // --max-num-seqs, replicas, image
	Value    string    `json:"value"`    // empty: it was not set
	Revision string    `json:"revision"` // commit that has it; empty: none that was seen whole
	Run      string    `json:"run"`      // that verified it
	Lever    string    `json:"lever"`
	At       time.Time `json:"at"`
}

// verifiedOn is what was last verified on one service.
type verifiedOn struct {
	revision  string // newest commit
	variables map[string]Good
}

// verifiedBy is what a verified lever leaves behind; nil: nothing that is kept.
func verifiedBy(l *machine.Lever) *Verified {
	if l.Plan == nil || len(l.Plan.Good) == 0 {
		return nil
	}
	// The lever's own receipt; only its revision is of interest here.
	var receipt struct {
		Revision string `json:"revision"`
	}
	if len(l.Receipt) > 0 && json.Unmarshal(l.Receipt, &receipt) != nil {
		return nil // unreachable unless a lever's receipt is no object
	}
	if l.Plan.Unseen != "" {
		receipt.Revision = "" // of what else the commit has nothing is proven
	}
	return &Verified{Revision: receipt.Revision, Settings: l.Plan.Good}
}

// keep folds what a run verified. The caller holds mu.
func (t *TrackRecord) keep(r LeverResult, at time.Time) {
	g := t.good[r.Service]
	if g == nil {
		g = &verifiedOn{variables: map[string]Good{}}
		t.good[r.Service] = g
	}
	if r.Good.Revision != "" {
		g.revision = r.Good.Revision
	}
	for _, s := range r.Good.Settings {
		g.variables[s.Name] = Good{
			Service: r.Service, Variable: s.Name, Value: s.Value, Revision: r.Good.Revision, Run: r.Run, Lever: r.Lever, At: at,
		}
	}
}

// LastGood returns the value of a variable of a service, and the commit, that a
// run last verified. An empty variable asks for the newest such commit alone.
func (t *TrackRecord) LastGood(service, variable string) (value, revision string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.good[service]
	switch {
	case g == nil:
		return "", "", false
	case variable == "":
		return "", g.revision, g.revision != ""
	}
	v, ok := g.variables[variable]
	return v.Value, v.Revision, ok
}

// Goods lists what was last verified, by service and variable. An empty service
// selects all.
func (t *TrackRecord) Goods(service string) []Good {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []Good{}
	for name, g := range t.good {
		if service != "" && service != name {
			continue
		}
		for _, v := range g.variables {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Good) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Variable, b.Variable))
	})
	return out
}
