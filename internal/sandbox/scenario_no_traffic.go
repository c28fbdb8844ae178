package sandbox

import "time"

// noTraffic is the bad rollout, but callers turn away as soon as something is
// changed: the repair cannot be proven.
func noTraffic() scenario {
	s := badRollout()
	s.Scenario = Scenario{
		Name:        "no-traffic",
		Title:       "The traffic leaves before the repair is proven",
		Cause:       "release 2026.47 is rolled out",
		Description: "A bad release as in bad-rollout, but the router moves all traffic away right after the first change: nothing can be proven, so the rollback stays and people are told.",
	}
	s.seed = 4
	s.services[0].leaves = time.Minute
	return s
}
