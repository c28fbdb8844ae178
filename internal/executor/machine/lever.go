package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// applyOutcome handles the outcome of an apply, or of observing one.
func (t *turn) applyOutcome(o OpenEffect, out Outcome) {
	switch out.Status {
	case StatusOK, StatusPending:
		t.applied(out)
	case StatusForeign:
		t.foreign(o, out, "nothing was applied")
	case StatusUnknown:
		t.unknown(o, out)
	default:
		t.notApplied(o, out)
	}
}

// applied handles a change that was made.
func (t *turn) applied(out Outcome) {
	t.emit(Event{Kind: Applied, State: t.s.Current, Data: out.Data, Before: out.Before, Message: out.Message, Waits: out.Waits})
	if t.s.Cancel != nil {
		t.abandon(fault.Canceled, "canceled by "+t.s.Cancel.By)
		return
	}
	t.open(ActionSettle)
}

// notApplied handles a change that certainly did not happen.
func (t *turn) notApplied(o OpenEffect, out Outcome) {
	switch {
	case o.Observe && out.Reason.Retryable() && out.Status == StatusFailed && out.Reason != fault.Interrupted:
		t.unknown(o, out) // the observation itself failed, which shows nothing
		return
	case o.Observe && out.Status == StatusFailed && t.now.Before(t.s.Open.Since.Add(landsWithin)):
		t.retriedAt(o, out, t.s.Open.Since.Add(landsWithin)) // it may still land
		return
	case !o.Observe && t.worthwhile(o, out):
		t.retried(o, out, true)
		return
	case out.Status == StatusRefused && out.Reason == fault.Denied:
		t.retried(o, out, false)
		t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: out.Reason, Message: out.Message})
		t.signal(playbook.OnRefused)
		return
	}
	t.retried(o, out, false)
	st := t.s.current()
	again := (out.Reason == fault.Conflict || out.Reason == fault.Guard || o.Observe) && !t.s.Lever.Panicked
	switch {
	case o.Observe && t.s.Lever.Plan.Unrepeatable:
		t.hold(o, "the change is not visible, but an attempt may still be in flight: "+out.Message)
	case again && t.s.plans() < MaxPlans && t.s.Cancel == nil && t.s.Wanted(st):
		t.open(ActionPlan) // a new plan, and the guards again
	default:
		msg := out.Message
		if msg == "" {
			msg = "was not applied"
		}
		t.emit(Event{Kind: PlanRefused, State: st.Name, Reason: out.Reason, Message: msg})
		t.signal(playbook.OnRefused)
	}
}

// withdraw cancels an apply that waits for its next attempt: the previous
// attempt certainly did not happen. It reports whether there was one.
func (t *turn) withdraw(reason fault.Reason, msg string) bool {
	o := t.s.Open
	if t.s.Phase != PhaseApplying || o == nil || o.Observe || !t.now.Before(o.NotUntil) {
		return false
	}
	t.emit(Event{Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Reason: reason, Message: msg})
	t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: reason, Message: msg})
	return true
}

// unknown handles a change that may or may not have happened: it is observed,
// and if that fails too, a person is asked.
func (t *turn) unknown(o OpenEffect, out Outcome) {
	if !o.Observe {
		t.retried(o, out, false)
		t.look(o)
		return
	}
	if t.s.Fails+1 < MaxLooks || out.Reason == fault.Unreachable && t.now.Before(o.Since.Add(AwayWithin)) {
		t.retried(o, out, true)
		return
	}
	t.retried(o, out, false)
	t.hold(o, fmt.Sprintf("it cannot be determined whether the %s happened: %s", o.Action, out.Message))
}

// hold stops the run until a person resolves it.
func (t *turn) hold(o OpenEffect, msg string) {
	t.emit(Event{Kind: RunHeld, State: t.s.Current, Effect: o.Key, Action: o.Action, Message: msg})
	t.emit(Event{
		Kind: EffectStarted, State: t.s.Current, Effect: t.key(ActionNotify), Action: ActionNotify, Attempt: 1,
		Message: fmt.Sprintf("run %s is held, a person has to say what is true: %s", t.s.Start.Run, msg),
	})
}

