package sandbox

import "time"

// thermalEmergency is one GPU that is too hot under one of four replicas. The
// node agents' alert comes before the SLO's: only the node is named.
func thermalEmergency() scenario {
	s := scenario{
		Scenario: Scenario{
			Name:        "thermal-emergency",
			Title:       "One GPU is too hot and slows down",
			Description: "A fan fails: a GPU under one replica has slowed down for heat for twelve minutes. Its node agent says so before the SLO is breached. Draining the node lets it cool, and repairs the service.",
			Cause:       "GPU 3 of gpu-h100-01 gets too hot",
			Fix:         "node.drain",
		},
		seed:      6,
		age:       12 * time.Minute,
		services:  []serviceSpec{chatService(), codeService()},
		nodes:     gpuNodes(),
		gpuAlerts: true,
	}
	s.nodes[0].ailments = []ailment{{gpu: 3, from: -s.age, kind: hot, drag: 8}}
	return s
}

// hotRoom is the same on three of the four nodes: it is the room, and load that
// is moved heats others.
func hotRoom() scenario {
	s := thermalEmergency()
	s.Scenario = Scenario{
		Name:        "hot-room",
		Title:       "Three nodes are too hot at once",
		Description: "The cooling of a row fails: GPUs on three of the service's four nodes slow down for heat. That is no fault of a node; nothing is moved, and people are called.",
		Cause:       "the cooling of a row fails",
	}
	s.seed, s.age = 7, 7*time.Minute
	for i := range 3 {
		s.nodes[i].ailments = []ailment{{gpu: 1 + i, from: -s.age, kind: hot, drag: 8}}
	}
	return s
}
