package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Decide turns a command into the events it causes. It is pure: the same state
// and command return the same events. If it returns an error with events, the
// events are still facts (a decision was ignored) and must be journaled.
//
// Every command but CmdStart needs a state with its Playbook set.
func Decide(s State, c Command) ([]Event, error) {
	if c.Now.IsZero() {
		return nil, fmt.Errorf("%w: %s without a time", ErrInvalid, c.Kind)
	}
	t := &turn{s: s, now: c.Now.UTC().Round(0), noDivert: c.NoDivert, told: c.Told}
	err := t.command(c)
	return t.events, err
}

// turn is one call of Decide: the state after the events so far.
type turn struct {
	s      State
	now    time.Time
	events []Event

	noDivert string
	told     map[string]Telling
	untold   string // what could not be told when the run left its last state
	stepping bool   // the next step of a lever is entered
}

// emit records an event and folds it at once, so that the next decision of the
// same turn sees it.
func (t *turn) emit(e Event) {
	e.At = t.now
	t.s = Evolve(t.s, e)
	t.events = append(t.events, e)
}

func (t *turn) command(c Command) error {
	if c.Kind == CmdStart {
		return t.start(c)
	}
	if t.s.Phase == "" || t.s.Playbook == nil {
		return fmt.Errorf("%w: %s: the run has not started", ErrInvalid, c.Kind)
	}
	if c.Refused != "" && c.Decision != nil {
		t.ignore(c.Decision, c.Refused)
		return fmt.Errorf("%w: %s", ErrNotAllowed, c.Refused)
	}
	switch c.Kind {
	case CmdTick:
		t.tick()
	case CmdOutcome:
		return t.outcome(c)
	case CmdAlert:
		return t.alert(c)
	case CmdDecide:
		return t.decide(c)
	case CmdReplan:
		return t.replan(c)
	case CmdCancel:
		return t.cancel(c)
	case CmdResolve:
		return t.resolve(c)
	case CmdProceed:
		return t.proceed(c)
	case CmdPause:
		t.pause(c.Message)
	case CmdUnpause:
		t.unpause()
	case CmdResume:
		t.resume()
	case CmdRetry:
		if t.s.Phase == PhaseWaiting && t.s.Paused == "" {
			t.open(ActionGuard)
		}
	default:
		return fmt.Errorf("%w: unknown command %q", ErrInvalid, c.Kind)
	}
	return nil
}

func (t *turn) start(c Command) error {
	switch {
	case t.s.Phase != "":
		return fmt.Errorf("%w: run %s has already started", ErrInvalid, t.s.Start.Run)
	case c.Start == nil || c.Playbook == nil || c.Start.Run == "":
		return fmt.Errorf("%w: start needs a run, a playbook and an alert", ErrInvalid)
	case c.Start.Digest != c.Playbook.Digest:
		return fmt.Errorf("%w: run %s starts with playbook digest %s, but the playbook has %s", ErrInvalid, c.Start.Run, c.Start.Digest, c.Playbook.Digest)
	}
	t.s.Playbook = c.Playbook
	t.emit(Event{Kind: RunStarted, Start: c.Start})
	t.enter(c.Playbook.Start)
	return nil
}

// tick handles what changes with time alone.
func (t *turn) tick() {
	switch {
	case t.s.Phase == PhaseDeciding && !t.now.Before(t.s.Gate.Deadline):
		t.expire()
	case t.s.Phase == PhaseDeciding:
		t.remind()
	case t.s.Phase == PhaseWatching && t.s.Open == nil && t.s.Paused == "" && !t.now.Before(t.s.Waiting.Until):
		t.next()
	case t.s.Phase == PhaseWaiting && !t.now.Before(t.s.Consent().WaitUntil):
		why := t.s.waitedFor()
		if t.s.Paused != "" {
			why += ", paused: " + t.s.Paused
		}
		t.emit(Event{Kind: GuardsRefused, State: t.s.Current, Guards: t.s.Consent().Guards, Reason: fault.Deadline, Message: why})
		t.refused(why, fault.Deadline)
	case t.s.Phase == PhaseWaiting && t.s.Paused == "" && !t.s.Wake.IsZero() && !t.now.Before(t.s.Wake):
		t.open(ActionGuard)
	}
}

