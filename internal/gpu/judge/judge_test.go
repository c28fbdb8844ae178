package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// one judges a single GPU after a change to a healthy one.
func one(t *testing.T, change func(*gpu.GPU)) Judgement {
	t.Helper()
	g := h100(0)
	change(&g)
	n := Nodes(noon.Add(time.Second), snapshot(g))
	if len(n) != 1 || len(n[0].GPUs) != 1 {
		t.Fatalf("got %+v, want one judgement", n)
	}
	return n[0].GPUs[0]
}

// lastMinutes changes the last n minutes of history.
func lastMinutes(g *gpu.GPU, n int, change func(*gpu.Minute)) {
	for i := len(g.Minutes) - n; i < len(g.Minutes); i++ {
		change(&g.Minutes[i])
	}
}

func showing(bit gpu.Reasons, samples int) func(*gpu.Minute) {
	return func(m *gpu.Minute) { m.Reasons = map[gpu.Reasons]int{bit: samples} }
}

// inParts makes the GPU one of instances, as NVML shows such a one: row remapping
// and volatile errors are not given for the whole of it.
func inParts(g *gpu.GPU) {
	g.Rows = gpu.Rows{Pending: gpu.Unknown[bool](gpu.NotSupported), Failed: gpu.Unknown[bool](gpu.NotSupported)}
	g.ECC.VolatileUncorrectable, g.Baseline.Counters.VolatileUncorrectable = gpu.Unknown[uint64](gpu.NotSupported), gpu.Unknown[uint64](gpu.NotSupported)
	for i := range g.Minutes {
		g.Minutes[i].Counters.VolatileUncorrectable = gpu.Unknown[uint64](gpu.NotSupported)
	}
	g.MIG = gpu.MIG{Enabled: gpu.Known(true), Instances: []gpu.MIGInstance{{UUID: "MIG-1", Profile: "1g.10gb"}}}
}

type verdictCase struct {
	change   func(*gpu.GPU)
	want     Verdict
	rule     string // of the first reason; empty: none is looked at
	text     string // part of the first reason's text
	throttle Throttle
	reset    bool
	rma      bool
}

func (c verdictCase) check(t *testing.T) {
	t.Helper()
	j := one(t, c.change)
	if j.Verdict != c.want || j.Throttle != c.throttle || j.Reset != c.reset || j.RMA != c.rma {
		t.Errorf("got verdict %s, throttle %q, reset %v, rma %v, want %s, %q, %v, %v: %+v", j.Verdict, j.Throttle, j.Reset, j.RMA, c.want, c.throttle, c.reset, c.rma, j.Reasons)
	}
	if c.rule == "" {
		return
	}
	if len(j.Reasons) == 0 {
		t.Fatalf("got no reason, want one of rule %s", c.rule)
	}
	first := j.Reasons[0]
	if first.Rule != c.rule || !strings.Contains(first.Text, c.text) {
		t.Errorf("first reason is %s: %q, want %s: %q", first.Rule, first.Text, c.rule, c.text)
	}
	if first.Source == "" || strings.HasSuffix(first.Text, ".") {
		t.Errorf("reason %+v has no source, or ends with a full stop", first)
	}
}

