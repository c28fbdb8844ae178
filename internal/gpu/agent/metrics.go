package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/gpu"
)

// metrics are what /metrics shows beside the process's own.
type metrics struct {
	requests *prometheus.CounterVec
}

func newMetrics(registry *prometheus.Registry, source Source) (*metrics, error) {
	m := &metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "responder_agent_requests_total", Help: "Requests for /v1/health by result.",
	}, []string{"result"})}
	for _, c := range []prometheus.Collector{m.requests, &gauges{source: source}} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("agent: register metrics: %w", err)
		}
	}
	return m, nil
}

// gauges are the latest readings. What is unknown has no sample. All of them
// name the node, so that an alert does, however the agent is scraped.
type gauges struct{ source Source }

var (
	byNode     = []string{"node"}
	byGPU      = []string{"node", "gpu", "uuid"}
	descUp     = prometheus.NewDesc("responder_agent_driver_up", "Whether the driver answers: 1 or 0.", byNode, nil)
	descAge    = prometheus.NewDesc("responder_agent_sample_age_seconds", "Age of the last complete sample.", byGPU, nil)
	descState  = prometheus.NewDesc("responder_agent_gpu_verdict", "1 for the present verdict, 0 for the others; compared with no other node.", append(byGPU[:3:3], "verdict"), nil)
	descSlowed = prometheus.NewDesc("responder_agent_gpu_throttled", "Whether the verdict is throttled, by what: 1 or 0.", append(byGPU[:3:3], "by"), nil)
	descReason = prometheus.NewDesc("responder_agent_gpu_clocks_event_reason", "Whether a reason for lower clocks is active: 1 or 0.", append(byGPU[:3:3], "reason"), nil)
	descPod    = prometheus.NewDesc("responder_agent_gpu_pod", "1 for each pod that holds the GPU, or a part of it, where that is known.", append(byGPU[:3:3], "instance", "namespace", "pod", "container"), nil)
	descXIDs   = prometheus.NewDesc("responder_agent_gpu_xids_kept", "XID events that are remembered (the last 128 events).", byGPU, nil)
)

// gauge is one reading of a GPU as a metric.
type gauge struct {
	desc *prometheus.Desc
	read func(gpu.GPU) (float64, bool)
}

func number[T int64 | uint64](name, help string, scale float64, of func(gpu.GPU) gpu.Reading[T]) gauge {
	return gauge{prometheus.NewDesc("responder_agent_gpu_"+name, help, byGPU, nil), func(g gpu.GPU) (float64, bool) {
		v, ok := of(g).Get()
		return float64(v) * scale, ok
	}}
}

func flag(name, help string, of func(gpu.GPU) gpu.Reading[bool]) gauge {
	return gauge{prometheus.NewDesc("responder_agent_gpu_"+name, help, byGPU, nil), func(g gpu.GPU) (float64, bool) {
		v, ok := of(g).Get()
		if v {
			return 1, ok
		}
		return 0, ok
	}}
}

var readings = []gauge{
	number("temperature_celsius", "Temperature.", 1, func(g gpu.GPU) gpu.Reading[int64] { return g.Temperature.GPUC }),
	number("memory_temperature_celsius", "Temperature of the memory.", 1, func(g gpu.GPU) gpu.Reading[int64] { return g.Temperature.MemoryC }),
	number("power_watts", "Power draw.", 1e-3, func(g gpu.GPU) gpu.Reading[int64] { return g.Power.DrawMW }),
	number("power_limit_watts", "Power limit in force.", 1e-3, func(g gpu.GPU) gpu.Reading[int64] { return g.Power.LimitMW }),
	number("sm_clock_hertz", "Clock of the processors.", 1e6, func(g gpu.GPU) gpu.Reading[int64] { return g.Clocks.SMMHz }),
	number("utilization_ratio", "Share of time in which a kernel ran.", 1e-2, func(g gpu.GPU) gpu.Reading[int64] { return g.Use.GPUPercent }),
	number("memory_used_bytes", "Memory in use.", 1, func(g gpu.GPU) gpu.Reading[uint64] { return g.Use.MemoryUsedBytes }),
	number("memory_total_bytes", "Memory there is.", 1, func(g gpu.GPU) gpu.Reading[uint64] { return g.Use.MemoryTotalBytes }),
	number("ecc_uncorrectable_errors", "Uncorrectable memory errors since the driver was loaded.", 1, func(g gpu.GPU) gpu.Reading[uint64] { return g.ECC.VolatileUncorrectable }),
	number("remapped_rows_uncorrectable", "Memory rows remapped after uncorrectable errors.", 1, func(g gpu.GPU) gpu.Reading[uint64] { return g.Rows.Uncorrectable }),
	number("pcie_replays", "PCIe replays since the driver was loaded.", 1, func(g gpu.GPU) gpu.Reading[uint64] { return g.PCIe.Replays }),
	number("thermal_slowdown_nanoseconds", "Time lost to heat by hardware slowdown since the driver was loaded.", 1, func(g gpu.GPU) gpu.Reading[uint64] { return g.Clocks.Violation.HWThermalNS }),
	flag("row_remap_pending", "Whether a reset is needed to remap a memory row: 1 or 0.", func(g gpu.GPU) gpu.Reading[bool] { return g.Rows.Pending }),
	flag("row_remap_failed", "Whether a memory row could not be remapped: 1 or 0.", func(g gpu.GPU) gpu.Reading[bool] { return g.Rows.Failed }),
}

// Describe lists them.
func (m *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUp, descAge, descState, descSlowed, descReason, descPod, descXIDs} {
		out <- d
	}
	for _, g := range readings {
		out <- g.desc
	}
}

// Collect reads them.
func (m *gauges) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	s := m.source.Snapshot()
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Node}, labels...)...)
	}
	up := 1.0
	for _, e := range s.Errors {
		if e.What == "driver" {
			up = 0
		}
	}
	send(descUp, up)
	judged := gpu.Judge(now, s)[0].GPUs
	for i, g := range s.GPUs {
		index := strconv.Itoa(g.Index)
		send(descAge, now.Sub(g.TakenAt).Seconds(), index, g.UUID)
		for _, v := range gpu.Verdicts() {
			send(descState, oneIf(judged[i].Verdict == v), index, g.UUID, string(v))
		}
		for _, by := range []gpu.Throttle{gpu.Thermal, gpu.PowerBrake, gpu.Hardware} {
			send(descSlowed, oneIf(judged[i].Verdict == gpu.Throttled && judged[i].Throttle == by), index, g.UUID, string(by))
		}
		if active, ok := g.Clocks.Reasons.Get(); ok {
			for _, bit := range (gpu.Harmful | gpu.Benign | gpu.SWPowerCap | active).Bits() {
				send(descReason, oneIf(active&bit != 0), index, g.UUID, bit.Names()[0])
			}
		}
		pods, _ := g.Pods.Get()
		for _, p := range pods {
			if p.Name != "" { // a UID alone names no pod
				send(descPod, 1, index, g.UUID, p.Instance, p.Namespace, p.Name, p.Container)
			}
		}
		xids := 0
		for _, e := range g.Events {
			if _, ok := e.XID(); ok {
				xids++
			}
		}
		send(descXIDs, float64(xids), index, g.UUID)
		for _, r := range readings {
			if v, ok := r.read(g); ok {
				send(r.desc, v, index, g.UUID)
			}
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
