package guard

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// guardAutonomy holds open runs to a ceiling that was lowered since they began:
// whoever sets it to observe and restarts wants nothing to be changed any more. It is
// observe, too, for a service that the catalog no longer has.
func guardAutonomy(q Question) machine.GuardVerdict {
	level := q.Run.Autonomy(q.State)
	ends := q.Run.Lever != nil && q.Run.Lever.Plan != nil && q.Run.Lever.Plan.Ends != "" // people were asked about what it ends
	asked := ends || q.Run.Asks(q.State) || q.Run.Consent().Approved != nil
	switch {
	case q.Gone != "" && level > playbook.Observe:
		return refuse("autonomy", "the catalog no longer has service %s, so it is only observed", q.Gone)
	case q.Unsure != nil && level > playbook.Observe:
		return later("autonomy", "the catalog cannot say whether it still has service %s, or whose pods the lever touches: %s", q.Run.Start.Service.Name, q.Unsure)
	case q.Ceiling >= level:
		return pass("autonomy", "%s", levelText(q))
	case q.Ceiling == playbook.Suggest && asked:
		return pass("autonomy", "lowered to %s since the run began, and people are asked", q.Ceiling)
	default:
		return refuse("autonomy", "lowered to %s since the run began under %s", q.Ceiling, level)
	}
}

// levelText describes the level of the question's state, and the setting of the
// configuration that it comes from.
func levelText(q Question) string {
	text := q.Run.Autonomy(q.State).String()
	if by := q.Run.AutonomyBy(q.State); by != "" {
		text += " by " + by
	}
	return text
}

// Stops returns what keeps a change that is made step by step from its next step;
// empty: nothing does. Only the guards are asked whose answer may have become another
// one since they let the change begin, and which do not count the change itself.
func Stops(q Question) string {
	for _, v := range []machine.GuardVerdict{guardPolicy(q), guardAutonomy(q)} {
		if v.Guard != "" && !v.OK {
			return v.Guard + ": " + v.Why
		}
	}
	switch {
	case q.Run.Autonomy(q.State) == playbook.Observe:
		return "autonomy: it is observe now"
	case q.Run.Asks(q.State):
		return "policy: it asks for an approval now"
	}
	return ""
}
