package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestAnyOrder drives runs with commands in any order and with any outcome, and
// holds what must be true of every run whatever happens to it.
func TestAnyOrder(t *testing.T) {
	set := testPlaybooks(t)
	rapid.Check(t, func(t *rapid.T) {
		d := &driver{t: t, now: epoch}
		name := rapid.SampledFrom([]string{"ladder", "ladder", "asks", "stairs", "repair", "fates", "fates", "waits", "rounds", "rounds", "steps", "steps", "numbers"}).Draw(t, "playbook")
		d.row = rapid.IntRange(0, 8).Draw(t, "class")
		level := rapid.SampledFrom([]playbook.Autonomy{playbook.Auto, playbook.Suggest, playbook.Observe}).Draw(t, "level")
		start := testStart(set, name, level)
		if name == "numbers" {
			start.Start.Service.LoadTime = 2 * time.Minute
		}
		start.Start.By = rapid.SampledFrom([]string{"", "", "user:ada", "user:cap"}).Draw(t, "asked for by")
		d.state.Playbook = start.Playbook
		d.do(start)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			d.now = d.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 15, 60, 900, 1800}).Draw(t, "seconds")) * time.Second)
			d.do(d.anything())
		}
		d.toEnd()
	})
}

// TestNothingIsMeasuredAnyMore lets the metrics of a run fall silent at any
// point, and its alert with them: that is nobody's recovery.
func TestNothingIsMeasuredAnyMore(t *testing.T) {
	set := testPlaybooks(t)
	rapid.Check(t, func(t *rapid.T) {
		d := &driver{t: t, now: epoch}
		start := testStart(set, rapid.SampledFrom([]string{"ladder", "stairs", "repair"}).Draw(t, "playbook"), playbook.Auto)
		d.state.Playbook = start.Playbook
		d.do(start)
		for _, part := range []string{"measured", "silent"} {
			d.unmeasured = part == "silent"
			for range rapid.IntRange(0, 16).Draw(t, part) {
				if d.state.Phase != PhaseEnded {
					d.goOn()
				}
			}
		}
		for _, e := range d.state.Episodes.All() {
			a := e.Alert
			a.Status = playbook.Resolved
			d.do(Command{Kind: CmdAlert, Alert: &a})
		}
		d.toEnd()
	})
}

// driver plays the world and the executor against one run.
type driver struct {
	left   map[string]bool // states that were left for good
	t      *rapid.T
	now    time.Time
	state  State
	events []Event

	guarded    bool // the guards passed over the plan there is
	inPlace    int  // changes applied, and neither kept nor undone
	blind      bool // the change taken back last was never measured, and none after it
	unmeasured bool // the world: what is not measured is never seen to help

	row int // of the playbook fates: which class of lever it takes

	ballot ballot // what people said of the plan there is
}

// do sends a command and checks everything that must hold.
func (d *driver) do(c Command) {
	c.Now = d.now
	before := inFull(d.t, d.state)
	events, err := Decide(d.state, c)
	again, errAgain := Decide(d.state, c)
	if diff := cmp.Diff(events, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		d.t.Fatalf("deciding twice gives two answers: %s", diff)
	}
	old := d.state
	for _, e := range events {
		d.check(e)
		d.state = Evolve(d.state, e)
		d.events = append(d.events, e)
		d.after(e)
		d.count(c, e)
	}
	if after := inFull(d.t, old); after != before {
		d.t.Fatalf("%s changed the state it was given:\n%s\n%s", c.Kind, before, after)
	}
	if diff := cmp.Diff(d.state, foldAgain(d.t, d.state.Playbook, d.events), ignorePlaybook()); diff != "" {
		d.t.Fatalf("the log gives another state after %s: %s", c.Kind, diff)
	}
	if d.inPlace > 1 {
		d.t.Fatalf("%d changes in place at once", d.inPlace)
	}
	if e, ok := Pending(d.state); ok && d.state.Paused != "" && e.Action == ActionApply && !e.Observe {
		d.t.Fatal("an apply is owed while paused")
	}
}

// inFull is a state in full, as text.
func inFull(t *rapid.T, s State) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func foldAgain(t *rapid.T, p *playbook.Playbook, events []Event) State {
	s := State{Playbook: p}
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		back := Event{Kind: e.Kind}
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		s = Evolve(s, back)
	}
	return s
}

