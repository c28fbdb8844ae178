package kinds_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
)

const rayBig = "RayCluster serving/big"

// ray adds a pod of a RayCluster, on no node yet where that is empty.
func (x *nodeTrial) ray(t *testing.T, pod, node string, gpus bool) {
	x.Pod(t, kube.Ref{Kind: "RayCluster", Namespace: "serving", Name: "big"}, pod, node, func(p *corev1.Pod) {
		p.Labels = map[string]string{"ray.io/cluster": "big"}
		if !gpus {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		if node == "" {
			p.Status.Phase, p.Status.Conditions[0].Status = corev1.PodPending, corev1.ConditionFalse
		}
	})
}

// TestDrainOfWhatCannotBeCounted: a RayCluster whose autoscaler waits for a pod
// may serve or not. Its capacity is unknown, which the guards refuse, also where
// only pods elsewhere ask for GPUs, and a drain all the same takes none of it.
func TestDrainOfWhatCannotBeCounted(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.ray(t, "big-head", "node-0", false)
	x.ray(t, "big-w-0", "node-1", true)
	plan := x.plan(t)
	if got := other(plan, rayBig); got == nil || got.Capacity != (machine.Capacity{ReadyNow: 1}) {
		t.Errorf("all ready: it costs %+v, want the only replica", got)
	}
	x.ray(t, "big-w-1", "", true)
	plan = x.applied(t)
	if got := other(plan, rayBig); got == nil || got.Capacity != (machine.Capacity{Unknown: true}) {
		t.Errorf("one is pending: it costs %+v, want that this is unknown", got)
	}
	if notes := strings.Join(plan.Notes, "\n"); !strings.Contains(notes, "how many replicas of "+rayBig+" are ready is not known") {
		t.Errorf("the notes do not say why: %s", notes)
	}
	x.settles(t, plan, machine.StatusPending, "held back: serving/big-head: the plan does not say how many replicas of "+rayBig+" have to stay ready")
	plan.Lowest[rayBig] = 1
	x.settles(t, plan, machine.StatusPending, "held back: serving/big-head: how many replicas of "+rayBig+" are ready is not known, and 1 have to stay")
	if got := x.evicted(0); strings.Contains(got, "big") {
		t.Errorf("evicted: %q", got)
	}
}

// TestDrainOfAllThatWorksAsOne: where the plan said that the only replica goes,
// its second pod does not wait because the first one has left.
func TestDrainOfAllThatWorksAsOne(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"at_once": int64(9)})
	x.Linger(true)
	x.ray(t, "big-head", "node-0", true)
	x.ray(t, "big-w-0", "node-0", true)
	x.ray(t, "big-w-1", "node-1", true)
	plan := x.applied(t)
	for range 5 {
		x.do(t, machine.ActionSettle, plan, "")
	}
	if got := x.evicted(0); !strings.Contains(got, "big-head") || !strings.Contains(got, "big-w-0") {
		t.Errorf("evicted: %q, want both of the RayCluster on the node", got)
	}
}

// TestDrainWithPodsThatServeNobody: pods without GPUs that are of no service hold
// no drain back, and it is told that they go.
func TestDrainWithPodsThatServeNobody(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"at_once": int64(9)})
	x.ray(t, "big-head", "node-0", false)
	x.ray(t, "big-w-1", "", false)
	plan := x.applied(t)
	if got := other(plan, rayBig); got != nil || !strings.Contains(strings.Join(plan.Notes, "\n"), "also moved: "+rayBig) {
		t.Errorf("it costs %+v, notes %q", got, plan.Notes)
	}
	if i := slices.IndexFunc(plan.Rest, func(a machine.Affected) bool { return a.Service == rayBig }); i < 0 || !plan.Rest[i].Capacity.Unknown || plan.Rest[i].Namespace != "serving" {
		t.Errorf("rules are asked about %+v, want the unknown effect on %s", plan.Rest, rayBig)
	}
	if plan.Digest() != func(p machine.Plan) machine.Plan { p.Rest = nil; return p }(*plan).Digest() {
		t.Error("what it costs others is in the digest of the plan")
	}
	for range 5 {
		x.do(t, machine.ActionSettle, plan, "")
	}
	if got := x.evicted(0); !strings.Contains(got, "big-head") {
		t.Errorf("evicted: %q, want the head too", got)
	}
}

// other is what a plan costs another service.
func other(plan *machine.Plan, name string) *machine.Affected {
	for i := range plan.Others {
		if plan.Others[i].Service == name {
			return &plan.Others[i]
		}
	}
	return nil
}
