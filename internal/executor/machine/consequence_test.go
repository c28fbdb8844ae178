package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestFates drives a run of each class of lever to each verdict, and holds what
// becomes of the change to the table of consequences, written here a second time.
func TestFates(t *testing.T) {
	const people, goesOn = "escalated", "further"
	rows := []struct {
		name  string
		value int // of the check that leads to the lever
		cells [5]string
	}{
		//                        verified         improved           no_effect          worse          inconclusive
		{"setting", 0, [5]string{"keep resolved", "keep " + goesOn, "undo " + goesOn, "undo " + goesOn, "undo " + people}},
		{"setting that restarts", 1, [5]string{"keep resolved", "keep " + goesOn, "loan " + goesOn, "undo " + goesOn, "loan " + people}},
		{"capacity", 2, [5]string{"loan resolved", "loan " + goesOn, "loan " + goesOn, "undo " + goesOn, "loan " + people}},
		{"return", 3, [5]string{"keep resolved", "keep " + goesOn, "undo " + people, "undo " + people, "undo " + people}},
		{"rollback", 4, [5]string{"keep resolved", "keep " + goesOn, "ask/keep " + goesOn, "undo " + goesOn, "keep " + people}},
		{"hardware", 5, [5]string{"keep resolved", "keep " + goesOn, "keep " + goesOn, "keep " + people, "keep " + people}},
		{"repaired", 6, [5]string{"keep resolved", "keep " + goesOn, "keep " + goesOn, "undo " + goesOn, "keep " + people}},
		{"traffic", 7, [5]string{"loan resolved", "loan " + goesOn, "ask/undo " + goesOn, "undo " + goesOn, "ask/undo " + people}},
		{"hold", 8, [5]string{"loan resolved", "loan " + goesOn, "loan " + goesOn, "loan " + people, "loan " + people}},
	}
	for _, row := range rows {
		for i, sig := range playbook.Verdicts() {
			t.Run(row.name+"/"+string(sig), func(t *testing.T) {
				then, leads, _ := strings.Cut(row.cells[i], " ")
				b := bench{t: t, state: State{Playbook: testPlaybooks(t).ByName("fates")}, now: epoch, value: row.value}
				b.to(Verdict(sig))
				b.follow(then)
				at := b.state.Current
				if b.state.Ending != nil {
					at = string(b.state.Ending.Outcome)
				}
				if at != leads {
					t.Errorf("leads to %s, want %s", at, leads)
				}
				if early := len(b.state.Loans) > 0 && b.state.Loans[0].Early; early != (row.name == "hold") {
					t.Errorf("its return is watched for from now on: %v", early)
				}
				if got, want := len(b.state.Loans) > 0, then == "loan"; got != want {
					t.Errorf("a loan: %v, want %v", got, want)
				}
				if len(b.state.Loans) > 0 && (b.state.Loans[0].Step == "" || b.state.Loans[0].Back["to"] != 1.0) {
					t.Errorf("the loan does not say how it is given back: %+v", b.state.Loans[0])
				}
			})
		}
	}
}

// bench drives one run of the playbook fates.
type bench struct {
	t     *testing.T
	state State
	now   time.Time
	value int
	then  Consequence // of the last VerifyEnded, or of Verified
	asked bool

	rehold *Rehold // of the lever's plan
}

func (b *bench) do(c Command) {
	b.t.Helper()
	c.Now = b.now
	events, err := Decide(b.state, c)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range events {
		b.state = Evolve(b.state, e)
		switch {
		case e.Kind == VerifyEnded:
			b.then = e.Then
		case e.Kind == Verified && e.Loan != nil:
			b.then = Lend
		case e.Kind == Verified:
			b.then = Keep
		case e.Kind == GateOpened && e.Gate.Undo:
			b.asked = true
		}
	}
}

// answer carries out the effect that is owed.
func (b *bench) answer(out Outcome) {
	b.t.Helper()
	e, ok := Pending(b.state)
	if !ok {
		b.t.Fatalf("nothing is owed: %s in %s", b.state.Phase, b.state.Current)
	}
	if e.NotUntil.After(b.now) {
		b.now = e.NotUntil
	}
	b.do(Command{Kind: CmdOutcome, Effect: e.Key, Attempt: e.Attempt, Outcome: &out})
}

// to brings the run to the end of its lever's proof.
func (b *bench) to(v Verdict) {
	b.t.Helper()
	start := testStart(testPlaybooks(b.t), "fates", playbook.Auto)
	start.Playbook = b.state.Playbook
	b.do(start)
	b.answer(Outcome{Status: StatusOK, Data: []byte(`{"bad":true,"value":` + string(rune('0'+b.value)) + `}`)})
	plan := testPlan("", 2)
	plan.Back, plan.Rehold = map[string]any{"to": 1}, b.rehold
	b.answer(Outcome{Status: StatusOK, Plan: plan})
	b.answer(Outcome{Status: StatusOK, Guards: []GuardVerdict{{Guard: "firing", OK: true}}})
	b.answer(Outcome{Status: StatusOK})
	b.answer(Outcome{Status: StatusOK})
	s := &Sample{At: b.now, Verdict: VerdictFailed, Ends: v}
	if v == VerdictVerified || v == VerdictWorse {
		s.Verdict, s.Ends = v, ""
	}
	b.answer(Outcome{Status: StatusOK, Sample: s})
}

