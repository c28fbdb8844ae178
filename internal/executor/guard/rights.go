package guard

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// guardRights asks whether the server would take the change from this service.
// A run that only observes is shown what lacks and goes on: to act was never
// its right.
func guardRights(q Question) machine.GuardVerdict {
	lacks := q.Run.Lever.Plan.Lacks
	switch {
	case lacks == "":
		return pass("rights", "none is missing, as far as the servers can be asked")
	case q.Run.Autonomy(q.State) == playbook.Observe:
		return pass("rights", "lacking, and not needed to observe: %s", lacks)
	default:
		return refuse("rights", "%s", lacks)
	}
}
