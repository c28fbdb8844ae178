package engine

import (
	"fmt"
	"slices"
)

// sglangSource is the source of SGLang's table. Its flags are plain argparse
// flags: dashes only. Most limits are assertions of the scheduler, which ends
// the server at its start.
const sglangSource = "SGLang main 8905cbd42, 2026-07-20 (about v0.5.15), and python/sglang/srt/server_args.py at 001067fff"

// Files of SGLang that limit its flags.
const (
	sglangArgs    = "python/sglang/srt/server_args.py "
	sglangWorker  = "python/sglang/srt/managers/tp_worker.py "
	sglangManager = "python/sglang/srt/managers/scheduler.py "
)

// sglangFlags returns the flags that a run may change. Booleans are store_true:
// there is --flag, but no --no- form.
func sglangFlags() []Flag {
	return slices.Concat(sglangAdmission(), sglangBatch(), sglangMemory())
}

// sglangAdmission returns the flags of admission and priority.
func sglangAdmission() []Flag {
	return []Flag{
		{
			Name: "max-running-requests", Kind: Int, Min: at(1), Unit: "requests", Default: "as many as the memory holds",
			Trades: "fewer: less KV cache in use, fewer retractions, faster tokens; requests wait longer for their first token", Source: sglangWorker + "max_running_requests",
		},
		{
			Name: "max-queued-requests", Kind: Int, Min: at(1), Unit: "requests", Default: "no limit", Contract: true,
			Trades: "fewer: requests beyond it are refused at once, instead of waiting", Source: sglangWorker + "max_queued_requests",
			Note: "ignored with disaggregation-mode",
		},
		{
			Name: "chunked-prefill-size", Kind: Int, Min: at(1), Words: []string{"-1"}, Unit: "tokens of a chunk",
			Default: "by the GPU's memory: 2048, 4096, 8192 or 16384",
			Trades:  "more: first tokens come sooner, tokens between come slower; fewer: the reverse, and less memory; -1: prompts are not cut", Source: sglangArgs + "chunked_prefill_size",
		},
		{
			Name: "max-prefill-tokens", Kind: Size, Min: at(1), Unit: "tokens of a prefill batch", Default: "16384",
			Trades: "more: more prompts at once, so that first tokens come sooner; tokens between come slower", Source: sglangArgs + "max_prefill_tokens",
			Note: "the model's context length if that is larger",
		},
		{
			Name: "prefill-max-requests", Kind: Int, Min: at(1), Unit: "requests of a prefill batch", Default: "no limit",
			Trades: "fewer: tokens between come faster, first tokens later", Source: sglangArgs + "prefill_max_requests",
		},
		{
			Name: "prefill-decode-interval", Kind: Int, Min: at(0), Unit: "decode rounds", Default: "0",
			Trades: "more: tokens between come faster, first tokens later", Source: sglangArgs + "prefill_decode_interval",
		},
		{
			Name: "schedule-conservativeness", Kind: Float, Min: at(0), Default: "1.0",
			Trades: "more: fewer requests are admitted, and fewer are retracted; fewer are served at once", Source: sglangManager + "schedule_conservativeness",
		},
		{
			Name: "schedule-policy", Kind: Enum, Words: []string{"lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key"}, Default: "fcfs", Contract: true,
			Trades: "the order of requests", Source: sglangArgs + "schedule_policy",
		},
		{
			Name: "enable-priority-scheduling", Kind: Switch, Default: "false", Contract: true,
			Trades: "requests with a priority go first, the others wait", Source: sglangArgs + "enable_priority_scheduling",
		},
		{
			Name: "retraction-policy", Kind: Enum, Words: []string{"length", "priority"}, Default: "length", Contract: true,
			Trades: "which requests are retracted when the KV cache is full", Source: sglangArgs + "retraction_policy",
		},
	}
}