// pause stops what has not begun. An apply that waits for another attempt is
// planned again when the pause is lifted.
func (t *turn) pause(why string) {
	if t.s.Phase == PhaseEnded || t.s.Paused == why || why == "" {
		return
	}
	t.emit(Event{Kind: PauseSeen, Message: why})
	if t.withdraw(fault.Guard, "paused: "+why) {
		t.open(ActionPlan)
	}
}

func (t *turn) unpause() {
	if t.s.Phase == PhaseEnded || t.s.Paused == "" {
		return
	}
	t.emit(Event{Kind: PauseLifted})
	switch t.s.Phase {
	case PhaseWaiting:
		t.open(ActionGuard)
	case PhaseWatching:
		t.tick() // its time may have passed meanwhile
	}
}

// resume is the first command after a restart. The process may have died
// between a change and its outcome, so an open change is observed before
// anything else is done. Reads are repeated.
func (t *turn) resume() {
	o := t.s.Open
	if o == nil || !o.Action.Mutates() || o.Observe {
		return
	}
	t.emit(Event{Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Reason: fault.Interrupted, Message: "restarted between intent and outcome"})
	t.look(*o)
}

// look starts the observation of a change with an unknown outcome.
func (t *turn) look(o OpenEffect) {
	t.emit(Event{
		Kind: EffectStarted, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt + 1, Observe: true,
		NotUntil: t.now.Add(lookAfter), With: o.With,
	})
}

// alert records a change of an alert.
func (t *turn) alert(c Command) error {
	if c.Alert == nil {
		return fmt.Errorf("%w: an alert command without an alert", ErrInvalid)
	}
	if t.s.Phase == PhaseEnded {
		return nil
	}
	if c.Truncated && !t.s.Truncated {
		t.emit(Event{Kind: AlertsTruncated, Alert: c.Alert})
	}
	known := t.s.Episodes.Get(c.Alert.Episode())
	ok := known != nil
	firing := c.Alert.Status == playbook.Firing
	switch {
	case !ok && firing && t.s.Full():
		if !t.s.Truncated { // how much is affected is unknown from here on
			t.emit(Event{Kind: AlertsTruncated, Alert: c.Alert})
		}
	case !ok && firing:
		before := t.s
		t.emit(Event{Kind: EpisodeJoined, Alert: c.Alert})
		t.overtaken(before, *c.Alert)
	case ok && firing && !known.Firing:
		t.emit(Event{Kind: EpisodeRefired, Alert: c.Alert})
	case ok && !firing && known.Firing:
		t.emit(Event{Kind: EpisodeResolved, Alert: c.Alert})
		switch {
		case t.s.Wanted(t.s.current()):
		case t.s.Phase == PhaseSettling && t.s.Lever.Waits != "":
			t.unmerged()
		default:
			t.withdraw(fault.Cleared, "the alert resolved")
		}
		t.clear()
	}
	return nil
}

// clear ends a run when none of its alerts fires: open gates and unstarted
// levers are withdrawn. A change is proven or undone first. After a verified
// lever the playbook continues to its end without further changes; it only asks
// for repairs. clear reports whether the run ended.
func (t *turn) clear() bool {
	s := t.s
	if s.Firing() || s.Phase == PhaseEnded || s.Closing != nil || s.InAir() {
		return s.Phase == PhaseEnded
	}
	if s.Kept > 0 && s.Lever == nil && s.Gate == nil || s.Wanted(s.current()) {
		return false
	}
	if s.Gate != nil {
		t.emit(Event{Kind: GateWithdrawn, Reason: fault.Cleared, Message: "the alert resolved"})
	}
	e := Ending{Outcome: OutcomeCleared, Reason: fault.Cleared, Message: "the alert resolved before anything was changed"}
	switch {
	case s.Unproven != "": // whatever an earlier lever did: it was proven before, not after
		// An alert also resolves when nothing is measured any more. That is no
		// recovery, and here a change was just made.
		undone := ""
		if s.Stays == 0 {
			undone = " and was undone"
		}
		e = Ending{
			Outcome: OutcomeEscalated, Reason: s.Unproven,
			Message: "the alert resolved, but nothing shows that the service recovered: the change could not be proven" + undone + s.standing(),
		}
	case s.Kept > 0 && s.KeptFrom.IsZero():
		short := ""
		if s.NotMet != "" {
			short = " (last proof: " + s.NotMet + ")"
		}
		e = Ending{
			Outcome: OutcomeEscalated, Reason: fault.NotMet,
			Message: "the alert resolved, but the service was not proven to meet its objectives: a change improved it, and not enough" + short + s.standing(),
		}
	case s.Kept > 0:
		e.Outcome, e.Message = OutcomeResolved, "a lever helped and the alert resolved"
	case s.Stays > 0, s.stopped() != "":
		e.Message = "the alert resolved" + s.stopped() + s.standing()
	case s.Levers > 0:
		e.Message = "the alert resolved; the change had been undone"
	}
	t.end(e)
	return true
}

