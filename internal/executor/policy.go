package executor

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
	Count func(Acts) (int, bool)
}

// Acts asks how much was done before: applied levers, or other runs that
// applied one. Levers let through and not applied yet count too.
type Acts struct {
	Runs     bool      // count runs other than the one asked about, instead of levers
	Service  string    // on this service only; empty: on all
	Playbook string    // by this playbook only; empty: by all
	Since    time.Time // inclusive; false is answered for a time before what is remembered
}

// PolicyLoaded is the record of a policy that came into force. Terms name it by
// its digest.
type PolicyLoaded struct {
	Digest   string `json:"digest"`
	Source   string `json:"source"`   // file
	Document string `json:"document"` // in full, so that an auditor can read what held when
}

// RecordPolicy records that a policy came into force.
func (e *Executor) RecordPolicy(p PolicyLoaded) error {
	return e.recordControl(KindPolicyLoaded, p)
}

// PolicyRemoved is the record of a start without a policy where one was in force
// before: what it forbade and asked for does not hold any more.
type PolicyRemoved struct {
	Digest string `json:"digest"` // of the one that was in force
	Source string `json:"source"`
}

// RemovePolicy records that the policy is gone.
func (e *Executor) RemovePolicy(p PolicyRemoved) error {
	return e.recordControl(KindPolicyRemoved, p)
}

// RejectPolicy records that a policy could not be loaded.
func (e *Executor) RejectPolicy(source string, problems error) error {
	return e.recordControl(KindPolicyRejected, Rejected{Source: source, Problems: problems.Error()})
}

// askPolicy returns the terms in force now and the policy's
// verdict. A policy that panics refuses.
func (e *Executor) askPolicy(q question) (terms *machine.Terms, verdict *machine.GuardVerdict) {
	if e.o.Policy == nil {
		return nil, nil
	}
	in := PolicyInput{Now: q.now, Run: q.run.Under(nil), State: q.state, Count: func(a Acts) (int, bool) {
		return q.ledger.acted(a, q.run.Start.Run, q.now)
	}}
	v := machine.GuardVerdict{}
	err := guarded(func() error {
		var t machine.Terms
		t, v = e.o.Policy.Terms(in)
		terms = &t
		return nil
	})
	if err != nil {
		e.log.Error("policy panicked", "run", q.run.Start.Run, "err", err)
		terms, v = nil, machine.GuardVerdict{Why: "the policy could not be evaluated: " + err.Error()}
	}
	v.Guard, v.Wait = "policy", false
	return terms, &v
}
