package engine

import (
	"strconv"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/step"
)

// TestKVFit: how many sequences fit, with the arithmetic; nothing is computed from
// figures that are not known.
func TestKVFit(t *testing.T) {
	// Prompts of p95 1700 and outputs of p95 470 tokens: 2170, 136 blocks of 2200.
	without := func(name string) func(*store) { return func(s *store) { delete(s.Store, name) } }
	for name, tt := range map[string]struct {
		v               func(v *vllm)
		change          func(s *store)
		with            map[string]any
		status          string
		seqs, len, more int
		said            string
	}{
		"fits": {status: "fits", seqs: 16, len: 7040, more: 17, said: "a sequence has 1700 prompt and 470 output tokens (p95 of each), together 2170: 136 blocks of 16\n2200 blocks / 136 = 16 sequences fit in the KV cache of one engine (--max-num-seqs 16)"},
		"too many": {
			v: func(v *vllm) { v.running = 40 }, status: "over", seqs: 16, len: 880, more: 17,
			said: "none is longer than 880 tokens (--max-model-len 880); that refuses requests",
		},
		"as many as wanted": {with: map[string]any{"sequences": int64(16)}, status: "fits", seqs: 16, len: 2192, more: 17, said: "2200 blocks / 16 sequences"},
		"a larger share": {
			with: map[string]any{"gpu_memory_utilization": 0.99}, status: "fits", seqs: 16, len: 7040, more: 17,
			said: "--gpu-memory-utilization 0.99 instead of 0.9: at least 2200 blocks * 0.99 / 0.9 = 2420, so at least 17 sequences",
		},
		"a share that it has":   {with: map[string]any{"gpu_memory_utilization": 0.9}, status: "fits", seqs: 16, len: 7040, said: "--gpu-memory-utilization is 0.9 already"},
		"no configuration":      {change: without("vllm:cache_config_info"), status: "unknown", said: "no engine tells the size of its KV cache"},
		"no lengths":            {change: without("vllm:request_prompt_tokens_bucket"), status: "unknown", said: "no histogram of the lengths"},
		"hardly a request":      {v: func(v *vllm) { v.requests = 0.005 }, status: "unknown", said: "9 requests ended within 15m, 20 are needed"},
		"nothing":               {change: func(s *store) { s.Store = nil }, status: "unknown", said: "none of these series exists"},
		"blocks not yet known":  {change: config("None"), status: "unknown", said: "or not every one does"},
		"a smaller one beside":  {change: config("1100"), status: "fits", seqs: 8, len: 3520, said: "KV caches of 2 different sizes; this is the smallest"},
		"not one more":          {change: config("1100"), status: "fits", seqs: 8, len: 3520, said: "1100 blocks * 0.95 / 0.9 = 1161, which may not hold one sequence more"},
		"not even one":          {change: config("100"), status: "over", len: 320, said: "100 blocks / 136: not even one long sequence fits in the KV cache of one engine, so no --max-num-seqs prevents preemption\n"},
		"its size set directly": {change: config("1100", "num_gpu_blocks_override", "1100"), status: "fits", seqs: 8, len: 3520, said: "--gpu-memory-utilization has no effect"},
	} {
		s := &store{}
		for i := range 2 {
			v := usual()
			if tt.v != nil {
				tt.v(&v)
			}
			v.add(s, podName(i), nil)
		}
		if tt.change != nil {
			tt.change(s)
		}
		out, facts := find[kvFitOut](t, s, NewKVFit, step.Input{With: tt.with})
		got := func(n *int) int {
			if n == nil {
				return 0
			}
			return *n
		}
		if out.Status != tt.status || got(out.Seqs) != tt.seqs || got(out.ModelLen) != tt.len || got(out.MoreSeqs) != tt.more || !strings.Contains(strings.Join(facts, "\n"), tt.said) {
			t.Errorf("%s: %s, %d fit, %d long, %d at the larger share, %d queries: %s", name, out.Status, got(out.Seqs), got(out.ModelLen), got(out.MoreSeqs), s.queries, strings.Join(facts, "\n"))
		}
	}
}

// config adds an engine with another KV cache.
func config(blocks string, more ...string) func(s *store) {
	return func(s *store) {
		of := map[string]string{"service": "chat", "pod": "x", "instance": "x:8000", "num_gpu_blocks": blocks, "block_size": "16", "gpu_memory_utilization": "0.9"}
		for i := 0; i < len(more); i += 2 {
			of[more[i]] = more[i+1]
		}
		s.add("vllm:cache_config_info", of, func(float64) float64 { return 1 })
	}
}

