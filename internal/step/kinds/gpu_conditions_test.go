package kinds_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
)

// condition adds a condition to a node.
func condition(name, status string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(name), Status: corev1.ConditionStatus(status)})
	}
}

// TestGPUHealthHearsTheNeighbours: what node-problem-detector says of GPUs makes
// those that seem well unknown, never at fault, and those at fault no better; other
// conditions are evidence, and no more.
func TestGPUHealthHearsTheNeighbours(t *testing.T) {
	for name, c := range map[string]struct {
		gpus       gpus
		node       func(*corev1.Node)
		verdict    string
		conditions []string
		why, fact  string
	}{
		"none":                {gpus{}, nil, "healthy", []string{}, "", "GPUs: healthy"},
		"all of them good":    {gpus{}, condition("GPUMissing", "False"), "healthy", []string{}, "", ""},
		"a GPU is missing":    {gpus{}, condition("GPUMissing", "True"), "unknown", []string{"GPUMissing=True"}, "node node-0: its condition GPUMissing=True tells of a fault of its GPUs", ""},
		"by EKS":              {gpus{}, condition("AcceleratedHardwareReady", "False"), "unknown", []string{"AcceleratedHardwareReady=False"}, "AcceleratedHardwareReady=False", ""},
		"and it is at fault":  {gpus{"node-0": overheated}, condition("GPUMissing", "True"), "throttled", []string{"GPUMissing=True"}, "hardware thermal slowdown", "its condition GPUMissing=True tells of a fault"},
		"of the kernel":       {gpus{}, condition("KernelDeadlock", "True"), "healthy", []string{"KernelDeadlock=True"}, "", ""},
		"the node is gone":    {gpus{}, nil, "healthy", []string{}, "", "the conditions of node node-0 are not known"},
		"none can be read":    {gpus{}, nil, "unknown", []string{}, "node node-0: its conditions could not be read: ", "its conditions could not be read: "},
		"nor of one at fault": {gpus{"node-0": overheated}, nil, "throttled", []string{}, "hardware thermal slowdown", "its conditions could not be read: "},
		"several of GPUs": {gpus{}, func(n *corev1.Node) {
			condition("GPUMissing", "True")(n)
			condition("GPUXIDErrors", "True")(n)
		}, "unknown", []string{"GPUMissing=True", "GPUXIDErrors=True"}, "its conditions GPUMissing=True, GPUXIDErrors=True tell of a fault", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := gpuCluster(t)
			if s.Node(t, "node-0", 8, c.node); strings.Contains(name, "gone") {
				s.Delete(kubetest.NodePath("node-0"))
			}
			if strings.Contains(c.fact, "could not be read") {
				s.Fail(func(*http.Request) kubetest.Fault { return kubetest.Fault{Status: http.StatusForbidden} })
			}
			o := do(t, step.Deps{Workloads: fleet{}, Nodes: s.Client(t), GPUs: c.gpus}, machine.Effect{Action: machine.ActionCheck, Step: "gpu.health", With: map[string]any{"node": "node-0"}})
			var got struct {
				Verdict string `json:"verdict"`
				Why     string `json:"why"`
				Unknown int    `json:"unknown_nodes"`
				Bad     int    `json:"bad_nodes"`
				Nodes   []struct {
					Conditions []string `json:"conditions"`
				} `json:"nodes"`
			}
			if err := json.Unmarshal(o.Data, &got); o.Status != machine.StatusOK || err != nil {
				t.Fatalf("%s %s: %v", o.Status, o.Message, err)
			}
			if got.Verdict != c.verdict || !strings.Contains(got.Why, c.why) || !slices.ContainsFunc(o.Facts, func(f string) bool { return strings.Contains(f, c.fact) }) {
				t.Errorf("verdict %s because %q, facts %q; want %s, %q, %q", got.Verdict, got.Why, o.Facts, c.verdict, c.why, c.fact)
			}
			if (got.Unknown == 1) != (c.verdict == "unknown") || (got.Bad == 1) != (c.verdict == "throttled") || len(got.Nodes) != 1 || cmp.Diff(c.conditions, got.Nodes[0].Conditions) != "" {
				t.Errorf("got %+v, want the conditions %v", got, c.conditions)
			}
		})
	}
}

// TestUnreadNodes: a node with GPUs that its agent says nothing of is missing
// evidence, one without GPUs is not.
func TestUnreadNodes(t *testing.T) {
	s := gpuCluster(t)
	s.Node(t, "node-0", 8, nil)
	s.Node(t, "node-1", 0, func(n *corev1.Node) { n.Labels, n.Status.Capacity = nil, nil })
	silent := func(a *gpu.Answer) { a.Err = errors.New("no agent answers") }
	d := step.Deps{Workloads: fleet{}, Nodes: s.Client(t), GPUs: gpus{"node-0": silent, "node-1": silent}}
	for node, want := range map[string]int{"node-0": 1, "node-1": 0} {
		got, o := askHealth(t, d, map[string]any{"node": node})
		if o.Status != machine.StatusOK || got.Verdict != "unknown" || got.UnreadNodes != want {
			t.Errorf("%s: %+v, %s %s, want %d unread", node, got, o.Status, o.Message, want)
		}
	}
}

// TestPoolHearsTheNeighbours: a node that a neighbour says is not fit may be taken
// out any moment: it counts as out when another one is to go.
func TestPoolHearsTheNeighbours(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Node(t, "node-1", 8, condition("KernelDeadlock", "True"))
	x.Node(t, "node-2", 8, condition("example.com/Audited", "True"))
	plan := x.plan(t)
	if diff := cmp.Diff([]string{"node-1 (KernelDeadlock=True)"}, plan.Pool.Out); diff != "" || plan.Pool.Size != 3 {
		t.Errorf("of %d nodes are out (-want +got):\n%s", plan.Pool.Size, diff)
	}
	x.Node(t, "node-2", 8, condition("GPUXIDErrors", "True"))
	if o := x.do(t, machine.ActionApply, plan, ""); o.Reason != fault.Conflict || !strings.Contains(o.Message, "node node-2 of the same pool went out since it was planned") {
		t.Errorf("apply: %s %s", o.Reason, o.Message)
	}
}
