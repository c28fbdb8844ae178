package ladder

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Config is how levers move on the ladder observe < suggest < auto. Down
// they go by themselves, up only by the hand of a person. The zero value means
// DefaultConfig.
type Config struct {
	DemoteAfter  int           // times in a row that a lever does not help until people are asked again; 0: never; at most MaxDemoteAfter
	Within       time.Duration // older failures do not count; 0: 30 d
	ProposeAfter int           // times in a row that a lever is verified until the next level is proposed; 0: never

	BreakAfter  int           // changes in a row, of any lever on any service, that do not help until everything is paused; 0: never; at most MaxDemoteAfter
	BreakWithin time.Duration // failures that are older do not count; 0: 1 h
}

// MaxDemoteAfter bounds Config.DemoteAfter and BreakAfter: so many results are
// remembered in order.
const MaxDemoteAfter = 20

// DefaultConfig is what holds where nothing is configured.
func DefaultConfig() Config {
	return Config{DemoteAfter: 3, Within: 30 * 24 * time.Hour, ProposeAfter: 10, BreakAfter: 5, BreakWithin: time.Hour}
}

func (c Config) withDefaults() Config {
	if c == (Config{}) {
		return DefaultConfig()
	}
	if c.Within == 0 {
		c.Within = DefaultConfig().Within
	}
	if c.BreakWithin == 0 {
		c.BreakWithin = DefaultConfig().BreakWithin
	}
	return c
}

// TrackRecord is what is known of how far each lever can be trusted, and the runs
// whose alerts are watched because they only observed. It is the fold of the
// stream ladder and of nothing else, so that a start reads that stream alone.
type TrackRecord struct {
	config Config

	mu      sync.Mutex // guards everything below; a leaf lock
	levers  map[LeverID]*leverRecord
	watched map[string]*watchedRun   // by run
	waiting map[string][]*watchedRun // by episode
	good    map[string]*verifiedOn   // by service
	failing []failure                // changes that failed in a row, oldest first
}

// New returns an empty track record. It fails if c is out of range.
func New(c Config) (*TrackRecord, error) {
	if c.DemoteAfter < 0 || c.DemoteAfter > MaxDemoteAfter || c.Within < 0 || c.ProposeAfter < 0 || c.BreakAfter < 0 || c.BreakAfter > MaxDemoteAfter || c.BreakWithin < 0 {
		return nil, fmt.Errorf("executor: the ladder's settings are out of range: %+v", c)
	}
	return &TrackRecord{
		config: c.withDefaults(), levers: map[LeverID]*leverRecord{},
		watched: map[string]*watchedRun{}, waiting: map[string][]*watchedRun{}, good: map[string]*verifiedOn{},
	}, nil
}

// leverRecord is the record of one lever.
type leverRecord struct {
	figures Figured
	last    []outcome // newest last, at most MaxDemoteAfter; those before the last promotion are forgotten
	streak  int       // verified in a row
	since   time.Time // the first of them
	lastAt  time.Time
	cap     *machine.Cap // the policy's, when it was last asked

	demoted  *Demotion  // nil: it is not
	promoted *Promotion // the last; nil: never
	changed  time.Time  // when the last of both was
}

// Figured are the counts of a lever's record. The zero value is no record.
type Figured struct {
	Attempts     int `json:"attempts"` // applied: the world was changed
	Verified     int `json:"verified"`
	Improved     int `json:"improved"`     // proven to help, and not enough
	Ineffective  int `json:"ineffective"`  // proven not to help
	Inconclusive int `json:"inconclusive"` // not proven
	Undone       int `json:"undone"`       // of the attempts, those that were changed back, for whatever reason
	Overridden   int `json:"overridden"`   // a person changed the target, or stopped it in mid-air
	Refused      int `json:"refused"`      // by its plan or a guard
	Denied       int `json:"denied"`       // by a person
	WouldApply   int `json:"wouldApply"`   // autonomy observe
	Recovered    int `json:"recovered"`    // of those, after which the alert recovered by itself
	Watched      int `json:"watched"`      // of those, whose alert is still waited for
}

// outcome is a proof of a lever.
type outcome struct {
	result Result
	run    string
	at     time.Time
}

func (c *Figured) add(r LeverResult) {
	switch r.Result {
	case ResultVerified:
		c.Verified++
	case ResultImproved:
		c.Improved++
	case ResultIneffective:
		c.Ineffective++
	case ResultInconclusive:
		c.Inconclusive++
	case ResultOverridden:
		c.Overridden++
	case ResultRefused:
		c.Refused++
	case ResultDenied:
		c.Denied++
	case ResultWouldApply:
		c.WouldApply++
	}
	if r.Applied {
		c.Attempts++
	}
	if r.Undone {
		c.Undone++
	}
}

