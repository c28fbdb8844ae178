//go:build cgo

package nvml

import (
	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-responder/responder/internal/gpu"
)

func same[T any](v T) T                 { return v }
func from32(v uint32) int64             { return int64(v) }
func fromInt(v int) int64               { return int64(v) }
func enabled(v nvidia.EnableState) bool { return v == nvidia.FEATURE_ENABLED }

// with binds the one argument of a call.
func with[A, V any](call func(A) (V, nvidia.Return), arg A) func() (V, nvidia.Return) {
	return func() (V, nvidia.Return) { return call(arg) }
}

// fast reads what changes every second.
func (d *device) fast(g *gpu.GPU, before func(string)) error {
	d.begin(fast)
	c := &g.Clocks
	// The older name is the only one before R535; the bits are the same.
	name, call := "nvmlDeviceGetCurrentClocksEventReasons", d.dev.GetCurrentClocksEventReasons
	if !d.has(name) {
		name, call = "nvmlDeviceGetCurrentClocksThrottleReasons", d.dev.GetCurrentClocksThrottleReasons
	}
	c.Reasons = get(d, before, name, call, func(v uint64) gpu.Reasons { return gpu.Reasons(v) })
	c.SMMHz = get(d, before, "nvmlDeviceGetClockInfo", with(d.dev.GetClockInfo, nvidia.CLOCK_SM), from32)
	c.MemMHz = get(d, before, "nvmlDeviceGetClockInfo", with(d.dev.GetClockInfo, nvidia.CLOCK_MEM), from32)
	c.PState = get(d, before, "nvmlDeviceGetPerformanceState", d.dev.GetPerformanceState, func(v nvidia.Pstates) int64 { return int64(v) })
	if state, ok := c.PState.Get(); ok && state > int64(nvidia.PSTATE_15) {
		c.PState = gpu.Unknown[int64](gpu.NotSupported) // the driver's own "unknown"
	}
	g.Temperature.GPUC = get(d, before, "nvmlDeviceGetTemperature", with(d.dev.GetTemperature, nvidia.TEMPERATURE_GPU), from32)
	g.Temperature.MarginC = get(d, before, "nvmlDeviceGetMarginTemperature", d.dev.GetMarginTemperature,
		func(m nvidia.MarginTemperature) int64 { return int64(m.MarginTemperature) })
	g.Power.DrawMW = get(d, before, "nvmlDeviceGetPowerUsage", d.dev.GetPowerUsage, from32)
	g.Power.LimitMW = get(d, before, "nvmlDeviceGetEnforcedPowerLimit", d.dev.GetEnforcedPowerLimit, from32)

	use := get(d, before, "nvmlDeviceGetUtilizationRates", d.dev.GetUtilizationRates, same)
	g.Use.GPUPercent = part(use, func(u nvidia.Utilization) int64 { return int64(u.Gpu) })
	g.Use.MemoryPercent = part(use, func(u nvidia.Utilization) int64 { return int64(u.Memory) })
	d.memory(g, before)
	d.fields(g, before)
	return d.done(g)
}

// memory reads the use of the GPU's memory.
func (d *device) memory(g *gpu.GPU, before func(string)) {
	const second = "nvmlDeviceGetMemoryInfo_v2"
	if d.has(second) {
		m := get(d, before, second, d.dev.GetMemoryInfo_v2, same)
		g.Use.MemoryTotalBytes = part(m, func(m nvidia.Memory_v2) uint64 { return m.Total })
		g.Use.MemoryUsedBytes = part(m, func(m nvidia.Memory_v2) uint64 { return m.Used })
		g.Use.MemoryReservedBytes = part(m, func(m nvidia.Memory_v2) uint64 { return m.Reserved })
		return
	}
	// The first version counts memory reserved by the driver as used.
	m := get(d, before, "nvmlDeviceGetMemoryInfo", d.dev.GetMemoryInfo, same)
	g.Use.MemoryTotalBytes = part(m, func(m nvidia.Memory) uint64 { return m.Total })
	g.Use.MemoryUsedBytes = part(m, func(m nvidia.Memory) uint64 { return m.Used })
	g.Use.MemoryReservedBytes = gpu.Unknown[uint64](gpu.OldDriver)
}

