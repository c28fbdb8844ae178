package sandbox

import (
	"time"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// kvThrash is prompts that got three times as long on engines with little memory for
// the KV cache: what runs no longer fits, and requests lose their blocks and are
// computed again.
func kvThrash() scenario {
	chat := chatService()
	for i := range chat.revisions {
		chat.revisions[i].fields["containers[vllm].args[--gpu-memory-utilization]"] = "0.508"
		chat.revisions[i].fields["containers[vllm].args[--max-num-seqs]"] = "64"
	}
	chat.load.Rate, chat.load.Prompt.Sigma, chat.load.Output = 6, 0.1, physics.Length{Mean: 400, Sigma: 0.15}
	chat.prompts = []shift{{from: -12 * time.Minute, factor: 3}}
	return scenario{
		Scenario: Scenario{
			Name:        "kv-thrash",
			Title:       "The KV cache is full and requests lose their place",
			Description: "Twelve minutes ago prompts got three times as long. What runs no longer fits into the KV cache: requests are preempted and computed again. More replicas repair it, since here no flag can be changed in Git.",
			Cause:       "prompts get three times as long",
			Fix:         "kube.scale",
		},
		seed: 32, age: 12 * time.Minute, engineAlerts: true,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}
