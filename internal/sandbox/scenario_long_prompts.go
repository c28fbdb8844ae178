package sandbox

import "time"

// longPrompts is prompts that got eight times as long: the first token waits for
// their prefill, which more replicas do not shorten.
func longPrompts() scenario {
	chat := chatService()
	chat.load.Rate = 4
	chat.prompts = []shift{{from: -20 * time.Minute, factor: 8}}
	return scenario{
		Scenario: Scenario{
			Name:        "long-prompts",
			Title:       "Prompts got eight times as long",
			Description: "Twenty minutes ago a client began to send whole documents. Nothing queues and nothing was released: the first token waits for the prefill of its own prompt. No lever shortens that; people are told what it is.",
			Cause:       "prompts get eight times as long",
		},
		seed: 33, age: 20 * time.Minute,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}