// sglangBatch returns the flags of batching.
func sglangBatch() []Flag {
	return []Flag{
		{
			Name: "enable-mixed-chunk", Kind: Switch, Default: "false",
			Trades: "prefill and decode in one batch: tokens between come more evenly", Source: sglangArgs + "enable_mixed_chunk",
		},
		{
			Name: "enable-dynamic-chunking", Kind: Switch, Default: "false",
			Trades: "chunks of even duration in pipeline parallelism", Source: sglangArgs + "enable_dynamic_chunking",
		},
		{
			Name: "num-continuous-decode-steps", Kind: Int, Min: at(1), Unit: "steps", Default: "1",
			Trades: "more: more is served; first tokens come later", Source: sglangArgs + "num_continuous_decode_steps",
		},
		{
			Name: "scheduler-recv-interval", Kind: Int, Min: at(1), Unit: "steps", Default: "1",
			Trades: "more: less work of the host; requests are seen later", Source: sglangArgs + "scheduler_recv_interval",
		},
		{
			Name: "disable-overlap-schedule", Kind: Switch, Default: "false",
			Trades: "the GPU waits for the scheduler between steps", Source: sglangArgs + "disable_overlap_schedule",
		},
		{
			Name: "stream-interval", Kind: Int, Min: at(1), Unit: "tokens", Default: "1",
			Trades: "more: less work of the host, and tokens come in bursts", Source: sglangArgs + "stream_interval",
		},
	}
}

// sglangMemory returns the flags of caches.
func sglangMemory() []Flag {
	return []Flag{
		{
			Name: "mem-fraction-static", Kind: Float, Min: at(0), Above: true, Max: at(1), Below: true, Unit: "fraction of the GPU's memory",
			Default: "what a reserve leaves, else 0.88",
			Trades:  "more: more KV cache, fewer retractions; too much, and the server runs out of memory, when it starts or under load. Lower it when it does", Source: sglangArgs + "mem_fraction_static",
		},
		{
			Name: "context-length", Kind: Size, Min: at(1), Unit: "tokens of a request", Default: "the model's", Contract: true,
			Trades: "lower: longer requests are refused, so that they cannot fill the KV cache", Source: sglangArgs + "context_length",
		},
		{
			Name: "max-total-tokens", Kind: Size, Min: at(1), Unit: "tokens of KV cache", Default: "what mem-fraction-static gives",
			Trades: "fewer: less KV cache than there is memory for", Source: sglangArgs + "max_total_tokens", Note: "for development, according to its help",
		},
		{
			Name: "disable-radix-cache", Kind: Switch, Default: "false",
			Trades: "every prompt is recomputed", Source: sglangArgs + "disable_radix_cache", Note: "no flag turns it on: it is on by default",
		},
		{
			Name: "radix-eviction-policy", Kind: Enum, Words: []string{"lru", "lfu", "slru", "priority"}, Default: "lru",
			Trades: "which prefixes are evicted first", Source: sglangArgs + "radix_eviction_policy",
		},
		{
			Name: "enable-hierarchical-cache", Kind: Switch, Default: "false",
			Trades: "prefixes that leave the GPU are kept in the host's memory, which the pod needs", Source: sglangArgs + "enable_hierarchical_cache",
		},
		{
			Name: "hicache-ratio", Kind: Float, Min: at(0), Above: true, Unit: "multiple of the GPU's KV cache", Default: "2.0",
			Trades: "more: more prefixes are kept, in more of the host's memory", Source: sglangArgs + "hicache_ratio",
		},
		{
			Name: "hicache-size", Kind: Int, Min: at(0), Unit: "GB of the host's memory for each rank", Default: "0: hicache-ratio decides",
			Trades: "more: more prefixes are kept, in more of the host's memory", Source: sglangArgs + "hicache_size",
		},
		{
			Name: "hicache-write-policy", Kind: Enum, Words: []string{"write_back", "write_through", "write_through_selective"}, Default: "write_through",
			Trades: "when prefixes are copied to the host", Source: sglangArgs + "hicache_write_policy",
		},
	}
}

