package machine

import (
	"encoding/json"
	"fmt"
	"maps"
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
	if reason, why := t.bounded(st, name); why != "" {
		t.end(Ending{Outcome: OutcomeEscalated, Reason: reason, Message: why})
		return
	}
	numbers, err := t.s.numbers(st, t.now)
	t.emit(Event{Kind: StateEntered, State: name, Visit: visit, With: numbers})
	if err != nil {
		t.numberless(st, err)
		return
	}
	switch st.Kind {
	case playbook.StateCheck, playbook.StateGather:
		t.open(ActionCheck)
	case playbook.StateLever:
		if st.Unsafe != "" {
			t.emit(Event{Kind: PlanRefused, State: st.Name, Reason: fault.Invalid, Message: st.Unsafe})
			t.signal(playbook.OnRefused)
			return
		}
		t.open(ActionPlan)
	case playbook.StateNotify:
		t.open(ActionNotify)
	case playbook.StateGate:
		t.gate(st)
	case playbook.StateWait:
		t.await(st)
	case playbook.StateDivert:
		t.divert(st)
	case playbook.StateEnd:
		t.end(t.endingOf(st))
	default:
		panic(fmt.Sprintf("machine: state %s is a %q", name, st.Kind)) // unreachable: the loader knows all kinds
	}
}

// bounded reports why a run does not enter a state, and ends with people: its
// way back led there too often or for too long, or to a lever that it has tried.
func (t *turn) bounded(st *playbook.State, name string) (fault.Reason, string) {
	since := t.now.Sub(t.s.Began)
	switch {
	case st == nil:
		return fault.Invalid, "the playbook has no state " + name
	case t.s.Start.Loan != "" && len(t.s.Path) < MaxPath:
		return fault.None, "" // a loan is owed until it is returned
	case t.s.tried(name) != "" && !t.stepping:
		return fault.NotMet, fmt.Sprintf("%s was tried in this run, and the playbook leads there again", st.Title)
	case t.s.rounds(name, t.now) > MaxVisits:
		return fault.Deadline, fmt.Sprintf("the run would enter state %s more than %d times%s", name, MaxVisits, t.s.inVain())
	case len(t.s.Path) >= MaxPath:
		return fault.Deadline, fmt.Sprintf("the run has entered %d states, the most that it may%s", MaxPath, t.s.inVain())
	case t.s.Visits[name] > 0 && since > MaxAgain:
		return fault.Deadline, fmt.Sprintf("the run began %s ago, and enters no state again after %s%s",
			playbook.FormatDuration(since.Round(time.Second)), playbook.FormatDuration(MaxAgain), t.s.inVain())
	default:
		return fault.None, ""
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
				edge := v.Edge
				if why := t.s.Results[v.State]; strings.HasPrefix(why, edge) {
					edge = why // refused: by which guard
				}
				title += fmt.Sprintf(" (after %s: %s%s)", v.State, edge, after(t.untold))
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
	if st := t.s.current(); st != nil && st.Kind == playbook.StateGather && a == ActionCheck {
		e.With = askedWith(t.s.asked(t.now))
	} else if a == ActionCheck || a == ActionPlan {
		with, err := evalWith(t.s, t.now)
		if err != nil {
			t.expression(a, err)
			return
		}
		if why := t.s.unseenNode(with); why != "" {
			t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: fault.Invalid, Message: why})
			t.signal(playbook.OnRefused)
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
		if e.Once, err = t.s.once(t.now); err != nil {
			t.expression(a, err)
			return
		}
		if told, shared := t.told[e.Once]; e.Once != "" && shared {
			t.shared(e.Once, told)
			return
		}
		if e.Once != "" {
			e.Data = toldData(true, t.s.Start.Run)
		}
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
func (t *turn) take(to, why string, examined ...Examined) {
	t.emit(Event{Kind: EdgeTaken, State: t.s.Current, To: to, Message: why, Examined: examined})
	t.untold = choice{examined: examined}.untold()
	t.enter(to)
}

// next leaves a check or notify state by the first edge that holds.
func (t *turn) next() {
	if t.stop() || t.clear() {
		return
	}
	st := t.s.current()
	c, err := choose(t.s, st.Next, "", t.now)
	switch {
	case err != nil:
		t.emit(Event{Kind: EffectFailed, State: st.Name, Reason: fault.Expression, Message: err.Error()})
		t.failed(fault.Expression, err.Error())
	case c.edge == nil:
		t.stuck(c, "no edge of state "+st.Name+" is taken")
	default:
		t.take(c.edge.To, c.edge.Text(), c.shown(st)...)
	}
}

// stuck ends a run that no edge leads on from.
func (t *turn) stuck(c choice, msg string) {
	if untold := c.untold(); untold != "" {
		msg += ": " + untold
	}
	t.emit(Event{Kind: EffectFailed, State: t.s.Current, Reason: fault.NoData, Message: msg, Examined: c.examined})
	t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.NoData, Message: msg})
}