// cancel stops the run: at once if no change is in progress, else when the
// change has been undone or is known not to have happened.
func (t *turn) cancel(c Command) error {
	switch {
	case c.Decision == nil || c.Decision.By == "":
		return fmt.Errorf("%w: missing the person who cancels", ErrInvalid)
	case t.s.Phase == PhaseEnded:
		return fmt.Errorf("cancel %s: %w %s", t.s.Start.Run, ErrEnded, t.s.Ending.Outcome)
	case t.s.Cancel != nil || t.s.Closing != nil:
		return nil // it is already ending
	}
	t.emit(Event{Kind: CancelRequested, Decision: c.Decision})
	switch t.s.Phase {
	case PhaseSettling, PhaseVerifying:
		t.abandon(fault.Canceled, "canceled by "+c.Decision.By)
	case PhaseDeciding:
		if g := t.s.Gate; g.Undo {
			t.emit(Event{Kind: GateWithdrawn, Reason: fault.Canceled, Message: "canceled by " + c.Decision.By})
			t.answered(g.Unanswered, "canceled by "+c.Decision.By)
			return nil
		}
		t.stop()
	default:
		t.withdraw(fault.Canceled, "canceled by "+c.Decision.By)
		t.stop()
	}
	return nil
}

// standing describes the changes that stay when the run ends, as the end of a
// sentence; empty: none.
func (s State) standing() string { return s.staying() + s.holding() }

// holding describes the holds of the run, which last longer than it.
func (s State) holding() string {
	text := ""
	for _, l := range s.Loans {
		if l.Early {
			text += "; " + l.Summary + ": that lasts until another release replaces it (responder loans list)"
		}
	}
	return text
}

func (s State) staying() string {
	n := s.Kept + s.Stays
	switch {
	case n == 0:
		return ""
	case s.Kept == 1 && n == 1:
		return "; the change that helped stays"
	case n == 1:
		return "; the change stays, without a proof that it helped"
	case s.Stays == 0:
		return fmt.Sprintf("; %d changes that helped stay", n)
	default:
		return fmt.Sprintf("; %d changes stay, %d of them without a proof that they helped", n, s.Stays)
	}
}

// stop ends a canceled run as soon as no change is in progress. It reports
// whether the run ended.
func (t *turn) stop() bool {
	if t.s.Cancel == nil || t.s.Closing != nil || t.s.InAir() || t.s.Phase == PhaseEnded {
		return t.s.Phase == PhaseEnded
	}
	if t.s.Gate != nil {
		t.emit(Event{Kind: GateWithdrawn, Reason: fault.Canceled, Message: "canceled by " + t.s.Cancel.By})
	}
	msg := "canceled by " + t.s.Cancel.By
	if t.s.Cancel.Reason != "" {
		msg += ": " + t.s.Cancel.Reason
	}
	if t.s.Start.Loan != "" {
		msg += fmt.Sprintf("; what it would have given back stays (%s)", t.s.Start.Reason)
	}
	msg += t.s.stopped() + t.s.standing()
	t.end(Ending{Outcome: OutcomeCanceled, Reason: fault.Canceled, Message: msg})
	return true
}

