package guard

import (
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Policy is the platform team's rules over all playbooks. Terms is asked about
// every lever and every gate state right before it would be applied or put to
// people, and again after they decided. The verdict's Guard is ignored. A rule that cannot be
// evaluated is a verdict that is not OK. The executor's loop calls it: it must
// neither block nor call the executor back.
type Policy interface {
	Terms(in PolicyInput) (machine.Terms, machine.GuardVerdict)
}

// PolicyInput is what a policy is told of a lever or a gate state.
type PolicyInput struct {
	Now   time.Time
	Run   machine.State   // without terms; its Lever has a plan, or is nil for a gate state; Consent().Approved is set once people said yes
	State *playbook.State // the lever's, or the gate itself

	Others []Other // what else the lever touches, which the rules are asked about too

	Count func(Acts) (int, bool)
	Taken func(namespace string) int // ready replicas of services that other runs under way cost; empty: in all
}

// Other is something else that a lever touches, as the catalog has it now.
type Other struct {
	machine.Touched

	Entry    playbook.Service  // of pods of no service: the namespace alone
	Autonomy playbook.Autonomy // in force for it now
}

// Acts asks how much was done before: applied levers, or other runs that
// applied one. Levers let through and not applied yet count too.
type Acts struct {
	Runs     bool      // count runs other than the one asked about, instead of levers
	Service  string    // on this service only; empty: on all
	Playbook string    // by this playbook only; empty: by all
	Since    time.Time // inclusive; false is answered for a time before what is remembered
}

// guardPolicy passes on what the platform team's rules say.
func guardPolicy(q Question) machine.GuardVerdict {
	if q.Policy == nil {
		return machine.GuardVerdict{}
	}
	return *q.Policy
}
