package sandbox

import "time"

// coldStart is a replica that loads its model for twenty minutes. Nothing is wrong
// with it, and nothing makes it faster.
func coldStart() scenario {
	chat := chatService()
	chat.loading, chat.service.LoadTime = 20*time.Minute, 25*time.Minute
	chat.scaled = []scaling{{-12 * time.Minute, chat.replicas + 1}}
	return scenario{
		Scenario: Scenario{
			Name:        "cold-start",
			Title:       "A new replica loads its model for twenty minutes",
			Description: "Twelve minutes ago somebody added a replica, which still loads its model. That is said and waited for; more replicas would load as long.",
			Cause:       "a replica is added",
		},
		seed: 35, age: 12 * time.Minute, engineAlerts: true,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}