// shown returns the edges that were looked at, if they are worth the journal: a
// single edge without a condition is not.
func (c choice) shown(st *playbook.State) []Examined {
	if len(st.Next) == 1 && st.Next[0].When == nil {
		return nil
	}
	return c.examined
}

// signal leaves a lever by its result.
func (t *turn) signal(sig playbook.Signal) {
	if t.stop() || (sig != playbook.OnVerified && t.clear()) {
		return
	}
	st := t.s.current()
	if sig == playbook.OnRefused && t.again() {
		return
	}
	if t.nextStep(sig) {
		return
	}
	edges := st.Next
	if sig.NeedsPeople() || t.s.fate(Verdict(sig)).Tell && slices.Contains(playbook.Verdicts(), sig) {
		edges = named(edges, sig)
	}
	c, err := choose(t.s, edges, sig, t.now)
	switch e := c.edge; {
	case err != nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Expression, Message: fmt.Sprintf("lever %s is %s, and then: %v", st.Name, sig, err)})
	case e == nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: t.reason(), Message: fmt.Sprintf("%s: %s%s%s", st.Title, signalText(sig), t.s.because(), t.s.standing()) + after(c.untold())})
	default:
		t.take(e.To, edgeText(*e, sig), conditional(c.examined)...)
	}
}

// named returns the edges of a signal alone.
func named(edges []playbook.Edge, sig playbook.Signal) []playbook.Edge {
	return slices.DeleteFunc(slices.Clone(edges), func(e playbook.Edge) bool { return e.On != sig })
}

// again begins the run of a loan anew where the return is refused: what refuses
// it now, such as a cooldown or a freeze, may allow it after the next recovery. The
// end of a hold waits for no recovery: the playbook says when it is tried again.
// It reports whether it did; the length of the path bounds it.
func (t *turn) again() bool {
	l := t.s.Lever
	if t.s.Start.Loan == "" || t.s.current().Class == playbook.ClassHold || l == nil || !l.AppliedAt.IsZero() || !slices.Contains([]fault.Reason{fault.Guard, fault.Conflict, fault.Deadline}, l.Reason) {
		return false
	}
	start := t.s.Playbook.State(t.s.Playbook.Start)
	if start.Kind == playbook.StateLever || len(t.s.Path) >= MaxPath {
		return false
	}
	t.take(start.Name, "waits again: "+l.Message)
	return true
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

// because returns why the current lever ended as it did, after a colon; empty: nothing is known.
func (s State) because() string {
	if s.Lever == nil || s.Lever.Message == "" {
		return ""
	}
	return ": " + s.Lever.Message + s.stopped()
}

// stopped describes a change that was stopped and not taken back, as the end of a
// sentence; empty: the current lever's was not.
func (s State) stopped() string {
	if s.Lever == nil {
		return ""
	}
	return after(s.Lever.Stopped)
}

func edgeText(e playbook.Edge, sig playbook.Signal) string {
	if text := e.Text(); text != "" {
		return text
	}
	return string(sig)
}

// after appends a clause to a sentence.
func after(clause string) string {
	if clause == "" {
		return ""
	}
	return "; " + clause
}

// conditional returns the examined edges if one of them has more to say than
// the signal that was taken.
func conditional(examined []Examined) []Examined {
	if len(examined) == 1 && len(examined[0].Values) == 0 {
		return nil
	}
	return examined
}

// scope returns the values that the playbook's expressions read.
func (s State) scope(now time.Time) playbook.Scope {
	sc := playbook.Scope{Alert: s.Start.Alert, Alerts: s.alerts, Service: s.Start.Service, Run: s.Start.Run, Now: now}
	sc.Evidence = make(map[string]json.RawMessage, len(s.Evidence))
	for name, e := range s.Evidence {
		if e.Unknown == "" {
			sc.Evidence[name] = e.Data
			continue
		}
		if sc.Unknown == nil {
			sc.Unknown = map[string]string{}
		}
		sc.Unknown[name] = e.Unknown
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
	out, err := evalAll(st.With, s.scope(now))
	if err == nil {
		err = s.advance(out, now)
	}
	if err != nil {
		return nil, s.lacksAlert(err)
	}
	return out, nil
}

// evalAll evaluates parameters.
func evalAll(with map[string]*playbook.Value, sc playbook.Scope) (map[string]any, error) {
	out := make(map[string]any, len(with))
	for _, name := range slices.Sorted(maps.Keys(with)) {
		val, err := with[name].Eval(sc)
		if err != nil {
			return nil, fmt.Errorf("with.%s: %w", name, err)
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
