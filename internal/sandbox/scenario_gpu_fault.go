package sandbox

import "time"

// gpuFaultAge is how long the GPU has been at fault when the world opens: long
// enough for a quarter of the requests to burn the one-hour window.
const gpuFaultAge = 45 * time.Minute

// gpuFault is one bad GPU under one of four replicas: a quarter of the requests
// is slow, more replicas only thin it out, and there was no change to revert.
// Only taking the node out repairs it.
func gpuFault() scenario {
	chat := chatService()
	s := scenario{
		Scenario: Scenario{
			Name:        "gpu-fault",
			Title:       "One GPU makes a quarter of the requests slow",
			Description: "Three quarters of an hour ago a GPU under one replica began to fail: memory errors, hardware slowdown. Nothing was released, and more replicas only thin the slow answers out. Draining the node repairs it.",
			Cause:       "GPU 3 of gpu-h100-01 begins to fail",
			Fix:         "node.drain",
		},
		seed:     5,
		age:      gpuFaultAge,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
	s.nodes[0].ailments = []ailment{{gpu: 3, from: -gpuFaultAge, kind: failing, drag: 8}}
	return s
}
