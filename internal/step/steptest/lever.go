// Package steptest holds the conformance test that every world of a lever
// passes: the cluster, the sandbox, the fakes of unit tests.
//
// Only tests import it.
package steptest

import (
	"fmt"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// World is one workload on which a lever can act, ready and settled.
type World struct {
	Service playbook.Service // its workload, with bounds that allow the change
	Deps    step.Deps
	Spec    func(t testing.TB) string // what the lever changes as it is stored, for comparison
	Settle  func(t testing.TB)        // waits until the controllers are done
	Meddle  func(t testing.TB)        // someone else changes what the lever changes

	// Finds reports that a write which was made already is found and answered, not
	// refused; and that someone else's change since the plan is told from others.
	Finds bool

	// Makes reports that the change makes an object, which has no UID before.
	Makes bool
}

// TestLever holds a kind of lever with these parameters to the contract of
// [step.Lever]: fresh makes a world like the one before, for each subtest.
func TestLever(t *testing.T, kind string, with map[string]any, fresh func(t *testing.T) World) {
	tests := []struct {
		name string
		run  func(*testing.T, *trial)
	}{
		{"PlanChangesNothing", planChangesNothing},
		{"UndoPutsBackExactly", undoPutsBackExactly},
		{"ApplyTwiceIsOnce", applyTwiceIsOnce},
		{"StalePlanIsAConflict", stalePlanIsAConflict},
		{"ForeignChangeIsSeen", foreignChangeIsSeen},
		{"LostAnswerIsFound", lostAnswerIsFound},
		{"LostRequestIsFound", lostRequestIsFound},
		{"LostUndoIsFound", lostUndoIsFound},
		{"ThrottledIsTriedAgain", func(t *testing.T, x *trial) { refusedIsTriedAgain(t, x, fault.Throttled) }},
		{"ConflictIsTriedAgain", func(t *testing.T, x *trial) { refusedIsTriedAgain(t, x, fault.Conflict) }},
		{"ArrivesAfterTheLook", arrivesAfterTheLook},
		{"ArrivesAfterTheRetry", arrivesAfterTheRetry},
		{"AnotherRunsChangeIsForeign", anotherRunsChangeIsForeign},
		{"UndoOfNothing", undoOfNothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := fresh(t)
			f := &flaky{Changer: w.Deps.Changer, Commits: w.Deps.Commits, Applications: w.Deps.Applications}
			if w.Deps.Changer != nil {
				w.Deps.Changer = f
			}
			if w.Deps.NodeChanger != nil {
				f.NodeChanger, w.Deps.NodeChanger = w.Deps.NodeChanger, f
			}
			if w.Deps.Routes != nil {
				f.Routes, w.Deps.Routes = w.Deps.Routes, f
			}
			if w.Deps.Jobs != nil {
				f.Jobs, w.Deps.Jobs = w.Deps.Jobs, f
			}
			if w.Deps.Scalers != nil {
				f.Autoscalers, w.Deps.Scalers = w.Deps.Scalers, f
			}
			switch {
			case w.Deps.Commits != nil && !w.Finds:
				w.Deps.Applications = f // a lever on an application commits nothing
			case w.Deps.Commits != nil:
				w.Deps.Commits = f
			}
			tt.run(t, &trial{World: w, writer: f, kind: kind, with: with, run: "r-1", set: kinds.New(w.Deps)})
		})
	}
}

// trial drives one lever the way the executor does: through effects.
type trial struct {
	World
	set    *step.Set
	writer *flaky
	kind   string
	with   map[string]any
	run    string

	attempt int // of the next action; 0 stands for 1
}

// wantAgain is the answer to a second write of the same.
func (x *trial) wantAgain(t *testing.T, what string, o machine.Outcome) {
	t.Helper()
	if x.Finds {
		want(t, what, o, machine.StatusOK, "")
		return
	}
	// Unknown, because the change is there: looking will tell that it is ours.
	want(t, what, o, machine.StatusUnknown, fault.Conflict)
}

