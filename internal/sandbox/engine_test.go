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
	if diff := cmp.Diff(want, vllm().flags(args{"vllm", fields})); diff != "" {
		t.Error(diff)
	}
	w, clock := open(t, "bad-rollout")
	s, _ := chat(w)
	q := "max(vllm:cache_config_info{" + s.Selector + `,gpu_memory_utilization="0.92",num_gpu_blocks="29546"})`
	if got := one(t, w, q, clock.Now()); got != 1 {
		t.Errorf("%s is %v", q, got)
	}
}

// Every engine exports its own names, and a stuck one does not move them.
func TestSGLangHasItsOwnSeries(t *testing.T) {
	w, clock := open(t, "stuck-engine")
	s, ref := chat(w)
	if got := instant(t, w, `{__name__=~"vllm:.*",service="`+ref.Name+`"}`, clock.Now()); len(got) != 0 {
		t.Errorf("a service with SGLang exports %d series of vLLM, the first %v", len(got), got[0].Labels)
	}
	rate := func(of string) float64 { return one(t, w, "sum(rate("+of+"[5m]))", clock.Now()) }
	if got := rate("sglang:time_to_first_token_seconds_count{" + s.Selector + "}"); got < 5 || got > 6.5 {
		t.Errorf("%.2f first tokens per second", got)
	}
	tokens, requests := rate("sglang:generation_tokens_total{"+s.Selector+"}"), rate("sglang:e2e_request_latency_seconds_count{"+s.Selector+"}")
	if each := tokens / requests; each < 190 || each > 250 {
		t.Errorf("%.0f tokens per request", each)
	}
	stuck := `sum by (pod) (sglang:num_running_reqs{` + s.Selector + `}) > 0 and sum by (pod) (rate(sglang:realtime_tokens_total{` + s.Selector + `}[2m])) == 0`
	if got := instant(t, w, stuck, clock.Now()); len(got) != 1 {
		t.Errorf("%d engines are stuck, want one", len(got))
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
