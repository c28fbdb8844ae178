package kinds_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// nodeTrial drives a lever on node-0 through effects.
type nodeTrial struct {
	*kubetest.Server
	deps step.Deps
	kind string
	with map[string]any
	now  time.Time
}

func newNodeTrial(t *testing.T, kind string, with map[string]any) *nodeTrial {
	s := gpuCluster(t)
	x := &nodeTrial{Server: s, kind: kind, with: map[string]any{"node": "node-0"}, now: atNoon()}
	for k, v := range with {
		x.with[k] = v
	}
	x.deps = nodeWorld(t, s, nil).Deps
	x.deps.Now = func() time.Time { return x.now }
	return x
}

func (x *nodeTrial) do(t *testing.T, a machine.Action, plan *machine.Plan, paused string) machine.Outcome {
	t.Helper()
	return kinds.New(x.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/fix#1/" + string(a) + "#1", Run: "r-1", State: "fix", Action: a, Step: x.kind, With: x.with,
		Service: service("Deployment"), Plan: plan, Attempt: 1, Paused: paused,
	})
}

func (x *nodeTrial) plan(t *testing.T) *machine.Plan {
	t.Helper()
	o := x.do(t, machine.ActionPlan, nil, "")
	if o.Status != machine.StatusOK {
		t.Fatalf("plan: %s %s %s", o.Status, o.Reason, o.Message)
	}
	return o.Plan
}

func (x *nodeTrial) applied(t *testing.T) *machine.Plan {
	t.Helper()
	plan := x.plan(t)
	if o := x.do(t, machine.ActionApply, plan, ""); o.Status != machine.StatusOK {
		t.Fatalf("apply: %s %s %s", o.Status, o.Reason, o.Message)
	}
	return plan
}

// settles asks once whether it has taken effect, and wants that answer.
func (x *nodeTrial) settles(t *testing.T, plan *machine.Plan, want machine.Status, says string) {
	t.Helper()
	if o := x.do(t, machine.ActionSettle, plan, ""); o.Status != want || !strings.Contains(o.Message, says) {
		t.Fatalf("settle: %s %q, want %s %q", o.Status, o.Message, want, says)
	}
}