func TestVerdictOfClocks(t *testing.T) {
	for name, c := range map[string]verdictCase{
		"nothing wrong": {change: func(*gpu.GPU) {}, want: Healthy},
		"idle": {change: func(g *gpu.GPU) {
			g.Clocks.Reasons, g.Clocks.SMMHz, g.Use.GPUPercent = gpu.Known(gpu.GPUIdle), gpu.Known[int64](345), gpu.Known[int64](0)
			lastMinutes(g, 10, func(m *gpu.Minute) {
				m.Reasons, m.GPUPercent, m.SMMeanMHz = map[gpu.Reasons]int{gpu.GPUIdle: 60}, gpu.Known[int64](0), gpu.Known[int64](345)
			})
		}, want: Healthy},
		"applications clocks": {change: func(g *gpu.GPU) {
			g.Clocks.Reasons = gpu.Known(gpu.ApplicationsClocks)
			lastMinutes(g, 10, showing(gpu.ApplicationsClocks, 60))
		}, want: Healthy},
		"at the power cap": {change: func(g *gpu.GPU) {
			g.Clocks.Reasons = gpu.Known(gpu.SWPowerCap)
			lastMinutes(g, 10, showing(gpu.SWPowerCap, 55))
		}, want: Busy, rule: "busy", text: "normal at full load"},
		"at full utilisation": {change: func(g *gpu.GPU) {
			lastMinutes(g, 10, func(m *gpu.Minute) { m.GPUPercent = gpu.Known[int64](99) })
		}, want: Busy, rule: "busy", text: "full utilisation"},
		"hardware thermal slowdown": {change: func(g *gpu.GPU) {
			g.Clocks.Reasons = gpu.Known(gpu.HWSlowdown | gpu.HWThermalSlowdown)
			lastMinutes(g, 4, func(m *gpu.Minute) { m.Reasons = map[gpu.Reasons]int{gpu.HWThermalSlowdown: 59, gpu.HWSlowdown: 59} })
		}, want: Throttled, rule: "throttle", text: "hardware thermal slowdown since 11:56 UTC", throttle: Thermal},
		"hardware slowdown for as long as is remembered": {change: func(g *gpu.GPU) { lastMinutes(g, 10, showing(gpu.HWSlowdown, 60)) }, want: Throttled, rule: "throttle", text: "hardware slowdown since 11:50 UTC or before", throttle: Hardware},
		"software thermal slowdown":                      {change: func(g *gpu.GPU) { lastMinutes(g, 3, showing(gpu.SWThermalSlowdown, 30)) }, want: Throttled, rule: "throttle", text: "software thermal slowdown since 11:57", throttle: Thermal},
		"power brake":                                    {change: func(g *gpu.GPU) { lastMinutes(g, 3, showing(gpu.HWPowerBrakeSlowdown, 30)) }, want: Throttled, rule: "throttle", text: "power brake", throttle: PowerBrake},
		"hardware slowdown":                              {change: func(g *gpu.GPU) { lastMinutes(g, 3, showing(gpu.HWSlowdown, 40)) }, want: Throttled, rule: "throttle", text: "hardware slowdown", throttle: Hardware},
		"a blip of hardware slowdown": {change: func(g *gpu.GPU) {
			g.Clocks.Reasons = gpu.Known(gpu.HWSlowdown)
			lastMinutes(g, 3, showing(gpu.HWSlowdown, 20))
		}, want: Healthy, rule: "throttle", text: "hardware slowdown in 3 of 10 minutes, which has not lasted"},
		"hardware slowdown in nearly half of all samples": {change: func(g *gpu.GPU) { lastMinutes(g, 10, showing(gpu.HWSlowdown, 27)) }, want: Healthy, rule: "throttle", text: "hardware slowdown in 10 of 10 minutes, which has not lasted"},
		"hardware thermal slowdown in each minute":        {change: func(g *gpu.GPU) { lastMinutes(g, 10, showing(gpu.HWThermalSlowdown, 5)) }, want: Degraded, rule: "throttle", text: "hardware thermal slowdown again and again, in 10 of the last 10 minutes", throttle: Thermal},
		"hardware thermal slowdown in one minute": {change: func(g *gpu.GPU) {
			g.Minutes[4].Reasons = map[gpu.Reasons]int{gpu.HWThermalSlowdown: 5}
		}, want: Healthy, rule: "throttle", text: "hardware thermal slowdown in 1 of 10 minutes, which has not lasted"},
		"software thermal slowdown in each minute": {change: func(g *gpu.GPU) { lastMinutes(g, 10, showing(gpu.SWThermalSlowdown, 5)) }, want: Healthy, rule: "throttle", text: "software thermal slowdown in 10 of 10 minutes, which"},
		"hardware thermal slowdown between samples": {change: func(g *gpu.GPU) {
			lastMinutes(g, 10, func(m *gpu.Minute) { m.Violation.HWThermalNS = gpu.Known[uint64](3_000_000_000) })
		}, want: Degraded, rule: "throttle", text: "again and again, in 10 of the last 10 minutes", throttle: Thermal},
		"a blip just now":                {change: func(g *gpu.GPU) { g.Clocks.Reasons = gpu.Known(gpu.HWSlowdown) }, want: Healthy, rule: "throttle", text: "hardware slowdown just now, which has not lasted"},
		"one sample of thermal slowdown": {change: func(g *gpu.GPU) { lastMinutes(g, 1, showing(gpu.HWThermalSlowdown, 1)) }, want: Healthy},
		"between samples, by the driver's count": {change: func(g *gpu.GPU) {
			lastMinutes(g, 3, func(m *gpu.Minute) { m.Violation.HWThermalNS = gpu.Known[uint64](20_000_000_000) })
		}, want: Throttled, rule: "throttle", text: "hardware thermal slowdown since 11:57", throttle: Thermal},
		"by the count of a driver that tells no kinds of heat": {change: func(g *gpu.GPU) {
			lastMinutes(g, 3, func(m *gpu.Minute) { m.Violation.ThermalNS = gpu.Known[uint64](20_000_000_000) })
		}, want: Throttled, rule: "throttle", text: "thermal slowdown since 11:57", throttle: Thermal},
		"by the count of either kind, which the kinds do not show": {change: func(g *gpu.GPU) {
			lastMinutes(g, 3, func(m *gpu.Minute) {
				m.Violation = gpu.Violations{SWThermalNS: gpu.Known[uint64](0), HWThermalNS: gpu.Known[uint64](0), ThermalNS: gpu.Known[uint64](20_000_000_000)}
			})
		}, want: Healthy},
		"a reason that is new":         {change: func(g *gpu.GPU) { g.Clocks.Reasons = gpu.Known(gpu.Reasons(0x400)) }, want: Uncertain, rule: "new-reason", text: "unknown clocks event reason"},
		"a reason that was new lately": {change: func(g *gpu.GPU) { lastMinutes(g, 2, showing(0x8000, 1)) }, want: Uncertain, rule: "new-reason"},
	} {
		t.Run(name, c.check)
	}
}

