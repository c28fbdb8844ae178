package dcgm

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// Series is one series of dcgm-exporter over the last minutes.
type Series struct {
	Name   string // DCGM_FI_DEV_…
	Labels map[string]string
	Points []Point // by time
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// How far back series are queried for a verdict, and the step.
const (
	Span = judge.Window
	Step = 30 * time.Second
)

// How far back exported GPUs are counted, and the step: a GPU that left the bus
// during the night is still missed in the morning.
const (
	CountSpan = 12 * time.Hour
	CountStep = 10 * time.Minute
)

// Exported is what Prometheus has of dcgm-exporter over an interval, one point per
// [Step].
type Exported struct {
	Series []Series
	// Scraped holds the time of the last scrape of each GPU, by UUID, at each point,
	// as a Unix time. Prometheus returns a value for up to five minutes after its
	// scrape. Points of a scrape older than [gpu.Snapshot.MaxAge] do not count.
	Scraped   map[string][]Point
	From, Now time.Time
	// Past are the series of [PastNames] from [PastSpan] before From on, one point per
	// [PastStep], for GPUs that are [Undated] without them.
	Past []Series
	// Expected is the largest number of GPUs of the node that were exported at once
	// within [CountSpan]; 0: not known.
	Expected int64
}

// Names lists the series that [Snapshot] understands. Most of those that a
// verdict needs are not exported by default: DCGM_FI_DEV_CLOCKS_EVENT_REASONS,
// DCGM_FI_DEV_ECC_DBE_VOL_TOTAL and DCGM_FI_DEV_ROW_REMAP_PENDING have to be
// added to the exporter's counters, else a GPU that seems well stays unknown.
func Names() []string {
	names := []string{clockEventsName, xidCounts, XIDGauge, maskName, oldMaskName}
	for n := range fields {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// ErrNoSeries means that Prometheus has no series of dcgm-exporter about a node.
var ErrNoSeries = errors.New("no series of dcgm-exporter is in Prometheus for it")

// XIDGauge is the series that holds the last XID of a GPU until the next one or a
// restart of the exporter. xidCounts are the XIDs of the last minutes.
const (
	XIDGauge  = "DCGM_FI_DEV_XID_ERRORS"
	xidCounts = "DCGM_EXP_XID_ERRORS_COUNT"
)

const (
	maskName    = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
	oldMaskName = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" // before DCGM 3.3

	clockEventsName = "DCGM_EXP_CLOCK_EVENTS_COUNT"
)

// clockEvents maps the labels of DCGM_EXP_CLOCK_EVENTS_COUNT to reasons.
var clockEvents = map[string]gpu.Reasons{
	"gpu_idle": gpu.GPUIdle, "clocks_setting": gpu.ApplicationsClocks, "power_cap": gpu.SWPowerCap, "hw_slowdown": gpu.HWSlowdown, "sync_boost": gpu.SyncBoost,
	"sw_thermal": gpu.SWThermalSlowdown, "hw_thermal": gpu.HWThermalSlowdown, "hw_power_brake": gpu.HWPowerBrakeSlowdown, "display_clocks": gpu.DisplayClocks,
}

// fields stores the last value of a series, by its name.
var fields = map[string]func(*gpu.GPU, float64){
	"DCGM_FI_DEV_SM_CLOCK":                    func(g *gpu.GPU, v float64) { g.Clocks.SMMHz = whole(v) },
	"DCGM_FI_DEV_MAX_SM_CLOCK":                func(g *gpu.GPU, v float64) { g.Clocks.SMMaxMHz = whole(v) },
	"DCGM_FI_DEV_MEM_CLOCK":                   func(g *gpu.GPU, v float64) { g.Clocks.MemMHz = whole(v) },
	"DCGM_FI_DEV_MAX_MEM_CLOCK":               func(g *gpu.GPU, v float64) { g.Clocks.MemMaxMHz = whole(v) },
	"DCGM_FI_DEV_GPU_TEMP":                    func(g *gpu.GPU, v float64) { g.Temperature.GPUC = whole(v) },
	"DCGM_FI_DEV_MEMORY_TEMP":                 func(g *gpu.GPU, v float64) { g.Temperature.MemoryC = whole(v) },
	"DCGM_FI_DEV_SLOWDOWN_TEMP":               func(g *gpu.GPU, v float64) { g.Temperature.SlowdownC = whole(v) },
	"DCGM_FI_DEV_SHUTDOWN_TEMP":               func(g *gpu.GPU, v float64) { g.Temperature.ShutdownC = whole(v) },
	"DCGM_FI_DEV_GPU_MAX_OP_TEMP":             func(g *gpu.GPU, v float64) { g.Temperature.GPUMaxC = whole(v) },
	"DCGM_FI_DEV_MEM_MAX_OP_TEMP":             func(g *gpu.GPU, v float64) { g.Temperature.MemMaxC = whole(v) },
	"DCGM_FI_DEV_POWER_USAGE":                 func(g *gpu.GPU, v float64) { g.Power.DrawMW = whole(v * 1000) },
	"DCGM_FI_DEV_ENFORCED_POWER_LIMIT":        func(g *gpu.GPU, v float64) { g.Power.LimitMW = whole(v * 1000) },
	"DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF":        func(g *gpu.GPU, v float64) { g.Power.DefaultLimitMW = whole(v * 1000) },
	"DCGM_FI_DEV_GPU_UTIL":                    func(g *gpu.GPU, v float64) { g.Use.GPUPercent = whole(v) },
	"DCGM_FI_DEV_MEM_COPY_UTIL":               func(g *gpu.GPU, v float64) { g.Use.MemoryPercent = whole(v) },
	"DCGM_FI_DEV_FB_USED":                     func(g *gpu.GPU, v float64) { g.Use.MemoryUsedBytes = count(v * (1 << 20)) },
	"DCGM_FI_DEV_FB_RESERVED":                 func(g *gpu.GPU, v float64) { g.Use.MemoryReservedBytes = count(v * (1 << 20)) },
	"DCGM_FI_DEV_FB_TOTAL":                    func(g *gpu.GPU, v float64) { g.Use.MemoryTotalBytes = count(v * (1 << 20)) },
	"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL":           func(g *gpu.GPU, v float64) { g.ECC.VolatileCorrected = count(v) },
	"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":           func(g *gpu.GPU, v float64) { g.ECC.VolatileUncorrectable = count(v) },
	"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL":           func(g *gpu.GPU, v float64) { g.ECC.AggregateCorrected = count(v) },
	"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL":           func(g *gpu.GPU, v float64) { g.ECC.AggregateUncorrectable = count(v) },
	"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS":   func(g *gpu.GPU, v float64) { g.Rows.Corrected = count(v) },
	"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": func(g *gpu.GPU, v float64) { g.Rows.Uncorrectable = count(v) },
	"DCGM_FI_DEV_ROW_REMAP_FAILURE":           func(g *gpu.GPU, v float64) { g.Rows.Failed = truth(v) },
	"DCGM_FI_DEV_ROW_REMAP_PENDING":           func(g *gpu.GPU, v float64) { g.Rows.Pending = truth(v) },
	"DCGM_FI_DEV_RETIRED_SBE":                 func(g *gpu.GPU, v float64) { g.Pages.SingleBit = count(v) },
	"DCGM_FI_DEV_RETIRED_DBE":                 func(g *gpu.GPU, v float64) { g.Pages.DoubleBit = count(v) },
	"DCGM_FI_DEV_RETIRED_PENDING":             func(g *gpu.GPU, v float64) { g.Pages.Pending = truth(v) },
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER":         func(g *gpu.GPU, v float64) { g.PCIe.Replays = count(v) },
	"DCGM_FI_DEV_PCIE_LINK_GEN":               func(g *gpu.GPU, v float64) { g.PCIe.Generation = whole(v) },
	"DCGM_FI_DEV_PCIE_MAX_LINK_GEN":           func(g *gpu.GPU, v float64) { g.PCIe.GenerationMax = whole(v) },
	"DCGM_FI_DEV_PCIE_LINK_WIDTH":             func(g *gpu.GPU, v float64) { g.PCIe.Width = whole(v) },
	"DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH":         func(g *gpu.GPU, v float64) { g.PCIe.WidthMax = whole(v) },
}

// DCGM's blank values (dcgm_fields.h) for 32 and 64 bit integers and for floating
// point. The values directly above them encode why there is none.
const (
	blankInt32 = 0x7ffffff0
	blankInt64 = 0x7ffffffffffffff0
	blankFP64  = 140737488355328.0
)

func blank(v float64) bool {
	return v >= blankInt32 && v <= math.MaxInt32 || v >= blankFP64 && v <= blankFP64+16 || v >= blankInt64
}

func whole(v float64) gpu.Reading[int64] {
	switch {
	case blank(v / 1000), blank(v): // in watts, which whole gets a thousandfold
		return gpu.Unknown[int64](gpu.NotSupported)
	case math.IsNaN(v) || math.Abs(v) > 1<<52:
		return gpu.Unknown[int64](gpu.Implausible)
	}
	return gpu.Known(int64(math.Round(v)))
}

func count(v float64) gpu.Reading[uint64] {
	switch {
	case blank(v), blank(v / (1 << 20)): // in MiB, which count gets as bytes
		return gpu.Unknown[uint64](gpu.NotSupported)
	case math.IsNaN(v) || v < 0 || v > 1<<52:
		return gpu.Unknown[uint64](gpu.Implausible)
	}
	return gpu.Known(uint64(math.Round(v)))
}

func truth(v float64) gpu.Reading[bool] {
	switch {
	case blank(v):
		return gpu.Unknown[bool](gpu.NotSupported)
	case math.IsNaN(v) || v < 0:
		return gpu.Unknown[bool](gpu.Implausible)
	}
	return gpu.Known(v > 0)
}

// device is one GPU's series.
type device struct {
	gpu     gpu.GPU
	series  []Series
	past    []Series
	scraped []Point
}

// uuidOf returns the UUID of the series' GPU; empty if it has none.
func (s Series) uuidOf() string { return cmp.Or(s.Labels["UUID"], s.Labels["uuid"]) }

// Snapshot converts the series of a node to a snapshot. What is not exported stays
// unknown. A GPU that has left is missed for as long as [Exported] counts it.
//
// The exporter exports only the last XID, without end, so an XID from before a
// reset counts until the exporter restarts. A repetition of the same XID is
// invisible. Therefore an XID after which the GPU goes on working does not expire
// after a day, as it does with an agent. The exception is a repair of memory whose
// time the past shows, with a reading that nothing waits for a reset.
func Snapshot(node string, e Exported) (gpu.Snapshot, error) {
	out := gpu.Snapshot{Format: gpu.Format, Node: node, Source: gpu.SourceExporter, TakenAt: e.Now, Since: e.From, PeriodMS: Step.Milliseconds()}
	devices := map[string]*device{}
	for _, s := range e.Series {
		uuid := s.uuidOf()
		if uuid == "" || len(s.Points) == 0 {
			continue
		}
		d := devices[uuid]
		if d == nil {
			d = &device{gpu: gpu.GPU{UUID: uuid, Index: -1}, scraped: e.Scraped[uuid]}
			devices[uuid] = d
		}
		d.describe(s.Labels)
		d.series = append(d.series, s)
	}
	if len(devices) == 0 {
		return gpu.Snapshot{}, ErrNoSeries
	}
	for _, s := range e.Past {
		if d := devices[s.uuidOf()]; d != nil {
			d.past = append(d.past, s)
		}
	}
	if e.Expected > 0 {
		out.Expected = gpu.Known(e.Expected)
	}
	for _, d := range devices {
		out.GPUs = append(out.GPUs, d.read(e, out.MaxAge()))
		out.Driver = cmp.Or(out.Driver, d.series[0].Labels["DCGM_FI_DRIVER_VERSION"])
	}
	slices.SortFunc(out.GPUs, func(a, b gpu.GPU) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID)) })
	if err := out.Validate(); err != nil {
		return gpu.Snapshot{}, err
	}
	return out, nil
}

func (d *device) describe(labels map[string]string) {
	if i, err := strconv.Atoi(labels["gpu"]); err == nil {
		d.gpu.Index = i
	}
	d.gpu.Name = cmp.Or(d.gpu.Name, labels["modelName"], labels["model_name"])
	d.gpu.PCI = cmp.Or(d.gpu.PCI, labels["pci_bus_id"])
}
