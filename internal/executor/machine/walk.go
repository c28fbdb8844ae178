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

// enter enters a state of the playbook.
func (t *turn) enter(name string) {
	st := t.s.Playbook.State(name)
	visit := t.s.Visits[name] + 1
	if st == nil || visit > MaxVisits || len(t.s.Path) >= MaxPath {
		msg := fmt.Sprintf("state %s was entered %d times, %d states in all: the playbook does not end", name, visit-1, len(t.s.Path))
		if st == nil {
			msg = "the playbook has no state " + name
		}
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Invalid, Message: msg})
		return
	}
	t.emit(Event{Kind: StateEntered, State: name, Visit: visit})
	switch st.Kind {
	case playbook.StateCheck:
		t.open(ActionCheck)
	case playbook.StateLever:
		t.open(ActionPlan)
	case playbook.StateNotify:
		t.open(ActionNotify)
	case playbook.StateGate:
		t.gate(st)
	case playbook.StateDivert:
		t.divert(st)
	case playbook.StateEnd:
		t.end(t.endingOf(st))
	default:
		panic(fmt.Sprintf("machine: state %s is a %q", name, st.Kind)) // unreachable: the loader knows all kinds
	}
}

// divert hands over to another playbook, or escalates if none can take over.
func (t *turn) divert(st *playbook.State) {
	if t.noDivert != "" {
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.NotFound, Message: fmt.Sprintf("cannot hand over to playbook %s: %s", st.Divert, t.noDivert)})
		return
	}
	t.end(Ending{Outcome: OutcomeDiverted, Message: "handed over to playbook " + st.Divert, Divert: st.Divert})
}

// endingOf returns how an end state ends the run. People who have to take over
// are told what led there.
func (t *turn) endingOf(st *playbook.State) Ending {
	title := st.Title
	if title == "" {
		title = st.Name
	}
	switch st.End {
	case playbook.EndResolved:
		return Ending{Outcome: OutcomeResolved, Message: title}
	case playbook.EndNoAction:
		return Ending{Outcome: OutcomeNoAction, Message: title}
	default:
		for i := len(t.s.Path) - 2; i >= 0; i-- {
			if v := t.s.Path[i]; v.Edge != "" {
				title += fmt.Sprintf(" (after %s: %s)", v.State, v.Edge)
				break
			}
		}
		return Ending{Outcome: OutcomeEscalated, Message: title}
	}
}

// key returns the key of the next effect of an action on this visit.
func (t *turn) key(a Action) string {
	return fmt.Sprintf("%s/%s#%d/%s#%d", t.s.Start.Run, t.s.Current, t.s.Visits[t.s.Current], a, int(*t.s.Tries.of(a))+1)
}

// open journals the intent of a new effect. Its parameters are evaluated now.
// What cannot be evaluated is not done.
func (t *turn) open(a Action) { t.openWith(a, Event{}) }

func (t *turn) openWith(a Action, e Event) {
	e.Kind, e.State, e.Effect, e.Action, e.Attempt = EffectStarted, t.s.Current, t.key(a), a, 1
	if a == ActionCheck || a == ActionPlan {
		with, err := evalWith(t.s, t.now)
		if err != nil {
			t.expression(a, err)
			return
		}
		e.With = plainMap(with)
	}
	if a == ActionNotify {
		text, err := t.s.text(t.now)
		if err != nil {
			t.expression(a, err)
			return
		}
		e.Message = text
	}
	t.emit(e)
}

// expression handles an effect whose parameters cannot be evaluated.
func (t *turn) expression(a Action, err error) {
	if a == ActionPlan {
		t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: fault.Expression, Message: err.Error()})
		t.signal(playbook.OnRefused)
		return
	}
	t.emit(Event{Kind: EffectFailed, State: t.s.Current, Action: a, Reason: fault.Expression, Message: err.Error()})
	t.failed(fault.Expression, err.Error())
}

// failed leaves a state that failed.
func (t *turn) failed(reason fault.Reason, msg string) {
	if t.stop() || t.clear() {
		return
	}
	st := t.s.current()
	if st.OnError != "" {
		t.take(st.OnError, "on_error: "+msg)
		return
	}
	t.end(Ending{Outcome: OutcomeEscalated, Reason: reason, Message: fmt.Sprintf("state %s: %s", st.Name, msg)})
}

// take follows an edge.
func (t *turn) take(to, why string) {
	t.emit(Event{Kind: EdgeTaken, State: t.s.Current, To: to, Message: why})
	t.enter(to)
}

// next leaves a check or notify state by the first edge that holds.
func (t *turn) next() {
	if t.stop() || t.clear() {
		return
	}
	st := t.s.current()
	e, err := firstEdge(t.s, st.Next, "", t.now)
	switch {
	case err != nil:
		t.emit(Event{Kind: EffectFailed, State: st.Name, Reason: fault.Expression, Message: err.Error()})
		t.failed(fault.Expression, err.Error())
	case e == nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Expression, Message: "no edge of state " + st.Name + " holds"})
	default:
		t.take(e.To, e.Text())
	}
}

