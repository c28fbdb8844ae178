package nvml

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// keptMinutes is how far back a snapshot reaches, in minutes.
const keptMinutes = gpu.MaxMinutes

// history is the recent past of one GPU. Its times come from time.Now and are
// compared by their monotonic part.
type history struct {
	period time.Duration

	mu       sync.Mutex   // guards what follows
	latest   gpu.GPU      // as read last
	last     time.Time    // when
	minutes  []minute     // oldest first; the last one may be running
	events   []gpu.Event  // oldest first
	dropped  time.Time    // when the youngest happened of those that were too many; zero: none was
	baseline gpu.Baseline // its At is zero until it was taken
	lasting  gpu.Stretches
}

// minute is a gpu.Minute under construction.
type minute struct {
	start    time.Time
	samples  int
	missed   int
	reasons  map[gpu.Reasons]int
	first    gpu.Violations // at its beginning
	now      gpu.Violations // at its end
	counters gpu.Counters

	gpuMax, memMax, margin, smMin gpu.Reading[int64]
	sm, power, busy               mean
}

// mean averages readings; unknown ones do not count.
type mean struct{ sum, n int64 }

func (m *mean) add(r gpu.Reading[int64]) {
	if v, ok := r.Get(); ok {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m *mean) value() gpu.Reading[int64] {
	if m.n == 0 {
		return gpu.Reading[int64]{}
	}
	return gpu.Known(m.sum / m.n)
}

// add records a sample that was taken, or attempted.
func (h *history) add(g gpu.GPU, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.skip(at)
	m := h.minute(at, g.Clocks.Violation)
	if reasons, ok := g.Clocks.Reasons.Get(); ok {
		m.samples++
		for _, bit := range reasons.Bits() {
			m.reasons[bit]++
		}
	} else {
		m.missed++
	}
	m.now, m.counters = g.Clocks.Violation, g.Counters()
	keep(&m.gpuMax, g.Temperature.GPUC, func(a, b int64) int64 { return max(a, b) })
	keep(&m.memMax, g.Temperature.MemoryC, func(a, b int64) int64 { return max(a, b) })
	keep(&m.margin, g.Temperature.MarginC, func(a, b int64) int64 { return min(a, b) })
	keep(&m.smMin, g.Clocks.SMMHz, func(a, b int64) int64 { return min(a, b) })
	m.sm.add(g.Clocks.SMMHz)
	m.power.add(g.Power.DrawMW)
	m.busy.add(g.Use.GPUPercent)
	switch {
	case h.baseline.At.IsZero():
		h.baseline = gpu.Baseline{At: at, Counters: m.counters}
	case h.baseline.ErredAt.IsZero() && h.baseline.Erred(m.counters):
		h.baseline.ErredAt = at
	}
	h.lasting.Add(g, at)
	h.latest, h.last = g, at
}

// skip counts the samples that were due since the last one and not taken because
// the driver did not return, each in the minute in which it was due.
func (h *history) skip(until time.Time) {
	if h.last.IsZero() {
		return
	}
	from := h.last
	if longest := keptMinutes * time.Minute; until.Sub(from) > longest {
		from = until.Add(-longest)
	}
	// A timer may be late by half a period.
	for due := from.Add(h.period); until.Sub(due) > h.period/2; due = due.Add(h.period) {
		h.minute(due, gpu.Violations{}).missed++
	}
}

// minute returns the minute that a time belongs to; v are the violation times
// then.
func (h *history) minute(at time.Time, v gpu.Violations) *minute {
	start, first := at, v
	if n := len(h.minutes); n > 0 {
		before := &h.minutes[n-1]
		if at.Sub(before.start) < time.Minute {
			return before
		}
		// Minutes are contiguous while samples are.
		if next := before.start.Add(time.Minute); at.Sub(next) < time.Minute {
			start, first = next, before.now
		}
	}
	h.minutes = append(h.minutes, minute{start: start, reasons: map[gpu.Reasons]int{}, first: first, now: first})
	if extra := len(h.minutes) - keptMinutes; extra > 0 {
		h.minutes = slices.Delete(h.minutes, 0, extra)
	}
	return &h.minutes[len(h.minutes)-1]
}

// happened records an event and drops one if there are too many.
func (h *history) happened(at time.Time, e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var dropped time.Time
	h.events, dropped = gpu.DropEvents(append(h.events, gpu.Event{At: at, Type: e.typ, Data: e.data}), gpu.MaxEvents)
	if dropped.After(h.dropped) {
		h.dropped = dropped
	}
}

// unbroken returns since when every event has been kept, given a time since which
// events were recorded without a break; zero: not known.
func (h *history) unbroken(since time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !since.IsZero() && h.dropped.After(since) {
		return h.dropped
	}
	return since
}

// restart takes a new baseline with the next sample and ends all stretches.
func (h *history) restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.baseline, h.lasting = gpu.Baseline{}, gpu.Stretches{}
}

