package engine

import "regexp"

// CrashCause is why an engine ended, as far as its last words tell.
type CrashCause string

// The causes that [Crash] tells apart.
const (
	CrashGPUMemory     CrashCause = "gpu_memory"      // CUDA ran out of memory
	CrashCacheTooSmall CrashCause = "cache_too_small" // weights fit, and what is left cannot hold one sequence of the longest length
	CrashGPUTaken      CrashCause = "gpu_taken"       // somebody else holds memory of the GPU
	CrashGPUError      CrashCause = "gpu_error"       // the GPU or its driver failed: an error that is not about memory
	CrashFlag          CrashCause = "bad_flag"        // the command line was refused
	CrashModel         CrashCause = "no_model"        // the model, its tokenizer or its registry cannot be read
	CrashOther         CrashCause = "other"           // an error that none of these describes
	CrashUnknown       CrashCause = "unknown"         // there are no words
)

// crash is one way in which an engine says why it ends.
type crash struct {
	cause CrashCause
	words *regexp.Regexp
}

// crashes are tried in order: what is more exact comes first, because an engine
// that fails for one of them prints many errors after it. The words are those of
// vLLM's v1/worker (utils and gpu_worker), v1/core/kv_cache_utils and
// gpu_model_runner (0.5 to 0.26), SGLang's model_runner and pool configurator (0.3
// to 0.5.15), PyTorch's allocator, NCCL and the CUDA runtime.
var crashes = []crash{
	{CrashGPUTaken, regexp.MustCompile(`Free memory on device .{0,60}on startup is less than desired GPU memory utilization|Error in memory profiling.*free memory`)},
	{CrashCacheTooSmall, regexp.MustCompile(`No available memory for the cache blocks|To serve at least one request with the model.{0,3}s max seq len|is larger than the maximum number of tokens that can be stored in KV cache|Not enough memory\. Please try to increase --mem-fraction-static`)},
	{CrashGPUMemory, regexp.MustCompile(`CUDA out of memory|torch(?:\.cuda)?\.OutOfMemoryError|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED`)},
	{CrashGPUError, regexp.MustCompile(`CUDA error: |CUDA_ERROR_|Unable to determine the device handle|NVML_ERROR|ncclSystemError|ncclUnhandledCudaError|uncorrectable ECC error|No CUDA GPUs are available|Xid `)},
	{CrashFlag, regexp.MustCompile(`error: unrecognized arguments|error: argument --|error: ambiguous option|error: the following arguments are required`)},
	{CrashModel, regexp.MustCompile(`is not a local folder and is not a valid model identifier|Can't load (?:tokenizer|the configuration)|Repository Not Found|RepositoryNotFoundError|GatedRepoError|HFValidationError|does not appear to have a file named|No such file or directory: '[^']*\.safetensors|SafetensorError|LocalEntryNotFoundError|Cannot find any model weights`)},
}

var (
	// chatter is what engines print while all is well: it may repeat a request, and
	// a request may speak of an error. SGLang's lines name no level.
	chatter = regexp.MustCompile(`(?m)^.*(?:\bINFO\b|\bDEBUG\b|Received request|\] (?:Prefill|Decode) batch\b|\] (?:Receive|Finish): ).*\n?`)
	// exception is the name of a Python exception at the start of what it says.
	exception = regexp.MustCompile(`(?m)(?:^|[\s\]])((?:[A-Za-z_][A-Za-z0-9_]*\.)*[A-Z][A-Za-z0-9]*(?:Error|Exception))(?::|$)`)
	// amounts are the figures that vLLM gives with an error about memory.
	amounts = regexp.MustCompile(`\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)? [GM]iB`)
)

// Crash returns why an engine ended, by the last lines that it printed. what names
// the error as far as that gives nothing of a request away: the exception's name,
// and amounts of memory.
func Crash(text string) (cause CrashCause, what string) {
	text = chatter.ReplaceAllString(text, "")
	for _, c := range crashes {
		if at := c.words.FindStringIndex(text); at != nil {
			return c.cause, memoryFigures(c.cause, text[at[0]:])
		}
	}
	all := exception.FindAllStringSubmatch(text, -1)
	if len(all) > 0 {
		name := all[len(all)-1][1]
		return CrashOther, name[:min(len(name), 80)]
	}
	return CrashUnknown, ""
}

// memoryFigures returns at most three amounts that an error about memory gives.
func memoryFigures(cause CrashCause, text string) string {
	switch cause {
	case CrashGPUTaken, CrashCacheTooSmall, CrashGPUMemory:
	default:
		return ""
	}
	const near = 400 // what is further on belongs to something else
	found := amounts.FindAllString(text[:min(len(text), near)], 3)
	out := ""
	for i, f := range found {
		if i > 0 {
			out += ", "
		}
		out += f
	}
	return out
}
