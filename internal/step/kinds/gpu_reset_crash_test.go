package kinds_test

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
)

const (
	resetLabel  = "responder.dev/gpu-reset"
	resetTicket = "responder.dev/gpu-reset-ticket"
)

// unwritable refuses every change of a node, once it is told to.
type unwritable struct {
	step.NodeChanger
	now bool
}

func (u *unwritable) ChangeNode(ctx context.Context, c kube.NodeChange) (kube.NodeState, error) {
	if u.now {
		return kube.NodeState{}, &fault.Error{Reason: fault.Unreachable, Message: "the API server is away"}
	}
	return u.NodeChanger.ChangeNode(ctx, c)
}

// killed applies a plan in a process that ends when the receiver has the request.
func (x *nodeTrial) killed(t *testing.T, d *repairServer, plan *machine.Plan) {
	t.Helper()
	x.deps.Repairs = between{d, func() { panic("the process ends") }}
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusUnknown {
		t.Fatalf("apply: %s %s", o.Status, o.Message)
	}
	x.deps.Repairs = d
}

// TestResetKilledAfterTheYes: the node says that it is asked for, a person's word
// suffices to go on, and what was asked for can be withdrawn.
func TestResetKilledAfterTheYes(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	x.killed(t, d, plan)
	if n := x.node(t); n.Labels[resetLabel] != "asking" || n.Annotations["responder.dev/gpu-reset-requested"] != "asking for GPU GPU-8f6d: a row could not be remapped" {
		t.Fatalf("the node has %v %v", n.Labels, n.Annotations)
	}
	if o := x.again(t, machine.ActionApply, plan, nil, true); o.Status != machine.StatusFailed || o.Reason != fault.Interrupted ||
		strings.Contains(o.Message, "did not happen") || !strings.Contains(o.Message, resetLabel+"=asking") {
		t.Errorf("looked: %s %s %s", o.Status, o.Reason, o.Message)
	}
	// A person says that it was applied: there is no receipt.
	if o := x.again(t, machine.ActionSettle, plan, nil, false); o.Status != machine.StatusOK {
		t.Errorf("settle: %s %s", o.Status, o.Message)
	}
	if o := x.again(t, machine.ActionUndo, plan, nil, true); o.Reason != fault.Interrupted {
		t.Errorf("looked for an undo that was not made: %s %s %s", o.Status, o.Reason, o.Message)
	}
	u := x.again(t, machine.ActionUndo, plan, nil, false)
	if u.Status != machine.StatusOK || d.last.Withdraw != "r-1/fix#1/request" {
		t.Fatalf("undo: %s %s, asked %+v", u.Status, u.Message, d.last)
	}
	if o := x.again(t, machine.ActionUnwind, plan, u.Data, false); o.Status != machine.StatusOK || x.node(t).Labels[resetLabel] != "" {
		t.Errorf("unwind: %s %s, labels %v", o.Status, o.Message, x.node(t).Labels)
	}
}

// TestResetThatCannotBeLabelledAnew: it was asked for, whatever the node says.
func TestResetThatCannotBeLabelledAnew(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	w := &unwritable{NodeChanger: x.deps.NodeChanger}
	x.deps.NodeChanger, x.deps.Repairs = w, between{d, func() { w.now = true }}
	o := x.again(t, machine.ActionApply, plan, nil, false)
	if o.Status != machine.StatusOK || x.node(t).Labels[resetLabel] != "asking" {
		t.Fatalf("apply: %s %s, labels %v", o.Status, o.Message, x.node(t).Labels)
	}
	if s := x.again(t, machine.ActionSettle, plan, o.Data, false); s.Status != machine.StatusOK || !strings.Contains(s.Message, "asked for as OPS-1") || !strings.Contains(s.Message, "still "+resetLabel+"=asking") {
		t.Errorf("settle: %s %s", s.Status, s.Message)
	}
	w.now, x.deps.Repairs = false, d
	if u := x.again(t, machine.ActionUndo, plan, o.Data, false); u.Status != machine.StatusOK || d.last.Ticket != "OPS-1" || x.node(t).Labels[resetLabel] != "" {
		t.Errorf("undo: %s %s, asked %+v", u.Status, u.Message, d.last)
	}
}

// deaf loses the answer to the first change of a node.
type deaf struct {
	step.NodeChanger
	heard bool
}

func (d *deaf) ChangeNode(ctx context.Context, c kube.NodeChange) (kube.NodeState, error) {
	n, err := d.NodeChanger.ChangeNode(ctx, c)
	if err == nil && !c.DryRun && !d.heard {
		d.heard = true
		return kube.NodeState{}, &fault.Error{Reason: fault.Timeout, Message: "no answer", Unknown: true}
	}
	return n, err
}

// TestResetWhoseLabelIsNotAnswered: a label that is there, as it turns out, is no
// reason to ask people; one that its receiver refuses then leaves nothing.
func TestResetWhoseLabelIsNotAnswered(t *testing.T) {
	for _, refused := range []bool{false, true} {
		d := &repairServer{}
		x := resetTrial(t, d, nil)
		plan, want, label := x.plan(t), machine.StatusOK, "requested"
		if refused {
			d.fail, want, label = []error{&fault.Error{Reason: fault.Invalid, Message: "422"}}, machine.StatusFailed, ""
		}
		x.deps.NodeChanger = &deaf{NodeChanger: x.deps.NodeChanger}
		if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != want || x.node(t).Labels[resetLabel] != label {
			t.Errorf("apply: %s %s, labels %v", o.Status, o.Message, x.node(t).Labels)
		}
	}
}

