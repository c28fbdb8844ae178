package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// lookAgain leads the run back to the start of its playbook, because what it found
// there is overtaken: by another run, or by an alert that joined. What it was about
// to do counts as not tried, and an open question is withdrawn.
func (t *turn) lookAgain(why string) {
	if o := t.s.Open; o != nil { // a read, or the guards: its outcome no longer matters
		t.emit(Event{Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Reason: fault.Stale, Message: "given up: " + why})
	}
	switch {
	case t.s.Gate != nil:
		t.emit(Event{Kind: GateWithdrawn, State: t.s.Current, Reason: fault.Stale, Message: why})
	case t.s.Consent().Approved != nil:
		t.emit(Event{Kind: GateVoided, State: t.s.Current, Reason: fault.Stale, Message: why})
	}
	t.emit(Event{Kind: EdgeTaken, State: t.s.Current, To: t.s.Playbook.Start, Message: why, Again: true})
	t.untold = ""
	t.enter(t.s.Playbook.Start)
}

// askAgain counts refused levers as not tried. A lever has just been verified, and may have
// removed what they were refused for, such as a release of which no pod starts. It ends:
// each lever is verified at most once.
func (s State) askAgain() State {
	untried := maps.Clone(s.Untried)
	if untried == nil {
		untried = map[string]int{}
	}
	for name, refused := range s.Refused {
		if refused {
			untried[name] = s.Visits[name]
		}
	}
	s.Untried, s.Refused = untried, nil
	return s
}

// mostAlerts bounds the variable alerts.
const mostAlerts = 100

