package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/gpu"
)

// metric is a reading of a GPU, or a sum over its links, as a metric.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(gpu.GPU) (float64, bool) // false: unknown
}

// labels distinguish metrics of one name.
type labels = prometheus.Labels

func described(name, help string, with labels) *prometheus.Desc {
	return prometheus.NewDesc("responder_agent_gpu_"+name, help, byGPU, with)
}

// number exports a reading, scaled to the base unit.
func number[T ~int64 | ~uint64](name, help string, with labels, scale float64, of func(gpu.GPU) gpu.Reading[T]) metric {
	return metric{described(name, help, with), prometheus.GaugeValue, func(g gpu.GPU) (float64, bool) {
		v, ok := of(g).Get()
		return float64(v) * scale, ok
	}}
}

// total is number for a counter, which is reset when the driver is reloaded.
func total[T ~int64 | ~uint64](name, help string, with labels, scale float64, of func(gpu.GPU) gpu.Reading[T]) metric {
	m := number(name, help, with, scale, of)
	m.kind = prometheus.CounterValue
	return m
}

// flag exports 1 for true and 0 for false.
func flag(name, help string, of func(gpu.GPU) gpu.Reading[bool]) metric {
	return metric{described(name, "Whether "+help+": 1 or 0.", nil), prometheus.GaugeValue, func(g gpu.GPU) (float64, bool) {
		v, ok := of(g).Get()
		return oneIf(v), ok
	}}
}

func lost(bit gpu.Reasons, of func(gpu.Violations) gpu.Reading[uint64]) metric {
	return lostTo(bit.Names()[0], of)
}

func lostTo(reason string, of func(gpu.Violations) gpu.Reading[uint64]) metric {
	return total("clocks_event_seconds_total", "Time for which a reason lowered clocks since the driver was loaded, by its count.", labels{"reason": reason}, 1e-9,
		func(g gpu.GPU) gpu.Reading[uint64] { return of(g.Clocks.Violation) })
}

func limit(of string, read func(gpu.Temperature) gpu.Reading[int64]) metric {
	return number("temperature_threshold_celsius", "Temperature at which something happens: the hardware slows down or shuts down, the driver slows down for the GPU (gpu_max) or its memory (mem_max).",
		labels{"threshold": of}, 1, func(g gpu.GPU) gpu.Reading[int64] { return read(g.Temperature) })
}

func margin(of string, read func(gpu.Temperature) gpu.Reading[int64]) metric {
	return number("temperature_threshold_margin_celsius", "The same thresholds as newer GPUs tell them: what responder_agent_gpu_temperature_margin_celsius is there.",
		labels{"threshold": of}, 1, func(g gpu.GPU) gpu.Reading[int64] { return read(g.Temperature) })
}

func ecc(kind, since, memory string, read func(gpu.ECC) gpu.Reading[uint64]) metric {
	return total("ecc_errors_total", "Memory errors since the driver was loaded or in the GPU's life, in all memory or where the GPU tells it apart.",
		labels{"kind": kind, "since": since, "memory": memory}, 1, func(g gpu.GPU) gpu.Reading[uint64] { return read(g.ECC) })
}

func banks(spare string, read func(gpu.Rows) gpu.Reading[uint64]) metric {
	return number("memory_banks", "Banks of memory by how many spare rows they have left.", labels{"spare_rows": spare}, 1, func(g gpu.GPU) gpu.Reading[uint64] { return read(g.Rows) })
}

// links sums over the links. The sum is unknown if one of them is unknown; links
// without such a counter do not count.
func links(kind string, read func(gpu.NVLink) gpu.Reading[uint64]) metric {
	return metric{described("nvlink_errors_total", "Errors of all NVLinks together.", labels{"kind": kind}), prometheus.CounterValue, func(g gpu.GPU) (float64, bool) {
		sum, seen := uint64(0), false
		for _, l := range g.NVLinks {
			v, ok := read(l).Get()
			if !ok && read(l).Why() != gpu.NotSupported {
				return 0, false
			}
			sum, seen = sum+v, seen || ok
		}
		return float64(sum), seen
	}}
}

// linksThat counts the links in a state. The count is unknown if the state of one
// link is.
func linksThat(state string, active bool) metric {
	return metric{described("nvlinks", "NVLinks by state.", labels{"state": state}), prometheus.GaugeValue, func(g gpu.GPU) (float64, bool) {
		n := 0.0
		for _, l := range g.NVLinks {
			v, ok := l.Active.Get()
			if !ok {
				return 0, false
			}
			n += oneIf(v == active)
		}
		return n, len(g.NVLinks) > 0
	}}
}
