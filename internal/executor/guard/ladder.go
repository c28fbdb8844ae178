package guard

import "github.com/inference-responder/responder/internal/executor/machine"

// guardLadder shows that people are asked because of what was learned. It keeps
// nothing back: the cap does that.
func guardLadder(q Question) machine.GuardVerdict {
	if q.Demoted == nil {
		return machine.GuardVerdict{}
	}
	return pass("ladder", "%s; to lift that: %s", q.Demoted.Why(), q.Demoted.Lift())
}
