package engine_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/engine"
)

func named(t *testing.T, name string) engine.Engine {
	t.Helper()
	e, ok := engine.Named(name)
	if !ok {
		t.Fatalf("no engine is named %q", name)
	}
	return e
}

// checks are values of flags, and what is wrong with them.
var checks = []struct {
	engine, flag, value string
	problem             engine.Problem // empty: taken
	words               string
}{
	{"vllm", "max-num-seqs", "192", "", ""},
	{"vllm", "max_num_seqs", "1", "", ""},
	{"vllm", "--max-num-seqs", "1", "", ""},
	{"vllm", "max-num-seqs", "0", engine.BadValue, "at least 1"},
	{"vllm", "max-num-seqs", "-1", engine.BadValue, "at least 1"},
	{"vllm", "max-num-seqs", "192.5", engine.BadValue, "not a whole number"},
	{"vllm", "max-num-seqs", "1k", engine.BadValue, "not a whole number"},
	{"vllm", "max-num-seqs", "NaN", engine.BadValue, "not a whole number"},
	{"vllm", "max-num-seqs", "", engine.BadValue, "not a whole number"},
	{"vllm", "max-num-seqs", "99999999999999999999", engine.BadValue, "longer than 18 characters"},
	{"vllm", "max-num-batched-tokens", "8k", "", ""},
	{"vllm", "max-num-batched-tokens", "8K", "", ""},
	{"vllm", "max-num-batched-tokens", "25.6k", "", ""},
	{"vllm", "max-num-batched-tokens", "1.5K", engine.BadValue, "1.5k"},
	{"vllm", "max-num-batched-tokens", "0k", engine.BadValue, "at least 1"},
	{"vllm", "max-num-batched-tokens", "8kb", engine.BadValue, "neither a whole number"},
	{"vllm", "max-model-len", "auto", "", ""},
	{"vllm", "max-model-len", "-1", "", ""},
	{"vllm", "max-model-len", "-2", engine.BadValue, "at least 1"},
	{"vllm", "gpu-memory-utilization", "0.95", "", ""},
	{"vllm", "gpu-memory-utilization", "1", "", ""},
	{"vllm", "gpu-memory-utilization", "0", engine.BadValue, "above 0 and at most 1"},
	{"vllm", "gpu-memory-utilization", "95", engine.BadValue, "above 0 and at most 1"},
	{"vllm", "gpu-memory-utilization", "inf", engine.BadValue, "not a number"},
	{"vllm", "gpu-memory-utilization", "0x1p-1", engine.BadValue, "not a number"},
	{"vllm", "watermark", "1e999", engine.BadValue, "not a finite number"},
	{"vllm", "watermark", "1", engine.BadValue, "below 1"},
	{"vllm", "watermark", "5e-2", "", ""},
	{"vllm", "enable-prefix-caching", "false", "", ""},
	{"vllm", "enable-prefix-caching", "False", engine.BadValue, "true or false"},
	{"vllm", "kv-offloading-backend", "lmcach", engine.BadValue, "did you mean lmcache?"},
	{"vllm", "max-num-seq", "64", engine.Unknown, "did you mean max-num-seqs?"},
	{"vllm", "max-running-requests", "64", engine.Unknown, "vLLM has no known flag --max-running-requests"},
	{"vllm", "nope", "1", engine.Unknown, "responder engine flags"},
	{"vllm", "swap-space", "4", engine.Removed, "--kv-offloading-size"},
	{"vllm", "tensor-parallel-size", "2", engine.Fixed, "GPUs"},
	{"vllm", "tp", "2", engine.Fixed, "tensor-parallel-size"},
	{"vllm", "model", "other", engine.Fixed, "what is served"},
	{"vllm", "served-model-name", "x", engine.Fixed, "what is served"},
	{"vllm", "kv-cache-dtype", "fp8", engine.Fixed, "numerics"},
	{"vllm", "disable-log-stats", "true", engine.Fixed, "measured"},
	{"sglang", "max-running-requests", "64", "", ""},
	{"sglang", "chunked-prefill-size", "-1", "", ""},
	{"sglang", "chunked-prefill-size", "0", engine.BadValue, "at least 1"},
	{"sglang", "mem-fraction-static", "1", engine.BadValue, "below 1"},
	{"sglang", "disable-radix-cache", "false", "", ""},
	{"sglang", "max-num-seqs", "64", engine.Unknown, "SGLang has no known flag"},
	{"sglang", "data-parallel-size", "2", engine.Fixed, "dp-size"},
	{"dynamo", "max-num-seqs", "64", "", ""},
	{"dynamo", "max-running-requests", "0", engine.BadValue, "at least 1"},
	{"dynamo", "namespace", "x", engine.Fixed, "GPUs"},
	{"kserve", "max_num_seqs", "64", "", ""},
	{"kserve", "model_id", "x", engine.Fixed, "what is served"},
	{"kserve", "max-running-requests", "64", engine.Unknown, "KServe"},
}

