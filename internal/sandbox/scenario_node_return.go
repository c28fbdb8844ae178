package sandbox

import "time"

// nodeReturn is the end of a repair: a node that Responder took out is well
// again, and the repair's own system says so.
func nodeReturn() scenario {
	s := scenario{
		Scenario: Scenario{
			Name:        "node-return",
			Title:       "A node comes back from its repair",
			Description: "Three hours ago a node was drained for a GPU at fault. It was repaired, and the system of those who did it says so. The node is proven healthy and takes pods again.",
			Cause:       "gpu-h100-01 is repaired",
			Fix:         "node.uncordon",
		},
		seed:     8,
		age:      25 * time.Minute,
		services: []serviceSpec{chatService(), codeService()},
		nodes:    gpuNodes(),
	}
	s.nodes[0].drained, s.nodes[0].repaired = 3*time.Hour, 2*time.Minute
	return s
}