// foreign hands the run over: someone else changed the target, so nothing more
// is changed. Capacity that the run added is owed back all the same: what is left of it
// when the service has recovered is nobody's.
func (t *turn) foreign(o OpenEffect, out Outcome, what string) {
	t.emit(Event{Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Reason: fault.ForeignChange, Message: out.Message})
	l := t.s.Lever
	if class, _ := t.s.class(); class == playbook.ClassCapacity && l.Applied && l.Waits == "" && len(l.Plan.Back) > 0 {
		what = "what is left of the replicas that this run added is given back when the service has recovered"
		if t.s.Phase == PhaseSettling || t.s.Phase == PhaseVerifying {
			t.emit(Event{Kind: VerifyEnded, State: t.s.Current, Verdict: VerdictInconclusive, Then: Lend, Reason: fault.ForeignChange, Message: out.Message})
		}
		t.emit(Event{Kind: Kept, State: t.s.Current, Verdict: VerdictInconclusive, Then: Lend, Message: what, Loan: t.loan(VerdictInconclusive)})
	}
	t.end(Ending{Outcome: OutcomeHandedOver, Reason: fault.ForeignChange, Message: fmt.Sprintf("someone else changed the target (%s); %s", out.Message, what)})
}

func (t *turn) settleOutcome(o OpenEffect, out Outcome) {
	switch {
	case out.Status == StatusOK:
		t.emit(Event{Kind: Settled, State: t.s.Current, Effect: o.Key, Data: out.Data, Message: out.Message, Facts: out.Facts})
		spec := t.s.Lever.Verify
		t.openWith(ActionVerify, Event{NotUntil: t.now.Add(min(spec.Interval, spec.Within))})
	case out.Status == StatusForeign:
		t.foreign(o, out, "what this run changed may be in place")
	case out.Status == StatusRefused && out.Reason == fault.Denied && t.s.Lever.Waits != "":
		t.emit(Event{Kind: Declined, State: t.s.Current, Effect: o.Key, Reason: out.Reason, Message: out.Message})
		t.signal(playbook.OnRefused)
	case out.Status == StatusPending && out.Waits != "" && !t.s.Firing():
		t.unmerged()
	case t.waits(out) && (t.inTime(out) || t.merged(out)):
		t.settling(ActionSettle, out)
	case t.waits(out) && t.s.Lever.Waits != "":
		t.abandon(fault.Deadline, fmt.Sprintf("not merged within %s: %s", playbook.FormatDuration(t.s.Lever.settleWithin()), out.Message))
	case t.slow(out):
		t.settling(ActionSettle, out)
	case t.waits(out), out.Slow && !t.inTime(out):
		within := playbook.FormatDuration(t.now.Sub(t.s.Lever.AppliedAt).Round(time.Second))
		t.notInEffect(fault.Deadline, fmt.Sprintf("not in effect %s after it was applied%s: %s", within, t.still(), out.Message))
	default:
		if len(out.Facts) > 0 {
			t.settling(ActionSettle, out) // what was seen of a change that failed is evidence
		}
		t.notInEffect(out.Reason, out.Message)
	}
}

// slow reports whether a rollout that makes no progress is waited for all the
// same. Kubernetes reports a rollout as failed after its progress deadline, also
// one whose pods only load a large model. A setting that keeps pods from
// starting is harmful, so it is waited for only as long as a load may take.
func (t *turn) slow(out Outcome) bool {
	if !out.Slow || t.s.Lever.Waits != "" || !t.inTime(out) {
		return false
	}
	class, _ := t.s.class()
	return class != playbook.ClassSetting && t.s.Phase == PhaseSettling || t.loading(out)
}

