//go:build cgo

package nvml

import (
	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-responder/responder/internal/gpu"
)

// values reads fields, all in one call.
func (d *device) values(fields []nvidia.FieldValue, before func(string)) gpu.Reading[[]nvidia.FieldValue] {
	return get(d, before, "nvmlDeviceGetFieldValues", func() ([]nvidia.FieldValue, nvidia.Return) {
		return fields, d.dev.GetFieldValues(fields)
	}, same)
}

// field is one of the requested fields.
func field[T any](all gpu.Reading[[]nvidia.FieldValue], i int, as func(nvidia.FieldValue) (T, bool)) gpu.Reading[T] {
	values, ok := all.Get()
	if !ok {
		return gpu.Unknown[T](all.Why())
	}
	if r := nvidia.Return(values[i].NvmlReturn); r != nvidia.SUCCESS {
		return gpu.Unknown[T](absence(r))
	}
	if v, ok := as(values[i]); ok {
		return gpu.Known(v)
	}
	return gpu.Unknown[T](gpu.Implausible)
}

// lacks reports whether the GPU or its driver has no such value.
func lacks[T any](r gpu.Reading[T]) bool {
	return r.Why() == gpu.NotSupported || r.Why() == gpu.OldDriver
}

// margins reads the temperature thresholds of newer GPUs, which are margins to the
// nearest slowdown (T.Limit).
func (d *device) margins(t *gpu.Temperature, before func(string)) {
	all := d.values([]nvidia.FieldValue{
		{FieldId: nvidia.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT},
		{FieldId: nvidia.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT},
		{FieldId: nvidia.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT},
		{FieldId: nvidia.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT},
	}, before)
	for i, into := range []*gpu.Reading[int64]{&t.SlowdownMarginC, &t.ShutdownMarginC, &t.GPUMaxMarginC, &t.MemMaxMarginC} {
		*into = field(all, i, signed)
	}
}

// nvlink5 reads what Blackwell and later count instead of replays, recoveries and
// CRC errors (nvml.h 13.0). Without these counters, the link is left unchanged.
func (d *device) nvlink5(l *gpu.NVLink, before func(string)) {
	counters := []struct {
		id   uint32
		into *gpu.Reading[uint64]
	}{
		{nvidia.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, &l.Recovery},
		{nvidia.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, &l.RecoveryFailed},
		{nvidia.FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS, &l.IntegrityErrors},
		{nvidia.FI_DEV_NVLINK_COUNT_RCV_ERRORS, &l.ReceiveErrors},
		{nvidia.FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, &l.EffectiveErrors},
		{nvidia.FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, &l.SymbolErrors},
	}
	fields := make([]nvidia.FieldValue, len(counters))
	for i, c := range counters {
		fields[i] = nvidia.FieldValue{FieldId: c.id, ScopeId: uint32(l.Link)}
	}
	all := d.values(fields, before)
	for i, c := range counters {
		if r := field(all, i, number); !lacks(r) {
			*c.into = r
		}
	}
}
