package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// outcome handles the outcome of the open effect. Late outcomes of effects that
// are no longer open change nothing; only reads are dropped.
func (t *turn) outcome(c Command) error {
	if c.Outcome == nil {
		return fmt.Errorf("%w: outcome command without an outcome", ErrInvalid)
	}
	o := t.s.Open
	if t.s.Phase == PhaseEnded || o == nil || o.Key != c.Effect || (c.Attempt != 0 && o.Attempt != c.Attempt) {
		return nil
	}
	open, out := *o, sound(*o, *c.Outcome)
	switch open.Action {
	case ActionCheck:
		t.checked(open, out)
	case ActionPlan:
		t.planned(open, out)
	case ActionGuard:
		t.guarded(out)
	case ActionApply:
		t.applyOutcome(open, out)
	case ActionSettle:
		t.settleOutcome(open, out)
	case ActionVerify:
		t.sampled(out)
	case ActionUndo:
		t.undoOutcome(open, out)
	case ActionUnwind:
		t.unwindOutcome(open, out)
	case ActionNotify:
		t.notified(open, out)
	default:
		panic("machine: unknown action " + string(open.Action)) // unreachable unless another program wrote the log
	}
	return nil
}

// sound turns an outcome that breaks its contract into a failure. A change that
// reports success remains one: losing its receipt is better than losing the
// change.
func sound(o OpenEffect, out Outcome) Outcome {
	out = stored(out)
	bad := func(format string, args ...any) Outcome {
		return Outcome{Status: StatusFailed, Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
	}
	badData := len(out.Data) > MaxEvidence || (len(out.Data) > 0 && !json.Valid(out.Data))
	switch out.Status {
	case StatusOK, StatusPending, StatusFailed, StatusRefused, StatusUnknown, StatusForeign:
	default:
		if o.Action.Mutates() {
			return Outcome{Status: StatusUnknown, Reason: fault.Invalid, Message: fmt.Sprintf("the step returned status %q", out.Status)}
		}
		return bad("the step returned status %q", out.Status)
	}
	if o.Action.Mutates() {
		if badData {
			out.Data = nil
		}
		return out
	}
	if out.Status != StatusOK {
		out.Data = nil
		return out
	}
	switch {
	case badData:
		return bad("the step's evidence is not JSON or exceeds %d bytes", MaxEvidence)
	case o.Action == ActionCheck && len(out.Data) == 0 && len(out.Gathered) == 0:
		return bad("the check returned no evidence")
	case o.Action == ActionPlan && out.Plan == nil:
		return bad("the lever returned no plan")
	case o.Action == ActionPlan && (len(out.Plan.Payload) > MaxEvidence || len(out.Plan.Payload) > 0 && !json.Valid(out.Plan.Payload)):
		return bad("the plan's payload is not JSON or exceeds %d bytes", MaxEvidence)
	case o.Action == ActionVerify && out.Sample == nil:
		return bad("the proof returned no sample")
	}
	return out
}

// retried journals the failure of an attempt and reports whether another
// follows.
func (t *turn) retried(o OpenEffect, out Outcome, again bool) bool {
	var at time.Time
	if again {
		at = t.now.Add(t.s.backoff(o.Action, t.s.Fails+1))
	}
	t.retriedAt(o, out, at)
	return again
}

// retriedAt journals the failure of an attempt; zero: no other follows.
func (t *turn) retriedAt(o OpenEffect, out Outcome, at time.Time) {
	t.emit(Event{
		Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Observe: o.Observe,
		Reason: out.Reason, Message: out.Message, NotUntil: at,
	})
}

// worthwhile reports whether a read or repeatable effect may be retried.
func (t *turn) worthwhile(o OpenEffect, out Outcome) bool {
	return out.Reason.Retryable() && (o.Attempt < t.s.attempts(o.Action) || t.away(o, out)) && t.s.Cancel == nil
}

// away reports whether a server is waited for that cannot be reached or asks to slow down,
// so that a change, which people may have approved, is not given up for a restart of it.
// What was sent is never sent again here: its outcome would be unknown. A plan that has to
// come later, such as in a closed sync window, waits for no server.
func (t *turn) away(o OpenEffect, out Outcome) bool {
	applies := o.Action == ActionApply && !t.s.Lever.Plan.Unrepeatable
	waits := out.Reason == fault.Unreachable && (o.Action == ActionPlan || applies) || out.Reason == fault.Throttled && applies
	return waits && out.Status == StatusFailed && t.now.Before(o.Since.Add(AwayWithin))
}

func (t *turn) checked(o OpenEffect, out Outcome) {
	switch {
	case t.s.current().Kind == playbook.StateGather:
		t.gathered(o, out)
		return
	case t.s.Waiting != nil:
		t.looked(out)
		return
	}
	if out.Status == StatusOK {
		t.emit(Event{Kind: CheckCompleted, State: t.s.Current, Effect: o.Key, Attempt: o.Attempt, Data: out.Data, Facts: out.Facts})
		t.next()
		return
	}
	if !t.retried(o, out, t.worthwhile(o, out)) {
		t.failed(out.Reason, out.Message)
	}
}

func (t *turn) planned(o OpenEffect, out Outcome) {
	if out.Status != StatusOK {
		if t.worthwhile(o, out) {
			t.retried(o, out, true)
			return
		}
		if t.movedOn(o, out) {
			return
		}
		t.emit(Event{Kind: PlanRefused, State: t.s.Current, Effect: o.Key, Reason: out.Reason, Message: out.Message})
		t.signal(playbook.OnRefused)
		return
	}
	if n, of := t.s.Step(); of > 0 {
		plan := *out.Plan
		plan.Summary += fmt.Sprintf(" (step %d of %d)", n, of)
		out.Plan = &plan
	}
	out.Plan = t.s.timed(out.Plan)
	digest := out.Plan.Digest()
	t.emit(Event{Kind: PlanCompleted, State: t.s.Current, Effect: o.Key, Plan: out.Plan, Digest: digest, Data: out.Data, Facts: out.Facts, Gathered: out.Gathered})
	if a := t.s.Lever.Approved; a != nil && a.Digest != digest {
		t.emit(Event{Kind: GateVoided, State: t.s.Current, Digest: digest, Message: "the world changed since: this is not the approved plan"})
	}
	if n := t.s.plans(); n > MaxPlans {
		t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: fault.Conflict, Message: fmt.Sprintf("the target keeps changing: %d plans", n)})
		t.signal(playbook.OnRefused)
		return
	}
	t.open(ActionGuard)
}

