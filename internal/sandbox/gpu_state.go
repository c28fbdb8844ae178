package sandbox

import (
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// gpuState is the state of a GPU at a moment.
type gpuState struct {
	works   bool
	reasons gpu.Reasons
	celsius int64
	mhz     int64
	watts   int64
	percent int64
	errors  uint64 // uncorrectable
	pending bool   // row remapping
}

// stateAt returns the state of a GPU, at work or idle.
func (w *World) stateAt(n nodeSpec, index int, at time.Time, works bool) gpuState {
	rng := hash(w.scenario.seed ^ nameHash(n.name))
	minute := uint64(at.Unix()/60)*64 + uint64(index)
	s := gpuState{reasons: gpu.GPUIdle, celsius: 34 + int64(3*rng.unit("idle", minute)), mhz: 345, watts: 72}
	if works {
		s = gpuState{
			works: true, celsius: 58 + int64(5*rng.unit("work", minute)), mhz: 1950 + int64(30*rng.unit("clock", minute)),
			watts: 430 + int64(40*rng.unit("watts", minute)), percent: 62 + int64(10*rng.unit("percent", minute)),
		}
	}
	a, ill := w.ailmentOf(n, index, at)
	switch {
	case !ill:
	case a.kind == hot && works:
		s.reasons, s.celsius, s.mhz, s.watts = gpu.HWSlowdown|gpu.HWThermalSlowdown, 89, 810, 390
	case a.kind == failing:
		s.errors, s.pending = 41, true
		if works {
			s.reasons, s.mhz = gpu.HWSlowdown, 990
		}
	}
	return s
}

func healthyCounters() gpu.Counters {
	zero := gpu.Known[uint64](0)
	return gpu.Counters{VolatileCorrected: zero, VolatileUncorrectable: zero, AggregateUncorrectable: zero, RowsUncorrectable: zero, PCIeReplays: zero, NVLinkCRC: zero, NVLinkReplays: zero}
}

// into sets the readings as a driver would return them.
func (s gpuState) into(g *gpu.GPU) {
	none, zero := gpu.Known(false), gpu.Known[uint64](0)
	g.Clocks = gpu.Clocks{
		Reasons: gpu.Known(s.reasons), Supported: gpu.Known(gpu.Harmful | gpu.Benign | gpu.SWPowerCap),
		SMMHz: gpu.Known(s.mhz), SMMaxMHz: gpu.Known[int64](1980), MemMHz: gpu.Known[int64](2619), MemMaxMHz: gpu.Known[int64](2619),
	}
	g.Temperature = gpu.Temperature{
		GPUC: gpu.Known(s.celsius), MemoryC: gpu.Known(s.celsius + 7), SlowdownC: gpu.Known[int64](89), ShutdownC: gpu.Known[int64](92),
		GPUMaxC: gpu.Known[int64](87), MemMaxC: gpu.Known[int64](105),
	}
	g.Power = gpu.Power{DrawMW: gpu.Known(s.watts * 1000), LimitMW: gpu.Known[int64](700_000), DefaultLimitMW: gpu.Known[int64](700_000)}
	g.Use = gpu.Use{GPUPercent: gpu.Known(s.percent), MemoryPercent: gpu.Known(s.percent / 2), MemoryUsedBytes: zero, MemoryTotalBytes: gpu.Known[uint64](80 << 30)}
	if s.works {
		g.Use.MemoryUsedBytes = gpu.Known[uint64](74 << 30)
	}
	g.ECC = gpu.ECC{
		Enabled: gpu.Known(true), Pending: gpu.Known(true), VolatileCorrected: zero, AggregateCorrected: zero,
		VolatileUncorrectable: gpu.Known(s.errors), AggregateUncorrectable: gpu.Known(s.errors), SRAMThresholdExceeded: none,
	}
	g.Rows = gpu.Rows{Corrected: zero, Uncorrectable: zero, Pending: gpu.Known(s.pending), Failed: none, BanksMax: gpu.Known[uint64](640), BanksNone: zero}
	g.PCIe = gpu.PCIe{Generation: gpu.Known[int64](5), GenerationMax: gpu.Known[int64](5), Width: gpu.Known[int64](16), WidthMax: gpu.Known[int64](16), Replays: zero}
	g.Fabric = gpu.Fabric{State: gpu.Known(gpu.FabricCompleted), Status: gpu.Known[int64](0)}
}

// minute returns a whole minute in that state.
func (s gpuState) minute(start time.Time) gpu.Minute {
	m := gpu.Minute{
		Start: start.UTC(), Samples: 60, GPUMaxC: gpu.Known(s.celsius), MemMaxC: gpu.Known(s.celsius + 7),
		SMMinMHz: gpu.Known(s.mhz), SMMeanMHz: gpu.Known(s.mhz), PowerMW: gpu.Known(s.watts * 1000), GPUPercent: gpu.Known(s.percent),
		Counters: healthyCounters(),
	}
	m.Counters.VolatileUncorrectable, m.Counters.AggregateUncorrectable = gpu.Known(s.errors), gpu.Known(s.errors)
	return s.partly(m, m.Samples)
}

// partly returns the current, incomplete minute.
func (s gpuState) partly(m gpu.Minute, samples int) gpu.Minute {
	m.Samples, m.Reasons = samples, map[gpu.Reasons]int{}
	for _, b := range s.reasons.Bits() {
		m.Reasons[b] = samples
	}
	return m
}
