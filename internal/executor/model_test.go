package executor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// model is what the dispatcher promises, in its simplest form: which episodes
// have had a run, and which runs are open. Runs of the test wait at a gate, so
// only the dispatcher moves them.
type model struct {
	had      map[string]bool            // episode had a part in a run
	resolved map[string]time.Time       // episode to when we learned
	open     map[string]map[string]bool // service to the episodes of its open run that fire
	inOpen   map[string]map[string]bool // service to all episodes of its open run
	runs     int
}

func newModel() *model {
	return &model{
		had: map[string]bool{}, resolved: map[string]time.Time{},
		open: map[string]map[string]bool{}, inOpen: map[string]map[string]bool{},
	}
}

// deliver is one alert of a notification that arrives now.
func (m *model) deliver(a playbook.Alert, now time.Time) {
	id, service := a.Episode(), a.Labels["service"]
	if a.Status == playbook.Resolved {
		if _, known := m.resolved[id]; known {
			return
		}
		m.resolved[id] = now
		if firing := m.open[service]; firing[id] {
			delete(firing, id)
			if len(firing) == 0 {
				delete(m.open, service) // the last one: cleared
			}
		}
		return
	}
	if a.StartsAt.After(now.Add(5 * time.Minute)) {
		return // a clock is wrong
	}
	if at, ok := m.resolved[id]; ok {
		// Late, or the same episode again: at most its open run hears of it.
		if _, part := m.open[service]; part && m.had[id] && now.Sub(at) >= 5*time.Minute && m.inOpen[service][id] {
			m.open[service][id] = true
			delete(m.resolved, id)
		}
		return
	}
	if m.had[id] {
		return
	}
	m.had[id] = true
	if m.open[service] == nil {
		m.open[service] = map[string]bool{}
		m.inOpen[service] = map[string]bool{}
		m.runs++
	}
	m.open[service][id] = true
	m.inOpen[service][id] = true
}

// TestDispatchAgainstModel delivers sequences as Alertmanagers do at their
// worst: repeats, a pair that sends everything twice, orders reversed, resolved
// before firing, a second "first notification", with restarts in between.
func TestDispatchAgainstModel(t *testing.T) {
	asking := loadSet(t, func(s string) string {
		s = strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1)
		return strings.Replace(s, "within: 15m", "within: 7d", 1) // nobody decides, nothing expires
	})
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawOp), 1, 40).Draw(rt, "ops")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			h := newRig(t)
			h.set = asking
			h.start()
			m, pool := newModel(), alertPool()
			for _, o := range append(ops, op{restart: true}) {
				switch {
				case o.restart:
					if err := h.stop(); err != nil {
						t.Fatal(err)
					}
					h.start()
				case len(o.alerts) == 0:
					h.pass(o.wait)
				default:
					h.deliver(m, o.notification(pool))
				}
				if wrong = h.differs(m); wrong != "" {
					return
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// op is one thing that happens: a notification, a pause, a restart.
type op struct {
	restart  bool
	wait     time.Duration
	alerts   []int // of the pool
	resolved []bool
	pair     bool
}

func drawOp(t *rapid.T) op {
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		return op{restart: true}
	case 1:
		return op{wait: time.Duration(rapid.SampledFrom([]int{10, 200, 400}).Draw(t, "seconds")) * time.Second}
	}
	o := op{pair: rapid.Bool().Draw(t, "pair"), alerts: rapid.SliceOfN(rapid.IntRange(0, 8), 1, 3).Draw(t, "alerts")}
	o.resolved = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) bool { return rapid.IntRange(0, 2).Draw(t, "x") == 0 }), 3, 3).Draw(t, "resolved")
	return o
}

func (o op) notification(pool []playbook.Alert) []playbook.Alert {
	var alerts []playbook.Alert
	for i, n := range o.alerts {
		a := pool[n]
		if o.resolved[i] {
			a.Status = playbook.Resolved
		}
		alerts = append(alerts, a)
	}
	if o.pair {
		alerts = append(alerts, alerts...)
	}
	return alerts
}

// alertPool is a few episodes of a few alerts on two services, one of them with
// a clock that is ahead.
func alertPool() []playbook.Alert {
	var pool []playbook.Alert
	for i := range 4 {
		for _, service := range []string{"a", "b"} {
			a := alertOf("Slow", service)
			a.Fingerprint = fmt.Sprintf("f%d-%s", i/2, service) // two episodes of each alert
			a.StartsAt = a.StartsAt.Add(time.Duration(i) * time.Second)
			pool = append(pool, a)
		}
	}
	ahead := alertOf("Slow", "a")
	ahead.Fingerprint, ahead.StartsAt = "ahead", ahead.StartsAt.Add(17*time.Minute)
	return append(pool, ahead)
}

func (h *rig) deliver(m *model, alerts []playbook.Alert) {
	now := time.Now().UTC().Round(0)
	for _, a := range alerts {
		m.deliver(a, now)
	}
	h.post(alerts...)
	h.pass(time.Second)
}

// differs reports how the executor differs from the model.
func (h *rig) differs(m *model) string {
	runs := h.runs()
	if len(runs) != m.runs {
		return fmt.Sprintf("%d runs, the model has %d; fates:\n%s", len(runs), m.runs, strings.Join(h.fates(), "\n"))
	}
	open := map[string][]string{}
	for _, s := range runs {
		if s.Phase == machine.PhaseEnded {
			if s.Ending.Outcome != machine.OutcomeCleared {
				return fmt.Sprintf("a run ended %s", s.Ending.Outcome)
			}
			continue
		}
		if open[s.Start.Service.Name] != nil {
			return fmt.Sprintf("two open runs on %s", s.Start.Service.Name)
		}
		open[s.Start.Service.Name] = firing(s)
	}
	want := map[string][]string{}
	for service, episodes := range m.open {
		want[service] = slices.Sorted(maps.Keys(episodes))
	}
	if fmt.Sprint(open) != fmt.Sprint(want) {
		return fmt.Sprintf("open runs and what fires in them: %v, the model has %v; fates:\n%s", open, want, strings.Join(h.fates(), "\n"))
	}
	return ""
}

func firing(s machine.State) []string {
	var out []string
	for id, ep := range s.Episodes.All() {
		if ep.Firing {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