// add takes in a result.
func (t *leverRecord) add(r LeverResult, at time.Time) {
	t.figures.add(r)
	t.lastAt, t.cap = at, r.Cap
	switch r.Result {
	case ResultVerified:
		if t.streak == 0 {
			t.since = at
		}
		t.streak++
	case ResultImproved, ResultIneffective, ResultInconclusive, ResultOverridden, ResultDenied:
		t.streak = 0
	}
	if r.Result != ResultVerified && r.Result != ResultImproved && !r.Result.failed() {
		return
	}
	if n := len(t.last); n > 0 && t.last[n-1].run == r.Run { // the steps of a run are one attempt, which counts as its best one
		if t.last[n-1].result.failed() {
			t.last[n-1] = outcome{r.Result, r.Run, at}
		}
		return
	}
	if len(t.last) == MaxDemoteAfter {
		t.last = slices.Delete(t.last, 0, 1)
	}
	t.last = append(t.last, outcome{r.Result, r.Run, at})
}

// demotion is what the newest results ask for; false when they ask for none.
func (t *leverRecord) demotion(id LeverID, c Config) (Demotion, bool) {
	if c.DemoteAfter == 0 || t.demoted != nil || len(t.last) < c.DemoteAfter {
		return Demotion{}, false
	}
	failed := t.last[len(t.last)-c.DemoteAfter:]
	newest := failed[len(failed)-1]
	counts := map[Result]int{}
	for _, f := range failed {
		if !f.result.failed() || newest.at.Sub(f.at) > c.Within {
			return Demotion{}, false
		}
		counts[f.result]++
	}
	var words []string
	for _, r := range []Result{ResultIneffective, ResultInconclusive} {
		if counts[r] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[r], r))
		}
	}
	return Demotion{
		LeverID: id, Run: newest.run, Failed: len(failed), Since: failed[0].at, To: playbook.Suggest,
		At: newest.at, Verdict: strings.Join(words, ", "),
	}, true
}

// Rule is the demotion as people find it.
func (d Demotion) Rule() string {
	return fmt.Sprintf("%sdemoted after %d attempts in a row that were not proven to help (%s), on %s",
		ladderWord, d.Failed, d.Verdict, d.At.UTC().Format(time.DateOnly))
}

// Why is the rule without the ladder's word.
func (d Demotion) Why() string { return strings.TrimPrefix(d.Rule(), ladderWord) }

// Lift is the command that takes the demotion back.
func (d Demotion) Lift() string {
	return fmt.Sprintf("responder ladder promote %s %s %s --reason ...", d.Playbook, d.Service, d.State)
}

// Text is what people are told of it.
func (d Demotion) Text() string {
	return fmt.Sprintf("lever %s (%s) of playbook %s is demoted to %s on service %s: %d attempts in a row were not proven to help since %s (%s). "+
		"People are asked before it is applied, until one of them lifts that: %s",
		d.State, d.Lever, d.Playbook, d.To, d.Service, d.Failed, d.Since.UTC().Format(time.RFC3339), d.Verdict, d.Lift())
}

// ladderWord begins the rule of the ladder's own caps.
const ladderWord = "ladder: "

func ladderSays(c machine.Cap) bool { return strings.HasPrefix(c.Rule, ladderWord) }

// Terms are those given, with the cap of a demoted lever where it is the lowest.
func (t *TrackRecord) Terms(terms *machine.Terms, id LeverID) (*machine.Terms, *Demotion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.levers[id]
	if l == nil || l.demoted == nil {
		return terms, nil
	}
	var capped machine.Terms
	if terms != nil {
		capped = *terms
	}
	if capped.Cap == nil || capped.Cap.Level > l.demoted.To {
		capped.Cap = &machine.Cap{Level: l.demoted.To, Rule: l.demoted.Rule()}
	}
	return &capped, l.demoted
}

// get returns the record of a lever, made when it is missing. The caller holds mu.
func (t *TrackRecord) get(id LeverID) *leverRecord {
	l := t.levers[id]
	if l == nil {
		for _, name := range []*string{&id.Playbook, &id.Service, &id.State, &id.Lever} {
			*name = unique.Make(*name).Value() // a service's levers say the same
		}
		l = &leverRecord{}
		t.levers[id] = l
	}
	return l
}

// result folds a result.
func (t *TrackRecord) result(r LeverResult, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.get(r.LeverID).add(r, at)
	t.failing = failures(t.failing, r, at)
	if r.Good != nil {
		t.keep(r, at)
	}
	if len(r.Waiting) > 0 {
		t.watch(r, at)
	}
}

// Demote folds a demotion.
func (t *TrackRecord) Demote(d Demotion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.get(d.LeverID)
	l.demoted, l.changed = &d, d.At
}

// Promote folds that a demotion was lifted: what led to it is forgotten, so
// that the next failure alone does not bring it back.
func (t *TrackRecord) Promote(p Promotion, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.get(p.LeverID)
	l.demoted, l.promoted, l.changed = nil, &p, at
	l.last, l.streak, l.since = nil, 0, time.Time{}
}
