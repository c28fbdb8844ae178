package executor

import "github.com/inference-responder/responder/internal/executor/machine"

// guardPolicy passes on what the platform team's rules say.
func guardPolicy(q question) machine.GuardVerdict {
	if q.policy == nil {
		return machine.GuardVerdict{}
	}
	return *q.policy
}