// limitless takes away what tells when the GPU slows down.
func limitless(g *gpu.GPU) {
	none := gpu.Unknown[int64](gpu.NotSupported)
	g.Temperature.GPUMaxC, g.Temperature.SlowdownC, g.Temperature.ShutdownC, g.Temperature.MarginC = none, none, none, none
}

func TestVerdictOfTemperature(t *testing.T) {
	for name, c := range map[string]verdictCase{
		"hot now and before": {change: func(g *gpu.GPU) {
			g.Temperature.GPUC = gpu.Known[int64](87)
			lastMinutes(g, 2, func(m *gpu.Minute) { m.GPUMaxC = gpu.Known[int64](88) })
		}, want: Throttled, rule: "temperature", text: "gpu at 87 °C or more since 11:58", throttle: Thermal},
		"hot just now": {change: func(g *gpu.GPU) {
			g.Temperature.GPUC = gpu.Known[int64](87)
			lastMinutes(g, 1, func(m *gpu.Minute) { m.GPUMaxC = gpu.Known[int64](87) }) // the reading itself is of the last minute
		}, want: Healthy, rule: "temperature", text: "just now"},
		"hot for as long as is remembered": {change: func(g *gpu.GPU) {
			g.Temperature.GPUC = gpu.Known[int64](87)
			lastMinutes(g, 10, func(m *gpu.Minute) { m.GPUMaxC = gpu.Known[int64](88) })
		}, want: Throttled, rule: "temperature", text: "gpu at 87 °C or more since 11:50 UTC or before", throttle: Thermal},
		"memory hot": {change: func(g *gpu.GPU) {
			g.Temperature.MemoryC = gpu.Known[int64](96)
			lastMinutes(g, 2, func(m *gpu.Minute) { m.MemMaxC = gpu.Known[int64](96) })
		}, want: Throttled, rule: "temperature", text: "memory at 95", throttle: Thermal},
		"no margin left": {change: func(g *gpu.GPU) {
			g.Temperature.MarginC = gpu.Known[int64](0)
			lastMinutes(g, 2, func(m *gpu.Minute) { m.MarginMinC = gpu.Known[int64](-1) })
		}, want: Throttled, rule: "temperature", text: "slows down since 11:58 UTC", throttle: Thermal},
		"no margin just now": {change: func(g *gpu.GPU) {
			g.Temperature.MarginC = gpu.Known[int64](0)
			lastMinutes(g, 1, func(m *gpu.Minute) { m.MarginMinC = gpu.Known[int64](0) })
		}, want: Healthy, rule: "temperature", text: "just now"},
		"about to go off": {change: func(g *gpu.GPU) { g.Temperature.GPUC = gpu.Known[int64](91) }, want: Throttled, rule: "temperature", text: "switch itself off", throttle: Thermal},
		"hot, and nothing says what is too hot": {change: func(g *gpu.GPU) {
			limitless(g)
			g.Temperature.GPUC = gpu.Known[int64](85)
		}, want: Uncertain, rule: "temperature", text: "85 °C, and the temperature at which it slows down is unknown"},
		"warm, and nothing says what is too hot": {change: func(g *gpu.GPU) {
			limitless(g)
			g.Temperature.GPUC = gpu.Known[int64](84)
		}, want: Healthy},
		"hot, with a margin left": {change: func(g *gpu.GPU) {
			limitless(g)
			g.Temperature.GPUC, g.Temperature.MarginC = gpu.Known[int64](85), gpu.Known[int64](4)
		}, want: Healthy},
		"a mad thermometer": {change: func(g *gpu.GPU) { g.Temperature.GPUC = gpu.Known[int64](900) }, want: Uncertain, text: "temperature", rule: "needed"},
	} {
		t.Run(name, c.check)
	}
}