// fields reads values without a function of their own, in one call.
func (d *device) fields(g *gpu.GPU, before func(string)) {
	v := &g.Clocks.Violation
	counters := []struct {
		id   uint32
		into *gpu.Reading[uint64]
	}{
		{nvidia.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, &v.SWPowerCapNS},
		{nvidia.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, &v.SyncBoostNS},
		{nvidia.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, &v.SWThermalNS},
		{nvidia.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, &v.HWThermalNS},
		{nvidia.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, &v.HWPowerBrakeNS},
		{nvidia.FI_DEV_PERF_POLICY_THERMAL, &v.ThermalNS},
	}
	values := make([]nvidia.FieldValue, 0, len(counters)+2)
	for _, c := range counters {
		values = append(values, nvidia.FieldValue{FieldId: c.id})
	}
	values = append(values, nvidia.FieldValue{FieldId: nvidia.FI_DEV_MEMORY_TEMP}, nvidia.FieldValue{FieldId: nvidia.FI_DEV_GET_GPU_RECOVERY_ACTION})
	all := d.values(values, before)
	for i, c := range counters {
		*c.into = field(all, i, number)
	}
	g.Temperature.MemoryC = part(field(all, len(counters), number), func(v uint64) int64 { return int64(v) })
	g.Recovery = part(field(all, len(counters)+1, number), func(v uint64) gpu.RecoveryAction { return gpu.RecoveryAction(v) })
}

// slow reads counters and links.
func (d *device) slow(g *gpu.GPU, before func(string)) error {
	d.begin(slow)
	d.ecc(&g.ECC, before)
	d.rows(g, before)
	d.pcie(&g.PCIe, before)
	d.nvlinks(g, before)
	d.fabric(&g.Fabric, before)
	g.MIG = d.mig(before)
	return d.done(g)
}

func (d *device) ecc(e *gpu.ECC, before func(string)) {
	type modes struct{ now, next bool }
	mode := get(d, before, "nvmlDeviceGetEccMode", func() (modes, nvidia.Return) {
		now, next, r := d.dev.GetEccMode()
		return modes{enabled(now), enabled(next)}, r
	}, same)
	e.Enabled = part(mode, func(m modes) bool { return m.now })
	e.Pending = part(mode, func(m modes) bool { return m.next })
	total := func(kind nvidia.MemoryErrorType, counter nvidia.EccCounterType) gpu.Reading[uint64] {
		return get(d, before, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvidia.Return) { return d.dev.GetTotalEccErrors(kind, counter) }, same)
	}
	e.VolatileCorrected = total(nvidia.MEMORY_ERROR_TYPE_CORRECTED, nvidia.VOLATILE_ECC)
	e.VolatileUncorrectable = total(nvidia.MEMORY_ERROR_TYPE_UNCORRECTED, nvidia.VOLATILE_ECC)
	e.AggregateCorrected = total(nvidia.MEMORY_ERROR_TYPE_CORRECTED, nvidia.AGGREGATE_ECC)
	e.AggregateUncorrectable = total(nvidia.MEMORY_ERROR_TYPE_UNCORRECTED, nvidia.AGGREGATE_ECC)
	in := func(memory nvidia.MemoryLocation, counter nvidia.EccCounterType) gpu.Reading[uint64] {
		return get(d, before, "nvmlDeviceGetMemoryErrorCounter", func() (uint64, nvidia.Return) {
			return d.dev.GetMemoryErrorCounter(nvidia.MEMORY_ERROR_TYPE_UNCORRECTED, counter, memory)
		}, same)
	}
	e.SRAMVolatileUncorrectable = in(nvidia.MEMORY_LOCATION_SRAM, nvidia.VOLATILE_ECC)
	e.SRAMAggregateUncorrectable = in(nvidia.MEMORY_LOCATION_SRAM, nvidia.AGGREGATE_ECC)
	e.DRAMVolatileUncorrectable = in(nvidia.MEMORY_LOCATION_DRAM, nvidia.VOLATILE_ECC)
	e.DRAMAggregateUncorrectable = in(nvidia.MEMORY_LOCATION_DRAM, nvidia.AGGREGATE_ECC)
	e.SRAMThresholdExceeded = get(d, before, "nvmlDeviceGetSramEccErrorStatus", d.dev.GetSramEccErrorStatus,
		func(s nvidia.EccSramErrorStatus) bool { return s.BThresholdExceeded != 0 })
}

