package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// TestPoolCountsNodesWithoutTheirGPUs: a node whose device plugin offers no GPU
// is of the pool all the same, and out of it: whichever node is taken out, the
// guard counts the same nodes under the same lock.
func TestPoolCountsNodesWithoutTheirGPUs(t *testing.T) {
	unlabelled := func(n *corev1.Node) { n.Labels = nil }
	for name, c := range map[string]struct {
		edit func(*corev1.Node)
		pool string
		size int
	}{
		"by a label":     {nil, "nvidia.com/gpu.product=NVIDIA-H200", 5},
		"by having GPUs": {unlabelled, "all nodes with GPUs", 5},
	} {
		t.Run(name, func(t *testing.T) {
			for target, out := range map[string][]string{
				"node-0": {"node-3 (none of its GPUs is offered)", "node-4 (none of its GPUs is offered)"},
				"node-3": {"node-4 (none of its GPUs is offered)"},
			} {
				x := newNodeTrial(t, "node.cordon", map[string]any{"node": target})
				for _, n := range []string{"node-0", "node-1", "node-2"} {
					x.Node(t, n, 8, c.edit)
				}
				x.Node(t, "node-3", 0, c.edit)
				x.Node(t, "node-4", 0, c.edit)
				x.Node(t, "cpu-0", 0, func(n *corev1.Node) {
					n.Labels, n.Status.Capacity = nil, corev1.ResourceList{"cpu": resource.MustParse("64")}
				})
				plan := x.plan(t)
				if diff := cmp.Diff(&machine.NodePool{Name: c.pool, Size: c.size, Out: out}, plan.Pool); diff != "" {
					t.Errorf("the pool of %s (-want +got):\n%s", target, diff)
				}
				if !slices.Contains(plan.Locks, "pool:"+c.pool) {
					t.Errorf("the locks for %s are %v", target, plan.Locks)
				}
			}
		})
	}
}

// TestPoolTakesANodeAsItIsShared: GPUs that are offered under the name of shared
// ones are offered; a label alone does not tell whether GPUs are.
func TestPoolTakesANodeAsItIsShared(t *testing.T) {
	x := newNodeTrial(t, "node.cordon", nil)
	x.Node(t, "node-1", 0, func(n *corev1.Node) { n.Status.Capacity["nvidia.com/gpu.shared"] = resource.MustParse("32") })
	x.Node(t, "node-2", 0, func(n *corev1.Node) {
		n.Labels["nvidia.com/gpu.present"] = "true"
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("64")} // devices by dynamic resource allocation only
	})
	if pool := x.plan(t).Pool; pool.Size != 3 || len(pool.Out) > 0 {
		t.Errorf("the pool is %+v, want 3 nodes, none out", pool)
	}
}

// TestNodeOwnersInThePlan: every lever on a node plans with the owners of the
// node's pool, which its approval is bound to, and says so.
func TestNodeOwnersInThePlan(t *testing.T) {
	pool := func(labels map[string]string) (string, []string) {
		if labels["nvidia.com/gpu.product"] == "NVIDIA-H200" {
			return "h200", []string{"group:dc-ops", "user:ada"}
		}
		return "", nil
	}
	for kind, with := range map[string]map[string]any{
		"node.cordon": nil, "node.drain": nil, "node.taint": nil,
		"gpu.reset_request": {"reason": "XID 79"},
	} {
		t.Run(kind, func(t *testing.T) {
			x := newNodeTrial(t, kind, with)
			x.Node(t, "node-0", 8, nil)
			before := x.plan(t)
			x.deps.NodeOwners = pool
			plan := x.plan(t)
			if diff := cmp.Diff(&machine.NodeOwners{Pool: "h200", Owners: []string{"group:dc-ops", "user:ada"}}, plan.NodeOwners); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if !slices.Contains(plan.Notes, "node pool h200 belongs to group:dc-ops, user:ada") {
				t.Errorf("the notes are %q", plan.Notes)
			}
			if before.NodeOwners != nil || before.Digest() == plan.Digest() {
				t.Errorf("without pools the owners are %v, and the digest is the same: %t", before.NodeOwners, before.Digest() == plan.Digest())
			}
			x.deps.NodeOwners = func(map[string]string) (string, []string) { return "", nil }
			if plan = x.plan(t); plan.NodeOwners == nil || plan.NodeOwners.Pool != "" || !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.HasPrefix(n, "node node-0 is in no node pool: ") }) {
				t.Errorf("of a node in no pool the owners are %v, the notes %q", plan.NodeOwners, plan.Notes)
			}
		})
	}
}
