package kinds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// setReady changes what the kubelet says of a pod.
func (x *nodeTrial) setReady(pod string, ready bool) {
	x.Change(kubetest.PodPath("serving", pod), func(p map[string]any) {
		p["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[ready]}}
	})
}

// evicted names the pods that were evicted since that many writes.
func (x *nodeTrial) evicted(since int) string {
	var pods []string
	for _, w := range x.Writes()[since:] {
		if path, ok := strings.CutPrefix(w, "EVICT "); ok {
			pods = append(pods, path[strings.LastIndex(path, "/")+1:])
		}
	}
	return strings.Join(pods, " ")
}

// TestDrainAsksAgainBetweenPods: what the guards were shown holds before each
// eviction. A replica that is lost elsewhere in between is one that may not be
// lost here; others go meanwhile, and it goes when there are enough again.
func TestDrainAsksAgainBetweenPods(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Linger(true)
	plan := x.applied(t)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0")
	x.Delete(kubetest.PodPath("serving", "chat-0"))
	x.setReady("chat-1", false)
	wrote := len(x.Writes())
	x.settles(t, plan, machine.StatusPending, "leaving: serving/summarise-0, still there: serving/chat-2; held back: serving/chat-2: Deployment serving/chat has 1 ready replica, and 1 have to stay")
	x.Delete(kubetest.PodPath("serving", "summarise-0"))
	x.settles(t, plan, machine.StatusPending, "held back: serving/chat-2: Deployment serving/chat has 1 ready replica")
	if got := x.evicted(wrote); got != "summarise-0" {
		t.Errorf("evicted: %q, want summarise-0 alone", got)
	}
	x.setReady("chat-1", true)
	x.settles(t, plan, machine.StatusPending, "2 of 3 pods have left node node-0, leaving: serving/chat-2")
}

// TestDrainHeldBackIsGivenUp: it waits no longer than the drain itself, says
// why to the end, and what it did to the node is undone.
func TestDrainHeldBackIsGivenUp(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"within": "10m"})
	plan := x.applied(t)
	x.setReady("chat-1", false)
	x.setReady("summarise-1", false)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0")
	x.settles(t, plan, machine.StatusPending, "held back: serving/chat-2: ")
	x.now = x.now.Add(11 * time.Minute)
	x.settles(t, plan, machine.StatusFailed, "held back: serving/chat-2: Deployment serving/chat has 1 ready replica, and 1 have to stay; serving/summarise-0: Deployment serving/summarise has 1 ready replica, and 1 have to stay; not done within 10m")
	if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusOK {
		t.Fatalf("undo: %s %s", o.Status, o.Message)
	}
	if s := x.Spec(kubetest.NodePath("node-0")); strings.Contains(s, "unschedulable") {
		t.Errorf("the node is still cordoned: %s", s)
	}
}

// TestDrainOfAGroupAsksOnce: the second pod of a group that does not serve any
// more takes no replica with it.
func TestDrainOfAGroupAsksOnce(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"at_once": int64(1)})
	for _, pod := range []string{"chat-0", "chat-2", "summarise-0"} {
		x.Delete(kubetest.PodPath("serving", pod))
	}
	for _, p := range []struct{ pod, node, group string }{{"big-0", "node-0", "a"}, {"big-0-1", "node-0", "a"}, {"big-1", "node-1", "b"}, {"big-1-1", "node-2", "b"}} {
		x.Pod(t, kube.Ref{Kind: "StatefulSet", Namespace: "serving", Name: "big"}, p.pod, p.node, func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/group-key": p.group}
			pod.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": "2"}
		})
	}
	plan := x.applied(t)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/big-0, still there: serving/big-0-1")
	x.settles(t, plan, machine.StatusPending, "1 of 2 pods have left node node-0, leaving: serving/big-0-1")
}