// check holds the rules for an event over the state before it.
func (d *driver) check(e Event) {
	s := d.state
	switch e.Kind {
	case EffectStarted:
		if s.Open != nil {
			d.t.Fatalf("%s begins while %s is open", e.Action, s.Open.Action)
		}
		if e.Action == ActionApply && !e.Observe {
			d.checkApply(e)
		}
	case StateEntered:
		if st := s.Playbook.State(e.State); st.Kind == playbook.StateLever && d.left[e.State] && (st.Steps == nil || s.Current != e.State) {
			d.t.Fatalf("lever %s is tried again", e.State)
		} else if st.Steps != nil && s.Current == e.State {
			d.checkStep(e)
		}
	case EdgeTaken:
		if d.left == nil {
			d.left = map[string]bool{}
		}
		d.left[s.Current] = (d.left[s.Current] || !e.Again) && !e.Further
		if e.Further {
			d.checkStep(e)
		}
		if e.Again && (s.Levers > 0 && s.Lever != nil && !s.Lever.AppliedAt.IsZero() || s.InAir()) {
			d.t.Fatalf("the run looks again with a change in place: %+v", s.Lever)
		}
		unknown := slices.ContainsFunc(e.Examined, func(x Examined) bool { return x.Result == playbook.Unknown })
		if unknown && s.Playbook.State(e.To).Kind == playbook.StateLever {
			d.t.Fatalf("an edge cannot be told, and the next leads to lever %s: %+v", e.To, e.Examined)
		}
		if s.Playbook.State(s.Current).Kind == playbook.StateGate && e.To == "done" {
			d.checkGate()
		}
	case RunEnded:
		ok := []RunOutcome{OutcomeHandedOver, OutcomeUndoFailed}
		if d.inPlace > 0 && !slices.Contains(ok, e.Ending.Outcome) {
			d.t.Fatalf("the run ends %s with a change in place that is neither kept nor undone", e.Ending.Outcome)
		}
		if e.Ending.Outcome == OutcomeObserved && s.Levers > 0 {
			d.t.Fatal("observed, and applied something")
		}
		if ok := []RunOutcome{OutcomeResolved, OutcomeCleared}; d.blind && slices.Contains(ok, e.Ending.Outcome) {
			d.t.Fatalf("the run ends %s, and nothing was measured since its last change: %s", e.Ending.Outcome, e.Ending.Message)
		}
	}
}

// checkStep holds that a step follows only one that helped without a proof, or
// had no effect, and that there are no more than the playbook allows.
func (d *driver) checkStep(e Event) {
	s := d.state
	last := Verdict(s.Lever.Signal)
	_, most := s.Step()
	switch {
	case s.Visits[e.State]-s.Untried[e.State] >= most:
		d.t.Fatalf("lever %s takes %d steps", e.State, s.Visits[e.State]+1)
	case last != VerdictImproved && last != VerdictNoEffect:
		d.t.Fatalf("a step follows one that ended %q", last)
	case s.Cancel != nil || !s.Firing():
		d.t.Fatal("a step that nobody wants any more")
	}
}

func (d *driver) checkApply(e Event) {
	s := d.state
	st := s.Playbook.State(s.Current)
	level := s.Autonomy(st)
	switch {
	case !d.guarded:
		d.t.Fatal("an apply without the guards' yes to its plan")
	case s.Paused != "" || s.Cancel != nil:
		d.t.Fatal("an apply while paused or canceled")
	case level == playbook.Observe:
		d.t.Fatal("an apply at level observe")
	case e.Verify == nil:
		d.t.Fatal("an apply without a proof to come")
	}
	d.checkBallot(e.Digest, level)
	if level == playbook.Auto && (st.Approve == nil || !st.Approve.Always) && len(d.ballot.terms.Needs) == 0 {
		return
	}
	a := s.Lever.Approved
	if a == nil || !a.Approve || a.Digest != s.Lever.Plan.Digest() || d.now.After(s.Lever.GoodUntil) {
		d.t.Fatalf("an apply without a valid approval of its very plan: %+v", a)
	}
}

// checkKept holds what stays unproven to the table of consequences: never the
// change of a run that a person canceled, never what made a service worse unless
// it took faulty hardware out.
func (d *driver) checkKept(e Event) {
	class, _ := d.state.class()
	switch {
	case d.state.Cancel != nil:
		d.t.Fatal("a canceled run keeps a change that was not proven")
	case e.Verdict == VerdictWorse && class != playbook.ClassHardware:
		d.t.Fatalf("a change of class %s made the service worse, and stays", class)
	}
}

