package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Stretch is for how long something has been the case without a gap. It reaches
// as far back as its maker watches, whatever the length of the history.
type Stretch struct {
	Reason Reasons   `json:"reason,omitempty"` // a single bit, or [EitherThermal]; 0: it is heat
	Heat   Heat      `json:"heat,omitempty"`   // empty: it is a reason
	Since  time.Time `json:"since"`            // first sight of it; a sample before that did not show it, unless OrBefore
	Last   time.Time `json:"last"`             // last sight of it

	// OrBefore means that nothing is known of the time right before Since, as at
	// the beginning of watching: it may have been there already.
	OrBefore bool `json:"or_before,omitempty"`
}

// sight is what a stretch is about: a clocks event reason, or heat.
type sight struct {
	reason Reasons
	heat   Heat
}

func (s Stretch) sight() sight { return sight{s.Reason, s.Heat} }

// EitherThermal stands for heat of either kind, where all that the driver tells
// is the time lost to it ([Violations.ThermalNS]).
const EitherThermal = SWThermalSlowdown | HWThermalSlowdown

// countedReasons are those whose lost time the driver counts.
var countedReasons = []Reasons{HWThermalSlowdown, SWThermalSlowdown, HWPowerBrakeSlowdown, EitherThermal}

// Heat is a temperature that is at its limit.
type Heat string

// The kinds of heat.
const (
	HotGPU    Heat = "gpu"
	HotMemory Heat = "memory"
	NoMargin  Heat = "margin" // none is left to the temperature at which it slows down
)

// maxStretches bounds the stretches of a GPU: one for each bit, and the others.
const maxStretches = 64 + 1 + 3

// stretchGap is for how long something may be out of sight and still be the
// same stretch. Two samples of neighbouring minutes are less apart.
const stretchGap = 2 * time.Minute

// forgetStretch is for how long a stretch is kept that has ended: as long as
// the longest history.
const forgetStretch = MaxMinutes * time.Minute

// Stretches follows sights of one GPU from sample to sample. Its zero value has
// seen nothing. Its memory is bounded by [maxStretches]. It is for one goroutine
// at a time, and goes by the differences of the times that it is given.
type Stretches struct {
	all    map[sight]Stretch
	looked map[Heat]time.Time // when it was known last what was to be seen; empty: of reasons
	before Violations
}

// Add looks at what a sample shows. Times go forward: one before the last ends
// nothing and begins nothing new in the past.
func (s *Stretches) Add(g GPU, at time.Time) {
	reasons, known := g.Clocks.Reasons.Get()
	shown := make([]sight, 0, 4)
	for _, bit := range reasons.Bits() {
		shown = append(shown, sight{reason: bit})
	}
	for _, r := range countedReasons { // what the driver counted between two samples was there, too
		if one := (sight{reason: r}); Grew(s.before.Lost(r), g.Clocks.Violation.Lost(r)) && !slices.Contains(shown, one) {
			shown = append(shown, one)
		}
	}
	s.before = g.Clocks.Violation
	s.see("", known, at, shown...)
	t := g.Temperature
	limit, limited := t.SlowdownLimit()
	s.lookAt(HotGPU, at, t.GPUC, func(c int64) bool { return c >= limit }, limited)
	limit, limited = t.MemMaxC.Get()
	s.lookAt(HotMemory, at, t.MemoryC, func(c int64) bool { return c >= limit }, limited)
	s.lookAt(NoMargin, at, t.MarginC, func(left int64) bool { return left <= t.LeastMargin() }, true)
}

// lookAt looks at a temperature; one that is not known, or has no limit, is not seen.
func (s *Stretches) lookAt(kind Heat, at time.Time, now Reading[int64], hot func(int64) bool, limited bool) {
	v, known := now.Get()
	switch {
	case !known || !limited:
	case hot(v):
		s.see(kind, true, at, sight{heat: kind})
	default:
		s.see(kind, true, at)
	}
}

// see notes what one look showed; all says that nothing else was there.
func (s *Stretches) see(what Heat, all bool, at time.Time, shown ...sight) {
	if s.all == nil {
		s.all, s.looked = map[sight]Stretch{}, map[Heat]time.Time{}
	}
	last, before := s.looked[what]
	blind := !before || at.Sub(last) > stretchGap
	for _, what := range shown {
		one, ok := s.all[what]
		if !ok || at.Sub(one.Last) > stretchGap {
			one = Stretch{Reason: what.reason, Heat: what.heat, Since: at, OrBefore: blind}
		}
		one.Last = at
		s.all[what] = one
	}
	if all {
		s.looked[what] = at
	}
	maps.DeleteFunc(s.all, func(_ sight, one Stretch) bool { return at.Sub(one.Last) > forgetStretch })
}

// All are the stretches that go on, and those that ended lately, in a fixed order.
func (s *Stretches) All() []Stretch {
	return slices.SortedFunc(maps.Values(s.all), func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Heat, b.Heat))
	})
}

// validStretches refuses times that the one who watches cannot have seen.
func (g GPU) validStretches(watching, now time.Time) error {
	told := map[sight]bool{}
	for i, one := range g.Stretches {
		switch {
		case !one.sight().known() || told[one.sight()]:
			return fmt.Errorf("stretches[%d]: neither one clocks event reason nor one kind of heat, or told twice", i)
		case one.Since.IsZero() || one.Since.Before(watching.Add(-ClockSlack)):
			return fmt.Errorf("stretches[%d].since: missing, or before watching began", i)
		case one.Last.Before(one.Since) || one.Last.After(now.Add(ClockSlack)):
			return fmt.Errorf("stretches[%d].last: before its since, or later than the snapshot's taken_at", i)
		}
		told[one.sight()] = true
	}
	return nil
}

func (s sight) known() bool {
	if s.heat != "" {
		return s.reason == 0 && (s.heat == HotGPU || s.heat == HotMemory || s.heat == NoMargin)
	}
	return len(s.reason.Bits()) == 1 || s.reason == EitherThermal
}