// TestDrainOfAnOlderPlan: a plan that does not say how many replicas have to
// stay lets no more of them go, and says so.
func TestDrainOfAnOlderPlan(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	plan := x.applied(t)
	plan.Lowest = nil
	x.setReady("chat-2", false)
	wrote := len(x.Writes())
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-2, still there: serving/chat-0, serving/summarise-0; held back: serving/chat-0: the plan does not say how many replicas of Deployment serving/chat have to stay ready")
	x.settles(t, plan, machine.StatusPending, "held back: serving/chat-0: the plan does not say how many replicas of Deployment serving/chat have to stay ready; serving/summarise-0: the plan")
	if got := x.evicted(wrote); got != "chat-2" {
		t.Errorf("evicted: %q, want only the one that serves nobody", got)
	}
}

// TestDrainKnowsBudgetsAsTheyAre: one that is made after the plan guards its
// pods, and they no longer wait for each other; one that was deleted guards none.
func TestDrainKnowsBudgetsAsTheyAre(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Linger(true)
	plan := x.applied(t)
	x.Budget(t, "serving", "chat", 2, 3, 1, 3)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0, still there")
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0, serving/chat-2, still there: serving/summarise-0")
	x.Delete("/apis/policy/v1/namespaces/serving/poddisruptionbudgets/chat")
	wrote := len(x.Writes())
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-0, serving/chat-2, still there: serving/summarise-0")
	if got := x.evicted(wrote); got != "" {
		t.Errorf("evicted: %q, want none beside two that nothing guards", got)
	}
}

// TestOwnGroupsOfPods: a service whose workload is a LeaderWorkerSet stands in
// the catalog by the StatefulSet of its leaders. What it loses is counted in
// groups, a worker's node is its node too, and the pods there are its own.
func TestOwnGroupsOfPods(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Server = cluster(t, "StatefulSet")
	for _, node := range []string{"node-0", "node-1", "node-2"} {
		x.Node(t, node, 8, nil)
	}
	member := func(group string) func(map[string]any) {
		return func(p map[string]any) {
			labels := p["metadata"].(map[string]any)["labels"].(map[string]any)
			labels["leaderworkerset.sigs.k8s.io/name"], labels["leaderworkerset.sigs.k8s.io/group-key"] = "chat", group
			p["metadata"].(map[string]any)["annotations"] = map[string]any{"leaderworkerset.sigs.k8s.io/size": "2"}
		}
	}
	for i, worker := range []string{"node-1", "node-2", "node-2"} { // the leaders are on node-0, node-1 and node-0
		leader := ref("StatefulSet")
		leader.Name = fmt.Sprintf("chat-%d", i)
		x.Pod(t, leader, leader.Name+"-1", worker, nil)
		for _, pod := range []string{leader.Name, leader.Name + "-1"} {
			x.Change(kubetest.PodPath("serving", pod), member(leader.Name))
		}
	}
	x.deps = nodeWorld(t, x.Server, nil).Deps
	for node, want := range map[string]machine.Capacity{"node-0": {ReadyNow: 3, LowestReady: 1, ReadyAfter: 1}, "node-2": {ReadyNow: 3, LowestReady: 1, ReadyAfter: 1}} {
		o := x.of(t, "node.drain", node)
		if o.Plan == nil || o.Plan.Capacity != want || len(o.Plan.Others) > 0 {
			t.Errorf("drain %s: %s %s, %+v; want %+v, and no others", node, o.Status, o.Message, o.Plan, want)
		}
	}
	ourCordon(x.Server)
	if o := x.of(t, "pod.evict_from_node", "node-0"); o.Plan == nil || o.Plan.Summary != "evict 2 pods of serving/chat from node node-0" || o.Plan.Capacity.LowestReady != 1 {
		t.Errorf("evict: %s %s, %+v", o.Status, o.Message, o.Plan)
	}
}

// of plans a lever on a node for the StatefulSet chat.
func (x *nodeTrial) of(t *testing.T, kind, node string) machine.Outcome {
	t.Helper()
	return kinds.New(x.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/fix#1/plan#1", Run: "r-1", State: "fix", Action: machine.ActionPlan, Step: kind, With: map[string]any{"node": node}, Service: service("StatefulSet"), Attempt: 1,
	})
}
