package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// manifest is a Deployment with one container.
type manifest struct {
	step.Objects
	container map[string]any
	err       error
}

func (m manifest) Object(_ context.Context, id kube.ObjectID) ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	type object = map[string]any
	return json.Marshal(object{
		"apiVersion": "apps/v1", "kind": id.Kind, "metadata": object{"namespace": id.Namespace, "name": id.Name},
		"spec": object{"template": object{"spec": object{"containers": []object{m.container}}}},
	})
}

// TestSnapshotManifest: flags are those of the live manifest in any form, unless the
// engines tell them; where the two differ, people are told. What cannot be read is said.
func TestSnapshotManifest(t *testing.T) {
	const image = "vllm/vllm-openai:v0.11.0"
	for name, tt := range map[string]struct {
		objects step.Objects
		engine  string
		flags   map[string]string // empty: absent
		fact    string
	}{
		"arguments": {
			objects: manifest{container: map[string]any{"name": "vllm", "image": image, "args": []string{"--max_num_seqs=64", "--max-model-len", "32768", "--gpu-memory-utilization", "0.94"}}},
			flags:   map[string]string{"max-num-seqs": "64", "max-model-len": "32768", "gpu-memory-utilization": "0.9", "quantization": ""},
			fact:    "the manifest has --gpu-memory-utilization 0.94, and the engines run with 0.9",
		},
		"the same in other words": {
			objects: manifest{container: map[string]any{"name": "vllm", "image": image, "args": []string{"--gpu-memory-utilization", "0.90"}}},
			flags:   map[string]string{"gpu-memory-utilization": "0.9"},
		},
		"a script": {
			objects: manifest{container: map[string]any{"name": "vllm", "image": image, "command": []string{"/bin/sh", "-c", "exec vllm serve org/model --max-num-seqs 48 --kv-cache-dtype fp8"}}},
			flags:   map[string]string{"max-num-seqs": "48", "kv-cache-dtype": "fp8"},
		},
		"of the environment": {
			objects: manifest{container: map[string]any{"name": "vllm", "image": image, "args": []string{"--max-num-seqs", "$(SEQS)"}, "env": []map[string]any{{"name": "SEQS", "valueFrom": map[string]any{"configMapKeyRef": map[string]any{"name": "tuning", "key": "seqs"}}}}}},
			flags:   map[string]string{"max-num-seqs": ""},
			fact:    "flags of the manifest are not all known",
		},
		"SGLang": {
			engine:  "sglang",
			objects: manifest{container: map[string]any{"name": "e", "image": "lmsysorg/sglang:v0.5", "command": []string{"python3", "-m", "sglang.launch_server"}, "args": []string{"--max-running-requests", "64", "--disable-radix-cache"}}},
			flags:   map[string]string{"max-running-requests": "64", "disable-radix-cache": "true"},
		},
		"away":       {objects: manifest{err: &fault.Error{Reason: fault.Unreachable, Message: "the API server is away"}}, fact: "flags of the manifest are not known: the API server is away"},
		"no cluster": {flags: map[string]string{"gpu-memory-utilization": "0.9", "max-num-seqs": ""}},
	} {
		s := &store{}
		for i := range 2 {
			usual().add(s, podName(i), nil)
		}
		svc := chat()
		if tt.engine != "" {
			svc.Engine = tt.engine
		}
		f, err := NewSnapshot(step.Deps{Querier: s, Objects: tt.objects}).Run(t.Context(), step.Input{Service: svc, Now: end})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := f.Out.(snapshotOut)
		for flag, want := range tt.flags {
			if out.Flags[flag] != want {
				t.Errorf("%s: --%s is %q, want %q: %q", name, flag, out.Flags[flag], want, f.Facts)
			}
		}
		all := strings.Join(f.Facts, "\n")
		if !strings.Contains(all, tt.fact) || tt.fact == "" && strings.Contains(all, "manifest") {
			t.Errorf("%s: %q", name, f.Facts)
		}
	}
}

// TestSnapshotProposals: what no run may change is proposed with its figures, and only
// where they speak for it.
func TestSnapshotProposals(t *testing.T) {
	counter := func(s *store, name string, perSecond float64) {
		s.add(name, map[string]string{"service": "chat", "pod": podName(0), "instance": podName(0) + ":8000", "engine": "0"}, counted(perSecond, perSecond))
	}
	full := func(v *vllm) { v.cache, v.preempted, v.waiting = 0.99, 0.5, 9 }
	for name, tt := range map[string]struct {
		v    vllm
		dtyp string
		more func(s *store)
		want []string // beginnings
		text string
	}{
		"as usual":         {v: usual(), dtyp: "auto"},
		"a full cache":     {v: changed(full), dtyp: "auto", want: []string{"Quantised KV cache"}, text: "70400 instead of 35200"},
		"quantised it is":  {v: changed(full), dtyp: "fp8"},
		"its type unknown": {v: changed(full)},
		"slow tokens":      {v: changed(func(v *vllm) { v.token, v.was.token = 0.08, 0.08 }), want: []string{"Quantised weights"}, text: "or speculative decoding: a token takes 0.08 s in small batches, the objective allows 0.05 s"},
		"useless drafts": {v: changed(func(v *vllm) { v.running = 20 }), want: []string{"Speculative decoding"}, text: "20 % of the drafted tokens are accepted", more: func(s *store) {
			counter(s, "vllm:spec_decode_num_draft_tokens_total", 100)
			counter(s, "vllm:spec_decode_num_accepted_tokens_total", 20)
		}},
		"useful drafts": {v: changed(func(v *vllm) { v.running = 20 }), more: func(s *store) {
			counter(s, "vllm:spec_decode_num_draft_tokens_total", 100)
			counter(s, "vllm:spec_decode_num_accepted_tokens_total", 70)
		}},
		"prompts delay tokens": {v: changed(func(v *vllm) { v.prompt, v.prefill, v.token = 3000, 0.4, 0.03 }), want: []string{"Disaggregation"}, text: "prompts have 3000 tokens, they had 600"},
		"failing transfers":    {v: usual(), want: []string{"GPU-direct transport"}, text: "0.3 transfers", more: func(s *store) { counter(s, "vllm:nixl_num_failed_transfers_total", 0.3) }},
		"low throughput":       {v: changed(func(v *vllm) { v.requests, v.token = 1, 0.024 }), want: []string{"Low throughput"}, text: "600 tokens per second are generated, before 1200"},
		"less traffic":         {v: changed(func(v *vllm) { v.requests = 1 })},
	} {
		s := &store{}
		for i := range 3 {
			tt.v.add(s, podName(i), func(series string, _, x float64) float64 { return x })
		}
		if tt.dtyp != "" {
			config("2200", "cache_dtype", tt.dtyp)(s)
		}
		if tt.more != nil {
			tt.more(s)
		}
		svc := chat()
		svc.SLOs = append(svc.SLOs, playbook.SLO{Name: "tpot", Objective: 0.99, Threshold: 0.05})
		out, facts := find[snapshotOut](t, s, NewSnapshot, step.Input{Service: svc})
		if len(out.Proposals) != len(tt.want) {
			t.Errorf("%s: %q, want %q", name, out.Proposals, tt.want)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(out.Proposals[i], want) || !strings.Contains(out.Proposals[i], tt.text) || !strings.Contains(strings.Join(facts, "\n"), want) {
				t.Errorf("%s: %q", name, out.Proposals[i])
			}
		}
	}
}