// alerts returns the run's alerts that fire, oldest first; when none does, the one
// that started it.
func (s State) alerts() []playbook.Alert {
	var out []playbook.Alert
	for _, ep := range s.Episodes.All() {
		if ep.Firing {
			out = append(out, ep.Alert)
		}
	}
	slices.SortFunc(out, func(a, b playbook.Alert) int {
		return cmp.Or(a.StartsAt.Compare(b.StartsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	if len(out) == 0 {
		return []playbook.Alert{s.Start.Alert}
	}
	return out[:min(len(out), mostAlerts)]
}

// overtaken has the run look again when an alert joined that its evidence was not
// gathered for: one that another playbook matches, the first of its name, or one that
// changes what a check was asked. It does so while nothing was changed and no more
// than a few times: the run has to come to an end. One that a person started goes its
// way.
func (t *turn) overtaken(before State, a playbook.Alert) {
	s, start := t.s, t.s.Playbook.Start
	if s.Levers > 0 || s.Start.ByHand() || s.Cancel != nil || s.Closing != nil || s.Episodes.Len() > mostAlerts {
		return
	}
	why := a.Labels["alertname"] + " joined: looks again"
	switch s.Phase {
	case PhaseChecking:
		if asked := s.askedIn(s.current(), t.now); asked != nil && !same(asked, s.Open.With) {
			t.emit(Event{Kind: EffectFailed, State: s.Current, Effect: s.Open.Key, Action: ActionCheck, Attempt: s.Open.Attempt, Reason: fault.Stale, Message: why})
			t.open(ActionCheck)
		}
		if s.Current == start {
			return
		}
	case PhasePlanning, PhaseGuarding, PhaseWaiting, PhaseDeciding, PhaseWatching:
	default:
		return
	}
	news := !s.Playbook.Matches(a) && len(s.Evidence) > 0 && !before.knows(a.Labels["alertname"]) || s.asksOtherwise(before, t.now)
	if _, no := t.bounded(s.Playbook.State(start), start); !news || no != "" || s.Visits[start] >= MaxVisits/2 {
		return
	}
	t.lookAgain(why)
}

// movedOn handles a lever that was planned, and is refused when it is planned once
// more, because its target is no longer what the evidence saw: somebody released, or
// has repaired it. The evidence is gathered anew, and a lever that still fits is asked
// about anew. It does so no more than a few times. It reports whether it did.
func (t *turn) movedOn(o OpenEffect, out Outcome) bool {
	s, start := t.s, t.s.Playbook.Start
	step, _ := s.Step()
	if step > 1 && s.current().Steps.Via == "" {
		return false
	}
	if out.Reason != fault.Conflict || s.Lever == nil || s.Lever.Plan == nil || s.Start.Loan != "" || s.Cancel != nil || !s.Firing() {
		return false
	}
	if _, no := t.bounded(s.Playbook.State(start), start); no != "" || s.Visits[start] >= MaxVisits/2 {
		return false
	}
	t.retried(o, out, false)
	t.lookAgain(out.Message)
	return true
}

// knows reports whether the run has an alert of that name.
func (s State) knows(name string) bool {
	for _, ep := range s.Episodes.All() {
		if ep.Alert.Labels["alertname"] == name {
			return true
		}
	}
	return false
}

// asksOtherwise reports whether a check that the run has completed would be asked
// something else now.
func (s State) asksOtherwise(before State, now time.Time) bool {
	seen := map[string]bool{s.Current: s.Phase == PhaseChecking}
	for _, v := range s.Path {
		if st := s.Playbook.State(v.State); !seen[v.State] && st != nil {
			seen[v.State] = true
			if !same(s.askedIn(st, now), before.askedIn(st, now)) {
				return true
			}
		}
	}
	return false
}

// askedIn returns the parameters of a check or gather state as they are journaled;
// nil: it has none, or they cannot be told.
func (s State) askedIn(st *playbook.State, now time.Time) map[string]any {
	s.Current = st.Name
	switch st.Kind {
	case playbook.StateGather:
		return askedWith(s.asked(now))
	case playbook.StateCheck:
		with, err := evalWith(s, now)
		if err != nil {
			return nil
		}
		return plainMap(with)
	default:
		return nil
	}
}

// outdated returns why a run that has waited looks again before it acts; empty: it
// does not. Its plan and evidence are of the time before the wait. The guards of a
// run that goes on waiting are asked on.
func (t *turn) outdated(out Outcome) string {
	c := t.s.Consent()
	if c.WaitFrom.IsZero() {
		return ""
	}
	was, is := inTheWay(c.Guards), inTheWay(out.Guards)
	switch {
	case was.Again && !is.Again:
		return fmt.Sprintf("run %s no longer acts on the service: looks again", was.Run)
	case staleOnly(out.Guards) && !slices.ContainsFunc(out.Guards, waiting):
		return "the evidence is from before the wait: looks again"
	default:
		return ""
	}
}

// lookAfter records what the guards answered, and looks again.
func (t *turn) lookAfter(out Outcome, why string, wait bool, again string) {
	e := Event{Kind: GuardsPassed, State: t.s.Current, Guards: out.Guards, Terms: out.Terms}
	switch {
	case wait:
		e.Kind, e.Message = GuardsWaiting, why
	case why != "":
		e.Kind, e.Reason, e.Message = GuardsRefused, fault.Guard, why
	}
	t.emit(e)
	if t.stop() || t.clear() {
		return
	}
	t.lookAgain(again)
}

// waitsOn reports whether a run goes on waiting although its evidence has become
// too old meanwhile.
func (s State) waitsOn(guards []GuardVerdict) bool {
	return !s.Consent().WaitFrom.IsZero() && staleOnly(guards) && slices.ContainsFunc(guards, waiting)
}

func waiting(g GuardVerdict) bool { return !g.OK && g.Wait }

// staleOnly reports whether the age of the evidence is all that refuses for good.
func staleOnly(guards []GuardVerdict) bool {
	stale := false
	for _, g := range guards {
		if g.OK || g.Wait {
			continue
		}
		if g.Guard != "evidence" {
			return false
		}
		stale = true
	}
	return stale
}

// inTheWay returns the verdict that names the run which another one waits for, one
// that acts on the same service first; the zero value: there is none.
func inTheWay(guards []GuardVerdict) GuardVerdict {
	var found GuardVerdict
	for _, g := range guards {
		if waiting(g) && g.Run != "" && (found.Run == "" || g.Again && !found.Again) {
			found = g
		}
	}
	return found
}

// WaitsFor returns the run that this one waits for, and whether that acts on the
// same service; empty: it waits for none.
func (s State) WaitsFor() (run string, same bool) {
	if s.Phase != PhaseWaiting {
		return "", false
	}
	g := inTheWay(s.Consent().Guards)
	return g.Run, g.Again
}

// Queues reports whether the run stands in line for what other runs hold, and not
// only for a time to pass.
func (s State) Queues() bool {
	guards := s.Consent().Guards
	return s.Phase == PhaseWaiting && s.Paused == "" && (len(guards) == 0 || over(guards).IsZero())
}

// over returns when all that a run waits for is over by itself; zero: not all is.
func over(guards []GuardVerdict) time.Time {
	var at time.Time
	for _, g := range guards {
		switch {
		case !waiting(g):
		case g.Until.IsZero():
			return time.Time{}
		case g.Until.After(at):
			at = g.Until
		}
	}
	return at
}

// waitsUntil returns the end of a wait. One for another run lasts as long as this
// run may look again.
func (s State) waitsUntil(from time.Time, guards []GuardVerdict) time.Time {
	until := from.Add(WaitWithin)
	if last := s.Began.Add(MaxAgain); inTheWay(guards).Run != "" && last.After(until) {
		return last
	}
	return until
}

// waitedFor describes a wait that has lasted too long.
func (s State) waitedFor() string {
	c := s.Consent()
	why := "waited for " + c.WaitUntil.Sub(c.WaitFrom).String()
	if g := inTheWay(c.Guards); g.Run != "" {
		why = "waited for " + playbook.FormatDuration(c.WaitUntil.Sub(c.WaitFrom).Round(time.Second)) + ": " + g.Why
	}
	return why
}