// follow carries out what becomes of the change, and checks that it is that.
func (b *bench) follow(want string) {
	b.t.Helper()
	want, unanswered, asks := strings.Cut(want, "/")
	if string(b.then) != want || b.asked != asks {
		b.t.Fatalf("%s follows (asked: %v), want %s", b.then, b.asked, want)
	}
	undone := want == "undo"
	if asks {
		if !b.state.InAir() || len(b.state.Locks()) == 0 {
			b.t.Fatal("the locks of a change that people are asked about are free")
		}
		b.now = b.state.Gate.Deadline
		b.do(Command{Kind: CmdTick})
		undone = unanswered == "undo"
	}
	if owed, _ := Pending(b.state); (owed.Action == ActionUndo) != undone {
		b.t.Fatalf("%s is owed, undone should be %v", owed.Action, undone)
	}
	if undone {
		b.answer(Outcome{Status: StatusOK})
		b.answer(Outcome{Status: StatusOK})
	}
	if b.state.InAir() {
		b.t.Fatalf("still in the air: %s", b.state.Phase)
	}
	if e, ok := Pending(b.state); ok && e.Action == ActionNotify {
		b.answer(Outcome{Status: StatusOK})
	}
}

// TestLateApprovalUndoesNothing: an approval of a plan, sent again after the
// change had no effect, is no answer to whether it is taken back.
func TestLateApprovalUndoesNothing(t *testing.T) {
	b := bench{t: t, state: State{Playbook: testPlaybooks(t).ByName("fates")}, now: epoch, value: 4}
	b.to(VerdictNoEffect)
	plan := b.state.Lever.Plan.Digest()
	late := Command{Kind: CmdDecide, Now: b.now, Decision: &Decision{By: "user:ada", Approve: true, Digest: plan}}
	if _, err := Decide(b.state, late); !errors.Is(err, ErrStale) {
		t.Errorf("the late approval: %v, want %v", err, ErrStale)
	}
	late.Decision = &Decision{By: "user:ada", Approve: true, Digest: b.state.Gate.Digest}
	if _, err := Decide(b.state, late); err != nil {
		t.Errorf("an approval of the undo: %v", err)
	}
}

// TestHoldEndRefused: what refuses the return of a loan is tried again after the next
// recovery. What refuses the end of a hold is the playbook's: it tells people, and waits.
func TestHoldEndRefused(t *testing.T) {
	for value, again := range map[int]bool{2: true, 8: false} { // capacity, hold
		b := bench{t: t, state: State{Playbook: testPlaybooks(t).ByName("fates")}, now: epoch}
		start := testStart(testPlaybooks(t), "fates", playbook.Auto)
		start.Playbook, start.Start.Loan = b.state.Playbook, "r-0/hold#1"
		b.do(start)
		b.answer(Outcome{Status: StatusOK, Data: []byte(`{"bad":true,"value":` + string(rune('0'+value)) + `}`)})
		b.answer(Outcome{Status: StatusRefused, Reason: fault.Guard, Message: "a right is missing"})
		if got := b.state.Current == "look" && b.state.Visits["look"] == 2; got != again {
			t.Errorf("value %d: the run is in %s, %d visits of look", value, b.state.Current, b.state.Visits["look"])
		}
	}
}

// TestHeldAgain: the undo of a change that ended a hold begins it again. Whatever run that
// is, it owes the hold from then on, and says so.
func TestHeldAgain(t *testing.T) {
	b := bench{t: t, state: State{Playbook: testPlaybooks(t).ByName("fates")}, now: epoch, value: 0}
	b.rehold = &Rehold{Step: "test.stop", Summary: "hold the rollout of revision 3 again", Back: map[string]any{"to": 1}}
	b.to(VerdictNoEffect)
	if len(b.state.Loans) > 0 {
		t.Fatalf("a hold before it is begun: %+v", b.state.Loans)
	}
	b.answer(Outcome{Status: StatusOK})
	want := Loan{ID: "r-1/turn#1", State: "turn", Step: "test.stop", Summary: b.rehold.Summary, Back: map[string]any{"to": 1.0}, Since: b.now, Early: true}
	if diff := cmp.Diff([]Loan{want}, b.state.Loans); diff != "" {
		t.Error(diff)
	}
	b.answer(Outcome{Status: StatusOK})
	b.do(Command{Kind: CmdCancel, Decision: &Decision{By: "user:ada", Reason: "by hand"}})
	if e := b.state.Ending; e == nil || !strings.Contains(e.Message, "hold the rollout of revision 3 again: that lasts until another release replaces it") {
		t.Errorf("%+v", e)
	}
}

// TestHeldAgainByNothing: an undo that finds nothing to undo begins no hold.
func TestHeldAgainByNothing(t *testing.T) {
	b := bench{t: t, state: State{Playbook: testPlaybooks(t).ByName("fates")}, now: epoch, rehold: &Rehold{Step: "test.stop", Summary: "hold it again"}}
	b.to(VerdictNoEffect)
	b.answer(Outcome{Status: StatusRefused, Reason: fault.NothingToDo})
	if len(b.state.Loans) > 0 || b.state.Phase != PhaseUnwinding {
		t.Errorf("%s, loans %+v", b.state.Phase, b.state.Loans)
	}
}
