package dcgm

import (
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// How far back the past is queried, and the step: longer than [judge.MildXIDAge].
const (
	PastSpan = judge.MildXIDAge + time.Hour
	PastStep = time.Minute
)

// PastNames returns the series whose past matters: values are needed of some, and
// of counts only whether there was any.
func PastNames() (values, counts []string) {
	return []string{XIDGauge, maskName, oldMaskName}, []string{clockEventsName}
}

// Undated returns the UUIDs of GPUs with an XID or a slowdown that was already
// there when the interval began. [Exported.Past] then tells since when.
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

// onset returns when the XID gauge took on the value that it has at the beginning
// of the interval. The exporter repeats the last XID without end, so the time is
// known only if an earlier point has another value. After a missing point,
// orBefore is true.
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

// lasting returns the stretches of clocks event reasons, as far back as Prometheus
// was queried.
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
