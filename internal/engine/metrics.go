package engine

import (
	"slices"
	"strings"
)

// Metrics returns the names of the series that the engines are known to export,
// as scraped and sorted: those that objectives are measured by, and further ones
// of today's versions and of those before them that playbooks ask for.
func Metrics() []string {
	var out []string
	histogram := func(name string) {
		if name != "" {
			out = append(out, name, name+"_bucket", name+"_count", name+"_sum")
		}
	}
	e := Unstated()
	for _, indicator := range Indicators() {
		for _, s := range e.Series(indicator) {
			histogram(s.Histogram)
			out = append(out, s.Requests, s.Failed.Name, s.Total.Name)
		}
	}
	for _, p := range e.Progress() {
		out = append(out, p.Running, p.Waiting, p.Finished)
		for _, c := range p.Steps {
			out = append(out, c.Name)
		}
	}
	for prefix, m := range map[string]struct{ plain, histograms string }{
		"vllm:": {vllmMetrics, vllmHistograms}, "sglang:": {sglangMetrics, sglangHistograms}, "dynamo_frontend_": {dynamoMetrics, dynamoHistograms},
	} {
		for name := range strings.FieldsSeq(m.plain) {
			out = append(out, prefix+name)
		}
		for name := range strings.FieldsSeq(m.histograms) {
			histogram(prefix + name)
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == "" })
}

// Series beside those of [Engine.Series]. What a version removed stays listed:
// a playbook may serve older versions too.
const (
	vllmMetrics = `num_requests_running num_requests_waiting num_requests_waiting_by_reason kv_cache_usage_perc gpu_cache_usage_perc
		num_preemptions_total prefix_cache_queries_total prefix_cache_hits_total external_prefix_cache_queries_total external_prefix_cache_hits_total
		mm_cache_queries_total mm_cache_hits_total prompt_tokens_total prompt_tokens_cached_total prompt_tokens_by_source_total generation_tokens_total
		request_success_total corrupted_requests_total engine_sleep_state cache_config_info lora_requests_info
		spec_decode_num_drafts_total spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total spec_decode_num_accepted_tokens_per_pos_total
		gpu_prefix_cache_queries_total gpu_prefix_cache_hits_total nixl_num_failed_transfers_total nixl_num_kv_expired_reqs_total`
	vllmHistograms = `iteration_tokens_total request_queue_time_seconds request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds
		request_prompt_tokens request_generation_tokens request_max_num_generation_tokens request_params_max_tokens request_params_n request_prefill_kv_computed_tokens
		kv_block_lifetime_seconds kv_block_idle_before_evict_seconds kv_block_reuse_gap_seconds`

	sglangMetrics = `token_usage full_token_usage swa_token_usage mamba_usage kv_available_tokens kv_evictable_tokens kv_used_tokens num_used_tokens
		num_running_reqs num_queue_reqs num_grammar_queue_reqs num_paused_reqs num_prefill_bootstrap_queue_reqs num_prefill_inflight_queue_reqs
		num_decode_prealloc_queue_reqs num_decode_transfer_queue_reqs num_retracted_requests_total num_retracted_reqs num_retracted_input_tokens_total
		num_retracted_output_tokens_total cache_hit_rate cached_tokens_total prompt_tokens_total generation_tokens_total realtime_tokens_total
		num_requests_total num_aborted_requests_total gen_throughput spec_accept_length spec_accept_rate max_total_num_tokens utilization
		num_transfer_failed_reqs_total num_bootstrap_failed_reqs_total`
	sglangHistograms = `queue_time_seconds prompt_tokens_histogram generation_tokens_histogram`

	dynamoMetrics = `active_requests inflight_requests queued_requests stage_requests output_tokens_total disconnected_clients model_migration_total
		model_total_kv_blocks model_max_num_seqs model_max_num_batched_tokens model_context_length model_kv_cache_block_size model_migration_limit
		router_queue_pending_requests`
	dynamoHistograms = `input_sequence_tokens output_sequence_tokens cached_tokens`
)
