package nvml

import (
	"runtime"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// TestFullHistoryIsSmall: what an agent remembers of eight GPUs when it can
// remember no more, each with every reason in every minute. The agent's limit is
// 30 MiB resident, and the end-to-end test,
// whose agent has a minute of history, leaves room for this and its garbage (agentFigures).
func TestFullHistoryIsSmall(t *testing.T) {
	const limit = 1 << 20 // bytes
	live := func() uint64 {
		runtime.GC()
		runtime.GC() // what had a finalizer
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	reading := gpu.GPU{Clocks: gpu.Clocks{SMMHz: gpu.Known[int64](1980)}, Temperature: gpu.Temperature{GPUC: gpu.Known[int64](60)}, NVLinks: make([]gpu.NVLink, gpu.MaxNVLinks)}
	bits := (gpu.Harmful | gpu.Benign | gpu.SWPowerCap).Bits()
	before, began := live(), time.Now()
	kept := make([]*history, 8)
	for i := range kept {
		h := &history{period: time.Second}
		for s := range (keptMinutes + 2) * 60 {
			g := reading
			g.NVLinks = append([]gpu.NVLink{}, reading.NVLinks...)
			g.Clocks.Reasons = gpu.Known(bits[s%len(bits)])
			h.add(g, began.Add(time.Duration(s)*time.Second))
		}
		for n := range gpu.MaxEvents + 1 {
			h.happened(began, event{typ: gpu.EventXID, data: uint64(n)})
		}
		kept[i] = h
	}
	took := live() - before
	for _, h := range kept {
		if len(h.minutes) != gpu.MaxMinutes || len(h.events) != gpu.MaxEvents || len(h.minutes[3].reasons) != len(bits) {
			t.Fatalf("%d minutes, %d events, %d reasons: the rings are not full", len(h.minutes), len(h.events), len(h.minutes[3].reasons))
		}
	}
	t.Logf("%d KiB for %d GPUs", took>>10, len(kept))
	if took > limit {
		t.Errorf("%d bytes, more than %d", took, limit)
	}
}
