package sandbox

import (
	"slices"
	"time"
)

// twoSeconds is a service that promises its first token within two and a half
// seconds, the next bucket that vLLM has above two, and keeps to it. The alert
// is of somebody's rule for 500 ms.
func twoSeconds() scenario {
	s := badRollout()
	s.Scenario = Scenario{
		Name:        "two-seconds",
		Title:       "The alert is stricter than the service's objective",
		Description: "A release made the first token slower, and a rule for 500 ms fires. The service's own objective is 2.5 s and is met, so nothing is changed.",
		Cause:       "release 2026.47 is rolled out",
	}
	s.seed = 10
	chat := &s.services[0]
	chat.service.SLOs = slices.Clone(chat.service.SLOs)
	chat.service.SLOs[0].Threshold = 2.5
	release := &chat.revisions[len(chat.revisions)-1]
	release.age, release.image.chunk = 20*time.Minute, 16
	s.age = release.age
	return s
}
