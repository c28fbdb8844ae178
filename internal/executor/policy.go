package executor

import (
	"cmp"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

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

// guard asks the guards about the run's lever or gate state.
func (e *Executor) guard(s machine.State) machine.Outcome {
	st := s.Playbook.State(s.Current)
	if st == nil || (st.Kind != playbook.StateGate && (s.Lever == nil || s.Lever.Plan == nil)) {
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Invalid, Message: "there is no plan to guard"}
	}
	q, others := e.question(s, st)
	q.Paused = e.paused(s)
	if s.Start.Loan != "" {
		q.Firing = e.incident(s.Start)
	}
	out := machine.Outcome{Status: machine.StatusOK}
	out.Terms, q.Policy = e.askPolicy(q.Now, s, st, others, func(a guard.Acts) (int, bool) {
		return e.ledger.Acted(a, s.Start.Run, q.Now)
	})
	out.Terms = strictest(out.Terms, others)
	if s.Lever != nil {
		out.Terms, q.Demoted = e.ladder.Terms(out.Terms, ladder.LeverID{Playbook: s.Start.Playbook, Service: s.Start.Service.Name, State: st.Name, Lever: st.Step})
	}
	q.Run = s.Under(out.Terms)
	out.Guards = e.ledger.Ask(q)
	return out
}

// question returns what the guards are asked about a run, without what policy and
// ladder say, and what else its lever touches.
func (e *Executor) question(s machine.State, st *playbook.State) (guard.Question, []guard.Other) {
	q := guard.Question{Now: e.clock.now(), State: st}
	var absent bool
	q.Ceiling, absent, q.Unsure = e.ceiling(s.Start, st)
	others, gone, unsure := e.others(s, st)
	q.Gone, q.Unsure = gone, cmp.Or(q.Unsure, unsure)
	if absent {
		q.Gone = s.Start.Service.Name
	}
	return q, others
}

// stops returns which guard stops the steps of the change that a run makes now; empty:
// none does. The change itself is no reason: rules see the run as it was before it.
func (e *Executor) stops(s machine.State) string {
	st := s.Playbook.State(s.Current)
	if !s.Steps() || st == nil {
		return ""
	}
	q, others := e.question(s, st)
	before := s
	before.Levers--
	var terms *machine.Terms
	terms, q.Policy = e.askPolicy(q.Now, before, st, others, func(a guard.Acts) (int, bool) {
		n, known := e.ledger.Acted(a, s.Start.Run, q.Now)
		itself := s.Start.Loan == "" && !a.Runs && (a.Service == "" || a.Service == s.Start.Service.Name) &&
			(a.Playbook == "" || a.Playbook == s.Start.Playbook) && !s.Lever.AppliedAt.Before(a.Since)
		if known && itself {
			n--
		}
		return n, known
	})
	q.Run = s.Under(strictest(terms, others))
	if why := guard.Stops(q); why != "" {
		return stopped + why
	}
	return ""
}

// stopped begins the reason of a pause that guards make.
const stopped = "its steps are stopped: "

// ceiling returns the lowest level that configuration, service and playbook allow
// a state now. The run began under what they said then. A playbook that is no longer
// loaded says what it said then: the run has its document. A service that the catalog
// no longer has is gone, and only observed: whoever removed it does not want it
// changed. While the catalog cannot say whether it is gone, unsure says why.
func (e *Executor) ceiling(s machine.Start, st *playbook.State) (level playbook.Autonomy, gone bool, unsure error) {
	own := playbook.Auto // of the service
	if e.o.Catalog != nil {
		var known []playbook.Service
		known, unsure = e.o.Catalog()
		i := slices.IndexFunc(known, func(svc playbook.Service) bool { return svc.Name == s.Service.Name })
		switch {
		case i >= 0:
			own, unsure = known[i].Autonomy, nil
		case unsure == nil:
			return playbook.Observe, true, nil
		}
	}
	set := e.o.Playbooks()
	p := set.ByName(s.Playbook)
	if p == nil {
		return min(e.o.Autonomy, own), false, unsure
	}
	if now := p.State(st.Name); now != nil {
		st = now
	}
	return min(e.o.Autonomy, p.Allowed(st, own, set.Override(s.Playbook, s.Service.Name))), false, unsure
}

// askPolicy returns the terms in force now and the policy's verdict. A policy that
// panics refuses.
func (e *Executor) askPolicy(now time.Time, s machine.State, st *playbook.State, others []guard.Other, count func(guard.Acts) (int, bool)) (terms *machine.Terms, verdict *machine.GuardVerdict) {
	if e.o.Policy == nil {
		return nil, nil
	}
	in := guard.PolicyInput{Now: now, Run: s.Under(nil), State: st, Others: others, Count: count, Taken: func(namespace string) int { return e.ledger.Taken(namespace, s.Start.Run) }}
	v := machine.GuardVerdict{}
	err := guarded(func() error {
		var t machine.Terms
		t, v = e.o.Policy.Terms(in)
		terms = &t
		return nil
	})
	if err != nil {
		e.log.Error("policy panicked", "run", s.Start.Run, "err", err)
		terms, v = nil, machine.GuardVerdict{Why: "the policy could not be evaluated: " + err.Error()}
	}
	v.Guard, v.Wait = "policy", false
	return terms, &v
}
