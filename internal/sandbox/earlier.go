package sandbox

import (
	"slices"
	"sync"
	"time"
)

// past is the stored form of a world that another one followed.
type past struct {
	Scenario string    `json:"scenario"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"` // when it was followed
	Changes  []change  `json:"changes"`
}

// mostPast is how many of them are kept: the newest.
const mostPast = 4

// earlier is a world that another one followed. It is simulated when somebody asks for its
// series, so that what happened in it can still be shown.
type earlier struct {
	past
	open func() *World // nil: no scenario has its name any more
}

// earlierWorlds returns the worlds of a file that others followed, the newest last.
func earlierWorlds(all []past) []earlier {
	var out []earlier
	for _, p := range all {
		e := earlier{past: p}
		if sc, err := find(p.Scenario); err == nil {
			e.open = sync.OnceValue(func() *World { return build(sc, NewManualClock(p.End), p.Start, slices.Clone(p.Changes)) })
		}
		out = append(out, e)
	}
	return out
}

// after returns the earlier worlds of the world that follows this one.
func (k kept) after(end time.Time) []past {
	all := append(slices.Clone(k.Earlier), past{Scenario: k.Scenario, Start: k.Start, End: end, Changes: k.Changes})
	return all[max(0, len(all)-mostPast):]
}

// ScenarioAt names the scenario of a moment. Past reports whether it is that of an earlier
// world. The name is empty if that world is no longer known.
func (w *World) ScenarioAt(at time.Time) (name string, past bool) {
	if !w.before(at) {
		return w.scenario.Name, false
	}
	if e := w.earlierAt(at); e != nil {
		return e.Scenario, true
	}
	return "", true
}

// before reports whether a moment is before everything that this world knows.
func (w *World) before(at time.Time) bool { return at.Before(w.start.Add(-history)) }

// earlierAt returns the earlier world of a moment; nil: none is known.
func (w *World) earlierAt(at time.Time) *earlier {
	for i := range slices.Backward(w.earlier) {
		if e := &w.earlier[i]; !at.Before(e.Start.Add(-history)) {
			return e
		}
	}
	return nil
}

// of returns the world that has the series of a moment: this one, or an earlier one.
func (w *World) of(moment time.Time) *World {
	if !w.before(moment) {
		return w
	}
	if e := w.earlierAt(moment); e != nil && e.open != nil {
		return e.open()
	}
	return w
}
