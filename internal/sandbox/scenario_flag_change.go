package sandbox

import "time"

// flagChange is a commit that cut the prefill budget, which Argo CD rolled out: every
// first token comes late. Reverting the commit repairs it. The budget is so small
// because a larger one, such as 512, costs hardly anything: chunks that small ride along
// with decode for free.
func flagChange() scenario {
	const age = 20 * time.Minute
	chat := chatService()
	chat.inGit()
	chat.load.Prompt.Mean = 2000
	chat.revisions = append(chat.revisions, revisionSpec{
		age:    age,
		cause:  "smaller prefill chunks for smoother decode",
		fields: chatTemplate(map[string]string{"containers[vllm].args[--max-num-batched-tokens]": "64"}),
	})
	return scenario{
		Scenario: Scenario{
			Name:        "flag-change",
			Title:       "A commit made the first token slow",
			Description: "Twenty minutes ago a commit cut the prefill budget, and Argo CD rolled it out; most first tokens now come after 500 ms. Reverting the commit in Git repairs it.",
			Cause:       "a commit cuts --max-num-batched-tokens from 8192 to 64",
			Fix:         "gitops.revert",
		},
		seed:     11,
		age:      age,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}
