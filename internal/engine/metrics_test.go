package engine

import (
	"slices"
	"testing"
)

// TestMetrics: what an objective is measured by is known, with the parts of its
// histogram, and the names that playbooks ask for are listed as they are scraped.
func TestMetrics(t *testing.T) {
	all := Metrics()
	for _, name := range []string{
		"vllm:time_to_first_token_seconds_bucket", "vllm:request_success_total", "vllm:num_preemptions_total", "vllm:iteration_tokens_total_count",
		"sglang:token_usage", "dynamo_frontend_requests_total", "revision_request_latencies_bucket", "http_requests_total",
	} {
		if !slices.Contains(all, name) {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range []string{"", "vllm:num_preemptions", "vllm:", "vllm:prefix_cache_hits"} {
		if slices.Contains(all, name) {
			t.Errorf("%q is known, and no engine exports it", name)
		}
	}
}