// signal leaves a lever by its result.
func (t *turn) signal(sig playbook.Signal) {
	if t.stop() || (sig != playbook.OnVerified && t.clear()) {
		return
	}
	st := t.s.current()
	edges := st.Next
	if sig.NeedsPeople() || t.s.fate(Verdict(sig)).Tell && slices.Contains(playbook.Verdicts(), sig) {
		edges = slices.DeleteFunc(slices.Clone(edges), func(e playbook.Edge) bool { return e.On != sig })
	}
	e, err := firstEdge(t.s, edges, sig, t.now)
	switch {
	case err != nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Expression, Message: fmt.Sprintf("lever %s is %s, and then: %v", st.Name, sig, err)})
	case e == nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: t.reason(), Message: fmt.Sprintf("%s: %s%s%s", st.Title, signalText(sig), t.because(), t.s.standing())})
	default:
		t.take(e.To, edgeText(*e, sig))
	}
}

// signalText describes a signal as the end of a lever, for people.
func signalText(sig playbook.Signal) string {
	switch sig {
	case playbook.OnInconclusive:
		return "not proven"
	case playbook.OnNoEffect:
		return "had no effect"
	case playbook.OnWorse:
		return "made it worse"
	case playbook.OnDenied, playbook.OnRefused, playbook.OnVerified, playbook.OnImproved:
		return string(sig)
	default:
		return "ended " + string(sig)
	}
}

func (t *turn) reason() fault.Reason {
	if t.s.Lever == nil {
		return fault.None
	}
	return t.s.Lever.Reason
}

func (t *turn) because() string {
	if t.s.Lever == nil || t.s.Lever.Message == "" {
		return ""
	}
	return ": " + t.s.Lever.Message
}

func edgeText(e playbook.Edge, sig playbook.Signal) string {
	if text := e.Text(); text != "" {
		return text
	}
	return string(sig)
}

// firstEdge returns the first edge that holds: by its signal, by its condition,
// or unconditionally. A condition that cannot be evaluated is an error, never
// false.
func firstEdge(s State, edges []playbook.Edge, sig playbook.Signal, now time.Time) (*playbook.Edge, error) {
	sc := s.scope(now)
	for i := range edges {
		e := &edges[i]
		switch {
		case e.On != "":
			if e.On == sig && sig != "" {
				return e, nil
			}
		case e.When != nil:
			holds, err := e.When.Eval(sc)
			if err != nil {
				return nil, s.lacksAlert(err)
			}
			if holds {
				return e, nil
			}
		default:
			return e, nil
		}
	}
	return nil, nil
}

// scope returns the values that the playbook's expressions read.
func (s State) scope(now time.Time) playbook.Scope {
	sc := playbook.Scope{Alert: s.Start.Alert, Service: s.Start.Service, Run: s.Start.Run, Now: now}
	sc.Evidence = make(map[string]json.RawMessage, len(s.Evidence))
	for name, e := range s.Evidence {
		sc.Evidence[name] = e.Data
	}
	if e := s.Evidence[s.Current]; e != nil {
		sc.Out = e.Data
	}
	return sc
}

// evalWith evaluates the parameters of the current state with the types of its
// kind.
func evalWith(s State, now time.Time) (map[string]any, error) {
	st := s.current()
	if len(st.With) == 0 {
		return nil, nil
	}
	sc := s.scope(now)
	out := make(map[string]any, len(st.With))
	for name, v := range st.With {
		val, err := v.Eval(sc)
		if err != nil {
			return nil, fmt.Errorf("with.%s: %w", name, s.lacksAlert(err))
		}
		out[name] = val
	}
	return out, nil
}

// lacksAlert adds the likely cause to an error of an expression: a run that a
// person started has no alert.
func (s State) lacksAlert(err error) error {
	if !s.Start.ByHand() || !strings.Contains(err.Error(), "no such key") {
		return err
	}
	return fmt.Errorf("%w (%s started this run manually: there is no alert, only the labels of --label)", err, s.Start.By)
}

// plainMap converts values to the types they have after JSON, so that a state
// folded from the log equals the one that was never written.
func plainMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = plain(v)
	}
	return out
}

func plain(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[string]any:
		return plainMap(v)
	default:
		return v
	}
}

// text returns the message of the current notify or gate state.
func (s State) text(now time.Time) (string, error) {
	st := s.current()
	if st.Message == nil {
		return st.Title, nil
	}
	text, err := st.Message.Text(s.scope(now))
	if err != nil {
		return "", fmt.Errorf("%s: %w", st.Kind, s.lacksAlert(err))
	}
	return strings.TrimSpace(text), nil
}

// Burn returns the error ratio of the current lever's proof, PromQL with
// ${since}, and its objective; false if the proof has none.
func (s State) Burn(now time.Time) (ratio string, objective float64, ok bool) {
	st := s.current()
	if st == nil || st.Verify == nil || st.Verify.Burn == nil {
		return "", 0, false
	}
	ratio, err := st.Verify.Burn.ErrorRatio.Text(s.scope(now))
	return ratio, st.Verify.Burn.Objective, err == nil
}
