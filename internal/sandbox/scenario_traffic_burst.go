package sandbox

import "time"

// burstAge is how long before the world opens the arrivals tripled. Requests
// of the burst weigh three times as much in the one-hour window, which stays
// red for most of an hour after the repair.
const burstAge = 5 * time.Minute

// trafficBurst is three times the usual arrivals on engines that are fine:
// queues grow until clients give up. More replicas repair it, going back to an
// earlier revision does not.
func trafficBurst() scenario {
	chat := chatService()
	chat.traffic = []shift{{from: -burstAge, factor: 3}}
	return scenario{
		Scenario: Scenario{
			Name:        "traffic-burst",
			Title:       "Three times the usual traffic",
			Description: "Five minutes ago the arrivals tripled; nothing was deployed. Requests queue before their first token. More replicas repair it.",
			Cause:       "the arrivals triple",
			Fix:         "kube.scale",
		},
		seed:     2,
		age:      burstAge,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}