// TestNodePlansThatAreRefused: what must not be touched is refused before it
// is, with the name of what is in the way.
func TestNodePlansThatAreRefused(t *testing.T) {
	chat := ref("Deployment")
	label := func(key, value string) func(*nodeTrial, *testing.T) {
		return func(x *nodeTrial, _ *testing.T) {
			x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
				n["metadata"].(map[string]any)["labels"].(map[string]any)[key] = value
			})
		}
	}
	mine := func(x *nodeTrial, _ *testing.T) { ourCordon(x.Server) }
	tests := []struct {
		name, kind string
		with       map[string]any
		world      func(*nodeTrial, *testing.T)
		reason     fault.Reason
		says       string
	}{
		{"a neighbour's", "node.cordon", nil, label("dgxc.nvidia.com/nvsentinel-state", "quarantined"), fault.Owned, "node node-0 belongs to NVSentinel"},
		{"a neighbour's, to drain", "node.drain", nil, label("nvidia.com/gpu-driver-upgrade-state", "drain-required"), fault.Owned, "GPU operator"},
		{"a person's", "node.cordon", nil, func(x *nodeTrial, _ *testing.T) { x.Cordon("node-0", "kubectl-cordon", true) }, fault.Owned, "a cordon by kubectl-cordon"},
		{"a person's, to lift", "node.uncordon", nil, func(x *nodeTrial, _ *testing.T) { x.Cordon("node-0", "kubectl", true) }, fault.Owned, "a cordon by kubectl"},
		{"marked, and cordoned anew by a person", "node.uncordon", nil, func(x *nodeTrial, _ *testing.T) {
			ourCordon(x.Server)
			x.Cordon("node-0", "kubectl", false)
			x.Cordon("node-0", "kubectl", true)
		}, fault.Owned, "a cordon by kubectl"},
		{"cordoned already", "node.cordon", nil, mine, fault.NothingToDo, "cordoned already"},
		{"takes pods already", "node.uncordon", nil, nil, fault.NothingToDo, "takes pods already"},
		{"no such node", "node.cordon", map[string]any{"node": "nope"}, nil, fault.NotFound, "nope"},
		{"a taint of others", "node.taint", map[string]any{"key": "dedicated"}, nil, fault.Invalid, "responder.dev/"},
		{"a label of others", "gpu.reset_request", map[string]any{"reason": "x", "label": "nvidia.com/reset"}, nil, fault.Invalid, "responder.dev/"},
		{"time without end", "node.drain", map[string]any{"within": "2h"}, nil, fault.Invalid, "at most 29m"},
		{"a pod nobody makes anew", "node.drain", nil, func(x *nodeTrial, t *testing.T) {
			x.Pod(t, chat, "alone", "node-0", func(p *corev1.Pod) { p.OwnerReferences = nil })
		}, fault.OutOfBounds, "serving/alone on node node-0 has no controller: nothing would recreate it"},
		{"an emptyDir on disk", "node.drain", nil, func(x *nodeTrial, t *testing.T) {
			x.Pod(t, chat, "cached", "node-0", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			})
		}, fault.OutOfBounds, "the emptyDir of serving/cached (scratch) would be lost"},
		{
			"a budget that never allows", "node.drain", nil, func(x *nodeTrial, t *testing.T) { x.Budget(t, "serving", "chat", 0, 3, 3, 3) },
			fault.OutOfBounds, "PodDisruptionBudget serving/chat never lets pod serving/chat-0 go: it demands 3 healthy pods of 3",
		},
		{"two budgets", "node.drain", nil, func(x *nodeTrial, t *testing.T) {
			x.Budget(t, "serving", "chat", 1, 3, 2, 3)
			x.Put("/apis/policy/v1/namespaces/serving/poddisruptionbudgets/more", map[string]any{
				"metadata": map[string]any{"name": "more", "namespace": "serving"},
				"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "chat"}}},
				"status":   map[string]any{"disruptionsAllowed": 1, "expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3},
			})
		}, fault.OutOfBounds, "under more than one PodDisruptionBudget"},
		{"a pod that could come back", "pod.evict_from_node", nil, nil, fault.OutOfBounds, "run node.cordon first"},
		{"no pod of the service", "pod.evict_from_node", map[string]any{"pod": "chat-1"}, mine, fault.NothingToDo, "no pod chat-1 of serving/chat is on node node-0"},
		{"not ready", "node.uncordon", nil, func(x *nodeTrial, t *testing.T) {
			ourCordon(x.Server)
			x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
				n["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "Unknown"}}
			})
		}, fault.NotMet, "Ready=Unknown"},
		{"to be reset", "node.uncordon", nil, func(x *nodeTrial, t *testing.T) {
			ourCordon(x.Server)
			label("responder.dev/gpu-reset", "requested")(x, t)
		}, fault.NotMet, "a reset of its GPUs is asked for by the label responder.dev/gpu-reset=requested"},
		{"to be reset, by another label", "node.uncordon", nil, func(x *nodeTrial, t *testing.T) {
			ourCordon(x.Server)
			label("responder.dev/repair", "requested")(x, t)
		}, fault.NotMet, "a reset of its GPUs is asked for by the label responder.dev/repair=requested"},
		{"being reset", "node.uncordon", nil, func(x *nodeTrial, t *testing.T) {
			ourCordon(x.Server)
			label("responder.dev/gpu-reset", "in-progress")(x, t)
		}, fault.NotMet, "label responder.dev/gpu-reset=in-progress"},
		{"a reset whose answer was lost", "node.uncordon", nil, func(x *nodeTrial, t *testing.T) {
			ourCordon(x.Server)
			label("responder.dev/desk", "asking")(x, t)
		}, fault.NotMet, "label responder.dev/desk=asking"},
		{"ready for too short", "node.uncordon", map[string]any{"healthy_for": "2h"}, mine, fault.Invalid, "at most 30m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newNodeTrial(t, tt.kind, tt.with)
			if tt.world != nil {
				tt.world(x, t)
			}
			o := x.do(t, machine.ActionPlan, nil, "")
			if o.Status != machine.StatusRefused || o.Reason != tt.reason || !strings.Contains(o.Message, tt.says) {
				t.Errorf("plan: %s %s %q, want refused %s %q", o.Status, o.Reason, o.Message, tt.reason, tt.says)
			}
			if w := x.Writes(); len(w) > 0 {
				t.Errorf("it wrote %v", w)
			}
		})
	}
}

