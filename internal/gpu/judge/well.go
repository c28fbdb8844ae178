package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// WellSince returns since when the remembered minutes show a healthy GPU without a
// gap, and what precedes that. It does not judge the present: [Nodes] does, with
// rules that also cover events and growing counters.
func WellSince(g gpu.GPU) (since time.Time, before string) {
	since = g.TakenAt
	for i, m := range slices.Backward(g.Minutes) {
		switch unwell, running := unwell(g, m), i == len(g.Minutes)-1; {
		case since.Sub(m.Start) > 2*time.Minute:
			return since, fmt.Sprintf("nothing is known from %s to %s", m.Start.Add(time.Minute).UTC().Format("15:04:05"), utc(since))
		case unwell != "":
			return since, fmt.Sprintf("%s in the minute from %s", unwell, utc(m.Start))
		case running && m.Missed <= 1 && m.Samples == 0: // none was due yet
		case m.Samples == 0 || m.Missed > m.Samples:
			return since, fmt.Sprintf("%d samples of %d in the minute from %s", m.Samples, m.Samples+m.Missed, utc(m.Start))
		default:
			since = m.Start
		}
	}
	return since, "nothing is remembered before " + utc(since)
}

func utc(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

// unwell returns what is unhealthy about a minute; empty: nothing. One sample with
// a harmful reason is enough, except for the reason that may show up briefly. A
// temperature that was not read, or whose limit is unknown, counts as unhealthy.
func unwell(g gpu.GPU, m gpu.Minute) string {
	for _, b := range brakes {
		lost, _ := b.lost(m.Violation).Get()
		brief := b.bit == gpu.HWSlowdown && float64(m.Reasons[b.bit]) < b.share*float64(m.Samples)
		if m.Reasons[b.bit] > 0 && !brief || float64(lost) >= b.share*float64(time.Minute) {
			return b.name()
		}
	}
	for bit, n := range m.Reasons {
		if n > 0 && bit&^knownReasons != 0 {
			return "an unknown clocks event reason"
		}
	}
	for _, limit := range []struct{ was, most gpu.Reading[int64] }{
		{m.GPUMaxC, g.Temperature.SlowdownC}, {m.GPUMaxC, g.Temperature.GPUMaxC}, {m.MemMaxC, g.Temperature.MemMaxC},
	} {
		c, read := limit.was.Get()
		if most, known := limit.most.Get(); read && known && c >= most {
			return fmt.Sprintf("%d °C, where it slows down", c)
		}
	}
	if left, read := m.MarginMinC.Get(); read && left <= g.Temperature.LeastMargin() {
		return "no margin left to where it slows down"
	}
	if m.Samples == 0 {
		return "" // WellSince reports the missing samples
	}
	return unmeasured(g, m)
}

// unmeasured returns which temperature of a minute was not read or has no known
// limit; empty: none. According to nvml.h, drivers for Ada and later report only
// the margin. Memory counts only if the GPU reports its temperature and its limit.
func unmeasured(g gpu.GPU, m gpu.Minute) string {
	_, slow := g.Temperature.SlowdownC.Get()
	_, most := g.Temperature.GPUMaxC.Get()
	if _, margin := m.MarginMinC.Get(); !slow && !most && !margin {
		return "a temperature of which the limit " + g.Temperature.SlowdownC.Why().Text()
	}
	if _, read := m.GPUMaxC.Get(); !read {
		return "a temperature that " + m.GPUMaxC.Why().Text()
	}
	_, sensor := g.Temperature.MemoryC.Get()
	_, limit := g.Temperature.MemMaxC.Get()
	if _, read := m.MemMaxC.Get(); sensor && limit && !read {
		return "a temperature of its memory that " + m.MemMaxC.Why().Text()
	}
	return ""
}