// lost returns the GPU as it is reported once the driver no longer lists it.
func (h *history) lost(now time.Time) gpu.GPU {
	h.mu.Lock()
	g, last := h.latest.WithoutReadings(gpu.Lost), h.last
	h.mu.Unlock()
	g.TakenAt = now.Round(0).UTC()
	g.Errors = []gpu.ReadError{{What: "driver", Why: gpu.Lost, Detail: fmt.Sprintf("no longer listed; read last at %s as index %d", wall(last, now).Format(time.RFC3339), g.Index)}}
	h.into(&g, now)
	return g
}

// into adds the history to a GPU, by the present wall clock.
func (h *history) into(g *gpu.GPU, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.Minutes = make([]gpu.Minute, 0, len(h.minutes))
	for i := range h.minutes {
		m := &h.minutes[i]
		g.Minutes = append(g.Minutes, gpu.Minute{
			Start: wall(m.start, now), Samples: m.samples, Missed: m.missed,
			Reasons: maps.Clone(m.reasons), Violation: growth(m.first, m.now),
			GPUMaxC: m.gpuMax, MemMaxC: m.memMax, MarginMinC: m.margin, SMMinMHz: m.smMin,
			SMMeanMHz: m.sm.value(), PowerMW: m.power.value(), GPUPercent: m.busy.value(),
			Counters: m.counters,
		})
	}
	g.Events = slices.Clone(h.events)
	for i, e := range g.Events {
		g.Events[i].At = wall(e.At, now)
	}
	g.Stretches = h.lasting.All()
	for i, s := range g.Stretches {
		g.Stretches[i].Since, g.Stretches[i].Last = wall(s.Since, now), wall(s.Last, now)
	}
	if !h.baseline.At.IsZero() {
		g.Baseline = gpu.Baseline{At: wall(h.baseline.At, now), Counters: h.baseline.Counters}
	}
	if !h.baseline.ErredAt.IsZero() {
		g.Baseline.ErredAt = wall(h.baseline.ErredAt, now)
	}
}

// keep returns the better of two readings; an unknown one is never better.
func keep(into *gpu.Reading[int64], r gpu.Reading[int64], better func(a, b int64) int64) {
	v, ok := r.Get()
	if !ok {
		return
	}
	if have, ok := into.Get(); ok {
		v = better(have, v)
	}
	*into = gpu.Known(v)
}

// growth returns how much each violation time has grown.
func growth(first, now gpu.Violations) gpu.Violations {
	return gpu.Violations{
		SWPowerCapNS:   grown(first.SWPowerCapNS, now.SWPowerCapNS),
		SyncBoostNS:    grown(first.SyncBoostNS, now.SyncBoostNS),
		SWThermalNS:    grown(first.SWThermalNS, now.SWThermalNS),
		HWThermalNS:    grown(first.HWThermalNS, now.HWThermalNS),
		HWPowerBrakeNS: grown(first.HWPowerBrakeNS, now.HWPowerBrakeNS),
		ThermalNS:      grown(first.ThermalNS, now.ThermalNS),
	}
}

func grown(first, now gpu.Reading[uint64]) gpu.Reading[uint64] {
	a, ok := first.Get()
	if !ok {
		return first
	}
	b, ok := now.Get()
	switch {
	case !ok:
		return now
	case b < a: // the driver was loaded anew
		return gpu.Unknown[uint64](gpu.Implausible)
	default:
		return gpu.Known(b - a)
	}
}
