package executor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// divertOf returns the playbook a run is handed over to, empty when it is not.
func divertOf(events []machine.Event) string {
	if n := len(events); n > 0 && events[n-1].Kind == machine.RunEnded {
		return events[n-1].Ending.Divert
	}
	return ""
}

// divert hands a run over in the same batch: to a new run, or to the open one
// of that playbook and service. why is why nobody can take over, empty when
// run into does.
func (b *batch) divert(from machine.State, name string) (into, why string) {
	p := b.set.ByName(name)
	switch {
	case p == nil:
		return "", "that playbook is not loaded"
	case !p.Serves(from.Start.Service.Name):
		return "", "that playbook is not for service " + from.Start.Service.Name
	case b.e.divertedBefore(from.Start, name):
		return "", "that playbook was tried already"
	}
	start, also := handedOver(from)
	start.Run, start.Playbook, start.Digest = b.e.ids.next(b.now), p.Name, p.Digest
	r := b.about(keyOf(start))
	if r == nil {
		if err := b.start(start, p, also); err != nil {
			b.unstageFresh(start.Run)
			return "", err.Error()
		}
		return start.Run, ""
	}
	if !start.ByHand() {
		also = append(also, start.Alert)
	}
	return r.id, b.join(r, also, from.Truncated)
}

// handedOver is what the next run starts with: what the run was about and has
// found, and those of its alerts that still fire.
func handedOver(from machine.State) (machine.Start, []playbook.Alert) {
	start := from.Start
	if start.ByHand() {
		start.DivertedFrom, start.Evidence, start.Truncated = from.Start.Run, from.Handover(), from.Truncated
		return start, firingAlerts(from)
	}
	start.DivertedFrom, start.Evidence, start.Truncated = from.Start.Run, from.Handover(), from.Truncated
	first := start.Alert.Episode()
	var firing []string
	for _, id := range slices.Sorted(maps.Keys(from.Episodes)) {
		if from.Episodes[id].Firing {
			firing = append(firing, id)
		}
	}
	switch {
	case len(firing) == 0:
		start.Alert.Status = playbook.Resolved
	case !slices.Contains(firing, first): // the alert it began with has resolved
		first = firing[0]
		start.Alert = from.Episodes[first].Alert
	}
	var also []playbook.Alert
	for _, id := range firing {
		if id != first {
			also = append(also, from.Episodes[id].Alert)
		}
	}
	return start, also
}

// firingAlerts are those of the run that fire, in a fixed order.
func firingAlerts(s machine.State) []playbook.Alert {
	var out []playbook.Alert
	for _, id := range slices.Sorted(maps.Keys(s.Episodes)) {
		if s.Episodes[id].Firing {
			out = append(out, s.Episodes[id].Alert)
		}
	}
	return out
}

// join hands the alerts over to the open run, in the same batch: after a crash
// either both runs know of it or neither.
func (b *batch) join(to *run, alerts []playbook.Alert, truncated bool) (why string) {
	if to.dead != nil {
		return fmt.Sprintf("run %s on it is quarantined: people have to look at it first", to.id)
	}
	was := *b.stage(to)
	was.events = slices.Clip(was.events)
	for i := range alerts {
		c := machine.Command{Kind: machine.CmdAlert, Now: b.now, Alert: &alerts[i], Truncated: truncated}
		if err := b.must(to, c); err != nil {
			*b.byRun[to] = was
			return fmt.Sprintf("run %s cannot take its alerts over: %v", to.id, err)
		}
	}
	return ""
}

// unstageFresh forgets a run that cannot begin.
func (b *batch) unstageFresh(id string) {
	for _, st := range b.runs {
		if st.fresh && st.r.id == id {
			b.unstage(st.r)
			return
		}
	}
}

// divertedBefore reports whether the run came, over any number of diverts, from
// that playbook.
func (e *Executor) divertedBefore(s machine.Start, name string) bool {
	const most = 8
	for range most {
		if s.Playbook == name {
			return true
		}
		if s.DivertedFrom == "" {
			return false
		}
		from, err := e.fold(s.DivertedFrom)
		if err != nil {
			return true // cannot be said: people decide
		}
		s = from.Start
	}
	return true
}
