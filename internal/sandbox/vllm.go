package sandbox

import (
	"math"
	"strconv"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// vllm is vLLM, as its source names options and series.
func vllm() dialect {
	return dialect{
		name: "vllm",
		flags: func(a args) physics.Flags {
			return physics.Flags{
				MaxNumSeqs: a.whole("--max-num-seqs"), MaxNumBatchedTokens: a.whole("--max-num-batched-tokens"),
				LongPrefillThreshold: a.whole("--long-prefill-token-threshold"), MaxModelLen: a.whole("--max-model-len"),
				BlockSize: a.whole("--block-size"), GPUMemoryUtilization: a.number("--gpu-memory-utilization"),
				NoPrefixCaching: a.has("--no-enable-prefix-caching"),
			}
		},
		bounds: physics.Bounds{
			FirstToken: []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560},
			Token:      []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80},
			Request:    []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680},
			Length:     []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}, // to max-model-len
		},
		labels: []string{"engine", "0"}, metrics: vllmMetrics, histograms: vllmHistograms,
	}
}

func vllmMetrics(e *physics.Engine) []metric {
	ended := func(reason string) []string { return []string{"finished_reason", reason} }
	answered := func(status string) []string {
		return []string{"handler", "/v1/chat/completions", "method", "POST", "status", status}
	}
	return []metric{
		{"vllm:num_requests_running", whole(e.Running), nil},
		{"vllm:num_requests_waiting", whole(e.Waiting), nil},
		{"vllm:num_requests_waiting_by_reason", whole(e.Waiting), []string{"reason", "capacity"}},
		{"vllm:num_requests_waiting_by_reason", func() float64 { return 0 }, []string{"reason", "deferred"}},
		{"vllm:kv_cache_usage_perc", e.Usage, nil},
		{"vllm:num_preemptions_total", count(&e.Preempted), nil},
		{"vllm:prompt_tokens_total", count(&e.Prompted), nil},
		{"vllm:generation_tokens_total", count(&e.Generated), nil},
		{"vllm:prefix_cache_queries_total", count(&e.Queried), nil},
		{"vllm:prefix_cache_hits_total", count(&e.Hit), nil},
		{"vllm:iteration_tokens_total_count", count(&e.Steps), nil},
		{"vllm:request_success_total", func() float64 { return e.Finished - vllmLimited(e) }, ended("stop")},
		{"vllm:request_success_total", func() float64 { return vllmLimited(e) }, ended("length")},
		{"vllm:request_success_total", count(&e.Aborted), ended("abort")},
		{"vllm:request_success_total", count(&e.Failed), ended("error")},
		{"vllm:corrupted_requests_total", count(&e.Corrupted), nil}, // VLLM_COMPUTE_NANS_IN_LOGITS is set
		{"http_requests_total", count(&e.Finished), answered("2xx")},
		{"http_requests_total", count(&e.Rejected), answered("4xx")},
		{"http_requests_total", count(&e.Failed), answered("5xx")},
		{"vllm:cache_config_info", func() float64 { return 1 }, vllmCache(e)},
	}
}

// vllmLimited returns how many requests ended at their limit: one in ten of those that
// the model may end, and those that it does not.
func vllmLimited(e *physics.Engine) float64 {
	return math.Floor((e.Finished-e.Endless)/10) + e.Endless
}

// vllmCache are the labels of cache_config_info that tell how large the KV cache is,
// and why.
func vllmCache(e *physics.Engine) []string {
	f := e.Flags()
	caching := "True"
	if f.NoPrefixCaching {
		caching = "False"
	}
	return []string{
		"block_size", strconv.Itoa(f.BlockSize), "num_gpu_blocks", strconv.Itoa(e.Blocks()), "cache_dtype", "auto", "enable_prefix_caching", caching,
		"gpu_memory_utilization", strconv.FormatFloat(f.GPUMemoryUtilization, 'f', -1, 64), "kv_cache_size_tokens", strconv.Itoa(e.Blocks() * f.BlockSize),
	}
}

func vllmHistograms(e *physics.Engine) []namedHistogram {
	return []namedHistogram{
		{"vllm:time_to_first_token_seconds", &e.TTFT},
		{"vllm:request_time_per_output_token_seconds", &e.TPOT},
		{"vllm:inter_token_latency_seconds", &e.ITL},
		{"vllm:e2e_request_latency_seconds", &e.E2E},
		{"vllm:request_queue_time_seconds", &e.Queue},
		{"vllm:request_prefill_time_seconds", &e.Prefill},
		{"vllm:request_decode_time_seconds", &e.Decode},
		{"vllm:request_prompt_tokens", &e.Prompts},
		{"vllm:request_generation_tokens", &e.Outputs},
	}
}
