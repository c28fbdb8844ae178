package kinds_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// TestDrainOfWhatRecovered: a plan that was agreed to while nothing was ready
// lets no replica go that has recovered since, unless another one stays.
func TestDrainOfWhatRecovered(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Linger(true)
	for _, pod := range []string{"summarise-0", "summarise-1"} {
		x.setReady(pod, false)
	}
	plan := x.applied(t)
	if n, known := plan.Lowest["Deployment serving/summarise"]; n != 0 || !known {
		t.Fatalf("%d of summarise have to stay, %v; want none, and that it is known", n, known)
	}
	x.setReady("summarise-0", true)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0")
	x.Delete(kubetest.PodPath("serving", "chat-0"))
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-2")
	x.Delete(kubetest.PodPath("serving", "chat-2"))
	wrote := len(x.Writes())
	x.settles(t, plan, machine.StatusPending, "held back: serving/summarise-0: Deployment serving/summarise has 1 ready replica, and 1 have to stay: it was not ready when this was planned")
	if got := x.evicted(wrote); got != "" {
		t.Errorf("evicted: %q, want none", got)
	}
	x.setReady("summarise-1", true)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/summarise-0")
}

// TestDrainOfTheLastThatWasAgreedTo: a replica that was ready when its loss was
// agreed to goes, the last one too.
func TestDrainOfTheLastThatWasAgreedTo(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	for _, pod := range []string{"chat-0", "chat-2", "summarise-1"} {
		x.Delete(kubetest.PodPath("serving", pod))
	}
	plan := x.applied(t)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/summarise-0")
	x.settles(t, plan, machine.StatusOK, "1 of 1 pods have left")
}

// TestDrainWaitsForWhoLeavesAlready: a pod that others have told to go runs until
// it has gone, and the node is not empty before. A DaemonSet's comes back anyway.
func TestDrainWaitsForWhoLeavesAlready(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"within": "10m"})
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: atNoon()} }
	x.Pod(t, ref("Deployment"), "chat-0", "node-0", leaving)
	daemon := ref("DaemonSet")
	daemon.Name = "agent"
	x.Pod(t, daemon, "agent-0", "node-0", leaving)
	plan := x.applied(t)
	if notes := strings.Join(plan.Notes, "\n"); !strings.Contains(notes, "serving/agent-0 is leaving already\nserving/chat-0 is leaving already") {
		t.Errorf("the plan says:\n%s", notes)
	}
	for _, pod := range []string{"chat-2", "summarise-0"} {
		x.settles(t, plan, machine.StatusPending, "leaving: serving/"+pod)
	}
	x.settles(t, plan, machine.StatusPending, "2 of 2 pods have left node node-0, on their way out by others: serving/chat-0")
	late := x.now
	x.now = x.now.Add(11 * time.Minute)
	x.settles(t, plan, machine.StatusFailed, "on their way out by others: serving/chat-0; not done within 10m")
	x.now = late
	x.Delete(kubetest.PodPath("serving", "chat-0"))
	x.settles(t, plan, machine.StatusOK, "2 of 2 pods have left")
}

