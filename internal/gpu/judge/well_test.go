package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// wellCooled are the limits of a GPU whose memory has a sensor.
var wellCooled = gpu.Temperature{MemoryC: gpu.Known[int64](60), SlowdownC: gpu.Known[int64](92), GPUMaxC: gpu.Known[int64](89), MemMaxC: gpu.Known[int64](95)}

// TestWellSinceWithoutLimits: a temperature that cannot be compared is no proof,
// but for memory of which the GPU, or its exporter, tells nothing.
func TestWellSinceWithoutLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits gpu.Temperature
		margin gpu.Reading[int64] // of the minute
		ends   string             // empty: it is well all the time
	}{
		"none at all":        {gpu.Temperature{SlowdownC: gpu.Unknown[int64](gpu.NotExported)}, gpu.Reading[int64]{}, "a temperature of which the limit is not exported in the minute from 11:59:00 UTC"},
		"the driver's alone": {gpu.Temperature{GPUMaxC: gpu.Known[int64](89)}, gpu.Reading[int64]{}, ""},
		"of memory none":     {gpu.Temperature{SlowdownC: gpu.Known[int64](92), MemoryC: gpu.Known[int64](60)}, gpu.Reading[int64]{}, ""},
		"the margin alone":   {gpu.Temperature{SlowdownC: gpu.Unknown[int64](gpu.NotSupported)}, gpu.Known[int64](20), ""},
		"a margin unread":    {gpu.Temperature{SlowdownC: gpu.Unknown[int64](gpu.NotSupported)}, gpu.Unknown[int64](gpu.Timeout), "a temperature of which the limit is not supported"},
		"without a sensor":   {gpu.Temperature{SlowdownC: gpu.Known[int64](92), MemMaxC: gpu.Known[int64](95)}, gpu.Reading[int64]{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gpu.GPU{TakenAt: noon, Temperature: c.limits, Minutes: []gpu.Minute{{Start: noon.Add(-time.Minute), Samples: 60, GPUMaxC: gpu.Known[int64](60), MarginMinC: c.margin}}}
			want := noon
			if c.ends == "" {
				want, c.ends = noon.Add(-time.Minute), "nothing is remembered"
			}
			if since, before := WellSince(g); !since.Equal(want) || !strings.Contains(before, c.ends) {
				t.Errorf("well since %s, before: %q; want %s, %q", since, before, want, c.ends)
			}
		})
	}
}

// TestWellSince: each thing in a minute that is no health ends the time that
// counts, and is named.
func TestWellSince(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gpu.Minute) // of the fourth minute before now
		ends   string            // empty: it is well all the time
	}{
		"well":                      {func(*gpu.Minute) {}, ""},
		"at its power limit":        {func(m *gpu.Minute) { m.Reasons[gpu.SWPowerCap] = 60 }, ""},
		"a change of P-state":       {func(m *gpu.Minute) { m.Reasons[gpu.HWSlowdown] = 20 }, ""},
		"slowed down":               {func(m *gpu.Minute) { m.Reasons[gpu.HWSlowdown] = 40 }, "hardware slowdown in the minute from 11:56:00 UTC"},
		"too hot, once":             {func(m *gpu.Minute) { m.Reasons[gpu.HWThermalSlowdown] = 1 }, "hardware thermal slowdown in"},
		"too hot, between samples":  {func(m *gpu.Minute) { m.Violation.SWThermalNS = gpu.Known(uint64(10 * time.Second)) }, "software thermal slowdown in"},
		"as hot as it may be":       {func(m *gpu.Minute) { m.GPUMaxC = gpu.Known[int64](89) }, "89 °C, where it slows down in"},
		"its memory is":             {func(m *gpu.Minute) { m.MemMaxC = gpu.Known[int64](95) }, "95 °C, where it slows down in"},
		"a reason nobody knows":     {func(m *gpu.Minute) { m.Reasons[1<<40] = 1 }, "unknown clocks event reason in"},
		"no margin left":            {func(m *gpu.Minute) { m.MarginMinC = gpu.Known[int64](0) }, "no margin left to where it slows down in the minute from 11:56:00 UTC"},
		"a margin left":             {func(m *gpu.Minute) { m.MarginMinC = gpu.Known[int64](1) }, ""},
		"its temperature unread":    {func(m *gpu.Minute) { m.GPUMaxC = gpu.Unknown[int64](gpu.Failed) }, "a temperature that could not be read in the minute from 11:56:00 UTC"},
		"nobody tried to read it":   {func(m *gpu.Minute) { m.GPUMaxC = gpu.Reading[int64]{} }, "a temperature that was not read in"},
		"its memory's is unread":    {func(m *gpu.Minute) { m.MemMaxC = gpu.Unknown[int64](gpu.Timeout) }, "a temperature of its memory that was not answered in time in"},
		"most samples were missed":  {func(m *gpu.Minute) { m.Samples, m.Missed = 29, 31 }, "29 samples of 60 in"},
		"a minute is not there":     {func(m *gpu.Minute) { m.Start = m.Start.Add(-time.Hour) }, "nothing is known from 10:57:00 to 11:57:00 UTC"},
		"a clock that went forward": {func(m *gpu.Minute) { m.Start = m.Start.Add(-2 * time.Minute) }, "nothing is known from 11:55:00 to 11:57:00 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gpu.GPU{TakenAt: noon, Temperature: wellCooled}
			for i := range 8 {
				m := gpu.Minute{Start: noon.Add(time.Duration(i-8) * time.Minute), Samples: 60, Reasons: map[gpu.Reasons]int{gpu.GPUIdle: 60}, GPUMaxC: gpu.Known[int64](88), MemMaxC: gpu.Known[int64](90)}
				if i == 4 {
					c.change(&m)
				}
				g.Minutes = append(g.Minutes, m)
			}
			want := noon.Add(-3 * time.Minute)
			if c.ends == "" {
				want, c.ends = noon.Add(-8*time.Minute), "nothing is remembered before 11:52:00 UTC"
			}
			if since, before := WellSince(g); !since.Equal(want) || !strings.Contains(before, c.ends) {
				t.Errorf("well since %s, before: %q; want %s, %q", since, before, want, c.ends)
			}
		})
	}
	running := gpu.GPU{TakenAt: noon, Temperature: wellCooled, Minutes: []gpu.Minute{{Start: noon.Add(-time.Minute), Samples: 60, GPUMaxC: gpu.Known[int64](60), MemMaxC: gpu.Known[int64](60)}, {Start: noon}}}
	if since, _ := WellSince(running); !since.Equal(noon.Add(-time.Minute)) {
		t.Errorf("well since %s: the minute that has just begun has no sample yet", since)
	}
	if since, _ := WellSince(gpu.GPU{TakenAt: noon}); !since.Equal(noon) {
		t.Errorf("without history, well since %s", since)
	}
}