func TestVerdictOfMemory(t *testing.T) {
	for name, c := range map[string]verdictCase{
		"new uncorrectable errors": {change: func(g *gpu.GPU) {
			g.ECC.VolatileUncorrectable, g.ECC.AggregateUncorrectable = gpu.Known[uint64](41), gpu.Known[uint64](41)
			lastMinutes(g, 2, func(m *gpu.Minute) { m.Counters.VolatileUncorrectable = gpu.Known[uint64](41) })
		}, want: Failing, rule: "ecc-uncorrectable", text: "41 uncorrectable ECC errors since 11:58 UTC", reset: true},
		"new before what is remembered by the minute": {change: func(g *gpu.GPU) {
			g.ECC.VolatileUncorrectable, g.ECC.AggregateUncorrectable = gpu.Known[uint64](41), gpu.Known[uint64](41)
			lastMinutes(g, 10, func(m *gpu.Minute) { m.Counters.VolatileUncorrectable = gpu.Known[uint64](41) })
		}, want: Failing, rule: "ecc-uncorrectable", text: "41 uncorrectable ECC errors since 11:50 UTC or before", reset: true},
		"new in the first minute of watching": {change: func(g *gpu.GPU) {
			g.ECC.VolatileUncorrectable = gpu.Known[uint64](2)
			g.Minutes = g.Minutes[7:]
			g.Baseline.At = g.Minutes[0].Start.Add(time.Second)
			lastMinutes(g, 3, func(m *gpu.Minute) { m.Counters.VolatileUncorrectable = gpu.Known[uint64](2) })
		}, want: Failing, rule: "ecc-uncorrectable", text: "2 uncorrectable ECC errors since 11:57 UTC", reset: true},
		"new in the life of the GPU only": {change: func(g *gpu.GPU) { g.ECC.AggregateUncorrectable = gpu.Known[uint64](1) }, want: Failing, rule: "ecc-uncorrectable", text: "1 uncorrectable ECC error", reset: true},
		"since the driver was loaded, before watching": {change: func(g *gpu.GPU) {
			g.ECC.VolatileUncorrectable, g.Baseline.Counters.VolatileUncorrectable = gpu.Known[uint64](3), gpu.Known[uint64](3)
		}, want: Degraded, rule: "ecc-uncorrectable", text: "3 uncorrectable ECC errors since the driver was loaded", reset: true},
		"the driver was loaded anew": {change: func(g *gpu.GPU) {
			g.ECC.VolatileUncorrectable, g.Baseline.Counters.VolatileUncorrectable = gpu.Known[uint64](2), gpu.Known[uint64](9)
		}, want: Failing, rule: "ecc-uncorrectable", text: "2 uncorrectable ECC errors", reset: true},
		"history of its life": {change: func(g *gpu.GPU) {
			g.ECC.AggregateUncorrectable, g.Baseline.Counters.AggregateUncorrectable = gpu.Known[uint64](7), gpu.Known[uint64](7)
		}, want: Healthy, rule: "ecc-uncorrectable", text: "7 uncorrectable ECC errors in its life"},
		"a life that grew shorter":  {change: func(g *gpu.GPU) { g.Baseline.Counters.AggregateUncorrectable = gpu.Known[uint64](7) }, want: Uncertain, rule: "ecc-uncorrectable", text: "went down"},
		"row remapping failed":      {change: func(g *gpu.GPU) { g.Rows.Failed = gpu.Known(true) }, want: Failing, rule: "memory-repair", text: "could not be remapped", rma: true},
		"row remapping pending":     {change: func(g *gpu.GPU) { g.Rows.Pending = gpu.Known(true) }, want: Degraded, rule: "memory-repair", text: "waits for a reset to be remapped", reset: true},
		"sram past its threshold":   {change: func(g *gpu.GPU) { g.ECC.SRAMThresholdExceeded = gpu.Known(true) }, want: Failing, rule: "memory-repair", text: "SRAM", rma: true},
		"a bank without spare rows": {change: func(g *gpu.GPU) { g.Rows.BanksNone = gpu.Known[uint64](1) }, want: Degraded, rule: "memory-repair", text: "1 memory bank"},
		"retired pages": {change: func(g *gpu.GPU) {
			g.Pages = gpu.Pages{SingleBit: gpu.Known[uint64](40), DoubleBit: gpu.Known[uint64](20), Pending: gpu.Known(false)}
		}, want: Failing, rule: "retired-pages", text: "60 retired pages", rma: true},
		"some retired pages": {change: func(g *gpu.GPU) {
			g.Pages = gpu.Pages{SingleBit: gpu.Known[uint64](14), DoubleBit: gpu.Known[uint64](1), Pending: gpu.Known(false)}
		}, want: Degraded, rule: "retired-pages", text: "15 retired pages"},
		"page retirement instead of row remapping": {change: func(g *gpu.GPU) {
			g.Rows = gpu.Rows{Pending: gpu.Unknown[bool](gpu.NotSupported), Failed: gpu.Unknown[bool](gpu.NotSupported)}
			g.Pages = gpu.Pages{SingleBit: gpu.Known[uint64](0), DoubleBit: gpu.Known[uint64](0), Pending: gpu.Known(false)}
		}, want: Healthy},
		"divided, so that rows cannot be read": {change: func(g *gpu.GPU) {
			g.Rows = gpu.Rows{Pending: gpu.Unknown[bool](gpu.NotSupported), Failed: gpu.Unknown[bool](gpu.NotSupported)}
			g.MIG = gpu.MIG{Enabled: gpu.Known(true), Instances: []gpu.MIGInstance{{UUID: "MIG-1", Profile: "1g.10gb"}}}
		}, want: Healthy, rule: "divided", text: "row remapping cannot be read"},
		"divided, so that volatile errors cannot be read": {change: inParts, want: Healthy, rule: "divided", text: "since the driver was loaded cannot be read while the GPU is divided"},
		"divided, and errors in its life": {change: func(g *gpu.GPU) {
			inParts(g)
			g.ECC.AggregateUncorrectable = gpu.Known[uint64](1)
		}, want: Failing, rule: "ecc-uncorrectable", text: "1 uncorrectable ECC error", reset: true},
		"divided, and errors in its life before watching": {change: func(g *gpu.GPU) {
			inParts(g)
			g.ECC.AggregateUncorrectable, g.Baseline.Counters.AggregateUncorrectable = gpu.Known[uint64](41), gpu.Known[uint64](41)
		}, want: Uncertain, rule: "ecc-uncorrectable", text: "41 uncorrectable ECC errors in its life; whether any came since the driver was loaded is unknown"},
		"divided, and errors of which nobody knows when": {change: func(g *gpu.GPU) {
			inParts(g)
			g.ECC.AggregateUncorrectable, g.Baseline.Counters.AggregateUncorrectable = gpu.Known[uint64](41), gpu.Unknown[uint64](gpu.Timeout)
		}, want: Uncertain, rule: "ecc-uncorrectable", text: "41 uncorrectable ECC errors in its life"},
		"divided, and none in its life, whatever was known before": {change: func(g *gpu.GPU) {
			inParts(g)
			g.Baseline.Counters.AggregateUncorrectable = gpu.Unknown[uint64](gpu.Timeout)
		}, want: Healthy, rule: "divided", text: "those of its life are"},
		"divided, and nothing tells of errors": {change: func(g *gpu.GPU) {
			inParts(g)
			g.ECC.AggregateUncorrectable = gpu.Unknown[uint64](gpu.NotSupported)
		}, want: Uncertain, rule: "needed", text: "its memory errors"},
		"divided, and errors could not be asked for": {change: func(g *gpu.GPU) {
			inParts(g)
			g.ECC.VolatileUncorrectable = gpu.Unknown[uint64](gpu.Failed)
		}, want: Uncertain, rule: "needed", text: "its memory errors"},
		"no repair can be read": {change: func(g *gpu.GPU) { g.Rows.Failed = gpu.Unknown[bool](gpu.NotSupported) }, want: Uncertain, rule: "needed", text: "repairs"},
		"ecc is off": {change: func(g *gpu.GPU) {
			g.ECC = gpu.ECC{Enabled: gpu.Known(false), VolatileUncorrectable: gpu.Unknown[uint64](gpu.NotSupported)}
		}, want: Uncertain, rule: "needed"},
		"the driver asks for a reset":       {change: func(g *gpu.GPU) { g.Recovery = gpu.Known(gpu.RecoveryReset) }, want: Failing, rule: "recovery-action", text: "asks for a reset", reset: true},
		"the driver asks for something new": {change: func(g *gpu.GPU) { g.Recovery = gpu.Known(gpu.RecoveryAction(9)) }, want: Uncertain, rule: "recovery-action", text: "unknown recovery action"},
	} {
		t.Run(name, c.check)
	}
}