// TestCheck holds what values are taken to what the engines' own parsers take.
func TestCheck(t *testing.T) {
	for _, tt := range checks {
		f, err := named(t, tt.engine).Check(tt.flag, tt.value)
		switch {
		case tt.problem == "" && err != nil:
			t.Errorf("%s --%s %s: %v", tt.engine, tt.flag, tt.value, err)
		case tt.problem == "" && strings.Contains(f.Name, "_"):
			t.Errorf("%s --%s: is named %s", tt.engine, tt.flag, f.Name)
		case tt.problem != "" && (err == nil || err.Problem != tt.problem || !strings.Contains(err.Error(), tt.words)):
			t.Errorf("%s --%s %s: %v, want %s ...%s...", tt.engine, tt.flag, tt.value, err, tt.problem, tt.words)
		}
	}
}

// TestUnstated: without an engine, what no engine takes is refused all the same.
func TestUnstated(t *testing.T) {
	e, ok := engine.Named("")
	if ok {
		t.Fatal("the empty name is an engine")
	}
	for value, problem := range map[string]engine.Problem{"0": engine.BadValue, "64": ""} {
		for _, flag := range []string{"max-num-seqs", "max-running-requests", "stream-interval"} {
			if _, err := e.Check(flag, value); problem == "" && err != nil || problem != "" && (err == nil || err.Problem != problem) {
				t.Errorf("--%s %s: %v", flag, value, err)
			}
		}
	}
	if _, err := e.Check("nope", "1"); err == nil || err.Problem != engine.Unknown || !strings.Contains(err.Message, "no known engine") {
		t.Errorf("nope: %v", err)
	}
}

// TestConflicts: what flags do not go with.
func TestConflicts(t *testing.T) {
	type set = map[string]string
	for _, tt := range []struct {
		engine  string
		values  set
		changed string
		words   string // empty: none
	}{
		{"vllm", set{"max-num-seqs": "512", "max-num-batched-tokens": "8k"}, "max-num-seqs", ""},
		{"vllm", set{"max-num-seqs": "1024", "max-num-batched-tokens": "512"}, "max-num-batched-tokens", "less than max-num-seqs"},
		{"vllm", set{"max-num-seqs": "2048"}, "max-num-seqs", ""},
		{"vllm", set{"max-num-seqs": "2049"}, "max-num-seqs", "set both"},
		{"vllm", set{"max-num-batched-tokens": "64"}, "max-num-batched-tokens", ""},
		{"vllm", set{"max-num-seqs": "$(SEQS)", "max-num-batched-tokens": "512"}, "max-num-batched-tokens", "cannot be checked"},
		{"vllm", set{"max-num-batched-tokens": "4096", "max-model-len": "8192"}, "max-num-batched-tokens", ""},
		{"vllm", set{"max-num-batched-tokens": "4096", "max-model-len": "8192", "enable-chunked-prefill": "false"}, "max-num-batched-tokens", "without chunked prefill"},
		{"vllm", set{"max-num-batched-tokens": "4096", "enable-chunked-prefill": "false"}, "enable-chunked-prefill", "not set"},
		{"vllm", set{"max-num-batched-tokens": "4096", "max-model-len": "auto", "enable-chunked-prefill": "false"}, "enable-chunked-prefill", "not set"},
		{"vllm", set{"max-num-active-seqs": "65", "max-num-seqs": "64"}, "max-num-active-seqs", "more than max-num-seqs"},
		{"vllm", set{"long-prefill-token-threshold": "9000", "max-model-len": "8192"}, "max-model-len", "more than max-model-len"},
		{"vllm", set{"gpu-memory-utilization": "0.9", "kv-cache-memory-bytes": "20G"}, "gpu-memory-utilization", "no effect"},
		{"vllm", set{"gpu-memory-utilization": "0.9", "kv-cache-memory-bytes": "20G"}, "kv-cache-memory-bytes", ""},
		{"vllm", set{"kv-offloading-backend": "lmcache"}, "kv-offloading-backend", "no effect"},
		{"sglang", set{"chunked-prefill-size": "2048", "page-size": "64"}, "chunked-prefill-size", ""},
		{"sglang", set{"chunked-prefill-size": "2000", "page-size": "64"}, "chunked-prefill-size", "multiple of page-size"},
		{"sglang", set{"chunked-prefill-size": "-1", "page-size": "64"}, "chunked-prefill-size", ""},
		{"sglang", set{"max-running-requests": "4", "dp-size": "8"}, "max-running-requests", "less than dp-size"},
		{"sglang", set{"enable-hierarchical-cache": "true", "disable-radix-cache": "true"}, "enable-hierarchical-cache", "exclude each other"},
		{"sglang", set{"hicache-ratio": "3", "enable-hierarchical-cache": "true"}, "hicache-ratio", ""},
		{"sglang", set{"hicache-ratio": "3"}, "hicache-ratio", "without enable-hierarchical-cache"},
		{"sglang", set{"context-length": "8192", "allow-auto-truncate": "true"}, "context-length", "cuts prompts silently"},
		{"sglang", set{"context-length": "8192"}, "context-length", ""},
		{"sglang", set{"max-queued-requests": "3", "disaggregation-mode": "decode"}, "max-queued-requests", "no effect"},
		{"sglang", set{"enable-mixed-chunk": "true", "speculative-algorithm": "EAGLE"}, "enable-mixed-chunk", "exclude each other"},
		{"dynamo", set{"max-num-seqs": "1024", "max-num-batched-tokens": "512"}, "max-num-seqs", "less than max-num-seqs"},
	} {
		e := named(t, tt.engine)
		got := e.Conflicts(tt.values, []string{tt.changed})
		switch {
		case tt.words == "" && len(got) > 0:
			t.Errorf("%v: %v", tt.values, got[0])
		case tt.words != "" && (len(got) != 1 || !strings.Contains(got[0].Error(), tt.words)):
			t.Errorf("%v: %v, want ...%s...", tt.values, got, tt.words)
		}
		for name := range tt.values {
			if name != tt.changed && tt.words != "" && !slices.Contains(e.Related(tt.changed), name) {
				t.Errorf("%s is not said to be related to %s", name, tt.changed)
			}
		}
	}
	if got := engine.Unstated().Among(map[string]string{"max-num-seqs": "4096"}); len(got) > 0 {
		t.Errorf("what is not given counts: %v", got[0])
	}
	if got := engine.Unstated().Among(map[string]string{"max-num-seqs": "1024", "max-num-batched-tokens": "512"}); len(got) != 1 {
		t.Errorf("%v, want one conflict", got)
	}
}

