package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// owners stands for the service's owners in a list of deciders.
const owners = "service.owners"

// gate begins a gate state.
func (t *turn) gate(st *playbook.State) {
	text, err := t.s.text(t.now)
	if err != nil {
		t.emit(Event{Kind: EffectFailed, State: st.Name, Reason: ReasonExpression, Message: err.Error()})
		t.failed(ReasonExpression, err.Error())
		return
	}
	if t.s.Autonomy(st) == playbook.Observe {
		t.end(Ending{Outcome: OutcomeObserved, Message: "would ask: " + text})
		return
	}
	t.ask(st, text, "")
}

// ask opens a gate: for a gate state, or about the plan with this digest.
func (t *turn) ask(st *playbook.State, text, digest string) {
	g := &Gate{Digest: digest, OnExpiry: playbook.ExpiryEscalate, Text: text}
	within := AskWithin
	by := []string{owners}
	if st.Approve != nil {
		by, within, g.OnExpiry = st.Approve.By, st.Approve.Within, st.Approve.OnExpiry
	}
	g.By = deciders(by, t.s.Start.Service.Owners)
	if len(g.By) == 0 {
		// Nobody can decide: the gate expires into its safe outcome.
		g.Text += fmt.Sprintf(" (nobody may decide: service %s names no owners)", t.s.Start.Service.Name)
	}
	g.Deadline = t.now.Add(within)
	g.ID = t.key(actionGate)
	t.emit(Event{Kind: GateOpened, State: t.s.Current, Gate: g, Digest: digest})
}

// deciders replaces service.owners by the service's owners.
func deciders(by, serviceOwners []string) []string {
	var out []string
	for _, who := range by {
		names := []string{who}
		if who == owners {
			names = serviceOwners
		}
		for _, n := range names {
			if n != "" && n != owners && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// decide takes a person's decision. One that does not count changes nothing,
// is journaled, and its sender is told why.
func (t *turn) decide(c Command) error {
	d := c.Decision
	if d == nil || d.By == "" {
		return fmt.Errorf("%w: who decides?", ErrInvalid)
	}
	if err := t.refuse(*d); err != nil {
		t.emit(Event{Kind: DecisionIgnored, State: t.s.Current, Decision: d, Message: err.Error()})
		return err
	}
	g, st := *t.s.Gate, t.s.current()
	taken := *d
	taken.Gate, taken.Digest = g.ID, g.Digest
	t.emit(Event{Kind: GateDecided, State: t.s.Current, Decision: &taken, Digest: g.Digest})
	switch {
	case st.Kind == playbook.StateLever && d.Approve:
		t.open(ActionPlan) // the world may have moved while people thought
	case st.Kind == playbook.StateLever:
		t.signal(playbook.OnDenied)
	case d.Approve:
		t.leaveGate(playbook.OnApproved)
	default:
		t.leaveGate(playbook.OnDenied)
	}
	return nil
}

// refuse says why a decision does not count; nil when it does.
func (t *turn) refuse(d Decision) error {
	g := t.s.Gate
	switch {
	case t.s.Phase == PhaseEnded:
		return fmt.Errorf("%w %s: nothing is asked any more", ErrEnded, t.s.Ending.Outcome)
	case g == nil:
		return fmt.Errorf("%w: run %s is %s", ErrNoGate, t.s.Start.Run, t.s.Phase)
	case d.Gate != "" && d.Gate != g.ID:
		return fmt.Errorf("%w: asked is %s, decided was %s", ErrNoGate, g.ID, d.Gate)
	case !t.now.Before(g.Deadline):
		return fmt.Errorf("%w: the time to decide ended at %s", ErrNoGate, g.Deadline.UTC().Format(time.RFC3339))
	case d.Digest != "" && d.Digest != g.Digest:
		return fmt.Errorf("%w: asked is %s, decided was %s; look at the new plan", ErrStale, g.Digest, d.Digest)
	case d.Approve && d.Gate == "" && d.Digest == "" && t.s.Asked > 1:
		// It may be meant for an earlier question, about a plan that is void.
		return fmt.Errorf("%w: this run has asked before; look at what it asks now and name it: gate %s%s", ErrStale, g.ID, about(g.Digest))
	case !mayDecide(g.By, d):
		return fmt.Errorf("%w: %s is not among %s", ErrNotAllowed, d.By, strings.Join(g.By, ", "))
	default:
		return nil
	}
}

func about(digest string) string {
	if digest == "" {
		return ""
	}
	return ", digest " + digest
}

func mayDecide(by []string, d Decision) bool {
	return slices.ContainsFunc(by, func(who string) bool {
		switch {
		case strings.HasPrefix(who, "user:"):
			return who == d.By
		case strings.HasPrefix(who, "group:"):
			return slices.Contains(d.Groups, who) || slices.Contains(d.Groups, strings.TrimPrefix(who, "group:"))
		default:
			return false
		}
	})
}

// expire closes a gate nobody decided. There is no go-ahead.
func (t *turn) expire() {
	g, st := *t.s.Gate, t.s.current()
	t.emit(Event{Kind: GateExpired, State: t.s.Current, Gate: &g})
	msg := fmt.Sprintf("nobody of %s decided by %s", strings.Join(g.By, ", "), g.Deadline.UTC().Format(time.RFC3339))
	named := slices.IndexFunc(st.Next, func(e playbook.Edge) bool { return e.On == playbook.OnExpired })
	switch {
	case named >= 0:
		if !t.stop() && !t.clear() {
			t.take(st.Next[named].To, edgeText(st.Next[named], playbook.OnExpired))
		}
	case g.OnExpiry != playbook.ExpiryDeny:
		if !t.stop() && !t.clear() {
			t.end(Ending{Outcome: OutcomeEscalated, Reason: ReasonDeadline, Message: msg})
		}
	case st.Kind == playbook.StateLever:
		t.signal(playbook.OnDenied)
	default:
		t.leaveGate(playbook.OnDenied)
	}
}

// leaveGate leaves a gate state. No and silence never take the edge that yes
// would take.
func (t *turn) leaveGate(sig playbook.Signal) {
	if t.stop() || t.clear() {
		return
	}
	st := t.s.current()
	e, err := firstEdge(t.s, st.Next, sig, t.now)
	if err == nil && e != nil && sig != playbook.OnApproved && e.On != sig {
		yes, yesErr := firstEdge(t.s, st.Next, playbook.OnApproved, t.now)
		if yesErr != nil || yes == e {
			e = nil
		}
	}
	switch {
	case err != nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: ReasonExpression, Message: fmt.Sprintf("gate %s is %s, and then: %v", st.Name, sig, err)})
	case e == nil:
		t.end(Ending{Outcome: OutcomeEscalated, Message: fmt.Sprintf("gate %s is %s and no edge says what then", st.Name, sig)})
	default:
		t.take(e.To, edgeText(*e, sig))
	}
}