func TestVerdictOfLinks(t *testing.T) {
	for name, c := range map[string]verdictCase{
		"half the lanes":  {change: func(g *gpu.GPU) { g.PCIe.Width = gpu.Known[int64](8) }, want: Degraded, rule: "pcie", text: "8 of 16 lanes"},
		"slow under load": {change: func(g *gpu.GPU) { g.PCIe.Generation = gpu.Known[int64](3) }, want: Degraded, rule: "pcie", text: "generation 3 of 5 under load"},
		"slow while idle": {change: func(g *gpu.GPU) {
			g.PCIe.Generation = gpu.Known[int64](1)
			lastMinutes(g, 10, func(m *gpu.Minute) { m.GPUPercent = gpu.Known[int64](0) })
		}, want: Healthy, rule: "pcie", text: "save power"},
		"replays": {change: func(g *gpu.GPU) {
			for i := range g.Minutes {
				g.Minutes[i].Counters.PCIeReplays = gpu.Known(uint64(i * 9))
			}
		}, want: Degraded, rule: "pcie", text: "9 PCIe replays"},
		"an NVLink replay": {change: func(g *gpu.GPU) {
			lastMinutes(g, 2, func(m *gpu.Minute) { m.Counters.NVLinkReplays = gpu.Known[uint64](1) })
		}, want: Degraded, rule: "nvlink", text: "NVLink replays, recoveries or integrity errors per minute"},
		"NVLink CRC errors that are corrected": {change: func(g *gpu.GPU) {
			for i := range g.Minutes {
				g.Minutes[i].Counters.NVLinkCRC = gpu.Known(uint64(i * 5999))
			}
		}, want: Healthy, rule: "nvlink", text: "which the links correct"},
		"NVLink CRC errors without end": {change: func(g *gpu.GPU) {
			for i := range g.Minutes {
				g.Minutes[i].Counters.NVLinkCRC = gpu.Known(uint64(i * 6000))
			}
		}, want: Degraded, rule: "nvlink", text: "6000 NVLink CRC errors per minute, 6000 is the limit"},
		"few replays": {change: func(g *gpu.GPU) {
			for i := range g.Minutes {
				g.Minutes[i].Counters.PCIeReplays = gpu.Known(uint64(i * 8))
			}
		}, want: Healthy},
		"a link down":                {change: func(g *gpu.GPU) { g.NVLinks[1].Active = gpu.Known(false) }, want: Degraded, rule: "nvlink", text: "1 of 2"},
		"no link in use":             {change: func(g *gpu.GPU) { g.NVLinks[0].Active, g.NVLinks[1].Active = gpu.Known(false), gpu.Known(false) }, want: Healthy, rule: "nvlink", text: "none of its 2 NVLinks is up, nor are those of a peer"},
		"fabric in progress":         {change: func(g *gpu.GPU) { g.Fabric.State = gpu.Known(gpu.FabricInProgress) }, want: Degraded, rule: "fabric", text: "not joined"},
		"fabric failed":              {change: func(g *gpu.GPU) { g.Fabric.Status = gpu.Known[int64](999) }, want: Failing, rule: "fabric", text: "999"},
		"fabric slow":                {change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](1) }, want: Degraded, rule: "fabric", text: "less bandwidth"},
		"fabric well":                {change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](2) }, want: Healthy},
		"a fabric route broken":      {change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](0x1a) }, want: Degraded, rule: "fabric", text: "a route of the NVLink fabric is broken"},
		"a fabric without partition": {change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](0x4aa) }, want: Degraded, rule: "fabric", text: "no partition"},
		"a fabric rightly set up":    {change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](0x1aa) }, want: Healthy},
		"a fabric finding that is new": {
			change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](0x10aa) }, want: Uncertain, rule: "fabric", text: "unknown bits: 0x1000",
		},
		"a fabric value that is new": {change: func(g *gpu.GPU) { g.Fabric.Health = gpu.Known[int64](0x3) }, want: Uncertain, rule: "fabric", text: "unknown bits: 0x3"},
		"a fabric state that is new": {change: func(g *gpu.GPU) { g.Fabric.State = gpu.Known(gpu.FabricState(7)) }, want: Uncertain, rule: "fabric", text: "state 7"},
	} {
		t.Run(name, c.check)
	}
}

