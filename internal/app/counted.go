package app

import (
	"encoding/json"
	"fmt"
	"time"
)

// countedName names what was counted among the journal's projections.
const countedName = "metrics"

// countedEvery is how many entries a start counts at most, about.
const countedEvery = 100_000

// countedVersion changes whenever the counting does: what another version counted is
// counted anew.
const countedVersion = 1

// countedSoFar is the stored form of a projection: what was counted up to an entry.
// The next start counts what follows. One of another build may have counted
// differently: then everything is counted anew, unless entries are archived that could
// not be.
type countedSoFar struct {
	Build    string                        `json:"build"`
	Next     uint64                        `json:"next"`
	Last     string                        `json:"last"` // leaf hash of the entry before
	Counters map[string]map[string]float64 `json:"counters"`
	Phases   map[string]spread             `json:"phases"`
	Open     map[string]openRun            `json:"open"`
}

// openRun is the stored form of runFacts.
type openRun struct {
	Playbook string    `json:"playbook"`
	Lever    string    `json:"lever"`
	Phase    string    `json:"phase"`
	Since    time.Time `json:"since"`
	Gate     time.Time `json:"gate,omitzero"`
}

// thisBuild identifies the program and how it counts.
func thisBuild() string {
	b := ReadBuildInfo()
	return fmt.Sprintf("%d %s %s", countedVersion, b.Version, b.Revision)
}

// save stores what was counted. The caller holds mu.
func (p *projection) save() error {
	if p.next == p.saved {
		return nil
	}
	p.saved = p.next // after a failure, the next try is as far away as after a success
	last, err := p.journal.LeafHash(p.next - 1)
	if err != nil {
		return err
	}
	c := countedSoFar{
		Build: p.build, Next: p.next, Last: last.String(), Counters: map[string]map[string]float64{},
		Phases: p.phases.stored(), Open: map[string]openRun{},
	}
	for _, t := range p.tallies() {
		c.Counters[t.name] = t.stored()
	}
	for id, r := range p.open {
		c.Open[id] = openRun{r.playbook, r.lever, r.phase, r.since, r.gate}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("save what was counted: %w", err)
	}
	if err := p.journal.SaveProjection(countedName, b); err != nil {
		return fmt.Errorf("save what was counted: %w", err)
	}
	return nil
}

// restore goes on from what was stored, if it is of this log, and of this build or all
// there is of entries that are archived.
func (p *projection) restore() error {
	b, err := p.journal.Projection(countedName)
	var c countedSoFar
	if err != nil || json.Unmarshal(b, &c) != nil || c.Next == 0 || c.Next > p.journal.Size() {
		return err
	}
	if c.Build != p.build {
		if archived, err := p.journal.Archived(); err != nil || archived == 0 {
			return err
		}
	}
	if last, err := p.journal.LeafHash(c.Next - 1); err != nil || last.String() != c.Last {
		return err
	}
	p.next, p.saved = c.Next, c.Next
	for _, t := range p.tallies() {
		t.restore(c.Counters[t.name])
	}
	p.phases.restore(c.Phases)
	for id, r := range c.Open {
		p.open[id] = &runFacts{r.Playbook, r.Lever, r.Phase, r.Since, r.Gate}
	}
	return nil
}