// rows reads row remapping, or page retirement on older GPUs.
func (d *device) rows(g *gpu.GPU, before func(string)) {
	type remapped struct {
		corrected, uncorrectable uint64
		pending, failed          bool
	}
	r := get(d, before, "nvmlDeviceGetRemappedRows", func() (remapped, nvidia.Return) {
		corrected, uncorrectable, pending, failed, r := d.dev.GetRemappedRows()
		return remapped{uint64(corrected), uint64(uncorrectable), pending, failed}, r
	}, same)
	g.Rows.Corrected = part(r, func(r remapped) uint64 { return r.corrected })
	g.Rows.Uncorrectable = part(r, func(r remapped) uint64 { return r.uncorrectable })
	g.Rows.Pending = part(r, func(r remapped) bool { return r.pending })
	g.Rows.Failed = part(r, func(r remapped) bool { return r.failed })

	banks := get(d, before, "nvmlDeviceGetRowRemapperHistogram", d.dev.GetRowRemapperHistogram, same)
	g.Rows.BanksMax = part(banks, func(h nvidia.RowRemapperHistogramValues) uint64 { return uint64(h.Max) })
	g.Rows.BanksHigh = part(banks, func(h nvidia.RowRemapperHistogramValues) uint64 { return uint64(h.High) })
	g.Rows.BanksPartial = part(banks, func(h nvidia.RowRemapperHistogramValues) uint64 { return uint64(h.Partial) })
	g.Rows.BanksLow = part(banks, func(h nvidia.RowRemapperHistogramValues) uint64 { return uint64(h.Low) })
	g.Rows.BanksNone = part(banks, func(h nvidia.RowRemapperHistogramValues) uint64 { return uint64(h.None) })

	repair := get(d, before, "nvmlDeviceGetRepairStatus", d.dev.GetRepairStatus, same)
	g.Rows.ChannelRepairPending = part(repair, func(s nvidia.RepairStatus) bool { return s.BChannelRepairPending != 0 })
	g.Rows.TPCRepairPending = part(repair, func(s nvidia.RepairStatus) bool { return s.BTpcRepairPending != 0 })

	if why := g.Rows.Failed.Why(); why != gpu.NotSupported && why != gpu.OldDriver {
		g.Pages = gpu.Pages{SingleBit: gpu.Unknown[uint64](gpu.NotSupported), DoubleBit: gpu.Unknown[uint64](gpu.NotSupported), Pending: gpu.Unknown[bool](gpu.NotSupported)}
		return
	}
	pages := func(cause nvidia.PageRetirementCause) gpu.Reading[uint64] {
		return get(d, before, "nvmlDeviceGetRetiredPages", with(d.dev.GetRetiredPages, cause), func(p []uint64) uint64 { return uint64(len(p)) })
	}
	g.Pages.SingleBit = pages(nvidia.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
	g.Pages.DoubleBit = pages(nvidia.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
	g.Pages.Pending = get(d, before, "nvmlDeviceGetRetiredPagesPendingStatus", d.dev.GetRetiredPagesPendingStatus, enabled)
}

func (d *device) pcie(p *gpu.PCIe, before func(string)) {
	p.Generation = get(d, before, "nvmlDeviceGetCurrPcieLinkGeneration", d.dev.GetCurrPcieLinkGeneration, fromInt)
	p.GenerationMax = get(d, before, "nvmlDeviceGetMaxPcieLinkGeneration", d.dev.GetMaxPcieLinkGeneration, fromInt)
	p.Width = get(d, before, "nvmlDeviceGetCurrPcieLinkWidth", d.dev.GetCurrPcieLinkWidth, fromInt)
	p.WidthMax = get(d, before, "nvmlDeviceGetMaxPcieLinkWidth", d.dev.GetMaxPcieLinkWidth, fromInt)
	p.Replays = get(d, before, "nvmlDeviceGetPcieReplayCounter", d.dev.GetPcieReplayCounter, func(v int) uint64 { return uint64(v) })
}

// nvlinks reads the links that the GPU has, whether they are up or not.
func (d *device) nvlinks(g *gpu.GPU, before func(string)) {
	state := func(link int) gpu.Reading[bool] {
		return get(d, before, "nvmlDeviceGetNvLinkState", with(d.dev.GetNvLinkState, link), enabled)
	}
	links := d.links
	if links < 0 {
		var all bool
		if links, all = d.countLinks(state); all {
			d.links = links
		}
	}
	g.NVLinks = make([]gpu.NVLink, 0, links)
	for link := range links {
		count := func(counter nvidia.NvLinkErrorCounter) gpu.Reading[uint64] {
			return get(d, before, "nvmlDeviceGetNvLinkErrorCounter", func() (uint64, nvidia.Return) { return d.dev.GetNvLinkErrorCounter(link, counter) }, same)
		}
		one := gpu.NVLink{
			Link: link, Active: state(link),
			Replay: count(nvidia.NVLINK_ERROR_DL_REPLAY), Recovery: count(nvidia.NVLINK_ERROR_DL_RECOVERY),
			CRCFlit: count(nvidia.NVLINK_ERROR_DL_CRC_FLIT), CRCData: count(nvidia.NVLINK_ERROR_DL_CRC_DATA),
		}
		if lacks(one.Replay) && lacks(one.Recovery) {
			d.nvlink5(&one, before)
		}
		g.NVLinks = append(g.NVLinks, one)
	}
}

// countLinks returns how many links the GPU has, and whether those are all. If
// that is unknown now, the last one is the link that did not answer.
func (d *device) countLinks(state func(int) gpu.Reading[bool]) (links int, all bool) {
	for link := range nvidia.NVLINK_MAX_LINKS {
		switch why := state(link).Why(); why {
		case "":
		case gpu.NotSupported, gpu.OldDriver: // no such link
			return link, true
		default:
			return link + 1, false
		}
	}
	return nvidia.NVLINK_MAX_LINKS, true
}

func (d *device) fabric(f *gpu.Fabric, before func(string)) {
	info := get(d, before, "nvmlDeviceGetGpuFabricInfoV", d.dev.GetGpuFabricInfoV().V2, same)
	f.State = part(info, func(i nvidia.GpuFabricInfo_v2) gpu.FabricState { return gpu.FabricState(i.State) })
	f.Status = part(info, func(i nvidia.GpuFabricInfo_v2) int64 { return int64(i.Status) })
	f.Health = part(info, func(i nvidia.GpuFabricInfo_v2) int64 { return int64(i.HealthMask) })
}

// fixed reads limits and thresholds.
func (d *device) fixed(g *gpu.GPU, before func(string)) error {
	d.begin(fixed)
	name, call := "nvmlDeviceGetSupportedClocksEventReasons", d.dev.GetSupportedClocksEventReasons
	if !d.has(name) {
		name, call = "nvmlDeviceGetSupportedClocksThrottleReasons", d.dev.GetSupportedClocksThrottleReasons
	}
	g.Clocks.Supported = get(d, before, name, call, func(v uint64) gpu.Reasons { return gpu.Reasons(v) })
	g.Clocks.SMMaxMHz = get(d, before, "nvmlDeviceGetMaxClockInfo", with(d.dev.GetMaxClockInfo, nvidia.CLOCK_SM), from32)
	g.Clocks.MemMaxMHz = get(d, before, "nvmlDeviceGetMaxClockInfo", with(d.dev.GetMaxClockInfo, nvidia.CLOCK_MEM), from32)
	threshold := func(t nvidia.TemperatureThresholds) gpu.Reading[int64] {
		return get(d, before, "nvmlDeviceGetTemperatureThreshold", with(d.dev.GetTemperatureThreshold, t), from32)
	}
	g.Temperature.ShutdownC = threshold(nvidia.TEMPERATURE_THRESHOLD_SHUTDOWN)
	g.Temperature.SlowdownC = threshold(nvidia.TEMPERATURE_THRESHOLD_SLOWDOWN)
	g.Temperature.MemMaxC = threshold(nvidia.TEMPERATURE_THRESHOLD_MEM_MAX)
	g.Temperature.GPUMaxC = threshold(nvidia.TEMPERATURE_THRESHOLD_GPU_MAX)
	d.margins(&g.Temperature, before)
	g.Power.DefaultLimitMW = get(d, before, "nvmlDeviceGetPowerManagementDefaultLimit", d.dev.GetPowerManagementDefaultLimit, from32)
	return d.done(g)
}

// part returns a part of a reading that one call returned as a whole.
func part[V, T any](r gpu.Reading[V], of func(V) T) gpu.Reading[T] {
	v, ok := r.Get()
	if !ok {
		return gpu.Unknown[T](r.Why())
	}
	return gpu.Known(of(v))
}
