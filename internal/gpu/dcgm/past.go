package dcgm

import (
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// How far back it is asked what went on already when the last minutes began, and
// how far apart: longer than an XID counts after which the GPU goes on working.
const (
	PastSpan = judge.MildXIDAge + time.Hour
	PastStep = time.Minute
)

// PastNames lists the series of which the past is worth asking for: of some
// it matters which values they had, of counts whether there was any.
func PastNames() (values, counts []string) {
	return []string{XIDGauge, maskName, oldMaskName}, []string{clockEventsName}
}

// Undated lists the GPUs, by UUID, of which something that counts went on already
// when the last minutes began: what [Exported] tells of their past says since when.
func Undated(s gpu.Snapshot) []string {
	var out []string
	for _, g := range s.GPUs {
		xid := slices.ContainsFunc(g.Events, func(e gpu.Event) bool {
			code, ok := e.XID()
			return ok && e.OrBefore && !gpu.HarmlessXID(code)
		})
		slow := slices.ContainsFunc(g.Stretches, func(one gpu.Stretch) bool { return one.OrBefore && one.Reason&gpu.Harmful != 0 })
		if xid || slow {
			out = append(out, g.UUID)
		}
	}
	return out
}

// onset is when the gauge of XIDs took on a value that it has at the beginning
// of the last minutes. The exporter gives the last XID without end; only where it
// was seen to have had another value before is it known when this one came. A
// point that is missing hides what happened: it may have come right after it.
func (d *device) onset(code float64, e Exported) (at time.Time, orBefore bool) {
	gauge := map[int64][]float64{}
	for _, s := range d.past {
		if s.Name != XIDGauge {
			continue
		}
		for _, p := range s.Points {
			gauge[p.At.Unix()] = append(gauge[p.At.Unix()], p.Value)
		}
	}
	at = e.From
	for at.After(e.From.Add(-PastSpan)) {
		before := at.Add(-PastStep)
		values := gauge[before.Unix()]
		if !slices.Contains(values, code) {
			return at, len(values) == 0
		}
		at = before
	}
	return at, true
}

// lasting is what has gone on, as far back as Prometheus was asked for it.
func (d *device) lasting(masks []mask, e Exported) []gpu.Stretch {
	var s gpu.Stretches
	for _, m := range masksOf(d.past) {
		if m.at.Before(e.From) {
			s.Add(gpu.GPU{Clocks: gpu.Clocks{Reasons: gpu.Known(m.mask)}}, m.at)
		}
	}
	for _, m := range masks {
		s.Add(gpu.GPU{Clocks: gpu.Clocks{Reasons: gpu.Known(m.mask)}}, m.at)
	}
	return s.All()
}
