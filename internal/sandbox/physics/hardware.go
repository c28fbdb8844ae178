package physics

// Hardware is a model on the GPUs of one replica.
type Hardware struct {
	GPUs      int
	Memory    float64 // bytes of each GPU
	Bandwidth float64 // bytes per second of each, as reached in serving
	FLOPS     float64 // per second of each, as reached in serving

	Parameters float64
	Width      float64 // bytes per parameter
	KVToken    float64 // bytes that the KV cache takes for a token
	Workspace  float64 // bytes for activations, CUDA graphs and communication, all GPUs together

	Overhead float64 // seconds per step: launches, communication, the CPU's part
	Sequence float64 // seconds per request in decode: sampling, detokenisation
}

// H100 returns that many NVIDIA H100 SXM without a model: 80 GiB with 3.35 TB/s and
// 989 TFLOPS of dense bfloat16 on the data sheet.
func H100(gpus int) Hardware {
	return Hardware{
		GPUs: gpus, Memory: 80 << 30, Bandwidth: 0.8 * 3.35e12, FLOPS: 0.45 * 989e12,
		Workspace: 5e9 * float64(gpus), Overhead: 0.002 + 0.0005*float64(gpus), Sequence: 0.00002,
	}
}

// Llama70B is Llama 3.3 70B in bfloat16: 80 layers with 8 KV heads of 128.
func Llama70B() Hardware {
	h := H100(4)
	h.Parameters, h.Width, h.KVToken = 70.6e9, 2, 80*8*128*2*2
	return h
}

// Qwen32B is Qwen 2.5 Coder 32B in bfloat16: 64 layers with 8 KV heads of 128.
func Qwen32B() Hardware {
	h := H100(2)
	h.Parameters, h.Width, h.KVToken = 32.8e9, 2, 64*8*128*2*2
	return h
}

// Llama8B is Llama 3.1 8B in bfloat16 on one GPU: 32 layers with 8 KV heads of 128.
func Llama8B() Hardware {
	h := H100(1)
	h.Parameters, h.Width, h.KVToken = 8.03e9, 2, 32*8*128*2*2
	return h
}

// Blocks returns how many blocks of that many tokens the KV cache has at a share of
// the memory; 0: the model does not fit, and the engine ends with an out-of-memory
// error at start.
func (h Hardware) Blocks(utilization float64, size int) int {
	room := float64(h.GPUs)*h.Memory*utilization - h.Parameters*h.Width - h.Workspace
	return max(0, int(room/h.KVToken/float64(size)))
}

// Beyond the share of memory that the engine manages, each GPU holds the CUDA context and
// communication buffers, and what fragmentation of the allocator takes while a full
// batch is computed. Start-up profiling sees neither.
const (
	contextBytes  = 0.6e9
	fragmentBytes = 1.8e9
)

// exceeds reports whether a step with that many tokens, of a budget, does not fit into the
// memory that a share leaves.
func (h Hardware) exceeds(utilization float64, tokens, budget int) bool {
	need := contextBytes + fragmentBytes*float64(tokens)/float64(max(1, budget))
	return need > (1-utilization)*h.Memory
}

// warmUp is how many seconds an engine profiles its memory and captures CUDA graphs
// with everything compiled before. Compilation adds minutes.
const warmUp = 10

// Load returns how many seconds a replica takes until it serves, if it reads its
// weights at that many bytes per second.
func (h Hardware) Load(storage float64) float64 { return h.Parameters*h.Width/storage + warmUp }

// pace is the time of a step's parts on the hardware in its present condition.
type pace struct{ overhead, weights, token, context, sequence float64 }

func (h Hardware) pace(c Condition) pace {
	bandwidth, flops := float64(h.GPUs)*h.Bandwidth/factor(c.Memory), float64(h.GPUs)*h.FLOPS/factor(c.Compute)
	return pace{
		overhead: h.Overhead, weights: h.Parameters * h.Width / bandwidth, token: 2 * h.Parameters / flops,
		context: h.KVToken / bandwidth, sequence: h.Sequence,
	}
}

// step returns the time of a step over tokens, of which decoding are of requests in
// decode with that many tokens of context in all.
func (p pace) step(tokens, decoding, context int) float64 {
	return p.overhead + max(p.weights, p.token*float64(tokens)) + p.context*float64(context) + p.sequence*float64(decoding)
}

// Flags are the engine's options that change what it does. The zero value of each is
// vLLM's default on an H100.
type Flags struct {
	MaxNumSeqs           int     // 0: 1024
	MaxNumBatchedTokens  int     // 0: 8192
	LongPrefillThreshold int     // tokens of one prompt in one step; 0: the budget alone limits them
	MaxModelLen          int     // 0: 131072
	BlockSize            int     // 0: 16
	GPUMemoryUtilization float64 // 0: 0.92
	NoPrefixCaching      bool
	Retracts             bool // the scheduler is SGLang's
}

// WithDefaults returns the flags in force.
func (f Flags) WithDefaults() Flags {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&f.MaxNumSeqs, 1024)
	set(&f.MaxNumBatchedTokens, 8192)
	set(&f.MaxModelLen, 131072)
	set(&f.BlockSize, 16)
	if f.GPUMemoryUtilization == 0 {
		f.GPUMemoryUtilization = 0.92
	}
	return f
}

// Condition is what is wrong with a replica. The zero value is a healthy one.
type Condition struct {
	Compute float64 // factor on the time of computation: a low clock; 0: 1
	Memory  float64 // factor on the time of reading memory; 0: 1
	Stuck   bool    // it takes requests and no step
	Fails   float64 // share of the requests that end with an error of the server
	Hangs   float64 // share of the requests that never get a token and do not reach the scheduler

	Corrupts float64 // share of the requests with logits that are not numbers
	Endless  float64 // share of the requests that the model does not end: they run into their limit
}

// Throttled returns the condition of GPUs whose clock is that many times too low.
// Prefill is slower by as much. Memory keeps its own clock, so that decode suffers
// only where the units that issue its reads are too slow.
func Throttled(times float64) Condition {
	return Condition{Compute: times, Memory: 1 + 0.15*(times-1)}
}

func factor(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}