// TestDrainGoesPodByPod: one pod at a time, the next when the one before is
// gone; a budget holds it back with its name; a pause stops it; nothing else of
// the node moves; and a second attempt evicts nobody twice.
func TestDrainGoesPodByPod(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Linger(true)
	plan := x.applied(t)
	if o := x.do(t, machine.ActionSettle, plan, "everything, by ada"); o.Status != machine.StatusPending || !strings.Contains(o.Message, "0 of 3 pods have left node node-0, still there: serving/chat-0, serving/chat-2, serving/summarise-0; paused: everything, by ada") {
		t.Fatalf("paused: %s %s", o.Status, o.Message)
	}
	x.settles(t, plan, machine.StatusPending, "0 of 3 pods have left node node-0, leaving: serving/chat-0, still there: serving/chat-2")
	x.settles(t, plan, machine.StatusPending, "0 of 3 pods have left")
	x.Delete(kubetest.PodPath("serving", "chat-0"))
	x.Budget(t, "serving", "chat", 0, 2, 2, 3)
	x.settles(t, plan, machine.StatusPending, "1 of 3 pods have left node node-0, leaving: serving/summarise-0, still there: serving/chat-2; held back: serving/chat-2: The disruption budget chat")
	x.Delete(kubetest.PodPath("serving", "summarise-0"))
	x.Budget(t, "serving", "chat", 1, 3, 2, 3)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-2")
	x.Delete(kubetest.PodPath("serving", "chat-2"))
	x.settles(t, plan, machine.StatusOK, "3 of 3 pods have left")
	evicted := 0
	for _, w := range x.Writes() {
		if strings.HasPrefix(w, "EVICT ") {
			evicted++
		}
	}
	if evicted != 3 || !x.Has(kubetest.PodPath("serving", "agent-0")) || !x.Has(kubetest.PodPath("serving", "chat-1")) {
		t.Errorf("%d evictions, agent %v, chat-1 %v; want 3 and both there", evicted, x.Has(kubetest.PodPath("serving", "agent-0")), x.Has(kubetest.PodPath("serving", "chat-1")))
	}
}

// TestDrainSideBySide: what a budget lets go does not wait for the others; pods
// without a budget go in turn; each look takes one step, and says when the next
// one may be taken.
func TestDrainSideBySide(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Linger(true)
	other := ref("Deployment")
	other.Name = "summarise"
	x.Pod(t, other, "summarise-2", "node-0", nil)
	x.Budget(t, "serving", "chat", 1, 3, 2, 3)
	plan := x.applied(t)
	looks := func(again time.Duration, says string) {
		t.Helper()
		before := len(x.Writes())
		o := x.do(t, machine.ActionSettle, plan, "")
		if o.Status != machine.StatusPending || o.Again != again || !strings.Contains(o.Message, says) || len(x.Writes()) > before+1 {
			t.Fatalf("%s again in %s after %d writes: %q; want %s, one write at most, %q", o.Status, o.Again, len(x.Writes())-before, o.Message, again, says)
		}
	}
	looks(time.Second, "leaving: serving/chat-0, still there")
	looks(time.Second, "leaving: serving/chat-0, serving/summarise-0, still there: serving/chat-2, serving/summarise-2; held back: serving/chat-2")
	looks(5*time.Second, "held back: serving/chat-2: Deployment serving/chat has 2 ready replicas, and 2 have to stay, and The disruption budget chat needs")
	x.Pod(t, ref("Deployment"), "chat-9", "node-1", nil)
	x.Budget(t, "serving", "chat", 1, 3, 2, 3)
	looks(5*time.Second, "serving/summarise-0, serving/chat-2, still there: serving/summarise-2")
	x.Delete(kubetest.PodPath("serving", "summarise-0"))
	looks(0, "leaving: serving/chat-0, serving/chat-2, serving/summarise-2")
	for _, pod := range []string{"chat-0", "chat-2", "summarise-2"} {
		x.Delete(kubetest.PodPath("serving", pod))
	}
	x.settles(t, plan, machine.StatusOK, "4 of 4 pods have left")
}

// TestDrainIsGivenUp: past its time, or when pods come back, and what it did to
// the node is undone.
func TestDrainIsGivenUp(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"within": "10m"})
	x.Linger(true)
	plan := x.applied(t)
	x.Budget(t, "serving", "chat", 0, 2, 2, 3)
	x.settles(t, plan, machine.StatusPending, "leaving: serving/summarise-0")
	x.now = x.now.Add(11 * time.Minute)
	wrote := len(x.Writes())
	x.settles(t, plan, machine.StatusFailed, "held back: serving/chat-0: The disruption budget chat needs more healthy pods than there are; serving/chat-2: The disruption")
	x.Budget(t, "serving", "chat", 2, 3, 1, 3)
	x.settles(t, plan, machine.StatusFailed, "0 of 3 pods have left node node-0, leaving: serving/summarise-0, still there: serving/chat-0, serving/chat-2; not done within 10m")
	if w := x.Writes()[wrote:]; len(w) > 0 {
		t.Errorf("past its time it wrote %v", w)
	}
	if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusOK {
		t.Fatalf("undo: %s %s", o.Status, o.Message)
	}
	if s := x.Spec(kubetest.NodePath("node-0")); strings.Contains(s, "unschedulable") {
		t.Errorf("the node is still cordoned: %s", s)
	}

	x = newNodeTrial(t, "node.drain", map[string]any{"at_once": int64(3)})
	plan = x.applied(t)
	for range 3 {
		x.do(t, machine.ActionSettle, plan, "")
	}
	x.Pod(t, ref("Deployment"), "chat-9", "node-0", func(p *corev1.Pod) { p.UID = types.UID("another") })
	x.settles(t, plan, machine.StatusFailed, "came back all the same: serving/chat-9")
}