func TestVerdictOfReadings(t *testing.T) {
	for name, c := range map[string]verdictCase{
		"lost": {change: func(g *gpu.GPU) {
			g.Temperature.GPUC, g.ECC.VolatileUncorrectable = gpu.Unknown[int64](gpu.Lost), gpu.Unknown[uint64](gpu.Lost)
		}, want: Failing, rule: "gpu-lost", text: "fallen off the bus", reset: true},
		"needs a reset": {change: func(g *gpu.GPU) {
			g.Clocks.Reasons, g.Power.DrawMW = gpu.Unknown[gpu.Reasons](gpu.NeedsReset), gpu.Unknown[int64](gpu.NeedsReset)
		}, want: Failing, rule: "needs-reset", text: "cannot be used before it is reset", reset: true},
		"a call that hangs":        {change: func(g *gpu.GPU) { g.Power.DrawMW = gpu.Unknown[int64](gpu.Timeout) }, want: Uncertain, rule: "readable", text: "1 reading could not be read"},
		"reasons not supported":    {change: func(g *gpu.GPU) { g.Clocks.Reasons = gpu.Unknown[gpu.Reasons](gpu.NotSupported) }, want: Uncertain, rule: "needed", text: "clocks.reasons"},
		"an optional reading less": {change: func(g *gpu.GPU) { g.Temperature.MemoryC = gpu.Unknown[int64](gpu.NotSupported) }, want: Healthy},
		"stale":                    {change: func(g *gpu.GPU) { g.TakenAt = noon.Add(-time.Minute) }, want: Uncertain, rule: "fresh", text: "old"},
		"no history":               {change: func(g *gpu.GPU) { g.Minutes = nil }, want: Uncertain, rule: "history", text: "too little history"},
		"short history":            {change: func(g *gpu.GPU) { g.Minutes = g.Minutes[9:] }, want: Uncertain, rule: "history", text: "less than 2m"},
		"history with holes":       {change: func(g *gpu.GPU) { lastMinutes(g, 3, func(m *gpu.Minute) { m.Samples, m.Missed = 25, 35 }) }, want: Uncertain, rule: "history", text: "missed"},
		"history that ended":       {change: func(g *gpu.GPU) { g.Minutes = g.Minutes[:5] }, want: Uncertain, rule: "history"},
		"absurd history":           {change: func(g *gpu.GPU) { lastMinutes(g, 1, func(m *gpu.Minute) { m.GPUMaxC = gpu.Known[int64](255) }) }, want: Uncertain, rule: "plausible", text: "minutes[9].gpu_max_c"},
		"more used than there is":  {change: func(g *gpu.GPU) { g.Use.MemoryUsedBytes = gpu.Known[uint64](81 << 30) }, want: Uncertain, rule: "readable"},
		"pods unknown":             {change: func(g *gpu.GPU) { g.Pods = gpu.Unknown[[]gpu.Pod](gpu.Timeout) }, want: Healthy, rule: "readable", text: "it may be any pod of the node"},
		"nothing but a uuid":       {change: func(g *gpu.GPU) { *g = gpu.GPU{UUID: g.UUID, TakenAt: g.TakenAt} }, want: Uncertain, rule: "history"},
	} {
		t.Run(name, c.check)
	}
}

