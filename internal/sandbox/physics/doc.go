// Package physics simulates one replica of an LLM serving engine: its scheduler,
// its paged KV cache and the time that its steps take. It knows nothing of
// clusters, metrics names or playbooks.
//
// # Scheduler
//
// The scheduler is that of vLLM's V1 engine, with chunked prefill always on. A step
// first serves the running requests in the order of their admission: one token for
// each that decodes, a chunk of its prompt for each that is in prefill. What is left
// of the token budget (max-num-batched-tokens) goes to waiting requests, first come
// first served, while fewer than max-num-seqs run and the KV cache has blocks for the
// whole prompt (scheduler-reserve-full-isl). A request in decode takes a further block
// every block-size tokens. When none is free, the request admitted last loses all its
// blocks, goes back to the head of the queue, and its prompt and its output so far are
// computed again: V1 preempts by recomputation only.
//
// SGLang's scheduler ([Flags].Retracts) computes prompts before anything else, so that requests
// in decode wait meanwhile, and admits a request only beside what the running ones are
// estimated to generate still. Where that estimate was too low it retracts the requests with
// the fewest tokens, which queue again at the end. It knows the limit of an output; here that
// is its length.
//
// # Time of a step
//
// A step reads the weights and the KV cache of the requests in decode from memory and
// computes every token of the batch. The roofline model bounds it:
//
//	time = overhead + max(weights/bandwidth, tokens·2·parameters/FLOPS) + context·kvBytes/bandwidth + perSequence·decoding
//
// Decode is therefore bound by memory, prefill by computation, and a chunk that is
// small enough rides along for free (Sarathi-Serve, OSDI 2024). Peak figures are those
// of NVIDIA's data sheets, reduced by the share that serving engines reach: about 80 %
// of the bandwidth and 45 % of the dense FLOPS. The size of the KV cache is what
// gpu-memory-utilization leaves after weights and workspace, as vLLM's start-up
// profiling computes it.
//
// # Memory
//
// An engine whose weights and workspace leave no room for a block ends at start, as vLLM
// does ("No available memory for the cache blocks", or a CUDA out-of-memory error). One
// that serves ends where a step needs more than gpu-memory-utilization leaves free: the
// CUDA context and communication buffers, and the fragmentation of PyTorch's allocator,
// which grows with the tokens of the step. vLLM's documentation names both as reasons to
// lower gpu-memory-utilization. With the default no engine ends this way; with 0.98 one
// does as soon as prompts fill the batch. The requests that it holds fail.
//
// # Prefix cache
//
// Requests may begin with one of several shared prefixes. Its blocks are stored once,
// stay after their last request, and are evicted, the one used longest ago first, when
// running requests need them. A hit is not computed again.
//
// # Limits
//
// The quadratic part of attention in prefill is left out: below 8k tokens it is under a
// tenth. Blocks of finished requests beyond the shared prefix are never hit again, so a
// preempted request finds nothing of its own. There is no speculation, no LoRA, no KV transfer, no pipeline of
// steps. Consecutive steps of pure decode are advanced at once while no event can fall
// between them, and the inter-token times of such a row are counted at their mean.
// Numbers are right in direction and rough size, not measured.
package physics