// TestKVFitSGLang: an engine that tells its tokens, and not its blocks.
func TestKVFitSGLang(t *testing.T) {
	s := &store{}
	of := map[string]string{"service": "chat", "pod": "a", "instance": "a:30000"}
	gauge := func(v float64) func(float64) float64 { return func(float64) float64 { return v } }
	s.add("sglang:num_running_reqs", of, gauge(30))
	s.add("sglang:num_queue_reqs", of, gauge(0))
	s.add("sglang:max_total_num_tokens", of, gauge(40_000))
	s.add("sglang:e2e_request_latency_seconds_count", of, counted(2, 2))
	for _, name := range []string{"sglang:prompt_tokens_histogram", "sglang:generation_tokens_histogram"} {
		for _, le := range []string{"1000.0", "+Inf"} {
			l := map[string]string{"le": le}
			for k, v := range of {
				l[k] = v
			}
			s.add(name+"_bucket", l, counted(2, 2))
		}
	}
	svc := chat()
	svc.Engine = "sglang"
	for name, tt := range map[string]struct {
		args                             []string
		away                             bool
		seqsFlag, shareFlag, share, said string
	}{
		"nothing in the manifest": {seqsFlag: "max-running-requests", shareFlag: "mem-fraction-static", said: "--mem-fraction-static would give is not known"},
		"a share in the manifest": {
			args: []string{"--mem-fraction-static", "0.88"}, seqsFlag: "max-running-requests", shareFlag: "mem-fraction-static", share: "0.88",
			said: "--mem-fraction-static is 0.88; how far it can grow is not known",
		},
		"one limit for two ranks":      {args: []string{"--dp-size=2"}, shareFlag: "mem-fraction-static", said: "counts for all ranks of dp-size together: 2"},
		"one limit, by the short name": {args: []string{"--tp", "8", "--dp", "8"}, shareFlag: "mem-fraction-static", said: "counts for all ranks of dp-size together: 8"},
		"one limit, by the long name":  {args: []string{"--data-parallel-size", "4"}, shareFlag: "mem-fraction-static", said: "counts for all ranks of dp-size together: 4"},
		"a file that may hold them":    {args: []string{"--config", "/etc/sglang.yaml"}, shareFlag: "mem-fraction-static", said: "how many there are is not known"},
		"a manifest that is away":      {away: true, shareFlag: "mem-fraction-static", said: "how many there are is not known"},
	} {
		var away error
		if tt.away {
			away = &fault.Error{Reason: fault.Unreachable, Message: "the API server is away"}
		}
		c := NewKVFit(step.Deps{Querier: s, Objects: manifest{err: away, container: map[string]any{
			"name": "e", "image": "lmsysorg/sglang:v0.5", "command": []string{"python3", "-m", "sglang.launch_server"}, "args": tt.args,
		}}})
		f, err := c.Run(t.Context(), step.Input{With: map[string]any{}, Service: svc, Now: end})
		if err != nil {
			t.Fatal(err)
		}
		out, share, said := f.Out.(kvFitOut), "", strings.Join(f.Facts, "\n")
		if out.Utilized != nil {
			share = strconv.FormatFloat(*out.Utilized, 'g', -1, 64)
		}
		if out.Status != "over" || *out.Seqs != 21 || out.SeqsFlag != tt.seqsFlag || out.ShareFlag != tt.shareFlag || share != tt.share || !strings.Contains(said, tt.said) {
			t.Errorf("%s: %+v\n%s", name, out, said)
		}
		if !strings.Contains(said, "--max-running-requests 21") {
			t.Errorf("%s: the cap is not named: %s", name, said)
		}
	}
}

// TestSGLangWithoutDrafts: SGLang exports the share of accepted tokens without speculative
// decoding too, as 0, so that nothing is said or proposed of it.
func TestSGLangWithoutDrafts(t *testing.T) {
	of := map[string]string{"service": "chat", "pod": "a", "instance": "a:30000"}
	svc := chat()
	svc.Engine = "sglang"
	for share, want := range map[float64]int{0: 0, 0.2: 1} {
		s := &store{}
		for name, v := range map[string]float64{"num_running_reqs": 30, "num_queue_reqs": 20, "token_usage": 0.5, "max_total_num_tokens": 400_000, "spec_accept_rate": share} {
			s.add("sglang:"+name, of, func(float64) float64 { return v })
		}
		for _, name := range []string{"e2e_request_latency_seconds_count", "generation_tokens_total", "realtime_tokens_total"} {
			s.add("sglang:"+name, of, counted(2, 2))
		}
		out, facts := find[snapshotOut](t, s, NewSnapshot, step.Input{Service: svc})
		if len(out.Proposals) != want || (out.AcceptRate != nil) != (want > 0) || strings.Contains(strings.Join(facts, " "), "drafted tokens") != (want > 0) {
			t.Errorf("%g: %+v %q", share, out, facts)
		}
	}
}
