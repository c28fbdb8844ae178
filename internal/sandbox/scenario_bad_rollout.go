package sandbox

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// rolloutAge is how long before the world opens the bad revision was rolled
// out: long enough for the one-hour window to burn too.
const rolloutAge = 12 * time.Minute

// badRollout is a release that cut the prefill budget: every first token comes
// late, whatever the load. Going back repairs it, more replicas do not.
func badRollout() scenario {
	chat := chatService()
	chat.revisions = append(chat.revisions, revisionSpec{
		age:   rolloutAge,
		cause: "release 2026.47: vLLM 0.11.1, smaller prefill chunks for smoother decode",
		fields: chatTemplate(map[string]string{
			"containers[vllm].image":                          "vllm/vllm-openai:v0.11.1",
			"containers[vllm].args[--max-num-batched-tokens]": "512",
		}),
		image: lateImage(),
	})
	return scenario{
		Scenario: Scenario{
			Name:        "bad-rollout",
			Title:       "A release made the first token slow",
			Description: "Twelve minutes ago a new revision cut the prefill budget; nearly every first token now comes after 500 ms. Rolling back repairs it.",
			Cause:       "release 2026.47 is rolled out",
			Fix:         "service.rollback",
		},
		seed:     1,
		age:      rolloutAge,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}

// chatService is the service that incidents happen to, healthy.
func chatService() serviceSpec {
	return serviceSpec{
		service: playbook.Service{
			Name: "serving/inference-chat", Namespace: "serving",
			Workload:  playbook.Workload{Kind: "Deployment", Name: "inference-chat"},
			Container: "vllm", Engine: "vllm", Model: "llama-70b",
			Endpoint: "http://inference-chat.serving.sandbox:8000",
			SLOs:     inferenceSLOs(), Owners: []string{"group:ml-platform"},
			Autonomy: playbook.Suggest, MinReady: 3, MaxScale: 10,
			Selector: `namespace="serving",service="inference-chat",model_name="llama-70b"`,
		},
		hardware: physics.Llama70B(), replicas: 4,
		load: physics.Load{
			Rate: 5.8, Prompt: physics.Length{Mean: 900, Sigma: 0.25}, Output: physics.Length{Mean: 220, Sigma: 0.2},
			Prefixes: 4, Shared: 280, Share: 1,
		},
		revisions: []revisionSpec{
			{age: 9 * 24 * time.Hour, cause: "release 2026.44", fields: chatTemplate(map[string]string{
				"containers[vllm].image": "vllm/vllm-openai:v0.10.2",
			}), image: image{memory: 1.08}},
			{age: 3 * 24 * time.Hour, cause: "release 2026.46", fields: chatTemplate(nil)},
		},
	}
}

// lateImage is an image whose scheduler splits the prefill budget over all requests it
// could take: every first token comes late, whatever the load.
func lateImage() image { return image{chunk: 12} }

// chatTemplate is the chat service's pod template with some fields changed.
func chatTemplate(change map[string]string) map[string]string {
	return template(map[string]string{
		"containers[vllm].image":                              "vllm/vllm-openai:v0.11.0",
		"containers[vllm].args[--model]":                      "meta-llama/Llama-3.3-70B-Instruct",
		"containers[vllm].args[--served-model-name]":          "llama-70b",
		"containers[vllm].args[--tensor-parallel-size]":       "4",
		"containers[vllm].args[--max-num-batched-tokens]":     "8192",
		"containers[vllm].args[--max-num-seqs]":               "18",
		"containers[vllm].resources.limits[nvidia.com/gpu]":   "4",
		"containers[vllm].resources.requests[nvidia.com/gpu]": "4",
	}, change)
}

// codeService is a neighbour that stays healthy: what is asked of one service
// must not be answered by another.
func codeService() serviceSpec {
	return serviceSpec{
		service: playbook.Service{
			Name: "serving/inference-code", Namespace: "serving",
			Workload:  playbook.Workload{Kind: "Deployment", Name: "inference-code"},
			Container: "vllm", Engine: "vllm", Model: "qwen-coder-32b",
			Endpoint: "http://inference-code.serving.sandbox:8000",
			SLOs:     inferenceSLOs(), Owners: []string{"group:ml-platform"},
			Autonomy: playbook.Observe, MinReady: 1, MaxScale: 4,
			Selector: `namespace="serving",service="inference-code",model_name="qwen-coder-32b"`,
		},
		hardware: physics.Qwen32B(), replicas: 2,
		load: physics.Load{
			Rate: 2.5, Prompt: physics.Length{Mean: 1400, Sigma: 0.35}, Output: physics.Length{Mean: 320, Sigma: 0.5},
			Prefixes: 12, Shared: 400, Share: 0.9,
		},
		revisions: []revisionSpec{
			{age: 20 * 24 * time.Hour, cause: "release 2026.41", fields: template(map[string]string{
				"containers[vllm].image":                            "vllm/vllm-openai:v0.10.2",
				"containers[vllm].args[--model]":                    "Qwen/Qwen2.5-Coder-32B-Instruct",
				"containers[vllm].args[--served-model-name]":        "qwen-coder-32b",
				"containers[vllm].resources.limits[nvidia.com/gpu]": "2",
			}, nil)},
		},
	}
}

// template is a pod template with some fields changed; an empty value removes one.
func template(fields, change map[string]string) map[string]string {
	out := make(map[string]string, len(fields)+len(change))
	for k, v := range fields {
		out[k] = v
	}
	for k, v := range change {
		if v == "" {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}

func inferenceSLOs() []playbook.SLO {
	const window = 28 * 24 * time.Hour
	return []playbook.SLO{
		{Name: "ttft", Objective: 0.99, Window: window, Threshold: 0.5},
		{Name: "tpot", Objective: 0.99, Window: window, Threshold: 0.05},
	}
}

func gpuNodes() []nodeSpec { return nodesNamed(8) }

// nodesNamed returns that many nodes.
func nodesNamed(n int) []nodeSpec {
	var out []nodeSpec
	for i := range n {
		out = append(out, nodeSpec{name: fmt.Sprintf("gpu-h100-%02d", i+1), slots: 2})
	}
	return out
}
