package kinds_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// as is a later run of another lever on the same node.
func (x *nodeTrial) as(kind string, with map[string]any) *nodeTrial {
	later := *x
	later.kind, later.with = kind, map[string]any{"node": "node-0"}
	for k, v := range with {
		later.with[k] = v
	}
	return &later
}

// TestKeptTaintIsTakenOff: what one run left a later one takes off, with the
// proof of node.uncordon, and puts back when it is undone.
func TestKeptTaintIsTakenOff(t *testing.T) {
	for name, c := range map[string]struct {
		taint map[string]any
		well  agentOf // when it is to be taken off
		then  func(*nodeTrial)
		proof string // of the plan; empty: it needs none
		says  string // of the refusal
		why   fault.Reason
	}{
		"well":                       {well: func(*gpu.GPU) {}, proof: "its GPUs are healthy for 11m by nvml"},
		"a key of the playbook's":    {taint: map[string]any{"key": "responder.dev/diagnosis", "value": "x"}, well: func(*gpu.GPU) {}, proof: "its GPUs are healthy"},
		"not well":                   {well: xid(95), says: "node.untaint: node node-0 is not proven healthy: its GPUs: failing: GPU 1: XID 95", why: fault.NotMet},
		"not well, but mild":         {taint: map[string]any{"effect": "PreferNoSchedule"}, well: xid(95)},
		"not for long enough":        {well: func(g *gpu.GPU) { g.Minutes = g.Minutes[len(g.Minutes)-2:] }, says: "healthy for 2m, wanted are 5m", why: fault.NotMet},
		"another put it there":       {well: func(*gpu.GPU) {}, then: retaint("responder.dev/out", "PreferNoSchedule"), says: "has the taint responder.dev/out:PreferNoSchedule, and no mark (responder.dev/tainted) records that Responder put it there", why: fault.Owned},
		"another took it off":        {well: func(*gpu.GPU) {}, then: retaint("", ""), says: "has no taint of Responder's", why: fault.NothingToDo},
		"only one of others is left": {well: func(*gpu.GPU) {}, then: retaint("dedicated", "NoSchedule"), says: "has no taint of Responder's", why: fault.NothingToDo},
		"a neighbour has the node": {well: func(*gpu.GPU) {}, then: func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) {
				m["labels"].(map[string]any)["dgxc.nvidia.com/nvsentinel-state"] = "quarantined"
			})
		}, says: "belongs to NVSentinel", why: fault.Owned},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "node.taint", c.taint)
			x.boots(bootA)
			x.deps.GPUs = agentOf(func(*gpu.GPU) {})
			x.applied(t)
			x.deps.GPUs = c.well
			if c.then != nil {
				c.then(x)
			}
			before, off := x.Spec(kubetest.NodePath("node-0")), x.as("node.untaint", nil)
			o := off.do(t, machine.ActionPlan, nil, "")
			if c.says != "" {
				if o.Reason != c.why || !strings.Contains(o.Message, c.says) {
					t.Errorf("plan: %s %s %s, want %s %q", o.Status, o.Reason, o.Message, c.why, c.says)
				}
				return
			}
			if o.Status != machine.StatusOK || !strings.Contains(strings.Join(o.Plan.Notes, "; "), c.proof) || c.proof == "" && strings.Contains(strings.Join(o.Plan.Notes, "; "), "its GPUs") {
				t.Fatalf("plan: %s %s %+v, want the proof %q", o.Status, o.Message, o.Plan, c.proof)
			}
			if a := off.do(t, machine.ActionApply, o.Plan, ""); a.Status != machine.StatusOK {
				t.Fatalf("apply: %s %s", a.Status, a.Message)
			}
			if spec := x.Spec(kubetest.NodePath("node-0")); strings.Contains(spec, "taints") || x.annotation(t, "responder.dev/tainted") != "" || x.annotation(t, whenOut) != "" {
				t.Errorf("the node is left %s, marked %q and %q", spec, x.annotation(t, "responder.dev/tainted"), x.annotation(t, whenOut))
			}
			if again := off.do(t, machine.ActionPlan, nil, ""); again.Reason != fault.NothingToDo {
				t.Errorf("a second time: %s %s", again.Status, again.Message)
			}
			if u := off.do(t, machine.ActionUndo, o.Plan, ""); u.Status != machine.StatusOK || x.Spec(kubetest.NodePath("node-0")) != before || x.annotation(t, "responder.dev/tainted") == "" {
				t.Errorf("undo: %s %s, the node is %s", u.Status, u.Message, x.Spec(kubetest.NodePath("node-0")))
			}
		})
	}
}

// retaint replaces the taints of node-0 by one, or none.
func retaint(key, effect string) func(*nodeTrial) {
	return func(x *nodeTrial) {
		x.Edit(kubetest.NodePath("node-0"), func(spec map[string]any) {
			if delete(spec, "taints"); key != "" {
				spec["taints"] = []any{map[string]any{"key": key, "effect": effect}}
			}
		})
	}
}

// TestCordonedAndTainted: a node that is out twice comes back when both are
// lifted, and what its GPUs needed is kept till then.
func TestCordonedAndTainted(t *testing.T) {
	x := newNodeTrial(t, "node.cordon", nil)
	x.boots(bootA)
	x.deps.GPUs = xid(95)
	x.applied(t)
	x.as("node.taint", nil).applied(t)
	x.now = x.now.Add(time.Hour)
	x.deps.GPUs = later{agentOf: func(*gpu.GPU) {}, allDay: true}
	if o := x.as("node.untaint", nil).do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NotMet || !strings.Contains(o.Message, "it was not rebooted since") {
		t.Fatalf("untaint before the reset: %s %s", o.Reason, o.Message)
	}
	x.boots(bootB)
	plan := x.as("node.uncordon", nil).applied(t)
	if notes := strings.Join(plan.Notes, "; "); !strings.Contains(notes, "its taint responder.dev/out:NoSchedule still keeps pods away until node.untaint removes it") {
		t.Errorf("notes: %s", notes)
	}
	if x.annotation(t, whenOut) == "" {
		t.Error("what its GPUs needed is forgotten, and the node is still out")
	}
	x.as("node.untaint", nil).applied(t)
	if spec := x.Spec(kubetest.NodePath("node-0")); strings.Contains(spec, "taints") || strings.Contains(spec, "unschedulable") || x.annotation(t, whenOut) != "" {
		t.Errorf("the node is left %s, kept is %q", spec, x.annotation(t, whenOut))
	}
}
