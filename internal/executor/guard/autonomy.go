package guard

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// guardAutonomy holds open runs to a ceiling that was lowered since they began:
// whoever sets it to observe and restarts wants nothing to be changed any more.
func guardAutonomy(q Question) machine.GuardVerdict {
	level := q.Run.Autonomy(q.State)
	asked := q.Run.Asks(q.State) || q.Run.Consent().Approved != nil
	switch {
	case q.Ceiling >= level:
		return pass("autonomy", "%s", level)
	case q.Ceiling == playbook.Suggest && asked:
		return pass("autonomy", "lowered to %s since the run began, and people are asked", q.Ceiling)
	default:
		return refuse("autonomy", "lowered to %s since the run began under %s", q.Ceiling, level)
	}
}
