package kinds_test

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// claims are what neighbours write on a node that they take, with Responder's
// own cordon left as it is.
func claims() map[string]func(*nodeTrial) {
	label := func(key, value string) func(*nodeTrial) {
		return func(x *nodeTrial) {
			x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
				n["metadata"].(map[string]any)["labels"].(map[string]any)[key] = value
			})
		}
	}
	return map[string]func(*nodeTrial){
		"NVSentinel":   label("dgxc.nvidia.com/nvsentinel-state", "quarantined"),
		"GPU operator": label("nvidia.com/gpu-driver-upgrade-state", "drain-required"),
		"Karpenter": func(x *nodeTrial) {
			x.Edit(kubetest.NodePath("node-0"), func(spec map[string]any) {
				spec["taints"] = []any{map[string]any{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}}
			})
		},
	}
}

// TestClaimedMidDrain: a neighbour that takes the node after the cordon stops
// the evictions, and has the node to itself: a cancel does not lift the cordon
// under it.
func TestClaimedMidDrain(t *testing.T) {
	for who, claim := range claims() {
		t.Run(who, func(t *testing.T) {
			x := newNodeTrial(t, "node.drain", nil)
			x.Linger(true)
			plan := x.applied(t)
			x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0")
			claim(x)
			wrote := len(x.Writes())
			x.settles(t, plan, machine.StatusForeign, "node node-0: since then it belongs to ")
			o := x.do(t, machine.ActionUndo, plan, "")
			if o.Status != machine.StatusForeign || !strings.Contains(o.Message, who) || !strings.Contains(o.Message, "nothing was undone") {
				t.Errorf("undo: %s %q, want foreign, with %s, and nothing put back", o.Status, o.Message, who)
			}
			if w := x.Writes()[wrote:]; len(w) > 0 {
				t.Errorf("on their node it wrote %v", w)
			}
			if s := x.Spec(kubetest.NodePath("node-0")); !strings.Contains(s, `"unschedulable":true`) {
				t.Errorf("the cordon was lifted under them: %s", s)
			}
		})
	}
}

// TestClaimedAfterUndo: what was put back before a neighbour came is put back.
func TestClaimedAfterUndo(t *testing.T) {
	x := newNodeTrial(t, "node.cordon", nil)
	plan := x.applied(t)
	if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusOK {
		t.Fatalf("undo: %s %s", o.Status, o.Message)
	}
	claims()["NVSentinel"](x)
	if o := x.do(t, machine.ActionUnwind, plan, ""); o.Status != machine.StatusOK {
		t.Errorf("after the undo: %s %s", o.Status, o.Message)
	}
}

// TestResetRequestOnAClaimedNode: whoever answers a request takes the node, and
// that is no reason to say that the request was not made.
func TestResetRequestOnAClaimedNode(t *testing.T) {
	x := newNodeTrial(t, "gpu.reset_request", map[string]any{"reason": "row remapping failed"})
	plan := x.applied(t)
	claims()["NVSentinel"](x)
	x.settles(t, plan, machine.StatusOK, "node node-0 takes pods")
}

// TestUncordonedMidEvictions: who lifts the cordon, ours of an earlier run too,
// wants pods there; so does who puts their own in its place want the node.
func TestUncordonedMidEvictions(t *testing.T) {
	for _, kind := range []string{"node.drain", "pod.evict_from_node"} {
		for name, again := range map[string]bool{"lifted": false, "lifted and cordoned anew": true} {
			t.Run(kind+" "+name, func(t *testing.T) {
				x := newNodeTrial(t, kind, nil)
				x.Linger(true)
				ourCordon(x.Server)
				plan := x.applied(t)
				x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0")
				x.Cordon("node-0", "kubectl", false)
				if again {
					x.Cordon("node-0", "kubectl", true)
				}
				x.Delete(kubetest.PodPath("serving", "chat-0"))
				wrote := len(x.Writes())
				x.settles(t, plan, machine.StatusForeign, "node node-0: someone changed it since")
				if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusForeign {
					t.Errorf("undo: %s %q, want foreign", o.Status, o.Message)
				}
				if w := x.Writes()[wrote:]; len(w) > 0 {
					t.Errorf("after they decided it wrote %v", w)
				}
			})
		}
	}
}