// sglangRules returns the constraints between SGLang's flags.
func sglangRules() []rule {
	rules := []rule{
		{[]string{"chunked-prefill-size", "page-size"}, sglangArgs + "check_server_args", chunkOfWholePages},
		{[]string{"max-running-requests", "dp-size"}, sglangWorker + "max_running_requests", requestsForEachRank},
		{[]string{"enable-hierarchical-cache", "disable-radix-cache"}, sglangArgs + "_handle_cache_compatibility", hierarchyNeedsRadix},
		{[]string{"enable-mixed-chunk", "speculative-algorithm"}, sglangArgs + "check_server_args", mixedNotSpeculative},
		{[]string{"max-queued-requests", "disaggregation-mode"}, sglangArgs + "max_queued_requests", queueNotDisaggregated},
		{[]string{"hicache-ratio", "hicache-size"}, sglangArgs + "hicache_size", sizeOutranksRatio},
		{[]string{"context-length", "allow-auto-truncate"}, sglangArgs + "allow_auto_truncate", lengthNotTruncated},
	}
	for _, name := range []string{"hicache-ratio", "hicache-size", "hicache-write-policy"} {
		rules = append(rules, needs(name, "enable-hierarchical-cache"))
	}
	return rules
}

// chunkOfWholePages requires that a chunk consists of whole pages.
func chunkOfWholePages(s setting) string {
	chunk, a := s.number("chunked-prefill-size")
	page, b := s.number("page-size")
	if a && b && chunk > 0 && page >= 1 && int64(chunk)%int64(page) != 0 {
		return fmt.Sprintf("chunked-prefill-size (%.0f) would not be a multiple of page-size (%.0f), and the server does not start", chunk, page)
	}
	return ""
}

// requestsForEachRank requires one request for each rank.
func requestsForEachRank(s setting) string {
	requests, a := s.number("max-running-requests")
	ranks, b := s.number("dp-size")
	if a && b && requests < ranks {
		return fmt.Sprintf("max-running-requests (%.0f) would be less than dp-size (%.0f): a rank without requests does not start", requests, ranks)
	}
	return ""
}

// hierarchyNeedsRadix requires the radix cache for the hierarchical cache.
func hierarchyNeedsRadix(s setting) string {
	if s.is("enable-hierarchical-cache", "true") && s.is("disable-radix-cache", "true") {
		return "enable-hierarchical-cache and disable-radix-cache exclude each other, and the server does not start"
	}
	return ""
}

// mixedNotSpeculative excludes mixed chunks with speculation.
func mixedNotSpeculative(s setting) string {
	if s.is("enable-mixed-chunk", "true") && s.has("speculative-algorithm") {
		return "enable-mixed-chunk and speculative-algorithm exclude each other, and the server does not start"
	}
	return ""
}

// queueNotDisaggregated: the queue limit has no effect with disaggregation.
func queueNotDisaggregated(s setting) string {
	if s.moves("max-queued-requests") && s.has("disaggregation-mode") && !s.is("disaggregation-mode", "null") {
		return "max-queued-requests has no effect with disaggregation-mode"
	}
	return ""
}

// lengthNotTruncated: with truncation, a shorter context cuts prompts and says nothing,
// instead of refusing requests.
func lengthNotTruncated(s setting) string {
	if s.moves("context-length") && s.is("allow-auto-truncate", "true") {
		return "with allow-auto-truncate another context-length cuts prompts silently, so that answers are wrong"
	}
	return ""
}

// sizeOutranksRatio: a size in bytes overrides a ratio.
func sizeOutranksRatio(s setting) string {
	if size, ok := s.number("hicache-size"); ok && size > 0 && s.moves("hicache-ratio") {
		return "hicache-ratio has no effect while hicache-size is set: change that flag"
	}
	return ""
}

// needs returns the rule that a flag has no effect without a switch.
func needs(name, on string) rule {
	return rule{[]string{name, on}, sglangArgs + name, func(s setting) string {
		if s.moves(name) && !s.is(on, "true") {
			return fmt.Sprintf("%s has no effect without %s", name, on)
		}
		return ""
	}}
}

