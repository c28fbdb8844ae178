package sandbox

import (
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// image is what a revision's image does to an engine beyond the options in its pod
// template. The zero value is a good one.
type image struct {
	compute  float64 // factor on the time of computation; 0: 1
	memory   float64 // factor on the time of reading weights and KV cache; 0: 1
	failures float64 // share of requests that end with an error of the server
	chunk    int     // tokens of a prompt that its scheduler takes in one step at most; 0: as the options say
}

// newEngine returns the engine of a pod that has just loaded its model.
func (f *fleet) newEngine(set *replicaSet, at time.Time) *physics.Engine {
	flags := flagsOf(set.fields)
	if set.image.chunk > 0 {
		flags.LongPrefillThreshold = set.image.chunk
	}
	return physics.New(f.spec.hardware, flags, vllmBounds, float64(at.Unix()))
}

// flagsOf reads the engine's options from a flattened pod template. An option that is
// missing or is no number has its default.
func flagsOf(fields map[string]string) physics.Flags {
	arg := func(name string) string { return fields["containers[vllm].args["+name+"]"] }
	whole := func(name string) int {
		n, err := strconv.Atoi(arg(name))
		if err != nil {
			return 0
		}
		return n
	}
	share, err := strconv.ParseFloat(arg("--gpu-memory-utilization"), 64)
	if err != nil {
		share = 0
	}
	_, off := fields["containers[vllm].args[--no-enable-prefix-caching]"]
	return physics.Flags{
		MaxNumSeqs: whole("--max-num-seqs"), MaxNumBatchedTokens: whole("--max-num-batched-tokens"),
		LongPrefillThreshold: whole("--long-prefill-token-threshold"), MaxModelLen: whole("--max-model-len"),
		BlockSize: whole("--block-size"), GPUMemoryUtilization: share, NoPrefixCaching: off,
	}
}

// condition returns what is wrong with a pod's engine.
func (p *pod) condition(b image, decode float64) physics.Condition {
	c := physics.Throttled(max(1, p.drag))
	times := func(v, by float64) float64 {
		if by == 0 {
			return v
		}
		return v * by
	}
	c.Compute = times(times(c.Compute, p.slow), b.compute)
	c.Memory = times(times(c.Memory, b.memory), decode)
	c.Stuck, c.Hangs, c.Fails = p.stuck, p.hangs, b.failures
	return c
}

// The bounds of vLLM's histograms, as its source has them. Those of lengths go up to
// max-model-len.
var vllmBounds = physics.Bounds{
	FirstToken: []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560},
	Token:      []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80},
	Request:    []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680},
	Length:     []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000},
}

// namedHistogram is a histogram under the name it is scraped by.
type namedHistogram struct {
	name string
	h    *physics.Histogram
}

func histograms(e *physics.Engine) []namedHistogram {
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
