package engine

import "fmt"

// leastBatchedTokens is the smallest default of max-num-batched-tokens on a GPU.
const leastBatchedTokens = 2048

// vllmRules returns the constraints between vLLM's flags.
func vllmRules() []rule {
	const scheduler = vllmScheduler + "verify_max_model_len"
	return []rule{
		{[]string{"max-num-seqs", "max-num-batched-tokens"}, scheduler, seqsWithinTokens},
		{[]string{"enable-chunked-prefill", "max-num-batched-tokens", "max-model-len"}, scheduler, wholePromptsFit},
		{[]string{"max-num-active-seqs", "max-num-seqs"}, scheduler, activeWithinSeqs},
		{[]string{"long-prefill-token-threshold", "max-model-len"}, scheduler, longWithinLength},
		{[]string{"gpu-memory-utilization", "kv-cache-memory-bytes"}, vllmCache + "kv_cache_memory_bytes", bytesOutrankUtilization},
		{[]string{"kv-offloading-backend", "kv-offloading-size"}, vllmCache + "kv_offloading_backend", backendNeedsSize},
	}
}

// seqsWithinTokens limits the sequences of a step by its tokens.
func seqsWithinTokens(s setting) string {
	seqs, ok := s.number("max-num-seqs")
	tokens, set := s.number("max-num-batched-tokens")
	switch {
	case !ok:
		return "" // the default never exceeds the tokens
	case set && tokens < seqs:
		return fmt.Sprintf("max-num-batched-tokens (%.0f) would be less than max-num-seqs (%.0f), and the engine does not start", tokens, seqs)
	case !set && seqs > leastBatchedTokens:
		return fmt.Sprintf("max-num-seqs (%.0f) may be more than max-num-batched-tokens, which is not set and may be %d by default: set both, as one variable", seqs, leastBatchedTokens)
	}
	return ""
}

// wholePromptsFit requires that the longest prompt fits into a step if prompts
// are not chunked.
func wholePromptsFit(s setting) string {
	tokens, set := s.number("max-num-batched-tokens")
	longest, known := s.number("max-model-len")
	switch {
	case !s.is("enable-chunked-prefill", "false") || !set:
		return ""
	case !known || longest < 0:
		return fmt.Sprintf("without chunked prefill max-num-batched-tokens (%.0f) must be at least max-model-len, which is not set: the engine may not start", tokens)
	case tokens < longest:
		return fmt.Sprintf("without chunked prefill max-num-batched-tokens (%.0f) must be at least max-model-len (%.0f), and the engine does not start", tokens, longest)
	}
	return ""
}

// activeWithinSeqs limits the active sequences by all sequences.
func activeWithinSeqs(s setting) string {
	active, a := s.number("max-num-active-seqs")
	seqs, b := s.number("max-num-seqs")
	if a && b && active > seqs {
		return fmt.Sprintf("max-num-active-seqs (%.0f) would be more than max-num-seqs (%.0f), and the engine does not start", active, seqs)
	}
	return ""
}

// longWithinLength limits the threshold of a long prompt by the longest prompt.
func longWithinLength(s setting) string {
	threshold, a := s.number("long-prefill-token-threshold")
	longest, b := s.number("max-model-len")
	if a && b && longest > 0 && threshold > longest {
		return fmt.Sprintf("long-prefill-token-threshold (%.0f) would be more than max-model-len (%.0f), and the engine does not start", threshold, longest)
	}
	return ""
}

// bytesOutrankUtilization: memory in bytes overrides memory as a fraction.
func bytesOutrankUtilization(s setting) string {
	if s.moves("gpu-memory-utilization") && s.has("kv-cache-memory-bytes") {
		return "gpu-memory-utilization has no effect while kv-cache-memory-bytes is set: change that flag"
	}
	return ""
}

// backendNeedsSize: an offloading backend has no effect without a size.
func backendNeedsSize(s setting) string {
	if s.moves("kv-offloading-backend") && !s.has("kv-offloading-size") {
		return "kv-offloading-backend has no effect while kv-offloading-size is not set: set that flag"
	}
	return ""
}
