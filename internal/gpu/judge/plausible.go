package judge

import (
	"fmt"

	"github.com/inference-responder/responder/internal/gpu"
)

// bound is the range in which a reading is plausible. The limits are wide: they
// catch broken sensors and drivers, not hot GPUs.
type bound struct {
	name      string
	at        func(*gpu.GPU) *gpu.Reading[int64]
	low, high int64
}

const (
	maxMHz = 20_000
	maxMW  = 10_000_000
)

var bounds = []bound{
	{"temperature.gpu_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.GPUC }, -40, 130},
	{"temperature.memory_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.MemoryC }, -40, 150},
	{"temperature.slowdown_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.SlowdownC }, 30, 150},
	{"temperature.shutdown_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.ShutdownC }, 30, 150},
	{"temperature.gpu_max_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.GPUMaxC }, 30, 150},
	{"temperature.mem_max_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.MemMaxC }, 30, 150},
	{"temperature.margin_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.MarginC }, -150, 150},
	{"temperature.slowdown_margin_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.SlowdownMarginC }, -60, 30},
	{"temperature.shutdown_margin_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.ShutdownMarginC }, -60, -1}, // past where it slows down, at 0
	{"temperature.gpu_max_margin_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.GPUMaxMarginC }, -60, 30},
	{"temperature.mem_max_margin_c", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Temperature.MemMaxMarginC }, -60, 30},
	{"clocks.sm_mhz", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Clocks.SMMHz }, 0, maxMHz},
	{"clocks.sm_max_mhz", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Clocks.SMMaxMHz }, 1, maxMHz},
	{"clocks.mem_mhz", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Clocks.MemMHz }, 0, maxMHz},
	{"clocks.mem_max_mhz", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Clocks.MemMaxMHz }, 1, maxMHz},
	{"clocks.pstate", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Clocks.PState }, 0, 15},
	{"power.draw_mw", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Power.DrawMW }, 0, maxMW},
	{"power.limit_mw", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Power.LimitMW }, 1, maxMW},
	{"power.default_limit_mw", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Power.DefaultLimitMW }, 1, maxMW},
	{"use.gpu_percent", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Use.GPUPercent }, 0, 100},
	{"use.memory_percent", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.Use.MemoryPercent }, 0, 100},
	{"pcie.generation", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.PCIe.Generation }, 0, 16},
	{"pcie.generation_max", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.PCIe.GenerationMax }, 1, 16},
	{"pcie.width", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.PCIe.Width }, 0, 32},
	{"pcie.width_max", func(g *gpu.GPU) *gpu.Reading[int64] { return &g.PCIe.WidthMax }, 1, 32},
}

// minuteBounds are the bounds for the minutes of history.
var minuteBounds = []struct {
	name      string
	at        func(*gpu.Minute) *gpu.Reading[int64]
	low, high int64
}{
	{"gpu_max_c", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.GPUMaxC }, -40, 130},
	{"mem_max_c", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.MemMaxC }, -40, 150},
	{"margin_min_c", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.MarginMinC }, -150, 150},
	{"sm_min_mhz", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.SMMinMHz }, 0, maxMHz},
	{"sm_mean_mhz", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.SMMeanMHz }, 0, maxMHz},
	{"power_mw", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.PowerMW }, 0, maxMW},
	{"gpu_percent", func(m *gpu.Minute) *gpu.Reading[int64] { return &m.GPUPercent }, 0, 100},
}

// believe makes implausible values unknown and lists them.
func believe(g gpu.GPU) (gpu.GPU, []gpu.ReadError) {
	var odd []gpu.ReadError
	check := func(name string, r *gpu.Reading[int64], low, high int64, minute int) {
		if v, ok := r.Get(); ok && (v < low || v > high) {
			if minute >= 0 {
				name = fmt.Sprintf("minutes[%d].%s", minute, name)
			}
			odd = append(odd, gpu.ReadError{What: name, Why: gpu.Implausible, Detail: fmt.Sprintf("%s=%d, want %d to %d", name, v, low, high)})
			*r = gpu.Unknown[int64](gpu.Implausible)
		}
	}
	for _, b := range bounds {
		check(b.name, b.at(&g), b.low, b.high, -1)
	}
	minutes := make([]gpu.Minute, len(g.Minutes)) // the caller's are not changed
	copy(minutes, g.Minutes)
	for i := range minutes {
		for _, b := range minuteBounds {
			check(b.name, b.at(&minutes[i]), b.low, b.high, i)
		}
	}
	g.Minutes = minutes
	used, ok1 := g.Use.MemoryUsedBytes.Get()
	total, ok2 := g.Use.MemoryTotalBytes.Get()
	if ok1 && ok2 && used > total {
		odd = append(odd, gpu.ReadError{What: "use.memory_used_bytes", Why: gpu.Implausible, Detail: fmt.Sprintf("%d used of %d", used, total)})
		g.Use.MemoryUsedBytes = gpu.Unknown[uint64](gpu.Implausible)
	}
	return g, odd
}