// loading reports whether the pods that a rollout started last may still load.
func (t *turn) loading(out Outcome) bool {
	l := t.ahead(out).Lever
	from := l.Since
	if l.MovedAt.After(from) {
		from = l.MovedAt
	}
	return t.now.Before(from.Add(t.s.loads()))
}

// inTime reports whether the change, or its undo, may still take effect, with what
// this look shows of its rollout.
func (t *turn) inTime(out Outcome) bool { return t.now.Before(t.ahead(out).deadline(t.now)) }

// ahead returns the state with what a look shows of the rollout.
func (t *turn) ahead(out Outcome) State {
	s := t.s
	s.Lever = s.progressed(out.Progress, t.now)
	return s
}

// still describes why a rollout that came further after its first look is not waited
// for any longer; empty: it did not.
func (t *turn) still() string {
	l := t.s.Lever
	switch {
	case l.MovedAt.IsZero():
		return ""
	case !t.now.Before(l.Since.Add(t.s.rolloutMost())):
		return ", the longest that its rollout may take"
	}
	return ", without progress for " + playbook.FormatDuration(t.now.Sub(l.MovedAt).Round(time.Second))
}

// progressed returns the lever with how far its rollout has come. One that comes
// further gets the time anew that it may stand still, up to the longest that it may take
// at all: it only loads slowly.
func (s State) progressed(p *Progress, at time.Time) *Lever {
	l := s.lever()
	switch {
	case p == nil || l.Waits != "":
	case l.Progress == nil:
		l.Progress = p
	case p.beyond(*l.Progress):
		l.Progress, l.MovedAt = p, at
		until := at.Add(s.rolloutWithin())
		if most := l.Since.Add(s.rolloutMost()); until.After(most) {
			until = most
		}
		if until.After(l.Deadline) {
			l.Deadline = until
		}
	}
	return l
}

// notInEffect ends a change that did not come into effect. Taking back a
// setting that no pod serves with costs no capacity. What failed for good, such
// as a sync that the cluster refuses, is taken back whole, and so is what is half
// done; a node stays out.
func (t *turn) notInEffect(reason fault.Reason, msg string) {
	class, _ := t.s.class()
	switch {
	case t.s.Lever.Waits != "", t.s.Lever.Plan.Staged > 0, t.s.Lever.Plan.Stops && reason == fault.Deadline:
		// It was asked for and never made, and the request is withdrawn; or it is half
		// done; or it would begin when nobody looks.
		t.abandon(reason, msg)
	case class == playbook.ClassHardware, class != playbook.ClassSetting && reason != fault.Degraded:
		t.concluded(VerdictInconclusive, reason, msg)
	case class == playbook.ClassSetting && slices.Contains([]fault.Reason{fault.Deadline, fault.Degraded, fault.Overridden}, reason):
		t.giveUp(VerdictNoEffect, reason, msg)
	default:
		t.abandon(reason, msg)
	}
}

// settling continues waiting. A failed look says nothing about the merge.
func (t *turn) settling(a Action, out Outcome) {
	if out.Status != StatusPending {
		out.Waits = t.s.Lever.Waits
	}
	t.emit(Event{Kind: Settling, State: t.s.Current, Action: a, Message: out.Message, Facts: out.Facts, Reason: out.Reason, Waits: out.Waits, Progress: out.Progress, NotUntil: t.nextLook(out)})
}

// unmerged withdraws a request that is no longer needed.
func (t *turn) unmerged() {
	t.abandon(fault.Cleared, "the alert resolved before it was merged")
}

// merged reports whether the awaited merge happened since the last look.
func (t *turn) merged(out Outcome) bool {
	return t.s.Lever.Waits != "" && out.Status == StatusPending && out.Waits == ""
}

// settleWithin returns how long the change may take to take effect, or to be merged
// first.
func (s State) settleWithin() time.Duration {
	if s.Lever.Waits != "" {
		return s.Lever.settleWithin()
	}
	return s.rolloutWithin()
}

