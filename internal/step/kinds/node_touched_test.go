package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// tenanted is a node with pods of the run's service, of another service, of no service
// in another namespace, and of a DaemonSet, which belongs to the node.
func tenanted(t *testing.T, kind string, with map[string]any) *nodeTrial {
	x := newNodeTrial(t, kind, with)
	x.Pod(t, kube.Ref{Kind: "StatefulSet", Namespace: "kube-system", Name: "registry"}, "registry-0", "node-0", nil)
	x.deps.Services = func() []playbook.Service {
		other := service("Deployment")
		other.Name, other.Workload.Name, other.Owners = "serving/summarise", "summarise", []string{"group:text"}
		return []playbook.Service{service("Deployment"), other}
	}
	return x
}

// TestNodeLeversCarryWhomTheyTouch: the plan of every lever that takes a node out names
// the other services and the namespaces with pods there, and its approval is bound to them.
func TestNodeLeversCarryWhomTheyTouch(t *testing.T) {
	want := []machine.Touched{
		{Namespace: "kube-system"},
		{Service: "serving/summarise", Namespace: "serving", Owners: []string{"group:text"}},
	}
	for kind, with := range map[string]map[string]any{
		"node.cordon": nil, "node.drain": nil, "node.taint": nil,
		"gpu.reset_request": {"reason": "XID 79"},
	} {
		t.Run(kind, func(t *testing.T) {
			x := tenanted(t, kind, with)
			plan := x.plan(t)
			if diff := cmp.Diff(want, plan.Touches); diff != "" {
				t.Errorf("touched (-want +got):\n%s", diff)
			}
			const note = "judged for all that has pods on the node: also for pods of no service in namespace kube-system, service serving/summarise"
			if !slices.Contains(plan.Notes, note) {
				t.Errorf("the notes are %q", plan.Notes)
			}
			if !slices.Contains(plan.Locks, "service:serving/summarise") {
				t.Errorf("the locks are %q", plan.Locks)
			}
			alone := *plan
			if alone.Touches = nil; alone.Digest() == plan.Digest() {
				t.Error("an approval is not bound to whom it touches")
			}
		})
	}
}

// TestNodesComeBackForAllThere: an edit that lets pods onto a node again is judged for
// whom it has there already, too, also right before it is made.
func TestNodesComeBackForAllThere(t *testing.T) {
	for kind, out := range map[string]func(t *testing.T) *nodeTrial{
		"node.uncordon": func(t *testing.T) *nodeTrial {
			x := tenanted(t, "node.uncordon", map[string]any{"healthy_for": "10m"})
			ourCordon(x.Server)
			x.deps.GPUs = agentOf(func(*gpu.GPU) {})
			return x
		},
		"node.untaint": func(t *testing.T) *nodeTrial {
			x := tenanted(t, "node.taint", map[string]any{"effect": "PreferNoSchedule"})
			x.applied(t)
			return x.as("node.untaint", nil)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			x := out(t)
			plan := x.plan(t)
			if len(plan.Touches) != 2 || plan.Touches[1].Service != "serving/summarise" {
				t.Errorf("touched: %+v", plan.Touches)
			}
			x.Pod(t, kube.Ref{Kind: "StatefulSet", Namespace: "payments", Name: "ledger"}, "ledger-0", "node-0", nil)
			if o := x.do(t, machine.ActionApply, plan, ""); o.Reason != fault.Conflict || !strings.Contains(o.Message, "payments") {
				t.Errorf("apply: %s %s %q", o.Status, o.Reason, o.Message)
			}
		})
	}
}

// TestTouchesAgainAtApply: pods of others that come between the plan and the change
// void the plan, for nobody was asked about them.
func TestTouchesAgainAtApply(t *testing.T) {
	for kind, with := range map[string]map[string]any{
		"node.cordon": nil, "node.drain": nil, "node.taint": nil,
		"gpu.reset_request": {"reason": "XID 79"},
	} {
		t.Run(kind, func(t *testing.T) {
			x := tenanted(t, kind, with)
			plan := x.plan(t)
			x.Pod(t, kube.Ref{Kind: "StatefulSet", Namespace: "payments", Name: "ledger"}, "ledger-0", "node-0", nil)
			if o := x.do(t, machine.ActionApply, plan, ""); o.Status != machine.StatusFailed || o.Reason != fault.Conflict || !strings.Contains(o.Message, "payments") {
				t.Errorf("apply: %s %s %q", o.Status, o.Reason, o.Message)
			}
		})
	}
}

// TestControlPlaneIsLeftAlone: no lever takes a node of the control plane out, by its
// label or its taint.
func TestControlPlaneIsLeftAlone(t *testing.T) {
	const key = "node-role.kubernetes.io/control-plane"
	for kind, with := range map[string]map[string]any{
		"node.cordon": nil, "node.drain": nil, "node.taint": nil,
		"gpu.reset_request": {"reason": "XID 79"},
	} {
		for by, edit := range map[string]func(*corev1.Node){
			"label": func(n *corev1.Node) { n.Labels[key] = "" },
			"taint": func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: "NoSchedule"}} },
		} {
			t.Run(kind+" "+by, func(t *testing.T) {
				x := newNodeTrial(t, kind, with)
				x.Node(t, "node-0", 8, edit)
				if o := x.do(t, machine.ActionPlan, nil, ""); o.Status != machine.StatusRefused || o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, "control plane") {
					t.Errorf("plan: %s %s %q", o.Status, o.Reason, o.Message)
				}
			})
		}
	}
}