// sglangFixed returns the flags that a run never changes, by reason.
func sglangFixed() []Flag {
	number := func(f Flag) Flag { f.Kind = Int; return f } // rules read it
	toggle := func(f Flag) Flag { f.Kind = Switch; return f }
	return slices.Concat(
		[]Flag{
			number(fixed(Layout, "page-size")[0]),
			toggle(fixed(Served, "allow-auto-truncate")[0]),
			number(fixed(Layout, "dp-size data-parallel-size dp")[0]),
		},
		fixed(Served,
			"model-path model", "tokenizer-path", "tokenizer-mode", "tokenizer-backend", "skip-tokenizer-init", "load-format", "model-loader-extra-config",
			"is-embedding", "enable-multimodal", "revision", "model-impl", "model-config-parser", "json-model-override-args", "served-model-name", "weight-version",
			"chat-template", "hf-chat-template-name", "completion-template", "default-chat-template-kwargs", "reasoning-parser", "tool-call-parser", "tool-server",
			"sampling-defaults", "preferred-sampling-params", "enable-strict-thinking", "strip-thinking-cache", "rl-quant-profile",
			"incremental-streaming-output", "stream-response-default-include-usage", "enable-lora", "lora-paths", "max-lora-rank", "max-loras-per-batch",
			"schedule-low-priority-values-first", "default-priority-value", "abort-on-priority-when-disabled", "disable-priority-preemption",
			"priority-scheduling-preemption-threshold", "prefill-only-disable-kv-cache"),
		fixed(Answers,
			"dtype", "quantization", "quantization-param-path", "kv-cache-dtype", "enable-fp32-lm-head", "modelopt-quant", "modelopt-checkpoint-restore-path",
			"modelopt-checkpoint-save-path", "modelopt-export-path", "quantize-and-serve", "enable-tf32-matmul", "random-seed", "attention-backend",
			"sampling-backend", "grammar-backend", "moe-runner-backend", "speculative-algorithm", "speculative-num-steps", "speculative-eagle-topk",
			"speculative-num-draft-tokens", "speculative-draft-model-path", "swa-full-tokens-ratio", "enable-deterministic-inference"),
		fixed(Layout,
			"tp-size tensor-parallel-size tp", "pp-size pipeline-parallel-size pp", "dcp-size decode-context-parallel-size", "ep-size expert-parallel-size ep",
			"attn-cp-size attention-context-parallel-size", "moe-dp-size moe-data-parallel-size", "dwdp-size", "pp-max-micro-batch-size", "pp-async-batch-depth",
			"nnodes", "node-rank", "dist-init-addr nccl-init-addr", "dist-timeout", "nccl-port", "load-balance-method", "enable-dp-attention", "enable-dp-lm-head",
			"device", "base-gpu-id", "gpu-id-step", "numa-node", "moe-a2a-backend", "disaggregation-mode", "disaggregation-transfer-backend",
			"disaggregation-bootstrap-port", "disaggregation-ib-device", "tokenizer-worker-num", "detokenizer-worker-num", "gated-launch-port", "use-ray",
			"disable-hybrid-swa-memory", "enable-page-major-kv-layout", "enable-unified-memory", "radix-cache-backend"),
		fixed(Access,
			"host", "port", "grpc-port", "grpc-mode", "smg-grpc-mode", "fastapi-root-path", "enable-http2", "api-key", "admin-api-key", "ssl-keyfile", "ssl-certfile",
			"ssl-ca-certs", "ssl-keyfile-password", "enable-ssl-refresh", "file-storage-path"),
		fixed(Code, "trust-remote-code", "sidecar", "sidecar-args", "warmups", "custom-sigquit-handler"),
		fixed(Sight,
			"enable-metrics", "enable-metrics-for-all-schedulers", "enable-mfu-metrics", "extra-metric-labels", "bucket-time-to-first-token",
			"bucket-inter-token-latency", "bucket-e2e-request-latency", "prompt-tokens-buckets", "log-level", "log-level-http", "log-requests",
			"log-requests-level", "log-requests-format", "log-requests-target", "uvicorn-access-log-exclude-prefixes", "crash-dump-folder",
			"show-time-cost", "enable-cache-report", "tokenizer-metrics-custom-labels-header", "tokenizer-metrics-allowed-custom-labels",
			"watchdog-timeout", "soft-watchdog-timeout", "skip-server-warmup"),
		fixed(Several, "config"),
	)
}
