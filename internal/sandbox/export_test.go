package sandbox

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// Notifications returns what Alertmanager would post at now, one body for each
// service with alerts and one for the alerts about nodes.
func (w *World) Notifications(ctx context.Context, now time.Time) ([][]byte, error) {
	alerts, err := w.watch.alerts(ctx, now)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	add := func(group map[string]string, of func(a playbook.Alert) bool) {
		list := slices.DeleteFunc(slices.Clone(alerts), func(a playbook.Alert) bool { return !of(a) })
		if len(list) == 0 || err != nil {
			return
		}
		var body []byte
		if body, err = encode(list, group); err == nil {
			out = append(out, body)
		}
	}
	for _, f := range w.fleets {
		add(map[string]string{"namespace": f.ref.Namespace, "service": f.ref.Name}, func(a playbook.Alert) bool { return of(a, f.ref) })
	}
	add(map[string]string{}, func(a playbook.Alert) bool { return a.Labels["service"] == "" })
	return out, err
}

// Meter counts the requests of a world as they are, which no Prometheus knows:
// those that never finish and those that clients gave up are bad.
type Meter struct {
	world *World
	last  map[*physics.Engine]counted
	sums  map[*fleet]counted
}

type counted struct{ arrived, late, slow, finished float64 }

// NewMeter returns a meter of the world.
func NewMeter(w *World) *Meter {
	return &Meter{world: w, last: map[*physics.Engine]counted{}, sums: map[*fleet]counted{}}
}

// Look adds what happened since the last look. No pod may live shorter than the
// time between two looks.
func (m *Meter) Look() {
	m.world.advance()
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	for _, f := range m.world.fleets {
		sum := m.sums[f]
		for _, p := range f.pods {
			if p.engine == nil {
				continue
			}
			now, was := f.count(p.engine), m.last[p.engine]
			m.last[p.engine] = now
			sum.arrived += now.arrived - was.arrived
			sum.late += now.late - was.late
			sum.slow += now.slow - was.slow
			sum.finished += now.finished - was.finished
		}
		m.sums[f] = sum
	}
}

// Bad returns how many services missed an objective since the last call.
func (m *Meter) Bad() (n int) {
	for _, f := range m.world.fleets {
		c := m.sums[f]
		delete(m.sums, f)
		ttft, tpot := 0.0, 0.0
		for _, o := range f.spec.service.SLOs {
			switch o.Name {
			case "ttft":
				ttft = 1 - o.Objective
			case "tpot":
				tpot = 1 - o.Objective
			}
		}
		if beyond(c.late, c.arrived, ttft) || beyond(c.slow, c.finished, tpot) {
			n++
		}
	}
	return n
}

// beyond reports whether more events are bad than are allowed, by more than chance.
func beyond(bad, all, allowed float64) bool {
	return bad > allowed*all+3*math.Sqrt(allowed*all)
}

// count returns the requests of an engine so far.
func (f *fleet) count(e *physics.Engine) counted {
	over := func(h *physics.Histogram, slo string) (n float64) {
		for _, o := range f.spec.service.SLOs {
			if o.Name == slo {
				n += h.Above(o.Threshold)
			}
		}
		return n
	}
	return counted{arrived: e.Arrived, finished: e.Finished, late: e.Lost + e.Failed + over(&e.TTFT, "ttft"), slow: over(&e.TPOT, "tpot")}
}