// timed returns a plan that tells people how long its rollout may take, where that is
// longer than most changes may.
func (s State) timed(p *Plan) *Plan {
	s.Lever = s.lever()
	s.Lever.Plan = p
	most := s.rolloutMost()
	if most <= s.rolloutWithin() {
		return p
	}
	told := *p
	told.Notes = append(slices.Clip(told.Notes), fmt.Sprintf("replaces the pods in %d rounds: it may take up to %s as long as it makes progress, and counts as not in effect after %s without any",
		p.Rounds, playbook.FormatDuration(most), playbook.FormatDuration(s.rolloutWithin())))
	return &told
}

// plans returns how many plans were made on this visit, without those that
// people requested.
func (s State) plans() int {
	n := int(*s.Tries.of(ActionPlan))
	if s.Lever != nil {
		n -= s.Lever.Replans
	}
	return n
}

func (t *turn) guarded(out Outcome) {
	why, wait := refusals(out)
	st := t.s.current()
	level := t.s.Under(out.Terms).Autonomy(st)
	if again := t.outdated(out); again != "" {
		t.lookAfter(out, why, wait, again)
		return
	}
	wait = wait || t.s.waitsOn(out.Guards)
	switch {
	case why != "" && !wait:
		t.emit(Event{Kind: GuardsRefused, State: t.s.Current, Guards: out.Guards, Terms: out.Terms, Reason: fault.Guard, Message: why})
		t.refused(why, fault.Guard)
	case level == playbook.Observe:
		t.would(out, why)
	case why != "" || t.s.Paused != "":
		t.wait(out, why)
	default:
		t.passed(st, out)
	}
}

// refused leaves a lever or gate that a guard refuses, or that waited too long.
// A gate takes its way without an answer, which never approves.
func (t *turn) refused(why string, reason fault.Reason) {
	if st := t.s.current(); st.Kind == playbook.StateGate {
		if t.s.Consent().Approved != nil {
			why = "approved, and then refused: " + why
		} else {
			why = "not opened: " + why
		}
		t.unanswered(onExpiry(st), Ending{Outcome: OutcomeEscalated, Reason: reason, Message: "gate " + st.Name + " was " + why}, why)
		return
	}
	t.signal(playbook.OnRefused)
}

// refusals returns the guards that refuse the lever, and whether all of them
// only wait. No guard at all is a refusal too.
func refusals(out Outcome) (why string, wait bool) {
	if len(out.Guards) == 0 {
		if out.Message == "" {
			return "no guard answered", false
		}
		return out.Message, false
	}
	var no []string
	wait = true
	for _, g := range out.Guards {
		if !g.OK {
			no = append(no, g.Guard+": "+g.Why)
			wait = wait && g.Wait
		}
	}
	return strings.Join(no, "; "), wait && len(no) > 0
}

