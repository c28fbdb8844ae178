package sandbox

import (
	"cmp"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// sglang is SGLang with --enable-metrics, as its source names options and series. It
// has no histogram of prefill and decode.
func sglang() dialect {
	request := []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}
	return dialect{
		name: "sglang",
		flags: func(a args) physics.Flags {
			return physics.Flags{
				MaxNumSeqs: a.whole("--max-running-requests"), MaxNumBatchedTokens: a.whole("--chunked-prefill-size"),
				MaxModelLen: a.whole("--context-length"), BlockSize: max(1, a.whole("--page-size")),
				GPUMemoryUtilization: cmp.Or(a.number("--mem-fraction-static"), 0.88), NoPrefixCaching: a.has("--disable-radix-cache"), Retracts: true,
			}
		},
		bounds: physics.Bounds{
			FirstToken: []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400},
			Token:      []float64{0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8},
			Request:    request,
			Length:     []float64{100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 15000, 20000, 22000, 25000, 30000},
		},
		labels: []string{"engine_type", "unified", "tp_rank", "0", "pp_rank", "0"}, metrics: sglangMetrics, histograms: sglangHistograms,
	}
}

func sglangMetrics(e *physics.Engine) []metric {
	mode := func(name string) []string { return []string{"mode", name} }
	answer := func(status string) []string {
		return []string{"endpoint", "/v1/chat/completions", "status_code", status, "method", "POST"}
	}
	return []metric{
		{"sglang:num_running_reqs", whole(e.Running), nil},
		{"sglang:num_queue_reqs", whole(e.Waiting), nil},
		{"sglang:token_usage", e.Usage, nil},
		{"sglang:max_total_num_tokens", func() float64 { return float64(e.Blocks() * e.Flags().BlockSize) }, nil},
		{"sglang:num_retracted_requests_total", count(&e.Preempted), nil},
		{"sglang:realtime_tokens_total", func() float64 { return e.Prompted - min(e.Prompted, e.Hit) }, mode("prefill_compute")},
		{"sglang:realtime_tokens_total", count(&e.Hit), mode("prefill_cache")},
		{"sglang:realtime_tokens_total", count(&e.Generated), mode("decode")},
		{"sglang:prompt_tokens_total", count(&e.Prompts.Sum), nil}, // these two grow when a request ends
		{"sglang:generation_tokens_total", count(&e.Outputs.Sum), nil},
		{"sglang:cached_tokens_total", count(&e.Hit), []string{"cache_source", "device"}},
		{"sglang:cache_hit_rate", func() float64 { return e.Hit / max(1, e.Queried) }, nil},
		{"sglang:num_requests_total", func() float64 { return e.Finished + e.Lost }, nil},
		{"sglang:num_aborted_requests_total", count(&e.Lost), nil},
		{"sglang:http_responses_total", count(&e.Finished), answer("200")},
		{"sglang:http_responses_total", count(&e.Rejected), answer("400")},
		{"sglang:http_responses_total", count(&e.Failed), answer("500")},
	}
}

func sglangHistograms(e *physics.Engine) []namedHistogram {
	return []namedHistogram{
		{"sglang:time_to_first_token_seconds", &e.TTFT},
		{"sglang:inter_token_latency_seconds", &e.ITL},
		{"sglang:e2e_request_latency_seconds", &e.E2E},
		{"sglang:queue_time_seconds", &e.Queue},
		{"sglang:prompt_tokens_histogram", &e.Prompts},
		{"sglang:generation_tokens_histogram", &e.Outputs},
	}
}