// rolloutWithin returns how long replicas may take until they serve, or until the next
// of a rollout do: at least as long as they may load, and the steps of the change beside.
func (s State) rolloutWithin() time.Duration {
	within := max(SettleWithin, s.loads())
	if p := s.Lever.Plan; p != nil {
		within += p.Staged
	}
	return within
}

// rolloutMost returns how long a rollout may take that comes further all the time: as
// many rounds as the plan says, and never less than a change without one.
func (s State) rolloutMost() time.Duration {
	within, p := s.rolloutWithin(), s.Lever.Plan
	if p == nil || p.Rounds < 2 {
		return within
	}
	return max(within, time.Duration(p.Rounds)*(cmp.Or(s.loads(), loadsUnknown)+roundBeside)+p.Staged)
}

// unwindWithin returns how long the undo of a change may take to take effect, or to be
// merged first.
func (s State) unwindWithin() time.Duration {
	if s.Lever.Waits != "" {
		return s.Lever.settleWithin()
	}
	return max(SettleWithin, s.loads())
}

// deadline returns by when the change has to be in effect. As long as a pause stops
// its steps, it moves on with the time.
func (s State) deadline(now time.Time) time.Time {
	return s.Lever.Deadline.Add(s.stood(now))
}

// stood returns for how long a pause has stopped the steps of the current change.
func (s State) stood(now time.Time) time.Duration {
	l := s.Lever
	if s.Paused == "" || s.Phase != PhaseSettling || l == nil || l.Plan == nil || l.Plan.Staged == 0 && !l.Plan.Stepwise {
		return 0
	}
	from := s.PausedAt
	if from.Before(l.AppliedAt) {
		from = l.AppliedAt
	}
	return max(0, now.Sub(from))
}

// loads returns how long a replica may load: as the service says, or else twice as
// long as those before it did; 0: neither is known.
func (s State) loads() time.Duration {
	if p := s.Lever.Plan; s.Start.Service.LoadTime == 0 && p != nil {
		return 2 * p.Loading
	}
	return s.Start.Service.LoadTime
}

// settleWithin returns how long the change, or its undo, may take to take
// effect, or to be merged first.
func (l *Lever) settleWithin() time.Duration {
	if l.Waits != "" && l.Plan != nil && l.Plan.MergeWithin > 0 {
		return l.Plan.MergeWithin
	}
	return SettleWithin
}

// waits reports whether looking again may show something else.
func (t *turn) waits(out Outcome) bool {
	return out.Status == StatusPending || out.Status == StatusUnknown || out.Reason.Retryable()
}

// nextLook returns when to look again, not past the deadline.
func (t *turn) nextLook(out Outcome) time.Time {
	l, waits := t.s.Lever, out.Waits
	every, since := settleSlowly, t.now.Sub(l.Since)
	switch {
	case l.Waits != "" && waits == "": // it was merged just now
		return t.now.Add(settleEvery)
	case since < time.Minute:
		every = settleEvery
	case waits != "" && since >= 10*time.Minute:
		every = mergeSlowly
	}
	if out.Again > 0 {
		every = min(every, max(out.Again, soonest))
	}
	at := t.now.Add(every)
	if deadline := t.ahead(out).deadline(at); at.After(deadline) {
		return deadline
	}
	return at
}