// checkGate holds a gate state that is left by a yes to what an apply is held to.
func (d *driver) checkGate() {
	level := d.state.Autonomy(d.state.Playbook.State(d.state.Current))
	switch {
	case !d.guarded:
		d.t.Fatal("a gate is left by a yes without the guards' yes to that")
	case d.state.Paused != "" || d.state.Cancel != nil:
		d.t.Fatal("a gate is left by a yes while paused or canceled")
	case level == playbook.Observe:
		d.t.Fatal("a gate is left by a yes at level observe")
	}
	d.checkBallot("", level)
}

// after keeps the books.
func (d *driver) after(e Event) {
	switch e.Kind {
	case PlanCompleted, EffectFailed, StateEntered, GateDecided:
		d.guarded = false
	case GuardsPassed:
		d.guarded = true
	case Applied:
		d.inPlace++
	case Undone, Verified, Declined, Kept:
		d.inPlace--
	case Sampled:
		d.blind = d.blind && e.Sample.Verdict == VerdictInconclusive
	case VerifyEnded:
		given := e.Reason == fault.Cleared || e.Reason == fault.Deadline || d.state.Lever.Waits != "" // up, before it was in effect
		d.blind = d.blind || e.Verdict == VerdictInconclusive && (!given || e.Then != Undo)
		if e.Then == Keep || e.Then == Lend {
			d.checkKept(e)
		}
	}
}

// anything is some command: often what the run waits for, with any outcome.
func (d *driver) anything() Command {
	t := d.t
	by := d.decision()
	switch rapid.SampledFrom([]CommandKind{
		CmdOutcome, CmdOutcome, CmdOutcome, CmdOutcome, CmdOutcome, CmdOutcome, CmdTick, CmdDecide, CmdDecide, CmdDecide, CmdReplan, CmdCancel,
		CmdResolve, CmdProceed, CmdPause, CmdUnpause, CmdResume, CmdRetry, CmdAlert,
	}).Draw(t, "command") {
	case CmdOutcome:
		if c, ok := d.outcome(d.anyOutcome); ok {
			return c
		}
		return Command{Kind: CmdOutcome, Effect: "r-1/look#1/check#9", Outcome: &Outcome{Status: StatusOK}}
	case CmdDecide:
		return Command{Kind: CmdDecide, Decision: by}
	case CmdReplan:
		return Command{Kind: CmdReplan, Decision: by}
	case CmdCancel:
		if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
			return Command{Kind: CmdTick}
		}
		return Command{Kind: CmdCancel, Decision: by}
	case CmdResolve:
		return Command{Kind: CmdResolve, Decision: by}
	case CmdProceed:
		return Command{Kind: CmdProceed, Decision: by}
	case CmdPause:
		return Command{Kind: CmdPause, Message: "why"}
	case CmdUnpause:
		return Command{Kind: CmdUnpause}
	case CmdResume:
		return Command{Kind: CmdResume}
	case CmdRetry:
		return Command{Kind: CmdRetry}
	case CmdAlert:
		a := testAlert(rapid.SampledFrom([]string{"Slow", "Slower"}).Draw(t, "alert"))
		a.Status = rapid.SampledFrom([]playbook.AlertStatus{playbook.Firing, playbook.Firing, playbook.Resolved}).Draw(t, "status")
		return Command{Kind: CmdAlert, Alert: &a}
	default:
		return Command{Kind: CmdTick}
	}
}

// outcome answers the effect that is owed, if it is due.
func (d *driver) outcome(answer func(Effect) Outcome) (Command, bool) {
	e, ok := Pending(d.state)
	if !ok {
		return Command{}, false
	}
	if e.NotUntil.After(d.now) {
		d.now = e.NotUntil
	}
	out := answer(e)
	return Command{Kind: CmdOutcome, Effect: e.Key, Attempt: e.Attempt, Outcome: &out}, true
}

