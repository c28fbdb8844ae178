package sandbox

import (
	"context"
	"math"
	"slices"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// Meter counts the requests of a world as they are, which no Prometheus knows:
// those that never finish and those that clients gave up are bad.
type Meter struct {
	world *World
	last  map[*physics.Engine]counted
	sums  map[*fleet]counted
	drops map[*fleet]float64
}

type counted struct{ arrived, late, slow, finished float64 }

// NewMeter returns a meter of the world.
func NewMeter(w *World) *Meter {
	return &Meter{world: w, last: map[*physics.Engine]counted{}, sums: map[*fleet]counted{}, drops: map[*fleet]float64{}}
}

// Look adds what happened since the last look. No pod may live shorter than the
// time between two looks.
func (m *Meter) Look() {
	m.world.advance()
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	for _, f := range m.world.fleets {
		sum := m.sums[f.service()]
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
		dropped := f.dropped - m.drops[f]
		sum.arrived, sum.late, m.drops[f] = sum.arrived+dropped, sum.late+dropped, f.dropped
		m.sums[f.service()] = sum
	}
}

// Reading is what a service did since the previous reading, and its state now.
type Reading struct {
	Service          string  // name of the workload
	Bad              bool    // it missed an objective
	Requests         float64 // that arrived
	Late             float64 // share of them whose first token came too late, or never
	Slow             float64 // share of the finished ones whose further tokens came too slowly
	Running, Waiting int
	KV               float64 // the highest use of a KV cache
	Ready, Replicas  int
}

// Read returns a reading of each service.
func (m *Meter) Read() []Reading {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	var out []Reading
	for _, f := range m.world.fleets {
		if f.of != nil {
			continue
		}
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
		r := Reading{
			Service: f.ref.Name, Bad: beyond(c.late, c.arrived, ttft) || beyond(c.slow, c.finished, tpot),
			Requests: c.arrived, Late: c.late / max(1, c.arrived), Slow: c.slow / max(1, c.finished), Replicas: f.replicas,
		}
		pods := f.pods
		if f.split != nil {
			pods, r.Replicas = slices.Concat(pods, f.split.warm.pods), r.Replicas+f.split.warm.replicas
		}
		for _, p := range pods {
			if p.ready {
				r.Ready++
			}
			if p.engine != nil {
				r.Running, r.Waiting, r.KV = r.Running+p.engine.Running(), r.Waiting+p.engine.Waiting(), max(r.KV, p.engine.Usage())
			}
		}
		out = append(out, r)
	}
	return out
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

// Fired returns the names of the alerts that have fired, the first one first.
func (w *World) Fired(ctx context.Context) ([]string, error) {
	alerts, err := w.watch.alerts(ctx, w.clock.Now())
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(alerts, func(a, b playbook.Alert) int { return a.StartsAt.Compare(b.StartsAt) })
	var out []string
	for _, a := range alerts {
		if name := a.Labels["alertname"]; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}