// TestDrainOfACordonedNodeWaits: where nothing has to be evicted any more, what is
// leaving is still waited for.
func TestDrainOfACordonedNodeWaits(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	ourCordon(x.Server)
	for _, pod := range []string{"chat-2", "summarise-0"} {
		x.Delete(kubetest.PodPath("serving", pod))
	}
	x.Pod(t, ref("Deployment"), "chat-0", "node-0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: atNoon()} })
	plan := x.applied(t)
	x.settles(t, plan, machine.StatusPending, "0 of 0 pods have left node node-0, on their way out by others: serving/chat-0")
	x.Delete(kubetest.PodPath("serving", "chat-0"))
	x.settles(t, plan, machine.StatusOK, "0 of 0 pods have left")
	if o := x.do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NothingToDo {
		t.Errorf("plan: %s %s, want that there is nothing to do", o.Reason, o.Message)
	}
}

// TestDrainRefusesAllAtOnce: everything that is in the way is said, not the first of it.
func TestDrainRefusesAllAtOnce(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Pod(t, ref("Deployment"), "alone", "node-0", func(p *corev1.Pod) { p.OwnerReferences = nil })
	x.Pod(t, ref("Deployment"), "cached", "node-0", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	o := x.do(t, machine.ActionPlan, nil, "")
	const want = "node.drain: serving/alone on node node-0 has no controller: nothing would recreate it; the emptyDir of serving/cached (scratch) would be lost: set delete_emptydir_data: true"
	if o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, want) {
		t.Errorf("plan: %s %q, want %q", o.Reason, o.Message, want)
	}
}

// TestDrainOfTheHeadOfARayCluster: workers end with their head, also with one
// that is not ready.
func TestDrainOfTheHeadOfARayCluster(t *testing.T) {
	big := kube.Ref{Kind: "RayCluster", Namespace: "serving", Name: "big"}
	x := newNodeTrial(t, "node.drain", nil)
	for name, at := range map[string]string{"head": "node-0", "w-0": "node-1"} {
		kind, _, _ := strings.Cut(name, "-")
		x.Pod(t, big, name, at, func(p *corev1.Pod) {
			p.Labels = map[string]string{"ray.io/cluster": "big", "ray.io/node-type": map[string]string{"head": "head", "w": "worker"}[kind]}
		})
	}
	x.setReady("head", false)
	for _, o := range x.plan(t).Others {
		if o.Service == "RayCluster serving/big" && o.Capacity.Unknown {
			return
		}
	}
	t.Error("the head goes and nobody is asked about its worker, which is ready elsewhere")
}

// TestDrainOfAPartlyReadyRayCluster: which of its pods work together nobody
// knows. A ready one stays, and so the drain is refused; one that is not ready
// takes nothing with it, and stays once it is ready again.
func TestDrainOfAPartlyReadyRayCluster(t *testing.T) {
	big := kube.Ref{Kind: "RayCluster", Namespace: "serving", Name: "big"}
	ray := func(x *nodeTrial, name, node string) {
		x.Pod(t, big, name, node, func(p *corev1.Pod) { p.Labels = map[string]string{"ray.io/cluster": "big"} })
	}
	x := newNodeTrial(t, "node.drain", nil)
	ray(x, "head", "node-1")
	ray(x, "w-0", "node-0")
	ray(x, "w-1", "node-0")
	cost := func(plan *machine.Plan) machine.Capacity {
		t.Helper()
		for _, o := range plan.Others {
			if o.Service == "RayCluster serving/big" {
				return o.Capacity
			}
		}
		t.Fatalf("the plan does not name the RayCluster: %+v", plan.Others)
		return machine.Capacity{}
	}
	if c := cost(x.plan(t)); c != (machine.Capacity{ReadyNow: 1}) {
		t.Errorf("all ready, it costs %+v, want the one", c)
	}
	x.setReady("w-0", false)
	if c := cost(x.plan(t)); !c.Unknown {
		t.Errorf("w-1 ready, it costs %+v, want unknown", c)
	}
	x.setReady("w-1", false)
	plan := x.applied(t)
	if c := cost(plan); c != (machine.Capacity{}) || !strings.Contains(strings.Join(plan.Notes, "\n"), "how many replicas of RayCluster serving/big are ready is not known, and is told as 0") {
		t.Errorf("none here ready, it costs %+v; the plan says %q", c, plan.Notes)
	}
	for _, pod := range []string{"chat-0", "chat-2", "summarise-0"} {
		x.Delete(kubetest.PodPath("serving", pod))
	}
	x.setReady("w-1", true)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/w-0, still there: serving/w-1")
	x.settles(t, plan, machine.StatusPending, "held back: serving/w-1: RayCluster serving/big has 1 ready replica, and 1 have to stay: it was not ready when this was planned")
}
