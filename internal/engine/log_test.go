package engine

import (
	"strings"
	"testing"
)

// Lines as engines print them tell what failed; those of another engine tell
// nothing of this one.
func TestRead(t *testing.T) {
	for _, c := range []struct{ engine, line, sign string }{
		{"vllm", "(EngineCore_DP0 pid=272) ERROR 09-28 15:47:24 [core.py:718] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.64 GiB.", "gpu_memory"},
		{"vllm", "(APIServer pid=1) ERROR 01-02 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", "engine_dead"},
		{"vllm", "[rank0]:[E928 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE) ran for 600000 milliseconds", "nccl"},
		{"vllm", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3353, unhandled system error", "nccl"},
		{"vllm", "OSError: Can't load tokenizer for 'acme/chat-7b'. If you were trying to load it from 'https://huggingface.co/models'", "tokenizer"},
		{"vllm", "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error", "no_model"},
		{"vllm", "Scheduler hit an exception: Traceback (most recent call last):", ""},
		{"sglang", "[2026-05-04 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):", "engine_dead"},
		{"sglang", "[2026-05-04 12:00:00] Received sigquit from a child process. It usually means the child failed.", "engine_dead"},
		{"sglang", "vllm.v1.engine.exceptions.EngineDeadError: x", "other"},
		{"dynamo", "[2026-05-04 12:00:00 TP0] Watchdog timeout (self.watchdog_timeout=300)", "engine_dead"},
		{"", "EngineCore_DP0 died unexpectedly", "engine_dead"},
		{"vllm", "WARNING 01-02 [scheduler.py:1] Sequence group is preempted", ""},
	} {
		e, _ := Named(c.engine)
		got := ""
		if lines := e.Read([]string{c.line}); len(lines) > 0 {
			got = string(lines[0].Sign)
		}
		if got != c.sign {
			t.Errorf("%s: %q is %q, want %q", c.engine, c.line, got, c.sign)
		}
	}
}

// What a request says is in no line that is kept.
func TestQuiet(t *testing.T) {
	got := strings.Join(Quiet(strings.Join([]string{
		"INFO 01-02 [logger.py:39] Received request cmpl-1: prompt: 'hunter2'",
		`ERROR 01-02 [serving.py:1] bad request {"messages": [{"content": "hunter2"}]}`,
		"ValueError: prompt='hunter2' is too long",
		"  Input should be a valid list [type=list_type, input_value='hunter2', input_type=str]",
		`[2026-05-04 12:00:00] Error: {"inputs": "hunter2", "query": "hunter2"}`,
		"RuntimeError: cannot embed input=b'hunter2'",
		"[2026-05-04 12:00:00 TP0] Decode batch. #running-req: 4, #token: 812, gen throughput (token/s): 98",
		"[2026-05-04 12:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 12",
		"[2026-05-04 12:00:00] Receive: obj=GenerateReqInput(rid='1', custom='hunter2')",
		"[2026-05-04 12:00:00] Finish: obj=GenerateReqInput(rid='1'), out={'x': 'hunter2'}",
		"[2026-05-04 12:00:00 TP0] Decode out of memory happened. #retracted_reqs: 3",
		"",
		"ERROR 01-02 [core.py:718] EngineCore encountered a fatal error.",
	}, "\n")), "\n")
	want := strings.Join([]string{
		`ERROR 01-02 [serving.py:1] bad request {"messages: (left out)`,
		"ValueError: prompt: (left out)",
		"  Input should be a valid list [type=list_type, input_value: (left out)",
		`[2026-05-04 12:00:00] Error: {"inputs: (left out)`,
		"RuntimeError: cannot embed input: (left out)",
		"[2026-05-04 12:00:00 TP0] Decode out of memory happened. #retracted_reqs: 3",
		"ERROR 01-02 [core.py:718] EngineCore encountered a fatal error.",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What an engine's own gauges say is in flight; what they do not say is not zero.
func TestInFlight(t *testing.T) {
	const vllm = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a } b"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 2.0 1714824000000
vllm:num_requests_waiting{engine="0",model_name="a"} 1.0
vllm:num_requests_running_total{engine="0"} 99
`
	for name, c := range map[string]struct {
		engine, text string
		want         float64
		known        bool
	}{
		"both":          {"vllm", vllm, 6, true},
		"none waiting":  {"sglang", "sglang:num_running_reqs{tp_rank=\"0\"} 0.0\nsglang:num_queue_reqs{tp_rank=\"0\"} 0.0\n", 0, true},
		"other queues":  {"sglang", "sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 0.0\nsglang:num_decode_transfer_queue_reqs 2.0\nsglang:num_grammar_queue_reqs 1.0\n", 3, true},
		"one is none":   {"sglang", "sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 0.0\nsglang:num_grammar_queue_reqs NaN\n", 0, false},
		"no queue":      {"vllm", "vllm:num_requests_running 0\n", 0, false},
		"queue is none": {"vllm", "vllm:num_requests_running 0\nvllm:num_requests_waiting NaN\n", 0, false},
		"another's":     {"sglang", vllm, 0, false},
		"not a number":  {"vllm", "vllm:num_requests_running NaN\n", 0, false},
		"nothing there": {"vllm", "", 0, false},
	} {
		e, _ := Named(c.engine)
		if got, known := e.InFlight(c.text); got != c.want || known != c.known {
			t.Errorf("%s: %v %t, want %v %t", name, got, known, c.want, c.known)
		}
	}
}
