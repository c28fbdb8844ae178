//go:build cgo

package nvml

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
)

// remembering is a collector that remembers of eight GPUs all that it can: nine
// reasons in each of 32 minutes, and 57 XIDs each.
func remembering(b *testing.B) *Collector {
	b.Helper()
	c := collect(b, nvmltest.Healthy(8))
	await(b, c, func(s gpu.Snapshot) bool { return len(s.GPUs) == 8 })
	bits := (gpu.Harmful | gpu.Benign | gpu.SWPowerCap).Bits()
	c.mu.Lock()
	c.since = time.Now().Add(-2 * time.Hour)
	c.mu.Unlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for _, h := range c.memory.all {
		full := history{period: time.Second}
		for n := range 57 {
			full.happened(time.Now().Add(-time.Hour), event{gpu.EventXID, uint64(n)})
		}
		h.mu.Lock()
		g := h.latest
		for s := keptMinutes * 60; s > 0; s-- {
			g.Clocks.Reasons = gpu.Known(bits[s%len(bits)])
			full.add(g, time.Now().Add(-time.Duration(s)*time.Second))
		}
		h.last, h.minutes, h.events, h.baseline, h.lasting = full.last, full.minutes, full.events, full.baseline, full.lasting
		h.mu.Unlock()
	}
	return c
}

// BenchmarkAnswer is what one question costs the agent, without TLS.
func BenchmarkAnswer(b *testing.B) {
	c := remembering(b)
	for _, minutes := range []int{10, gpu.MaxMinutes} {
		b.Run(fmt.Sprintf("minutes=%d", minutes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := gpu.Encode(c.Snapshot().Shorter(minutes))
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(data)))
			}
		})
	}
}

// BenchmarkSample is what one second of one GPU costs, the stand-in's share in it:
// every tenth time with the counters and links.
func BenchmarkSample(b *testing.B) {
	c := collect(b, nvmltest.Healthy(1))
	await(b, c, func(s gpu.Snapshot) bool { return len(s.GPUs) == 1 })
	card, before := c.driver.card(0), func(string) {}
	var g gpu.GPU
	if err := card.identify(&g, before); err != nil {
		b.Fatal(err)
	}
	h := &history{period: time.Second}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		err := card.fast(&g, before)
		if n%10 == 0 && err == nil {
			err = card.slow(&g, before)
		}
		if err != nil {
			b.Fatal(err)
		}
		h.add(g, time.Now())
	}
}
