package executor

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// guardAutonomy holds open runs to a ceiling that was lowered since they began:
// whoever sets it to observe and restarts wants nothing to be changed any more.
func guardAutonomy(q question) machine.GuardVerdict {
	level := q.run.Autonomy(q.state)
	asked := q.run.Asks(q.state) || q.run.Consent().Approved != nil
	switch {
	case q.ceiling >= level:
		return pass("autonomy", "%s", level)
	case q.ceiling == playbook.Suggest && asked:
		return pass("autonomy", "lowered to %s since the run began, and people are asked", q.ceiling)
	default:
		return refuse("autonomy", "lowered to %s since the run began under %s", q.ceiling, level)
	}
}