// A thermometer that is broken for long is told of once for now, once for the past.
func TestBrokenSensorIsToldOnce(t *testing.T) {
	j := one(t, func(g *gpu.GPU) {
		g.Temperature.GPUC = gpu.Known[int64](400)
		lastMinutes(g, 10, func(m *gpu.Minute) { m.GPUMaxC, m.PowerMW = gpu.Known[int64](400), gpu.Known[int64](-1) })
	})
	var told []string
	for _, r := range j.Reasons {
		if r.Rule == "plausible" {
			told = append(told, r.Evidence)
		}
	}
	want := []string{"temperature.gpu_c=400, want -40 to 130", "minutes[0].gpu_max_c=400, want -40 to 130", "minutes[0].power_mw=-1, want 0 to 10000000"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// That nobody knows which pods hold the GPUs is said once, and is no fault.
func TestPodsUnknown(t *testing.T) {
	s := snapshot(h100(0), h100(1))
	for i := range s.GPUs {
		s.GPUs[i].Pods = gpu.Unknown[[]gpu.Pod](gpu.Failed)
	}
	s.Errors = []gpu.ReadError{{What: gpu.WhatPods, Why: gpu.Failed, Detail: "the kubelet is gone"}}
	n := Nodes(noon, s)[0]
	if n.Verdict != Healthy || len(n.Reasons) != 1 || !strings.Contains(n.Reasons[0].Evidence, "the kubelet is gone") || len(n.GPUs[0].Reasons) != 0 {
		t.Errorf("%+v", n)
	}
	if _, known := s.Held("serving", map[string]bool{"chat-1": true}); known {
		t.Error("unknown pods are known")
	}
}

// What is shown by all of the history began when the stretch says so, if that
// reaches into it.
func TestSinceByStretch(t *testing.T) {
	night := noon.Add(-9*time.Hour - 46*time.Minute)
	slowdown := func(s gpu.Stretch) func(*gpu.GPU) {
		return func(g *gpu.GPU) {
			lastMinutes(g, 10, showing(gpu.HWSlowdown, 60))
			g.Stretches = []gpu.Stretch{{Reason: gpu.GPUIdle, Since: night.Add(-time.Hour), Last: noon}, s}
		}
	}
	hot := func(s gpu.Stretch) func(*gpu.GPU) {
		return func(g *gpu.GPU) {
			g.Temperature.GPUC, g.Stretches = gpu.Known[int64](88), []gpu.Stretch{s}
			lastMinutes(g, 10, func(m *gpu.Minute) { m.GPUMaxC = gpu.Known[int64](88) })
		}
	}
	for name, c := range map[string]verdictCase{
		"begun while watched":   {change: slowdown(gpu.Stretch{Reason: gpu.HWSlowdown, Since: night, Last: noon}), text: "hardware slowdown since 02:14 UTC"},
		"or before":             {change: slowdown(gpu.Stretch{Reason: gpu.HWSlowdown, Since: night, Last: noon, OrBefore: true}), text: "hardware slowdown since 02:14 UTC or before"},
		"yesterday":             {change: slowdown(gpu.Stretch{Reason: gpu.HWSlowdown, Since: night.Add(-24 * time.Hour), Last: noon}), text: "hardware slowdown since 2026-08-21 02:14 UTC"},
		"one that ended before": {change: slowdown(gpu.Stretch{Reason: gpu.HWSlowdown, Since: night, Last: noon.Add(-11 * time.Minute)}), text: "hardware slowdown since 11:50 UTC or before"},
		"one that began later":  {change: slowdown(gpu.Stretch{Reason: gpu.HWSlowdown, Since: noon.Add(-8 * time.Minute), Last: noon}), text: "hardware slowdown since 11:50 UTC or before"},
		"of another reason":     {change: slowdown(gpu.Stretch{Reason: gpu.HWThermalSlowdown, Since: night, Last: noon}), text: "hardware slowdown since 11:50 UTC or before"},
		"heat":                  {change: hot(gpu.Stretch{Heat: gpu.HotGPU, Since: night, Last: noon}), text: "gpu at 87 °C or more since 02:14 UTC"},
		"heat of the memory":    {change: hot(gpu.Stretch{Heat: gpu.HotMemory, Since: night, Last: noon}), text: "gpu at 87 °C or more since 11:50 UTC or before"},
		"an ECC error": {change: func(g *gpu.GPU) {
			g.ECC.VolatileUncorrectable, g.Baseline.ErredAt = gpu.Known[uint64](41), night
			lastMinutes(g, 10, func(m *gpu.Minute) { m.Counters.VolatileUncorrectable = gpu.Known[uint64](41) })
		}, text: "41 uncorrectable ECC errors since 02:14 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			if j := one(t, c.change); len(j.Reasons) == 0 || j.Reasons[0].Text != c.text {
				t.Errorf("got %+v, want %q", j.Reasons, c.text)
			}
		})
	}
}