// would ends a run that only observes, with what it would have done or asked.
func (t *turn) would(out Outcome, busy string) {
	t.emit(Event{Kind: GuardsPassed, State: t.s.Current, Guards: out.Guards, Terms: out.Terms})
	after := ""
	if busy != "" {
		after = " (after waiting: " + busy + ")"
	}
	why := "autonomy is observe"
	if st := t.s.current(); t.s.uncapped(st) > playbook.Observe {
		why += " by " + t.s.terms().Cap.Rule
	} else if by := t.s.AutonomyBy(st); by != "" {
		why += " by " + by
	}
	if t.s.Start.Loan != "" {
		t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: fault.Guard, Message: why})
		t.signal(playbook.OnRefused)
		return
	}
	outcome := OutcomeObserved
	if c := t.s.terms().Cap; t.s.Levers > 0 || c != nil && c.Touched && t.s.uncapped(t.s.current()) > playbook.Observe {
		outcome = OutcomeEscalated // people expect it to act: it has before, or only a neighbour's level keeps it from asking
	}
	if t.s.Lever == nil {
		text, err := t.s.text(t.now)
		if err != nil {
			text = err.Error() // unreachable unless the text was valid a moment ago and is not now
		}
		t.end(Ending{Outcome: outcome, Message: why + "; would ask: " + text + after})
		return
	}
	plan := t.s.Lever.Plan
	t.emit(Event{Kind: WouldApply, State: t.s.Current, Plan: plan, Digest: plan.Digest(), Message: plan.Summary + after})
	t.end(Ending{Outcome: outcome, Message: why + "; would have: " + plan.Summary + after})
}

// wait keeps the lever until what it waits for may be free.
func (t *turn) wait(out Outcome, why string) {
	e := Event{Kind: GuardsWaiting, State: t.s.Current, Guards: out.Guards, Terms: out.Terms, Message: why}
	if why == "" {
		e.Message = "paused: " + t.s.Paused
	} else {
		pause := waitFirst
		for range int(*t.s.Tries.of(ActionGuard)) - 1 {
			pause = min(2*pause, waitMost)
		}
		e.NotUntil = t.now.Add(pause)
		if until := over(out.Guards); until.After(t.now) {
			e.NotUntil = until
		}
	}
	t.emit(e)
	if c := t.s.Consent(); why != "" && !c.WaitTold && !t.now.Before(c.WaitFrom.Add(tellWait)) {
		t.emit(Event{Kind: GuardsReminded, State: t.s.Current, Message: why})
	}
	if !t.s.Firing() {
		t.clear()
	}
}

// passed handles a lever or gate that all guards allow: the lever is applied or
// the gate left if there is an approval, else people are asked.
func (t *turn) passed(st *playbook.State, out Outcome) {
	var spec *VerifySpec
	text, digest, err := "", "", error(nil)
	if l := t.s.Lever; l == nil {
		text, err = t.s.text(t.now)
	} else {
		text, digest = l.Plan.Summary, l.Plan.Digest()
		spec, err = t.s.Proof(t.s.Current, t.now)
	}
	if err != nil {
		t.emit(Event{Kind: GuardsRefused, State: t.s.Current, Guards: out.Guards, Terms: out.Terms, Reason: fault.Expression, Message: err.Error()})
		t.refused(err.Error(), fault.Expression)
		return
	}
	t.emit(Event{Kind: GuardsPassed, State: t.s.Current, Guards: out.Guards, Terms: out.Terms})
	if c := t.s.Consent(); c.Approved != nil {
		why := t.s.lacking(st)
		if t.now.After(c.GoodUntil) {
			why = "the approval expired at " + c.GoodUntil.UTC().Format("15:04:05Z")
		}
		if why != "" {
			t.emit(Event{Kind: GateVoided, State: t.s.Current, Message: why})
		}
	}
	switch {
	case t.s.Asks(st):
		t.ask(st, text, digest)
	case t.s.Lever == nil:
		t.leaveGate(playbook.OnApproved, "")
	default:
		t.openWith(ActionApply, Event{Verify: spec, Digest: digest})
	}
}

func (t *turn) notified(o OpenEffect, out Outcome) {
	ok := out.Status == StatusOK
	if ok {
		t.emit(Event{Kind: Notified, State: t.s.Current, Effect: o.Key, Message: out.Message})
	} else if t.retried(o, out, t.worthwhile(o, out)) {
		return
	}
	switch {
	case t.s.Phase == PhaseHeld:
	case t.s.Closing != nil:
		t.emit(Event{Kind: RunEnded, Ending: t.s.Closing})
	default:
		t.next() // an undelivered message does not stop a remedy
	}
}
