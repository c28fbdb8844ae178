package engine

import "slices"

// vllmSource is the source of vLLM's table. The limits are those of the
// pydantic fields, which the engine checks at its start.
const vllmSource = "vLLM main 017e9f4448, 2026-08-17 (about v0.26), and vllm/engine/arg_utils.py at 002f10e0c"

// Files of vLLM that limit its flags.
const (
	vllmScheduler = "vllm/config/scheduler.py "
	vllmCache     = "vllm/config/cache.py "
	vllmModel     = "vllm/config/model.py "
	vllmOffload   = "vllm/config/offload.py "
	vllmArgs      = "vllm/engine/arg_utils.py "
)

// vllmFlags returns the flags that a run may change. Booleans are argparse's
// BooleanOptionalAction: --flag and --no-flag, never --flag=true.
func vllmFlags() []Flag {
	return slices.Concat(vllmAdmission(), vllmBatch(), vllmMemory(), vllmHost())
}

// vllmAdmission returns the flags of admission.
func vllmAdmission() []Flag {
	return []Flag{
		{
			Name: "max-num-seqs", Kind: Int, Min: at(1), Unit: "sequences", Compiles: true,
			Default: "by the GPU: 1024 from 70 GiB on (but for A100), else 256; on CPUs 128 for each rank; doubled by --performance-mode throughput; never more than max-num-batched-tokens",
			Trades:  "fewer: less KV cache in use, fewer preemptions, faster tokens; requests wait longer for their first token, and fewer are served. It bites only below the number that runs",
			Source:  vllmScheduler + "max_num_seqs", Note: "no k or K: --max-num-seqs 1k is an error; it is unset in many manifests, and that is not 256",
		},
		{
			Name: "max-num-batched-tokens", Kind: Size, Min: at(1), Unit: "tokens of a step", Compiles: true,
			Default: "by the GPU: 16384 from 160 GiB on, 8192 from 70 GiB on (but for A100), else 2048; never more than max-num-seqs x max-model-len",
			Trades:  "more: first tokens come sooner and more is served; tokens between come slower. Fewer: the reverse",
			Source:  vllmScheduler + "max_num_batched_tokens",
		},
		{
			Name: "max-num-scheduled-tokens", Kind: Size, Min: at(1), Unit: "tokens of a step", Default: "max-num-batched-tokens",
			Trades: "fewer: room for what speculative decoding adds to a step; less is served", Source: vllmScheduler + "max_num_scheduled_tokens",
			Note: "vLLM accepts 0, which schedules nothing: it is refused here",
		},
		{
			Name: "max-num-active-seqs", Kind: Int, Min: at(1), Unit: "sequences", Default: "max-num-seqs",
			Trades: "fewer: as fewer max-num-seqs, without other buffers or compiled shapes", Source: vllmScheduler + "max_num_active_seqs",
			Note: "newer than v0.26",
		},
		{
			Name: "max-num-queued-reqs", Kind: Int, Min: at(1), Unit: "requests in flight", Default: "no limit", Contract: true,
			Trades: "fewer: requests beyond it are refused with 503 at once, instead of waiting", Source: vllmScheduler + "max_num_queued_reqs",
			Note: "for all data-parallel ranks together; vLLM accepts 0, which refuses every request: it is refused here",
		},
		{
			Name: "max-num-queued-tokens", Kind: Size, Min: at(1), Unit: "prompt tokens in prefill", Default: "no limit", Contract: true,
			Trades: "fewer: requests beyond it are refused with 503, so that first tokens of the others come in time", Source: vllmScheduler + "max_num_queued_tokens",
			Note: "vLLM accepts 0, which refuses every request: it is refused here",
		},
	}
}

// vllmBatch returns the flags of batching.
func vllmBatch() []Flag {
	return []Flag{
		{
			Name: "long-prefill-token-threshold", Kind: Int, Min: at(0), Unit: "tokens", Default: "0: no prompt is long",
			Trades: "lower: long prompts are cut smaller, so that short ones get through; long ones take longer", Source: vllmScheduler + "long_prefill_token_threshold",
		},
		{
			Name: "prefill-schedule-interval", Kind: Int, Min: at(1), Unit: "steps", Default: "1",
			Trades: "more: data-parallel ranks step in time with each other; new requests wait for their step", Source: vllmScheduler + "prefill_schedule_interval",
		},
		{
			Name: "scheduling-policy", Kind: Enum, Words: []string{"fcfs", "priority"}, Default: "fcfs", Contract: true,
			Trades: "priority: requests with a priority go first, the others wait", Source: vllmScheduler + "policy",
		},
		{
			Name: "enable-chunked-prefill", Kind: Bool, Default: "true where the model supports it",
			Trades: "false: prompts are not cut, so that a long one holds up every token of the others", Source: vllmScheduler + "enable_chunked_prefill",
			Note: "vLLM warns that a model which supports it may crash without it",
		},
		{
			Name: "disable-chunked-mm-input", Kind: Bool, Default: "false",
			Trades: "true: an image goes into one step as a whole", Source: vllmScheduler + "disable_chunked_mm_input",
		},
		{
			Name: "async-scheduling", Kind: Bool, Default: "true where it is supported",
			Trades: "false: the GPU waits for the scheduler between steps", Source: vllmScheduler + "async_scheduling",
		},
		{
			Name: "stream-interval", Kind: Int, Min: at(1), Unit: "tokens", Default: "1",
			Trades: "more: less work of the host, and tokens come in bursts", Source: vllmScheduler + "stream_interval",
		},
	}
}

