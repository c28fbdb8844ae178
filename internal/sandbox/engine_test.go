package sandbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// What a revision's pod template says is what its engines do, and what they export.
func TestOptionsComeFromThePodTemplate(t *testing.T) {
	fields := chatTemplate(map[string]string{
		"containers[vllm].args[--max-num-batched-tokens]": "512",
		"containers[vllm].args[--gpu-memory-utilization]": "0.85",
		"containers[vllm].args[--max-model-len]":          "8192",
	})
	fields["containers[vllm].args[--no-enable-prefix-caching]"] = ""
	want := physics.Flags{MaxNumSeqs: 18, MaxNumBatchedTokens: 512, MaxModelLen: 8192, GPUMemoryUtilization: 0.85, NoPrefixCaching: true}
	if diff := cmp.Diff(want, flagsOf(fields)); diff != "" {
		t.Error(diff)
	}
	w, clock := open(t, "bad-rollout")
	s, _ := chat(w)
	q := "max(vllm:cache_config_info{" + s.Selector + `,gpu_memory_utilization="0.92",num_gpu_blocks="29546"})`
	if got := one(t, w, q, clock.Now()); got != 1 {
		t.Errorf("%s is %v", q, got)
	}
}

// BenchmarkHour simulates an hour of eight replicas at half of what they can do, with
// their scrapes.
func BenchmarkHour(b *testing.B) {
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	chat := chatService()
	chat.replicas, chat.load.Rate = 8, 16
	for b.Loop() {
		b.StopTimer()
		clock := NewManualClock(start)
		w := build(scenario{seed: 1, services: []serviceSpec{chat}, nodes: gpuNodes()}, clock, start, nil)
		b.StartTimer()
		clock.Advance(time.Hour)
		w.advance()
	}
}