// sampled handles one sample of the proof. A failed sample is inconclusive: it
// breaks the hold.
func (t *turn) sampled(out Outcome) {
	l := t.s.Lever
	if out.Status == StatusForeign {
		t.foreign(*t.s.Open, out, "what this run changed may be in place")
		return
	}
	s := Sample{At: t.now, Verdict: VerdictInconclusive, Reason: out.Reason, Message: out.Message}
	if out.Status == StatusOK {
		s = *out.Sample
		if s.At.IsZero() {
			s.At = t.now
		}
		if s.Verdict == VerdictVerified && slices.ContainsFunc(s.Values, func(r Reading) bool { return !r.OK }) {
			s.Verdict, s.Message = VerdictInconclusive, "reported as verified, but a reading is missing or not met"
		}
	}
	e := Event{Kind: Sampled, State: t.s.Current, Sample: &s}
	was := l.lastJudged(t.now)
	stands := l.Verify.Itself && s.Verdict == VerdictImproved
	final := stands || s.Verdict == VerdictVerified || s.Verdict == VerdictFailed || s.Verdict == VerdictWorse || !t.now.Before(l.Deadline)
	if !final {
		e.NotUntil = t.now.Add(l.Verify.Interval)
		if e.NotUntil.After(l.Deadline) {
			e.NotUntil = l.Deadline
		}
	}
	t.emit(e)
	switch {
	case s.Verdict == VerdictVerified:
		t.proven(s.Message)
	case s.Verdict == VerdictFailed && s.Reason == fault.Overridden:
		t.notInEffect(s.Reason, s.Message)
	case stands, s.Verdict == VerdictFailed, s.Verdict == VerdictWorse:
		t.concluded(s.ends(), s.Reason, s.Message)
	case final && s.ends() == VerdictInconclusive && s.Reason != fault.NoTraffic && was != nil:
		t.concluded(was.ends(), fault.Deadline, fmt.Sprintf("not proven by the deadline: %s (at %s; at the deadline: %s)", was.Message, was.At.UTC().Format(time.TimeOnly), s.Message))
	case final && s.ends() == VerdictInconclusive:
		t.concluded(VerdictInconclusive, s.Reason, "nothing conclusive by the deadline: "+s.Message)
	case final:
		t.concluded(s.ends(), fault.Deadline, "not proven by the deadline: "+s.Message)
	}
}

// lastJudged returns the newest sample if it could be judged and was taken a moment
// ago: one scrape that is missing at the deadline does not undo what all others show.
// Nil: there is none.
func (l *Lever) lastJudged(now time.Time) *Sample {
	if len(l.Samples) == 0 {
		return nil
	}
	s := l.Samples[len(l.Samples)-1]
	if s.ends() == VerdictInconclusive || now.Sub(s.At) > 2*l.Verify.Interval {
		return nil
	}
	return &s
}

func (t *turn) undoOutcome(o OpenEffect, out Outcome) {
	switch {
	case out.Status == StatusOK, out.Status == StatusPending, out.Status == StatusRefused && out.Reason == fault.NothingToDo:
		t.undone(out)
	case out.Status == StatusForeign, out.Reason == fault.ForeignChange:
		t.foreign(o, out, "so this run undoes nothing")
	case out.Status == StatusUnknown:
		t.unknown(o, out)
	case o.Observe && out.Reason.Retryable() && out.Reason != fault.Interrupted:
		t.unknown(o, out)
	case o.Observe:
		t.undoAgain(o, out)
	case t.undoable(o, out):
		t.retried(o, out, true)
	default:
		t.retried(o, out, false)
		t.undoFailed(out.Reason, out.Message)
	}
}

func (t *turn) undoable(o OpenEffect, out Outcome) bool {
	again := out.Reason.Retryable() || out.Reason == fault.Conflict // the object changed, but not in this field
	return out.Status == StatusFailed && again && o.Attempt < MaxUndos
}

// undoAgain handles an undo that was observed not to have happened.
func (t *turn) undoAgain(o OpenEffect, out Outcome) {
	t.retried(o, out, false)
	switch {
	case t.s.Lever.Plan.Unrepeatable && !t.s.Lever.OperatorConfirmed:
		t.hold(o, "the undo is not visible, but an attempt may still be in flight: "+out.Message)
	case t.s.Lever.Panicked || int(*t.s.Tries.of(ActionUndo)) >= MaxUndos:
		t.undoFailed(out.Reason, out.Message)
	default:
		// The same key: it is the same change with the same precondition.
		t.emit(Event{Kind: EffectStarted, State: t.s.Current, Effect: o.Key, Action: ActionUndo, Attempt: 1})
	}
}

