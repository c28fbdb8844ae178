package executor

import (
	"fmt"
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
	case divertedBefore(from.Start, name):
		return "", "that playbook was tried already"
	}
	start, also := from.Successor()
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
// that playbook. Of a run that an earlier version began only the last one is known, so
// people decide.
func divertedBefore(s machine.Start, name string) bool {
	return s.Playbook == name || s.DivertedFrom != "" && len(s.Line) == 0 ||
		slices.ContainsFunc(s.Line, func(h machine.Handed) bool { return h.Playbook == name })
}
