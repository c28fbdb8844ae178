package sandbox

import "time"

// slowLoad is the bad rollout of a model that takes twelve minutes to load:
// going back outlasts Kubernetes' progress deadline, and repairs it all the same.
func slowLoad() scenario {
	s := badRollout()
	s.Scenario = Scenario{
		Name:        "slow-load",
		Title:       "The rollback loads its model for twelve minutes",
		Description: "A bad release as in bad-rollout, of a model that takes twelve minutes to load. Kubernetes calls the rollback stuck after ten; waiting for it repairs the service.",
		Cause:       "release 2026.47 is rolled out",
		Fix:         "service.rollback",
	}
	s.seed = 9
	chat := &s.services[0]
	chat.loading, chat.surge = 12*time.Minute, chat.replicas
	chat.service.LoadTime = 15 * time.Minute
	chat.revisions[len(chat.revisions)-1].age = rolloutAge + chat.loading
	return s
}
