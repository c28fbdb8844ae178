package sandbox

// noHelp is a release that happens to land when prompts get eight times as
// long: the obvious lever does not help, nor does any other.
func noHelp() scenario {
	s := badRollout()
	s.Scenario = Scenario{
		Name:        "no-help",
		Title:       "Longer prompts, blamed on an innocent release",
		Cause:       "prompts get longer, release 2026.47 is rolled out",
		Description: "Twelve minutes ago a release and a wave of long prompts arrived together. The release is innocent and no lever helps: the evidence says so, nothing is changed, and people get it.",
	}
	s.seed = 3
	chat := &s.services[0]
	innocent := &chat.revisions[len(chat.revisions)-1]
	innocent.fields = chatTemplate(map[string]string{"containers[vllm].image": "vllm/vllm-openai:v0.11.1"})
	innocent.cause = "release 2026.47: vLLM 0.11.1"
	chat.load.Rate = 4
	chat.prompts = []shift{{from: -rolloutAge, factor: 8}}
	return s
}
