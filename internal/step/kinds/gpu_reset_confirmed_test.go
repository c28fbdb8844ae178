package kinds_test

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// confirmed carries out an action after the operator confirmed that nothing is requested.
func (x *nodeTrial) confirmed(t *testing.T, a machine.Action, plan *machine.Plan, observe bool) machine.Outcome {
	t.Helper()
	return kinds.New(x.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/fix#1/" + string(a) + "#1", Run: "r-1", State: "fix", Action: a, Step: x.kind, With: x.with,
		Service: service("Deployment"), Plan: plan, Attempt: 1, Observe: observe, OperatorConfirmed: true,
	})
}

// TestResetByTheWordOfPeople: who says that a request was not made, or that it is
// taken back, has its label taken off, and nobody is asked about it; another
// request can be made then. What somebody has taken up stays theirs.
func TestResetByTheWordOfPeople(t *testing.T) {
	label := func(value string) func(*nodeTrial) {
		return func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) {
				if m["labels"].(map[string]any)[resetLabel] = value; value == "" {
					delete(m["labels"].(map[string]any), resetLabel)
				}
			})
		}
	}
	lost := &fault.Error{Reason: fault.Timeout, Message: "no answer", Unknown: true}
	asks := func(t *testing.T, x *nodeTrial, d *repairServer) *machine.Plan {
		plan := x.plan(t)
		x.killed(t, d, plan)
		return plan
	}
	for name, c := range map[string]struct {
		held    func(*testing.T, *nodeTrial, *repairServer) *machine.Plan
		world   func(*nodeTrial)
		foreign bool
	}{
		"killed after it was sent": {held: asks},
		"its label is away":        {held: asks, world: label("")},
		"taken up":                 {held: asks, world: label("in-progress"), foreign: true},
		"of another run by now": {held: asks, world: func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) {
				m["annotations"].(map[string]any)[kube.MarkReset] = "r-9/ask#1/apply#1 2026-05-04T12:00:00Z"
				m["annotations"].(map[string]any)["responder.dev/gpu-reset-requested"] = "theirs"
			})
			label("")(x)
		}},
		"never labelled": {held: func(t *testing.T, x *nodeTrial, _ *repairServer) *machine.Plan { return x.plan(t) }},
		"made anew":      {held: asks, world: func(x *nodeTrial) { x.Delete(kubetest.NodePath("node-0")); x.Node(t, "node-0", 8, nil) }},
		"by label": {held: func(t *testing.T, x *nodeTrial, _ *repairServer) *machine.Plan {
			x.with["via"] = "label"
			return x.applied(t)
		}},
		"the withdrawal is not answered": {held: func(t *testing.T, x *nodeTrial, d *repairServer) *machine.Plan {
			plan := x.plan(t)
			applied := x.again(t, machine.ActionApply, plan, nil, false)
			d.fail = []error{lost}
			if o := x.again(t, machine.ActionUndo, plan, applied.Data, false); o.Status != machine.StatusUnknown {
				t.Fatalf("undo: %s %s", o.Status, o.Message)
			}
			return plan
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &repairServer{}
			x := resetTrial(t, d, nil)
			plan := c.held(t, x, d)
			if c.world != nil {
				c.world(x)
			}
			asked := len(d.keys)
			o := x.confirmed(t, machine.ActionUndo, plan, false)
			if c.foreign {
				if o.Reason != fault.ForeignChange || x.node(t).Labels[resetLabel] != "in-progress" {
					t.Errorf("undo: %s %s %s, labels %v", o.Status, o.Reason, o.Message, x.node(t).Labels)
				}
				return
			}
			if o.Status != machine.StatusOK || !strings.Contains(o.Message, "operator confirmed") || len(d.keys) != asked {
				t.Fatalf("undo: %s %s %s after requests %v", o.Status, o.Reason, o.Message, d.keys)
			}
			n := x.node(t)
			if n.Labels[resetLabel] != "" || strings.Contains(n.Annotations["responder.dev/gpu-reset-requested"], "GPU") {
				t.Errorf("the node has %v %v", n.Labels, n.Annotations)
			}
			for _, look := range []machine.Outcome{x.confirmed(t, machine.ActionUndo, plan, true), x.confirmed(t, machine.ActionUnwind, plan, false)} {
				if look.Status != machine.StatusOK {
					t.Errorf("looked: %s %s %s", look.Status, look.Reason, look.Message)
				}
			}
			x.plan(t) // another one
		})
	}
}

// TestResetByTheWordOfPeopleTriedAgain: what cannot be taken off is still there, and
// is seen to be.
func TestResetByTheWordOfPeopleTriedAgain(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	x.killed(t, d, plan)
	w := &unwritable{NodeChanger: x.deps.NodeChanger, now: true}
	x.deps.NodeChanger = w
	if o := x.confirmed(t, machine.ActionUndo, plan, false); o.Status != machine.StatusFailed || o.Reason != fault.Unreachable {
		t.Errorf("undo: %s %s %s", o.Status, o.Reason, o.Message)
	}
	if o := x.confirmed(t, machine.ActionUndo, plan, true); o.Status != machine.StatusFailed || o.Reason != fault.Interrupted || !strings.Contains(o.Message, "still says that a reset is asked for") {
		t.Errorf("looked: %s %s %s", o.Status, o.Reason, o.Message)
	}
	w.now = false
	x.deps.NodeChanger = meddled{w, func() {
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) { n["spec"].(map[string]any)["unschedulable"] = true })
	}}
	if o := x.confirmed(t, machine.ActionUndo, plan, false); o.Status != machine.StatusOK || x.node(t).Labels[resetLabel] != "" {
		t.Errorf("undo: %s %s %s", o.Status, o.Reason, o.Message)
	}
}

// meddled lets something happen to the node before each write of it.
type meddled struct {
	*unwritable
	then func()
}

func (m meddled) ChangeNode(ctx context.Context, c kube.NodeChange) (kube.NodeState, error) {
	m.then()
	return m.unwritable.ChangeNode(ctx, c)
}
