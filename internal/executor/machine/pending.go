package machine

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Pending returns the complete effect that the run owes now. It may have to
// wait for its NotUntil. While a run is paused nothing new begins: due is only
// what finishes, undoes or proves a change in progress, and what notifies
// people.
func Pending(s State) (Effect, bool) {
	o := s.Open
	if o == nil || s.Phase == PhaseEnded || (s.Paused != "" && !goesOn(s)) {
		return Effect{}, false
	}
	st := s.current()
	e := Effect{
		Key: o.Key, Run: s.Start.Run, Playbook: s.Start.Playbook, State: s.Current, Action: o.Action,
		Service: s.Start.Service, Alert: s.Start.Alert, At: o.At, Attempt: o.Attempt, NotUntil: o.NotUntil,
		Timeout: s.timeout(o.Action), Observe: o.Observe,
	}
	if o.Action == ActionSettle {
		e.Paused = s.Paused
	}
	switch o.Action {
	case ActionCheck, ActionPlan:
		if st != nil && st.Kind == playbook.StateGather {
			e.Gather = s.asked(s.Open.At)
			break
		}
		e.Step, e.With = st.Step, s.with(o.With)
	case ActionNotify:
		e.Text, e.Urgent = s.notice(), s.Held != nil || s.Closing != nil
		if st != nil && !e.Urgent {
			e.To = st.To
		}
	default:
		s.leverEffect(&e)
	}
	return e, true
}

// goesOn reports whether the open effect is due even while paused.
func goesOn(s State) bool {
	switch s.Open.Action {
	case ActionSettle, ActionVerify, ActionUndo, ActionUnwind:
		return true
	case ActionApply:
		return s.Open.Observe // observing changes nothing
	case ActionNotify:
		return s.Closing != nil || s.Phase == PhaseHeld
	default:
		return false
	}
}

// with evaluates the parameters again, with the types of the kind; those in the
// log lost their types in JSON. Evidence and time are those of the intent, so
// the values are the same, unless they are of alerts.
func (s State) with(journaled map[string]any) map[string]any {
	at := s.Open.At
	if s.Lever != nil && !s.Lever.PlannedAt.IsZero() {
		at = s.Lever.PlannedAt
	}
	with, err := evalWith(s, at)
	if err != nil || !same(with, journaled) { // the alerts of the run are others by now
		return journaled
	}
	return with
}

// same reports whether parameters are the same as JSON.
func same(a, b map[string]any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && (bytes.Equal(x, y) || len(a) == 0 && len(b) == 0)
}

func (s State) leverEffect(e *Effect) {
	l := s.Lever
	if l == nil {
		return // the guards of a gate state
	}
	e.Step, e.Plan, e.Receipt = l.Step, l.Plan, l.Receipt
	e.OperatorConfirmed = l.OperatorConfirmed && (e.Action == ActionUndo || e.Action == ActionUnwind)
	switch e.Action {
	case ActionUndo, ActionSettle, ActionUnwind:
		e.OperatorMade = l.OperatorMade
	}
	if e.Action == ActionUndo {
		e.Verdict = l.disproven()
	}
	if l.Plan != nil && l.Plan.MergeWithin > 0 {
		e.MergeBy = s.MergeBy()
	}
	e.With = s.with(l.With)
	if l.Verify == nil {
		return
	}
	switch e.Action {
	case ActionApply, ActionVerify:
		if e.Observe && !l.PlannedAt.IsZero() {
			e.At = l.PlannedAt // the world before the change, whenever it is observed
		}
		class, _ := s.class()
		st := s.current()
		p := &Proof{
			Spec: *l.Verify, FixedAt: l.FixedAt, Before: l.Before, Planned: l.PlannedAt, Deadline: l.Deadline,
			Release: class == playbook.ClassRollback, Added: class == playbook.ClassCapacity,
			Anew: class == playbook.ClassRollback || st != nil && (st.Restarts || st.Class == playbook.ClassRollback), // also of a flag that is given back
		}
		if n := len(l.Samples); n > 0 {
			p.HeldFrom, p.LastAt = l.Samples[n-1].HeldFrom, l.Samples[n-1].At
		}
		e.Proof = p
	}
}