// vllmMemory returns the flags of the KV cache.
func vllmMemory() []Flag {
	return []Flag{
		{
			Name: "gpu-memory-utilization", Kind: Float, Min: at(0), Above: true, Max: at(1), Unit: "fraction of the GPU's memory",
			Default: "0.92 since about v0.20, 0.90 before",
			Trades:  "more: more KV cache, fewer preemptions; too much, and the engine runs out of memory when it starts or under load", Source: vllmCache + "gpu_memory_utilization",
			Note: "without effect where kv-cache-memory-bytes is set",
		},
		{
			Name: "kv-cache-memory-bytes", Kind: Size, Min: at(1), Unit: "bytes of each GPU", Default: "what gpu-memory-utilization leaves",
			Trades: "more: more KV cache, fewer preemptions; too much, and the engine runs out of memory", Source: vllmCache + "kv_cache_memory_bytes",
		},
		{
			Name: "max-model-len", Kind: Size, Min: at(1), Words: []string{"auto", "-1"}, Unit: "tokens of a request", Default: "the model's", Contract: true,
			Trades: "lower: longer requests are refused with 400, so that they cannot fill the KV cache; higher: the engine does not start when one such request does not fit in it", Source: vllmModel + "max_model_len",
			Note: "KV cache is allocated block by block, so that lowering it frees nothing of requests that are short anyway; the buckets of some histograms change with it",
		},
		{
			Name: "enable-prefix-caching", Kind: Bool, Default: "true where the model supports it",
			Trades: "false: every prompt is recomputed", Source: vllmCache + "enable_prefix_caching",
			Note: "in a file given with --config, enable-prefix-caching: false is ignored by 'vllm serve': no-enable-prefix-caching: true is not",
		},
		{
			Name: "scheduler-reserve-full-isl", Kind: Bool, Default: "true",
			Trades: "false: prompts are admitted before they certainly fit, which thrashes the KV cache", Source: vllmScheduler + "scheduler_reserve_full_isl",
		},
		{
			Name: "watermark", Kind: Float, Min: at(0), Max: at(1), Below: true, Unit: "fraction of the KV blocks", Default: "0",
			Trades: "more: blocks are kept free when requests are admitted, which stops preemptions; fewer requests run at once", Source: vllmScheduler + "watermark",
			Note: "since 2026; older engines refuse it",
		},
	}
}

// vllmHost returns the flags of host memory, and others that affect memory or
// start time.
func vllmHost() []Flag {
	return []Flag{
		{
			Name: "kv-offloading-size", Kind: Float, Min: at(0), Above: true, Unit: "GiB of the host's memory, of all ranks together", Default: "none",
			Trades: "more: blocks that leave the GPU are kept in the host's memory, which the pod needs", Source: vllmCache + "kv_offloading_size",
			Note: "the replacement of swap-space",
		},
		{
			Name: "kv-offloading-backend", Kind: Enum, Words: []string{"native", "lmcache"}, Default: "native",
			Trades: "which backend keeps the blocks", Source: vllmCache + "kv_offloading_backend",
		},
		{
			Name: "cpu-offload-gb", Kind: Float, Min: at(0), Unit: "GiB of weights for each GPU", Default: "0",
			Trades: "more: memory for KV cache; every step waits for weights from the host", Source: vllmOffload + "cpu_offload_gb",
		},
		{
			Name: "enforce-eager", Kind: Bool, Default: "false",
			Trades: "true: a fast start and less memory; every token is slower", Source: vllmModel + "enforce_eager",
		},
		{
			Name: "max-cudagraph-capture-size", Kind: Int, Min: at(1), Unit: "sequences", Default: "by the configuration",
			Trades: "less: a faster start and less memory; larger batches run without a graph", Source: vllmArgs + "max_cudagraph_capture_size", Compiles: true,
		},
		{
			Name: "disable-hybrid-kv-cache-manager", Kind: Bool, Default: "by the configuration",
			Trades: "true: all layers get as much KV cache as the largest, so that less fits", Source: vllmScheduler + "disable_hybrid_kv_cache_manager",
		},
		{
			Name: "mm-processor-cache-gb", Kind: Float, Min: at(0), Unit: "GiB for each process", Default: "4",
			Trades: "more: repeated images are not processed again; uses the host's memory", Source: "vllm/config/multimodal.py mm_processor_cache_gb",
		},
		{
			Name: "shutdown-timeout", Kind: Int, Min: at(0), Unit: "seconds", Default: "0: requests are aborted",
			Trades: "more: requests end before the engine does; pods take longer to stop", Source: vllmArgs + "shutdown_timeout",
		},
	}
}

// vllmRemoved returns flags with which this version does not start. Manifests
// of older versions may have them.
func vllmRemoved() []Flag {
	gone := func(name, instead string) Flag { return Flag{Name: name, Kind: Text, Removed: instead} }
	return []Flag{
		gone("swap-space", "removed 2026-03-07 (about v0.18), where preemption recomputes; use --kv-offloading-size"),
		gone("num-lookahead-slots", "it is part of --speculative-config"),
		gone("num-scheduler-steps", "multi-step scheduling was removed"),
		gone("scheduler-delay-factor", "it belonged to V0"),
		gone("preemption-mode", "preemption always recomputes"),
		gone("use-v2-block-manager", "it belonged to V0"),
		gone("guided-decoding-backend", "it is part of --structured-outputs-config"),
		gone("max-seq-len-to-capture", "use --max-cudagraph-capture-size"),
		gone("max-num-partial-prefills", "concurrent partial prefills were removed"),
		gone("max-long-partial-prefills", "concurrent partial prefills were removed"),
		gone("disable-log-requests", "requests are logged only with --enable-log-requests"),
		gone("disable-prefix-caching", "it was never a flag: enable-prefix-caching=false is --no-enable-prefix-caching"),
	}
}
