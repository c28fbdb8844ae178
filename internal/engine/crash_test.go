package engine

import (
	"strings"
	"testing"
)

// The last lines of engines as people report them tell one cause from another.
func TestCrash(t *testing.T) {
	for _, c := range []struct{ name, text, cause, what string }{
		{"a GPU that somebody else uses", `(EngineCore_DP0 pid=17374) ERROR 09-28 15:47:24 [core.py:718] ValueError: Free memory on device (3.22/4.0 GiB) on startup is less than desired GPU memory utilization (0.9, 3.6 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}`, "gpu_taken", "3.22/4.0 GiB, 3.6 GiB"},
		{"since the device has a name", "ValueError: Free memory on device cuda:0 (7.34/15.49 GiB) on startup is less than desired GPU memory utilization (0.8, 12.39 GiB).", "gpu_taken", "7.34/15.49 GiB, 12.39 GiB"},
		{"no room for any block", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "cache_too_small", ""},
		{"no room for the longest sequence", "ValueError: To serve at least one request with the models's max seq len (32768), (8.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.46 GiB).", "cache_too_small", "8.00 GiB, 4.46 GiB"},
		{"the same of vLLM before", "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (77552).", "cache_too_small", ""},
		{"SGLang's pool", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.6", "cache_too_small", ""},
		{"PyTorch", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 714.00 MiB. GPU 0 has a total capacity of 11.60 GiB of which 605.75 MiB is free.", "gpu_memory", "714.00 MiB, 11.60 GiB, 605.75 MiB"},
		{"PyTorch before 2.5", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 312.00 MiB. GPU", "gpu_memory", "312.00 MiB"},
		{"warming up", "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs`", "gpu_memory", ""},
		{"a GPU that left the bus", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "gpu_error", ""},
		{"a flag that is gone", "usage: vllm serve [model_tag] [options]\nvllm: error: unrecognized arguments: --swap-space 8", "bad_flag", ""},
		{"a model that is not there", "OSError: acme/chat-7b is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'", "no_model", ""},
		{"the engine core died of it", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "gpu_memory", "2.00 GiB"},
		{"an error of its own", "Traceback (most recent call last):\n  File \"/app/server.py\", line 3\nValueError: the prompt is: my password is hunter2", "other", "ValueError"},
		{"with a prefix", "(APIServer pid=1) ERROR 01-02 [x.py:1] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "other", "vllm.v1.engine.exceptions.EngineDeadError"},
		{"a request speaks of an error", "INFO 01-02 [logger.py:39] Received request cmpl-1: prompt: 'explain torch.OutOfMemoryError: CUDA out of memory'\nValueError: x", "other", "ValueError"},
		{"nothing said", "", "unknown", ""},
		{"a request, nothing of an error", "INFO: POST /v1/completions 200 my password is hunter2", "unknown", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cause, what := Crash(c.text)
			if string(cause) != c.cause || what != c.what {
				t.Errorf("got %s %q, want %s %q", cause, what, c.cause, c.what)
			}
			if strings.Contains(what, "hunter2") {
				t.Errorf("it repeats what a request said: %q", what)
			}
		})
	}
}

// Whatever an engine prints, what is kept of it is short and has no more than names
// and amounts.
func FuzzCrash(f *testing.F) {
	f.Add("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 714.00 MiB.")
	f.Add("ValueError: secret")
	f.Fuzz(func(t *testing.T, text string) {
		cause, what := Crash(text)
		if cause == "" {
			t.Error("no cause")
		}
		for _, r := range what {
			if r > 127 || r < 32 {
				t.Errorf("kept %q", what)
			}
		}
		if strings.Contains(what, ":") {
			t.Errorf("kept more than a name: %q", what)
		}
	})
}