func (x *trial) do(t *testing.T, a machine.Action, plan *machine.Plan, receipt []byte, observe bool) machine.Outcome {
	t.Helper()
	return x.set.Do(t.Context(), machine.Effect{
		Key: fmt.Sprintf("%s/fix#1/%s#%d", x.run, a, max(x.attempt, 1)), Run: x.run, State: "fix", Action: a, Step: x.kind, With: x.with,
		Service: x.Service, Plan: plan, Receipt: receipt, Observe: observe, Attempt: max(x.attempt, 1),
	})
}

// want fails unless an outcome has the status and, where given, the reason.
func want(t *testing.T, what string, o machine.Outcome, status machine.Status, reason fault.Reason) {
	t.Helper()
	if o.Status != status || o.Reason != reason {
		t.Fatalf("%s: %s %q (%s), want %s %q", what, o.Status, o.Reason, o.Message, status, reason)
	}
}

func (x *trial) plan(t *testing.T) *machine.Plan {
	t.Helper()
	o := x.do(t, machine.ActionPlan, nil, nil, false)
	want(t, "plan", o, machine.StatusOK, "")
	return o.Plan
}

func (x *trial) apply(t *testing.T, plan *machine.Plan) []byte {
	t.Helper()
	o := x.do(t, machine.ActionApply, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	return o.Data
}

// settled waits until a change has taken effect; one that is made step by step
// takes a step each time that it is asked.
func (x *trial) settled(t *testing.T, plan *machine.Plan, receipt []byte) {
	t.Helper()
	o := x.do(t, machine.ActionSettle, plan, receipt, false)
	for range 10 {
		if o.Status != machine.StatusPending {
			break
		}
		x.Settle(t)
		o = x.do(t, machine.ActionSettle, plan, receipt, false)
	}
	want(t, "settle", o, machine.StatusOK, "")
}

// same fails unless the spec is as it was.
func (x *trial) same(t *testing.T, what, was string) {
	t.Helper()
	if now := x.Spec(t); now != was {
		t.Errorf("%s: the spec is\n%s\nwant\n%s", what, now, was)
	}
}

func planChangesNothing(t *testing.T, x *trial) {
	before := x.Spec(t)
	first, second := x.plan(t), x.plan(t)
	x.same(t, "after planning", before)
	if first.Digest() != second.Digest() {
		t.Errorf("two plans of one world differ: an approval would be void at once\n%+v\n%+v", first, second)
	}
	if len(first.Diff) == 0 || first.Summary == "" || first.Undo == "" || len(first.Locks) == 0 || first.Why == "" || first.Target.UID == "" && !x.Makes {
		t.Errorf("a person cannot decide on %+v", first)
	}
	if x.writer.writes > 0 {
		t.Errorf("planning wrote %d times", x.writer.writes)
	}
}

func undoPutsBackExactly(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.plan(t)
	receipt := x.apply(t, plan)
	if x.Spec(t) == before {
		t.Fatal("apply changed nothing")
	}
	x.Settle(t)
	x.settled(t, plan, receipt)
	undone := x.do(t, machine.ActionUndo, plan, receipt, false)
	want(t, "undo", undone, machine.StatusOK, "")
	x.same(t, "after the undo", before)
	x.Settle(t)
	want(t, "unwind", x.do(t, machine.ActionUnwind, plan, undone.Data, false), machine.StatusOK, "")
	// The machine may still hold the receipt of the apply.
	want(t, "unwind with the first receipt", x.do(t, machine.ActionUnwind, plan, receipt, false), machine.StatusOK, "")
	if x.writer.writes != 2 {
		t.Errorf("%d writes, want one to apply and one to undo", x.writer.writes)
	}
}

func applyTwiceIsOnce(t *testing.T, x *trial) {
	plan := x.plan(t)
	x.apply(t, plan)
	once := x.Spec(t)
	x.wantAgain(t, "second apply", x.do(t, machine.ActionApply, plan, nil, false))
	x.same(t, "after the second apply", once)
	want(t, "look", x.do(t, machine.ActionApply, plan, nil, true), machine.StatusOK, "")
}

func stalePlanIsAConflict(t *testing.T, x *trial) {
	plan := x.plan(t)
	x.Meddle(t)
	meddled := x.Spec(t)
	status, reason := machine.StatusFailed, fault.Conflict
	if x.Finds {
		status, reason = machine.StatusForeign, fault.ForeignChange
	}
	want(t, "apply of a stale plan", x.do(t, machine.ActionApply, plan, nil, false), status, reason)
	x.same(t, "after it", meddled)
}

func foreignChangeIsSeen(t *testing.T, x *trial) {
	plan := x.plan(t)
	receipt := x.apply(t, plan)
	x.Settle(t)
	x.Meddle(t)
	x.Settle(t)
	meddled := x.Spec(t)
	want(t, "settle", x.do(t, machine.ActionSettle, plan, receipt, false), machine.StatusForeign, fault.ForeignChange)
	want(t, "undo", x.do(t, machine.ActionUndo, plan, receipt, false), machine.StatusForeign, fault.ForeignChange)
	x.same(t, "after the undo that must not be", meddled)
}

func lostAnswerIsFound(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.plan(t)
	x.writer.lose = after
	want(t, "apply", x.do(t, machine.ActionApply, plan, nil, false), machine.StatusUnknown, fault.Unreachable)
	seen := x.do(t, machine.ActionApply, plan, nil, true)
	want(t, "look", seen, machine.StatusOK, "")
	x.Settle(t)
	if x.Finds {
		// Others carry the change out, and settling asks them again.
		x.do(t, machine.ActionSettle, plan, seen.Data, false)
		x.Settle(t)
	}
	x.settled(t, plan, seen.Data)
	want(t, "settle without a receipt", x.do(t, machine.ActionSettle, plan, nil, false), machine.StatusOK, "")
	want(t, "undo without a receipt", x.do(t, machine.ActionUndo, plan, nil, false), machine.StatusOK, "")
	x.same(t, "after the undo", before)
}

func lostRequestIsFound(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.plan(t)
	x.writer.lose = instead
	want(t, "apply", x.do(t, machine.ActionApply, plan, nil, false), machine.StatusUnknown, fault.Unreachable)
	want(t, "look", x.do(t, machine.ActionApply, plan, nil, true), machine.StatusFailed, fault.Interrupted)
	x.same(t, "after the lost request", before)
	x.apply(t, plan)
}

// refusedIsTriedAgain: while the other side asks to slow down, or says that somebody was
// first although nobody was, nothing is changed and the outcome is known, so that the run
// tries again; then the change is made once.
func refusedIsTriedAgain(t *testing.T, x *trial, reason fault.Reason) {
	if x.Makes && reason == fault.Conflict {
		return // an object of that name is there, maybe ours
	}
	before := x.Spec(t)
	plan := x.plan(t)
	x.writer.storm, x.writer.refuses = 3, reason
	for x.writer.storm > 0 {
		want(t, "apply", x.do(t, machine.ActionApply, plan, nil, false), machine.StatusFailed, reason)
		x.same(t, "after a refused apply", before)
		x.attempt = max(x.attempt, 1) + 1
	}
	receipt := x.apply(t, plan)
	x.Settle(t)
	x.settled(t, plan, receipt)
	changed := x.Spec(t)
	x.writer.storm, x.attempt = 3, 1
	for x.writer.storm > 0 {
		o := x.do(t, machine.ActionUndo, plan, receipt, false)
		if x.Spec(t) == changed && changed == before {
			return // it is taken back by itself, and the undo writes nothing
		}
		want(t, "undo", o, machine.StatusFailed, reason)
		x.same(t, "after a refused undo", changed)
		x.attempt++
	}
	want(t, "undo", x.do(t, machine.ActionUndo, plan, receipt, false), machine.StatusOK, "")
	x.same(t, "after the undo", before)
	if x.writer.writes != 2 {
		t.Errorf("%d writes, want one to apply and one to undo", x.writer.writes)
	}
}

// delayed plans and applies a change whose request is on its way while the look
// finds nothing.
func (x *trial) delayed(t *testing.T) *machine.Plan {
	t.Helper()
	before := x.Spec(t)
	plan := x.plan(t)
	x.writer.lose = late
	want(t, "apply", x.do(t, machine.ActionApply, plan, nil, false), machine.StatusUnknown, fault.Unreachable)
	want(t, "look", x.do(t, machine.ActionApply, plan, nil, true), machine.StatusFailed, fault.Interrupted)
	x.same(t, "before it arrives", before)
	x.attempt = 2
	return plan
}

// arrivesAfterTheLook: the first request arrives between the look that did not
// find it and the retry.
func arrivesAfterTheLook(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.delayed(t)
	if err := x.writer.arrive(); err != nil {
		t.Fatalf("the request that was on its way: %v", err)
	}
	once := x.Spec(t)
	if once == before {
		t.Fatal("the request that was on its way changed nothing")
	}
	x.wantAgain(t, "the retry", x.do(t, machine.ActionApply, plan, nil, false))
	x.same(t, "after the retry", once)
	want(t, "look", x.do(t, machine.ActionApply, plan, nil, true), machine.StatusOK, "")
	if x.writer.writes != 1 && !x.Finds {
		t.Errorf("%d writes got through, want 1", x.writer.writes)
	}
}

// arrivesAfterTheRetry: it arrives when the retry has made the change already.
func arrivesAfterTheRetry(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.delayed(t)
	receipt := x.apply(t, plan)
	once := x.Spec(t)
	_ = x.writer.arrive() // refused, or answered by what is there
	x.same(t, "after the late request", once)
	x.Settle(t)
	x.settled(t, plan, receipt)
	want(t, "undo", x.do(t, machine.ActionUndo, plan, receipt, false), machine.StatusOK, "")
	x.same(t, "after the undo", before)
	if x.Deps.Commits != nil && !x.Finds {
		return // Argo CD takes syncs without a precondition: one that comes after the undo cannot be told from a new one
	}
	x.Settle(t)
	_ = x.writer.arrive()
	x.same(t, "after it arrived once more", before)
}

func lostUndoIsFound(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.plan(t)
	receipt := x.apply(t, plan)
	x.Settle(t)
	want(t, "look for an undo that was not made", x.do(t, machine.ActionUndo, plan, receipt, true), machine.StatusFailed, fault.Interrupted)
	x.writer.lose = after
	want(t, "undo", x.do(t, machine.ActionUndo, plan, receipt, false), machine.StatusUnknown, fault.Unreachable)
	want(t, "look at once", x.do(t, machine.ActionUndo, plan, receipt, true), machine.StatusOK, "")
	x.Settle(t)
	want(t, "look", x.do(t, machine.ActionUndo, plan, receipt, true), machine.StatusOK, "")
	x.wantAgain(t, "second undo", x.do(t, machine.ActionUndo, plan, receipt, false))
	x.same(t, "after the undo", before)
}

func anotherRunsChangeIsForeign(t *testing.T, x *trial) {
	plan := x.plan(t)
	x.apply(t, plan)
	x.Settle(t)
	x.run = "r-2"
	want(t, "look by another run", x.do(t, machine.ActionApply, plan, nil, true), machine.StatusForeign, fault.ForeignChange)
}

func undoOfNothing(t *testing.T, x *trial) {
	before := x.Spec(t)
	plan := x.plan(t)
	want(t, "undo of what was never applied", x.do(t, machine.ActionUndo, plan, nil, false), machine.StatusRefused, fault.NothingToDo)
	x.same(t, "after it", before)
}