// TestDrainOfACordonedNode: a cordon of an earlier run stays when the drain is undone.
func TestDrainOfACordonedNode(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	ourCordon(x.Server)
	plan := x.applied(t)
	if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusOK {
		t.Fatalf("undo: %s %s", o.Status, o.Message)
	}
	if s := x.Spec(kubetest.NodePath("node-0")); !strings.Contains(s, `"unschedulable":true`) {
		t.Errorf("the earlier run's cordon was lifted: %s", s)
	}
}

// TestPodThatCameSincePlan: people approved of pods by name.
func TestPodThatCameSincePlan(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	plan := x.plan(t)
	x.Pod(t, ref("Deployment"), "chat-9", "node-0", nil)
	if o := x.do(t, machine.ActionApply, plan, ""); o.Reason != fault.Conflict || !strings.Contains(o.Message, "pod serving/chat-9 came to node node-0") {
		t.Errorf("apply: %s %s %s", o.Status, o.Reason, o.Message)
	}
}

// TestNodeThatWentOutSincePlan: the guards counted the pool before.
func TestNodeThatWentOutSincePlan(t *testing.T) {
	x := newNodeTrial(t, "node.cordon", nil)
	plan := x.plan(t)
	x.Cordon("node-2", "kubectl", true)
	if o := x.do(t, machine.ActionApply, plan, ""); o.Reason != fault.Conflict || !strings.Contains(o.Message, "node node-2 of the same pool went out") {
		t.Errorf("apply: %s %s %s", o.Status, o.Reason, o.Message)
	}
	if p := x.plan(t).Pool; p.Size != 3 || len(p.Out) != 1 || p.Out[0] != "node-2 (a cordon by kubectl)" {
		t.Errorf("the pool is %+v", p)
	}
}

// TestEvictOnlyTheServicesPods: the others on the node stay.
func TestEvictOnlyTheServicesPods(t *testing.T) {
	x := newNodeTrial(t, "pod.evict_from_node", map[string]any{"pod": "chat-2"})
	ourCordon(x.Server)
	plan := x.applied(t)
	if plan.Capacity.LowestReady != 2 || len(plan.Others) > 0 || plan.Pool != nil {
		t.Errorf("the plan costs %+v, %+v and %+v", plan.Capacity, plan.Others, plan.Pool)
	}
	x.settles(t, plan, machine.StatusPending, "leaving: serving/chat-2")
	x.settles(t, plan, machine.StatusOK, "1 of 1 pods have left")
	if !x.Has(kubetest.PodPath("serving", "chat-0")) || !x.Has(kubetest.PodPath("serving", "summarise-0")) {
		t.Error("others were evicted")
	}
}

// TestResetRequestIsTakenUp: whoever answers it may do with the label as they
// like; it is then not taken back.
func TestResetRequestIsTakenUp(t *testing.T) {
	x := newNodeTrial(t, "gpu.reset_request", map[string]any{"reason": "row remapping failed"})
	plan := x.applied(t)
	x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		n["metadata"].(map[string]any)["labels"].(map[string]any)["responder.dev/gpu-reset"] = "in-progress"
	})
	x.settles(t, plan, machine.StatusOK, "was taken up: somebody set it to in-progress")
	if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusForeign {
		t.Errorf("undo: %s %s", o.Status, o.Message)
	}
}

// TestNodeGroupsCountAsOne: the pods of a LeaderWorkerSet's group serve
// together or not at all.
func TestNodeGroupsCountAsOne(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	set := kube.Ref{Kind: "LeaderWorkerSet", Namespace: "serving", Name: "big"}
	for _, p := range []struct{ pod, node, group string }{{"big-0", "node-0", "a"}, {"big-0-1", "node-1", "a"}, {"big-1", "node-1", "b"}, {"big-1-1", "node-2", "b"}, {"big-2", "node-2", "c"}} {
		x.Pod(t, kube.Ref{Kind: "StatefulSet", Namespace: "serving", Name: "big"}, p.pod, p.node, func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/group-key": p.group}
			pod.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": "2"}
		})
	}
	x.deps.Services = func() []playbook.Service {
		return []playbook.Service{{Name: "serving/big", Namespace: "serving", MinReady: 2, Workload: playbook.Workload{Kind: set.Kind, Name: set.Name}}}
	}
	for _, o := range x.plan(t).Others {
		if o.Service == "serving/big" {
			// Group c misses a worker, so two are ready, and one of them is here.
			if want := (machine.Affected{Service: "serving/big", MinReady: 2, Capacity: machine.Capacity{ReadyNow: 2, LowestReady: 1, ReadyAfter: 1}}); o != want {
				t.Errorf("it costs %+v, want %+v", o, want)
			}
			return
		}
	}
	t.Error("the plan does not name serving/big")
}