func (d *driver) anyOutcome(e Effect) Outcome {
	t := d.t
	out := d.goodOutcome(e)
	if rapid.IntRange(0, 2).Draw(t, "good") > 0 {
		return out
	}
	statuses := []Status{StatusOK, StatusPending, StatusFailed, StatusRefused, StatusUnknown, StatusForeign, "nonsense"}
	out.Status = rapid.SampledFrom(statuses).Draw(t, "status")
	out.Reason = rapid.SampledFrom([]fault.Reason{
		fault.None, fault.Timeout, fault.Conflict, fault.Interrupted, fault.Panic, fault.Forbidden, fault.NothingToDo, fault.ForeignChange, fault.Denied,
	}).Draw(t, "reason")
	if len(out.Gathered) > 0 {
		i := rapid.IntRange(0, len(out.Gathered)).Draw(t, "unknown")
		if i < len(out.Gathered) {
			out.Gathered[i].Data, out.Gathered[i].Why = nil, rapid.SampledFrom([]string{"", "no answer"}).Draw(t, "why")
		} else {
			out.Gathered = out.Gathered[:rapid.IntRange(0, 1).Draw(t, "answers")]
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "odd") {
	case 0:
		out.Data, out.Plan, out.Sample, out.Guards = nil, nil, nil, nil
	case 1:
		out.Data = json.RawMessage(`{"value":`)
	case 2:
		out.Data = json.RawMessage(`{ "value" : 7, "bad": true, "note": "<&>" }`)
	}
	if out.Sample != nil {
		out.Sample.Verdict = rapid.SampledFrom([]Verdict{VerdictWatching, VerdictRecovering, VerdictInconclusive, VerdictFailed, VerdictWorse}).Draw(t, "verdict")
		out.Sample.Ends = rapid.SampledFrom([]Verdict{"", VerdictImproved, VerdictNoEffect, VerdictWorse, VerdictInconclusive}).Draw(t, "ends")
	}
	if len(out.Guards) > 0 {
		out.Guards[0].OK, out.Guards[0].Wait = false, rapid.Bool().Draw(t, "wait")
	}
	out.Waits = rapid.SampledFrom([]string{"", "pull/1"}).Draw(t, "waits")
	if out.Plan != nil {
		out.Plan.MergeWithin = rapid.SampledFrom([]time.Duration{0, time.Minute, 2 * time.Hour}).Draw(t, "merge within")
		out.Plan.Target.Generation = int64(rapid.IntRange(1, 3).Draw(t, "generation"))
		out.Plan.Staged = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "staged")
		out.Plan.Unrepeatable = rapid.Bool().Draw(t, "unrepeatable")
		out.Plan.Stops = rapid.Bool().Draw(t, "stops")
	}
	if e.Action == ActionUnwind {
		out.Next, out.Stays = rapid.Bool().Draw(t, "next"), rapid.Bool().Draw(t, "stays")
	}
	return out
}

// goodOutcome is that of a world in which everything works.
func (d *driver) goodOutcome(e Effect) Outcome {
	out := Outcome{Status: StatusOK}
	switch e.Action {
	case ActionCheck:
		for _, a := range e.Gather {
			g := Gathered{Name: a.Name, Step: a.Step, Data: json.RawMessage(`{"bad":false,"value":0}`)}
			if a.Name == "slow" {
				g.Data = json.RawMessage(fmt.Sprintf(`{"bad":true,"value":%d}`, d.row))
			}
			out.Gathered = append(out.Gathered, g)
		}
		out.Data = json.RawMessage(`{"bad":true,"value":4}`)
		if d.state.Start.Playbook == "fates" || d.state.Start.Playbook == "steps" {
			out.Data = json.RawMessage(fmt.Sprintf(`{"bad":true,"value":%d}`, d.row))
		}
	case ActionPlan:
		out.Plan = testPlan("", e.With["to"])
	case ActionGuard:
		out.Guards = []GuardVerdict{{Guard: "firing", OK: true}}
		out.Terms = d.anyTerms()
	case ActionVerify:
		out.Sample = &Sample{At: d.now, Verdict: VerdictVerified}
		if d.unmeasured {
			out.Sample.Verdict = VerdictInconclusive
		}
	}
	return out
}

// toEnd lets everything go well from here: every run must come to its end.
func (d *driver) toEnd() {
	d.do(Command{Kind: CmdUnpause})
	for range 400 {
		if d.state.Phase == PhaseEnded {
			return
		}
		d.goOn()
	}
	d.t.Fatalf("the run does not end: %s in %s", d.state.Phase, d.state.Current)
}

// goOn is the next step of a run to which all goes well.
func (d *driver) goOn() {
	if c, ok := d.outcome(d.goodOutcome); ok {
		d.do(c)
		return
	}
	if d.state.Phase == PhaseHeld {
		d.do(Command{Kind: CmdResolve, Decision: &Decision{By: "user:ada", Approve: true}})
		return
	}
	at, ok := NextWake(d.state)
	if !ok {
		d.t.Fatalf("the run stands still: %s in %s, open %+v", d.state.Phase, d.state.Current, d.state.Open)
	}
	if at.After(d.now) {
		d.now = at
	}
	d.do(Command{Kind: CmdTick})
}