// resolve records a person's statement about a change with an unknown outcome.
func (t *turn) resolve(c Command) error {
	switch {
	case c.Decision == nil || c.Decision.By == "":
		return fmt.Errorf("%w: missing the person who resolves", ErrInvalid)
	case t.s.Phase == PhaseEnded:
		return fmt.Errorf("resolve %s: %w %s", t.s.Start.Run, ErrEnded, t.s.Ending.Outcome)
	case t.s.Phase != PhaseHeld:
		return fmt.Errorf("resolve %s: %w: it is %s", t.s.Start.Run, ErrNotHeld, t.s.Phase)
	}
	held := *t.s.Held
	t.emit(Event{Kind: HoldResolved, State: t.s.Current, Effect: held.Effect, Action: held.Action, Decision: c.Decision})
	switch {
	case held.Action == ActionApply && c.Decision.Approve:
		t.applied(Outcome{})
	case held.Action == ActionApply:
		t.emit(Event{Kind: PlanRefused, State: t.s.Current, Reason: fault.Interrupted, Message: c.Decision.By + " says it was not applied"})
		if t.s.Lever.OperatorConfirmed {
			t.open(ActionUndo)
			return nil
		}
		t.signal(playbook.OnRefused)
	case c.Decision.Approve && t.s.Lever.OperatorConfirmed:
		t.open(ActionUndo)
	case c.Decision.Approve:
		t.undone(Outcome{})
	default:
		t.open(ActionUndo)
	}
	return nil
}

// end ends the run, after notifying people if they have to take over.
func (t *turn) end(e Ending) {
	switch e.Outcome {
	case OutcomeResolved, OutcomeNoAction, OutcomeObserved, OutcomeDiverted:
		t.release(&e)
		t.emit(Event{Kind: RunEnded, Ending: &e})
	case OutcomeEscalated, OutcomeHandedOver, OutcomeUndoFailed:
		if names := t.s.joined(); len(names) > 0 {
			e.Message += "; also firing: " + strings.Join(names, ", ")
		}
		if o := t.s.Open; o != nil { // its outcome no longer matters
			t.emit(Event{Kind: EffectFailed, State: t.s.Current, Effect: o.Key, Action: o.Action, Attempt: o.Attempt, Reason: e.Reason, Message: "given up: the run ends"})
		}
		t.emit(Event{
			Kind: EffectStarted, State: t.s.Current, Effect: t.key(ActionNotify), Action: ActionNotify, Attempt: 1,
			Ending: &e, Message: fmt.Sprintf("run %s ends %s: %s", t.s.Start.Run, e.Outcome, e.Message) + t.s.lastFound(),
		})
	default:
		t.emit(Event{Kind: RunEnded, Ending: &e})
	}
}

// release lets the alerts go that the run has not dealt with: those that began
// after its fix, and those that another playbook matches. The run that takes over
// has the latter, and may let them go in its turn.
func (t *turn) release(e *Ending) {
	after, others, first := 0, 0, ""
	if t.s.Start.DivertedFrom == "" {
		first = t.s.Start.Alert.Episode()
	}
	for id, ep := range t.s.Episodes.All() {
		switch {
		case !ep.Firing:
			continue
		case e.Outcome == OutcomeResolved && !t.s.KeptFrom.IsZero() && ep.Alert.StartsAt.After(t.s.KeptFrom):
			after++
		case id != first && !t.s.Playbook.Matches(ep.Alert):
			others++
		default:
			continue
		}
		e.Released = append(e.Released, id)
	}
	slices.Sort(e.Released)
	if e.Outcome == OutcomeDiverted {
		return
	}
	if after > 0 {
		e.Message += fmt.Sprintf("; %d alerts began after the fix and may start a run of their own", after)
	}
	if others > 0 {
		e.Message += fmt.Sprintf("; %d alerts of other playbooks still fire and may start a run of their own", others)
	}
}

// joined returns the names of the alerts that joined the run and fire, save the
// one that it began with.
func (s State) joined() []string {
	var names []string
	for _, ep := range s.Episodes.All() {
		if name := ep.Alert.Labels["alertname"]; ep.Firing && name != "" && name != s.Start.Alert.Labels["alertname"] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