func (t *turn) undoFailed(reason fault.Reason, msg string) {
	if t.s.Lever.OperatorConfirmed {
		t.end(Ending{Outcome: OutcomeEscalated, Reason: reason, Message: fmt.Sprintf("people confirmed that nothing of %s is in place; its traces on the target could not be removed: %s", t.s.Current, msg)})
		return
	}
	t.end(Ending{Outcome: OutcomeUndoFailed, Reason: reason, Message: fmt.Sprintf("the change of %s is still in place and could not be undone: %s", t.s.Current, msg)})
}

func (t *turn) undone(out Outcome) {
	e := Event{Kind: Undone, State: t.s.Current, Data: out.Data, Message: out.Message, Waits: out.Waits}
	if t.s.Lever.Plan.Stops {
		e.Then = Keep
	}
	if h := t.s.Lever.Plan.Rehold; h != nil && out.Status != StatusRefused { // refused: there was nothing to undo
		e.Loan = &Loan{ID: t.visit(), State: t.s.Current, Step: h.Step, Summary: h.Summary, Back: h.Back, Since: t.now, Early: true}
	}
	t.emit(e)
	t.open(ActionUnwind)
}

// unwound ends an undo that is in effect.
func (t *turn) unwound(o OpenEffect, out Outcome) {
	e := Event{Kind: Unwound, State: t.s.Current, Effect: o.Key, Data: out.Data, Message: out.Message, Facts: out.Facts}
	switch {
	case out.Stays:
		e.Then = Keep
	case t.s.Lever.Plan.Stops:
		e.Then = Undo
	}
	t.emit(e)
	t.signal(t.s.Lever.Signal)
}

// undoNext makes the next part of an undo.
func (t *turn) undoNext(out Outcome) {
	if int(*t.s.Tries.of(ActionUndo)) >= MaxUndos {
		t.undoFailed(fault.Deadline, out.Message)
		return
	}
	t.emit(Event{Kind: Settling, State: t.s.Current, Action: ActionUnwind, Message: out.Message, Facts: out.Facts, Then: Undo})
	t.open(ActionUndo)
}

func (t *turn) unwindOutcome(o OpenEffect, out Outcome) {
	switch {
	case out.Status == StatusOK && out.Next:
		t.undoNext(out)
	case out.Status == StatusOK:
		t.unwound(o, out)
	case out.Status == StatusForeign && t.s.Lever.Waits != "":
		t.foreign(o, out, "what this run changed may be in place")
	case out.Status == StatusForeign:
		t.foreign(o, out, "what this run changed was being undone, and whether it is cannot be told")
	case t.waits(out) && (t.inTime(out) || t.merged(out)), t.slow(out):
		t.settling(ActionUnwind, out)
	case out.Status == StatusRefused || t.s.Lever.Waits != "":
		t.retried(o, out, false)
		if out.Status != StatusRefused && t.waits(out) {
			out.Reason, out.Message = fault.Deadline, fmt.Sprintf("not merged within %s: %s", playbook.FormatDuration(t.s.Lever.settleWithin()), out.Message)
		}
		t.undoFailed(out.Reason, out.Message)
	default:
		if len(out.Facts) > 0 {
			t.settling(ActionUnwind, out)
		}
		t.emit(Event{Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Reason: out.Reason, Message: out.Message})
		t.end(Ending{Outcome: OutcomeEscalated, Reason: out.Reason, Message: "the change was being undone, and the undo is not in effect: " + out.Message})
	}
}

// unproven reports whether the lever's change was in effect and could not be
// measured. A change that was never merged, or that was given up because no
// alert fired any more, was not in effect.
func (l *Lever) unproven() bool {
	return l.Signal == playbook.OnInconclusive && !slices.Contains([]fault.Reason{fault.Cleared, fault.Deadline, fault.Degraded, fault.Overridden}, l.Reason)
}