// TestNearest: what people write instead of a name.
func TestNearest(t *testing.T) {
	e := named(t, "vllm")
	for wrote, want := range map[string]string{
		"max-num-seq": "max-num-seqs", "max-nums-seqs": "max-num-seqs", "max_num_sequences": "max-num-seqs", "maxnumseqs": "max-num-seqs",
		"gpu-memory-utilisation": "gpu-memory-utilization", "gpu-memory": "gpu-memory-utilization", "nope": "", "x": "",
	} {
		if got := e.Nearest(wrote); got != want {
			t.Errorf("%s: %q, want %q", wrote, got, want)
		}
	}
}

// TestTable holds the table together: what a run may change says what it trades,
// where its bounds come from, and has one name, which is the one that is looked
// for in manifests.
func TestTable(t *testing.T) {
	for _, p := range engine.Unstated().Programs() {
		seen := map[string]bool{}
		for _, f := range p.Flags {
			for _, n := range append([]string{f.Name}, f.Aliases...) {
				if seen[n] || n != strings.ToLower(n) || strings.ContainsAny(n, "_ ") || strings.HasPrefix(n, "-") {
					t.Errorf("%s: the name %q stands twice, or is not spelled as the table's are", p.Name, n)
				}
				seen[n] = true
			}
			if !f.Changeable() {
				continue
			}
			if len(f.Aliases) > 0 || f.Trades == "" || f.Source == "" || f.Default == "" || f.Kind == engine.Text || f.Kind == engine.Enum && len(f.Words) < 2 {
				t.Errorf("%s --%s may be changed, and lacks something: %+v", p.Name, f.Name, f)
			}
			if strings.HasPrefix(f.Name, "no-") {
				t.Errorf("%s --%s is a value of another flag", p.Name, f.Name)
			}
		}
		if p.Source == "" || len(p.Flags) == 0 {
			t.Errorf("%s says not where it comes from, or has no flags", p.Name)
		}
	}
	for _, e := range engine.Names() {
		e := named(t, e)
		for _, name := range e.Flags() {
			for _, r := range e.Related(name) {
				if _, err := e.Known(r); err != nil {
					t.Errorf("a rule of %s speaks of --%s, which the table lacks", e.Name, r)
				}
			}
		}
	}
}

// TestCheckTakesAnything: no text breaks it, and what it takes is within bounds.
func TestCheckTakesAnything(t *testing.T) {
	all := engine.Unstated()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom(all.Flags()), rapid.String()).Draw(t, "name")
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`-?[0-9]{0,4}(\.[0-9]{1,3})?[kKmMgGtT]?`)).Draw(t, "value")
		f, err := all.Check(name, value)
		if err != nil {
			if err.Error() == "" || err.Problem == "" {
				t.Fatalf("an error without words: %+v", err)
			}
			return
		}
		if !f.Changeable() {
			t.Fatalf("--%s is taken", f.Name)
		}
		if f.Kind == engine.Int && !slices.Contains(f.Words, value) && strings.ContainsAny(value, ".kKeE ") {
			t.Fatalf("--%s takes %q", f.Name, value)
		}
		all.Conflicts(map[string]string{f.Name: value}, []string{f.Name})
	})
}
