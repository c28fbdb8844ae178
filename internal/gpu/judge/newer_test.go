package judge

import (
	"testing"

	"github.com/inference-responder/responder/internal/gpu"
)

// TestVerdictByMargin: newer GPUs tell no limits but what is left to them.
func TestVerdictByMargin(t *testing.T) {
	newer := func(margin int64, change func(*gpu.Temperature)) func(*gpu.GPU) {
		return func(g *gpu.GPU) {
			t := &g.Temperature
			t.SlowdownC, t.ShutdownC, t.GPUMaxC, t.MemMaxC = gpu.Unknown[int64](gpu.NotSupported), gpu.Unknown[int64](gpu.NotSupported), gpu.Unknown[int64](gpu.NotSupported), gpu.Unknown[int64](gpu.NotSupported)
			t.MarginC, t.SlowdownMarginC, t.ShutdownMarginC, t.GPUMaxMarginC = gpu.Known(margin), gpu.Known[int64](-2), gpu.Known[int64](-8), gpu.Known[int64](0)
			change(t)
			lastMinutes(g, 10, func(m *gpu.Minute) { m.MarginMinC = gpu.Known(margin) })
		}
	}
	as := func(*gpu.Temperature) {}
	for name, c := range map[string]verdictCase{
		"cool":                           {change: newer(51, as), want: Healthy},
		"a degree left":                  {change: newer(1, as), want: Healthy},
		"none left":                      {change: newer(0, as), want: Throttled, rule: "temperature", text: "no margin is left", throttle: Thermal},
		"a threshold before that":        {change: newer(2, func(t *gpu.Temperature) { t.GPUMaxMarginC = gpu.Known[int64](2) }), want: Throttled, rule: "temperature", text: "no margin is left", throttle: Thermal},
		"one after it":                   {change: newer(0, func(t *gpu.Temperature) { t.GPUMaxMarginC = gpu.Known[int64](-1) }), want: Throttled, rule: "temperature", text: "no margin is left", throttle: Thermal},
		"about to switch off":            {change: newer(-7, as), want: Throttled, rule: "temperature", text: "1 °C from the temperature at which it switches itself off", throttle: Thermal},
		"past where it switches off":     {change: newer(-9, as), want: Throttled, rule: "temperature", text: "at the temperature at which it switches itself off, or past it", throttle: Thermal},
		"a shutdown before the slowdown": {change: newer(1, func(t *gpu.Temperature) { t.ShutdownMarginC = gpu.Known[int64](0) }), want: Uncertain, rule: "readable", text: "1 reading could not be read"},
		"without thresholds": {change: newer(51, func(t *gpu.Temperature) {
			t.SlowdownMarginC, t.ShutdownMarginC, t.GPUMaxMarginC = gpu.Unknown[int64](gpu.NotSupported), gpu.Unknown[int64](gpu.OldDriver), gpu.Reading[int64]{}
		}), want: Healthy},
		"an absurd threshold": {change: newer(51, func(t *gpu.Temperature) { t.GPUMaxMarginC = gpu.Known[int64](87) }), want: Uncertain, rule: "readable", text: "1 reading could not be read"},
	} {
		t.Run(name, c.check)
	}
}

// TestVerdictOfNVLink5: recoveries and integrity errors of a link that go on.
func TestVerdictOfNVLink5(t *testing.T) {
	links := func(change func(*gpu.NVLink)) func(*gpu.GPU) {
		return func(g *gpu.GPU) {
			for i := range g.NVLinks {
				l := &g.NVLinks[i]
				*l = gpu.NVLink{
					Link: l.Link, Active: gpu.Known(true), Replay: gpu.Unknown[uint64](gpu.NotSupported), CRCFlit: gpu.Unknown[uint64](gpu.NotSupported), CRCData: gpu.Unknown[uint64](gpu.NotSupported),
					Recovery: gpu.Known[uint64](0), RecoveryFailed: gpu.Known[uint64](0), IntegrityErrors: gpu.Known[uint64](0), SymbolErrors: gpu.Known[uint64](1 << 40),
				}
			}
			lastMinutes(g, 10, func(m *gpu.Minute) { m.Counters = g.Counters() })
			change(&g.NVLinks[1])
			lastMinutes(g, 2, func(m *gpu.Minute) { m.Counters = g.Counters() })
		}
	}
	for name, c := range map[string]verdictCase{
		"well":                        {change: links(func(*gpu.NVLink) {}), want: Healthy},
		"recoveries":                  {change: links(func(l *gpu.NVLink) { l.Recovery, l.RecoveryFailed = gpu.Known[uint64](4), gpu.Known[uint64](1) }), want: Degraded, rule: "nvlink", text: "NVLink replays, recoveries or integrity errors per minute"},
		"integrity errors":            {change: links(func(l *gpu.NVLink) { l.IntegrityErrors = gpu.Known[uint64](4) }), want: Degraded, rule: "nvlink"},
		"symbols that were corrected": {change: links(func(l *gpu.NVLink) { l.SymbolErrors = gpu.Known[uint64](1 << 41) }), want: Healthy},
		"not to be read":              {change: links(func(l *gpu.NVLink) { l.Recovery = gpu.Unknown[uint64](gpu.Failed) }), want: Uncertain},
	} {
		t.Run(name, c.check)
	}
}
