package machine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Waiting is where a wait state stands.
type Waiting struct {
	Until    time.Time `json:"until"`             // end of a plain wait; deadline of a wait for a check
	HeldFrom time.Time `json:"heldFrom,omitzero"` // since when every look met the condition; zero: the last one did not
	LookedAt time.Time `json:"lookedAt,omitzero"` // last look
	Why      string    `json:"why,omitempty"`     // what the last look showed, if the condition was not met
}

// await begins a wait state.
func (t *turn) await(st *playbook.State) {
	lasts := st.Wait.Within
	if st.Wait.For != nil {
		lasts = st.Wait.For
	}
	d, err := t.s.lasting(playbook.NumberWithin, lasts, t.now)
	if err != nil {
		t.numberless(st, err)
		return
	}
	t.emit(Event{Kind: WaitBegan, State: st.Name, NotUntil: t.now.Add(d)})
	if st.Wait.For == nil {
		t.open(ActionCheck)
	}
}

// looked handles one look of a wait for a check. What cannot be told does not
// hold.
func (t *turn) looked(out Outcome) {
	st := t.s.current()
	e := Event{Kind: WaitLooked, State: st.Name, Reason: out.Reason, Message: out.Message, Facts: out.Facts}
	holds := false
	if out.Status == StatusOK {
		e.Data, e.Reason, e.Message = out.Data, fault.None, ""
		sc := t.s.scope(t.now)
		sc.Out = out.Data
		var err error
		if holds, err = st.Wait.Until.Eval(sc); err != nil {
			e.Reason, e.Message = fault.Expression, t.s.lacksAlert(err).Error()
		}
	}
	hold, err := t.s.lasting(playbook.NumberHold, st.Wait.Hold, t.now)
	every, everyErr := t.s.lasting(playbook.NumberEvery, st.Wait.Every, t.now)
	if err = cmp.Or(err, everyErr); err != nil {
		t.emit(Event{Kind: EffectFailed, State: st.Name, Action: ActionCheck, Reason: fault.Expression, Message: err.Error()})
		t.failed(fault.Expression, err.Error())
		return
	}
	was := *t.s.Waiting
	if holds {
		e.HeldFrom = t.now
		// A gap in which nobody looked breaks the hold.
		if gap := t.now.Sub(was.LookedAt); !was.HeldFrom.IsZero() && gap <= 3*every+time.Minute {
			e.HeldFrom = was.HeldFrom
		}
	}
	done, late := holds && t.now.Sub(e.HeldFrom) >= hold, !t.now.Before(was.Until)
	if !done && !late {
		e.NotUntil = t.now.Add(every)
		if e.NotUntil.After(was.Until) {
			e.NotUntil = was.Until
		}
	}
	t.emit(e)
	switch {
	case done:
		t.waited(playbook.OnHeld)
	case late:
		t.waited(playbook.OnExpired)
	}
}

// waited leaves a wait state by its signal.
func (t *turn) waited(sig playbook.Signal) {
	if t.stop() || t.clear() {
		return
	}
	st := t.s.current()
	edges := st.Next
	if sig == playbook.OnExpired {
		edges = named(edges, sig)
	}
	c, err := choose(t.s, edges, sig, t.now)
	switch e := c.edge; {
	case err != nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Expression, Message: fmt.Sprintf("wait %s is over, and then: %v", st.Name, err)})
	case e == nil:
		within := playbook.FormatDuration(t.s.Waiting.Until.Sub(t.s.Path[len(t.s.Path)-1].At))
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Deadline, Message: fmt.Sprintf("%s: what it waited for did not hold within %s%s", st.Title, within, t.s.standing())})
	default:
		t.take(e.To, edgeText(*e, sig), conditional(c.examined)...)
	}
}

// proceed ends a wait because a person does not want to wait any longer. What
// follows is guarded as ever.
func (t *turn) proceed(c Command) error {
	switch {
	case c.Decision == nil || c.Decision.By == "":
		return fmt.Errorf("%w: missing the person who ends the wait", ErrInvalid)
	case t.s.Phase == PhaseEnded:
		return fmt.Errorf("proceed %s: %w %s", t.s.Start.Run, ErrEnded, t.s.Ending.Outcome)
	case t.s.Phase != PhaseWatching:
		return fmt.Errorf("proceed %s: %w: it is %s in state %s", t.s.Start.Run, ErrNotWaiting, t.s.Phase, t.s.Current)
	case t.s.Paused != "":
		return fmt.Errorf("proceed %s: %w: it is paused: %s", t.s.Start.Run, ErrNotWaiting, t.s.Paused)
	}
	t.emit(Event{Kind: WaitEnded, State: t.s.Current, Decision: c.Decision, Message: c.Decision.By + " ends the wait: " + c.Decision.Reason})
	if t.s.current().Wait.For != nil {
		t.next()
		return nil
	}
	t.waited(playbook.OnHeld)
	return nil
}

// evolveWait folds the events of a wait state.
func evolveWait(s State, e Event) State {
	switch e.Kind {
	case WaitBegan:
		s.Waiting = &Waiting{Until: e.NotUntil}
		s.Phase = PhaseWatching
	case WaitLooked:
		w := *s.Waiting
		w.HeldFrom, w.LookedAt, w.Why = e.HeldFrom, e.At, e.Message
		s.Waiting = &w
		if len(e.Data) > 0 {
			s = s.found(e)
		}
		s.Fails = 0
		if e.NotUntil.IsZero() {
			s.Open = nil
		} else {
			s.Open = s.Open.again(e)
		}
	case WaitEnded:
		s.Open, s.Fails = nil, 0
	}
	return s
}