// TestResetRefusedLeavesNothing: the node is as it was before, so that the same
// plan may be tried again.
func TestResetRefusedLeavesNothing(t *testing.T) {
	no := &fault.Error{Reason: fault.Unreachable, Message: "503"}
	d := &repairServer{fail: []error{no, no}}
	x := resetTrial(t, d, nil)
	x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		n["metadata"].(map[string]any)["annotations"] = map[string]any{resetTicket: "OLD-9", kube.MarkReset: "r-0/fix#1/apply#1 2026-05-04T11:30:00Z"}
	})
	was := x.node(t).Stamp()
	plan := x.plan(t)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusFailed || x.node(t).Stamp() != was {
		t.Errorf("apply: %s %s, the node has %v %v", o.Status, o.Message, x.node(t).Labels, x.node(t).Annotations)
	}
	if o := x.again(t, machine.ActionApply, plan, nil, true); o.Reason != fault.Interrupted || !strings.Contains(o.Message, "did not happen") {
		t.Errorf("looked: %s %s %s", o.Status, o.Reason, o.Message)
	}
	w := &unwritable{NodeChanger: x.deps.NodeChanger}
	x.deps.NodeChanger, x.deps.Repairs = w, between{d, func() { w.now = true }}
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusUnknown || !strings.Contains(o.Message, "could not be removed") {
		t.Errorf("apply whose label stays: %s %s", o.Status, o.Message)
	}
}

// TestResetSentAgain: an answer that is lost is not found by one that is refused
// for now; one that is refused for good is.
func TestResetSentAgain(t *testing.T) {
	d := &repairServer{once: true}
	x := resetTrial(t, d, nil)
	x.killed(t, d, x.plan(t))
	d.fail = []error{&fault.Error{Reason: fault.Unreachable, Message: "503"}, &fault.Error{Reason: fault.Invalid, Message: "422"}}
	plan := x.plan(t)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusFailed || x.node(t).Labels[resetLabel] != "asking" {
		t.Errorf("refused for now: %s %s, labels %v", o.Status, o.Message, x.node(t).Labels)
	}
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusFailed || x.node(t).Labels[resetLabel] != "" || x.node(t).Annotations[kube.MarkReset] != "" {
		t.Errorf("refused for good: %s %s, the node has %v %v", o.Status, o.Message, x.node(t).Labels, x.node(t).Annotations)
	}
	// Another receiver, which is not known to take a key once, is not asked twice.
	x.killed(t, d, x.plan(t))
	d.once = false
	if o := x.do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NothingToDo {
		t.Errorf("plan: %s %s %s", o.Status, o.Reason, o.Message)
	}
}

// TestResetTakenUpAtOnce: a label that somebody changed while the receiver
// answered is theirs.
func TestResetTakenUpAtOnce(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	x.deps.Repairs = between{d, func() {
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
			n["metadata"].(map[string]any)["labels"].(map[string]any)[resetLabel] = "in-progress"
		})
	}}
	o := x.again(t, machine.ActionApply, plan, nil, false)
	if o.Status != machine.StatusOK || x.node(t).Labels[resetLabel] != "in-progress" {
		t.Fatalf("apply: %s %s, labels %v", o.Status, o.Message, x.node(t).Labels)
	}
	if s := x.again(t, machine.ActionSettle, plan, o.Data, false); s.Status != machine.StatusOK || !strings.Contains(s.Message, "was taken up") {
		t.Errorf("settle: %s %s", s.Status, s.Message)
	}
}

// TestResetOfAnEarlierVersion: what left nothing on the node ends with the
// ticket's name, and is nobody else's change.
func TestResetOfAnEarlierVersion(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	plan.Payload = []byte(`{"via":"webhook","gpu":"GPU-8f6d","reason":"a row could not be remapped"}`)
	receipt := []byte(`{"action":"apply","uid":"uid-15","generation":0,"ticket":"OPS-7"}`)
	for _, a := range []machine.Action{machine.ActionSettle, machine.ActionUndo, machine.ActionUnwind, machine.ActionVerify} {
		if o := x.again(t, a, plan, receipt, false); o.Status != machine.StatusFailed || o.Reason.Retryable() || !strings.Contains(o.Message, "earlier version") ||
			!strings.Contains(o.Message, "withdraw ticket OPS-7 by hand at https://tickets.example") {
			t.Errorf("%s: %s %s %s", a, o.Status, o.Reason, o.Message)
		}
	}
	if o := x.again(t, machine.ActionApply, plan, nil, true); o.Status != machine.StatusUnknown || !strings.Contains(o.Message, "withdraw what was asked for by hand") {
		t.Errorf("looked: %s %s", o.Status, o.Message)
	}
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Reason != fault.Conflict || len(d.keys) > 0 {
		t.Errorf("apply: %s %s %s after requests %v", o.Status, o.Reason, o.Message, d.keys)
	}
}
