package executor

import (
	"bytes"
	"maps"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// toldOnce is what runs told last within an hour with once, by its text. It is a
// projection of the runs' events; only the loop changes it.
type toldOnce map[string]machine.Telling

// note brings it in line with a run's state.
func (t toldOnce) note(s machine.State, now time.Time) {
	if len(t) == 0 && len(s.Told) == 0 {
		return
	}
	maps.DeleteFunc(t, func(once string, by machine.Telling) bool {
		_, still := s.Told[once]
		return by.Run == s.Start.Run && !still || !recent(by.At, now)
	})
	for once, at := range s.Told {
		if by, taken := t[once]; recent(at, now) && (!taken || by.Run == s.Start.Run || at.After(by.At)) {
			t[once] = machine.Telling{Run: s.Start.Run, At: at}
		}
	}
}

func recent(at, now time.Time) bool { return now.Sub(at) < machine.OnceWithin }

// ask decides a command. Whoever tells something first with once is settled
// here: one loop decides for all runs, and the events say who it was.
func (b *batch) ask(st *staged, c machine.Command) (events []machine.Event, shared map[string]machine.Telling, refused error) {
	for {
		events, refused = machine.Decide(st.state, c)
		once, by := b.toldBefore(st, c, events)
		if once == "" {
			return events, c.Told, refused
		}
		more := map[string]machine.Telling{once: by}
		maps.Copy(more, c.Told)
		c.Told = more
	}
}

// toldBefore returns a text that the events tell and that another run has told;
// empty: there is none.
func (b *batch) toldBefore(st *staged, c machine.Command, events []machine.Event) (once string, by machine.Telling) {
	for i := range events {
		once = events[i].Once
		if _, known := c.Told[once]; events[i].Kind != machine.EffectStarted || once == "" || known {
			continue
		}
		for _, other := range b.runs {
			by = machine.Telling{Run: other.state.Start.Run, At: other.state.Told[once]}
			if other != st && b.e.standsTold(by, c.Now) {
				return once, by
			}
		}
		by, told := b.e.told[once]
		if told && by.Run != st.state.Start.Run && by.Run != st.r.id && b.e.standsTold(by, c.Now) && !b.withdrew(by.Run, once) {
			return once, by
		}
	}
	return "", by
}

// standsTold reports whether what a run told is not told again: within the hour,
// while one of that run's alerts fires or a run that left it to that one is open.
func (e *Executor) standsTold(by machine.Telling, now time.Time) bool {
	return recent(by.At, now) && (!e.dispatch.Over(by.Run) || e.leftTo(by.Run))
}

// leftTo reports whether an open run left what it had to tell to another run.
func (e *Executor) leftTo(teller string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, r := range e.open {
		if r.state.LeftTo(teller) {
			return true
		}
	}
	return false
}

// withdrew reports whether the batch has it that the run told nobody after all.
func (b *batch) withdrew(run, once string) bool {
	for _, st := range b.runs {
		if st.r.id == run {
			_, still := st.state.Told[once]
			return !still
		}
	}
	return false
}

// tellings collects what a run told with once from its entries: of an ended run
// nothing else is folded.
type tellings struct {
	by   map[string]time.Time
	open map[string]string // effects without an outcome, to the text of once
}

// read takes an entry of the run. What cannot be read is told again.
func (t *tellings) read(rec audit.Record) {
	kind := machine.EventKind(rec.Kind)
	begins := kind == machine.EffectStarted && bytes.Contains(rec.Data, []byte(`"once":`))
	if !begins && len(t.open) == 0 {
		return
	}
	switch kind {
	case machine.EffectStarted, machine.EffectFailed, machine.Notified, machine.RunEnded:
	default:
		return
	}
	ev, err := event(rec)
	if err != nil {
		return
	}
	once := t.open[ev.Effect]
	switch {
	case begins && ev.Once != "":
		if t.by == nil {
			t.by, t.open = map[string]time.Time{}, map[string]string{}
		}
		t.by[ev.Once], t.open[ev.Effect] = ev.At, ev.Once
	case kind == machine.RunEnded:
		for _, once := range t.open {
			delete(t.by, once)
		}
	case kind == machine.EffectFailed && once != "" && ev.NotUntil.IsZero():
		delete(t.by, once)
		delete(t.open, ev.Effect)
	case kind == machine.Notified:
		delete(t.open, ev.Effect)
	}
}