// disproven returns the verdict of a change that was in effect and of which the service's
// objectives show that it did not help; empty: they were not measured, or do not say so.
func (l *Lever) disproven() Verdict {
	measured := !l.FixedAt.IsZero() && l.Verify != nil && l.Verify.SLO
	if v := Verdict(l.Signal); measured && (v == VerdictNoEffect || v == VerdictWorse) {
		return v
	}
	return ""
}

// notice returns the text of a notification.
func (s State) notice() string {
	switch {
	case s.Held != nil:
		return "run " + s.Start.Run + " is held, a person has to say what is true: " + s.Held.Message
	case s.Closing != nil:
		text := "run " + s.Start.Run + " ends " + string(s.Closing.Outcome) + ": " + s.Closing.Message
		if all := s.changes(); len(all) > 0 {
			text = sentences(text, s.changed())
		}
		return text
	}
	text, err := s.text(s.Open.At)
	if err != nil {
		return "state " + s.Current
	}
	return sentences(text, s.changed())
}

// NextWake returns when the run has to be looked at again if nothing happens:
// its next tick, or when its pending effect is due.
func NextWake(s State) (time.Time, bool) {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch {
	case s.Phase == PhaseEnded:
	case s.Phase == PhaseDeciding:
		sooner(s.Gate.Deadline)
		if !s.Gate.Reminded {
			sooner(s.Gate.RemindAt)
		}
		if at, ok := s.Gate.nextTier(); ok {
			sooner(at)
		}
	case s.Phase == PhaseWaiting:
		if s.Paused == "" {
			sooner(s.Wake)
		}
		sooner(s.Consent().WaitUntil)
	case s.Phase == PhaseWatching && s.Open == nil:
		if s.Paused == "" {
			sooner(s.Waiting.Until)
		}
	case s.Open != nil:
		if _, ok := Pending(s); ok {
			sooner(s.Open.NotUntil)
		}
	}
	return at, !at.IsZero()
}

// Handover returns the evidence that a diverted run passes on, by state.
func (s State) Handover() map[string]json.RawMessage {
	if len(s.Evidence) == 0 {
		return s.Start.Evidence
	}
	out := make(map[string]json.RawMessage, len(s.Evidence)+len(s.Start.Evidence))
	for name, data := range s.Start.Evidence {
		out[name] = data
	}
	for name, e := range s.Evidence {
		if e.Unknown == "" {
			out[name] = e.Data
		}
	}
	return out
}

// Successor returns what the run that takes over starts with: what this one was about
// and has found, and those of its alerts that still fire. The first is in the start,
// unless a person started the run.
func (s State) Successor() (start Start, also []playbook.Alert) {
	start = s.Start
	start.DivertedFrom, start.Evidence, start.Truncated = s.Start.Run, s.Handover(), s.Truncated
	start.Line = append(slices.Clip(start.Line), Handed{s.Start.Run, s.Start.Playbook})
	start.Changed = append(slices.Clip(start.Changed), s.Made...)
	firing := s.firing()
	if start.ByHand() {
		return start, firing
	}
	first := slices.IndexFunc(firing, func(a playbook.Alert) bool { return a.Episode() == start.Alert.Episode() })
	switch {
	case len(firing) == 0:
		start.Alert.Status = playbook.Resolved
		return start, nil
	case first < 0: // the alert it began with has resolved
		first = 0
		start.Alert = firing[0]
	}
	return start, slices.Delete(firing, first, first+1)
}

// firing returns the alerts of the run that fire, in a fixed order.
func (s State) firing() []playbook.Alert {
	var out []playbook.Alert
	for _, id := range s.Episodes.IDs() {
		if s.Episodes.Get(id).Firing {
			out = append(out, s.Episodes.Get(id).Alert)
		}
	}
	return out
}
