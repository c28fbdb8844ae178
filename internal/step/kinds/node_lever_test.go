package kinds_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// gpuCluster is a cluster of three nodes with GPUs, of which node-0 runs two of
// the three pods of chat, one of summarise and the agent of every node.
func gpuCluster(t testing.TB) *kubetest.Server {
	s := cluster(t, "Deployment")
	for _, name := range []string{"node-0", "node-1", "node-2"} {
		s.Node(t, name, 8, nil)
	}
	other := ref("Deployment")
	other.Name = "summarise"
	s.Pod(t, other, "summarise-0", "node-0", nil)
	s.Pod(t, other, "summarise-1", "node-1", nil)
	daemon := ref("DaemonSet")
	daemon.Name = "agent"
	s.Pod(t, daemon, "agent-0", "node-0", nil)
	return s
}

// nodeWorld is that cluster as a lever on node-0 sees it.
func nodeWorld(t *testing.T, s *kubetest.Server, meddle func()) steptest.World {
	c := s.Client(t)
	return steptest.World{
		Service: service("Deployment"),
		Deps:    step.Deps{Workloads: c, Changer: c, Pods: c, Nodes: c, NodeChanger: c, GPUs: agentOf(func(*gpu.GPU) {}), Now: atNoon},
		Spec: func(testing.TB) string {
			n, err := c.Node(t.Context(), "node-0")
			if err != nil {
				t.Fatal(err)
			}
			return n.Name + s.Spec(kubetest.NodePath("node-0")) + n.Labels["responder.dev/gpu-reset"]
		},
		Settle: func(testing.TB) {},
		Meddle: func(testing.TB) { meddle() },
	}
}

// TestNodeLevers runs the conformance test of levers on those that edit a node.
func TestNodeLevers(t *testing.T) {
	at := map[string]any{"node": "node-0"}
	t.Run("cordon", func(t *testing.T) {
		steptest.TestLever(t, "node.cordon", at, func(t *testing.T) steptest.World {
			s := gpuCluster(t)
			cordoned := false
			return nodeWorld(t, s, func() {
				// Before ours they cordon, after it they lift it.
				n, err := s.Client(t).Node(t.Context(), "node-0")
				if err != nil {
					t.Fatal(err)
				}
				cordoned = n.Unschedulable
				s.Cordon("node-0", "kubectl", !cordoned)
			})
		})
	})
	t.Run("drain", func(t *testing.T) {
		steptest.TestLever(t, "node.drain", at, func(t *testing.T) steptest.World {
			s := gpuCluster(t)
			return nodeWorld(t, s, func() {
				n, err := s.Client(t).Node(t.Context(), "node-0")
				if err != nil {
					t.Fatal(err)
				}
				s.Cordon("node-0", "kubectl", !n.Unschedulable)
			})
		})
	})
	t.Run("uncordon", func(t *testing.T) {
		steptest.TestLever(t, "node.uncordon", at, func(t *testing.T) steptest.World {
			s := gpuCluster(t)
			ourCordon(s)
			lifted := false
			return nodeWorld(t, s, func() {
				// They lift it first, or cordon again what we freed.
				n, err := s.Client(t).Node(t.Context(), "node-0")
				if err != nil {
					t.Fatal(err)
				}
				lifted = !n.Unschedulable
				s.Cordon("node-0", "kubectl", lifted)
			})
		})
	})
	t.Run("taint", func(t *testing.T) {
		steptest.TestLever(t, "node.taint", at, func(t *testing.T) steptest.World {
			s := gpuCluster(t)
			return nodeWorld(t, s, func() {
				s.Edit(kubetest.NodePath("node-0"), func(spec map[string]any) {
					if _, tainted := spec["taints"]; tainted {
						delete(spec, "taints")
						return
					}
					spec["taints"] = []any{map[string]any{"key": "maintenance", "effect": "NoSchedule"}}
				})
			})
		})
	})
	t.Run("untaint", func(t *testing.T) {
		steptest.TestLever(t, "node.untaint", at, func(t *testing.T) steptest.World {
			s := gpuCluster(t)
			ourTaint(s)
			return nodeWorld(t, s, func() {
				s.Edit(kubetest.NodePath("node-0"), func(spec map[string]any) {
					if _, tainted := spec["taints"]; tainted {
						delete(spec, "taints")
						return
					}
					spec["taints"] = []any{map[string]any{"key": "responder.dev/out", "effect": "NoSchedule"}} // nobody's run did
				})
			})
		})
	})
	t.Run("reset request", func(t *testing.T) {
		with := map[string]any{"node": "node-0", "gpus": "GPU-8f6d", "reason": "row remapping failed"}
		steptest.TestLever(t, "gpu.reset_request", with, func(t *testing.T) steptest.World {
			s := gpuCluster(t)
			return nodeWorld(t, s, func() {
				s.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
					n["metadata"].(map[string]any)["annotations"] = map[string]any{"responder.dev/gpu-reset-request": "r-9/other#1/apply#1 2026-05-04T11:30:00Z"}
				})
			})
		})
	})
}

// TestEvictPod runs the conformance test of levers on pod.evict_from_node. What it
// changes of the node is its mark.
func TestEvictPod(t *testing.T) {
	steptest.TestLever(t, "pod.evict_from_node", map[string]any{"node": "node-0"}, func(t *testing.T) steptest.World {
		s := gpuCluster(t)
		ourCordon(s)
		w := nodeWorld(t, s, func() { s.Cordon("node-0", "kubectl", false) })
		cordon := w.Spec
		w.Spec = func(tb testing.TB) string {
			n, err := w.Deps.Nodes.Node(t.Context(), "node-0")
			if err != nil {
				tb.Fatal(err)
			}
			return cordon(tb) + strconv.FormatBool(strings.Contains(n.Annotations[kube.MarkEvict], "/apply#")) // the mark of an undo stays
		}
		return w
	})
}

// TestEvictOne runs the conformance test of levers on pod.evict: the same mark, and
// no cordon.
func TestEvictOne(t *testing.T) {
	steptest.TestLever(t, "pod.evict", map[string]any{"pod": "chat-0"}, func(t *testing.T) steptest.World {
		s := gpuCluster(t)
		w := nodeWorld(t, s, func() {
			s.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
				n["metadata"].(map[string]any)["annotations"] = map[string]any{kube.MarkEvict: "r-9/other#1/apply#1 2026-05-04T11:30:00Z"}
			})
		})
		w.Spec = func(tb testing.TB) string {
			n, err := w.Deps.Nodes.Node(t.Context(), "node-0")
			if err != nil {
				tb.Fatal(err)
			}
			mark := n.Annotations[kube.MarkEvict]
			return strconv.FormatBool(strings.Contains(mark, "/apply#")) + strconv.FormatBool(strings.HasPrefix(mark, "r-9/"))
		}
		return w
	})
}

// stepsFor are the steps in a world that the kind can be planned in.
func stepsFor(t *testing.T, kind string, live *step.Set) *step.Set {
	switch {
	case strings.HasPrefix(kind, "gitops."), strings.HasPrefix(kind, "argocd."):
		w := inGit(kind != "argocd.sync")
		if kind == "argocd.sync" {
			w.Push("ada", "bigger", map[string]string{"replicas": "4"})
			w.refresh()
		}
		return kinds.New(w.deps)
	case strings.HasPrefix(kind, "node."), kind == "gpu.reset_request", kind == "pod.evict_from_node", kind == "pod.evict", kind == "kube.replace_pod", kind == "kube.restart":
		return onNodes(t, kind)
	default:
		return live
	}
}

// onNodes are the steps on that cluster, of which node-0 is cordoned by
// Responder where the lever needs that.
func onNodes(t *testing.T, kind string) *step.Set {
	s := gpuCluster(t)
	if kind == "node.uncordon" || kind == "pod.evict_from_node" {
		ourCordon(s)
	}
	if kind == "node.untaint" {
		ourTaint(s)
	}
	s.Budget(t, "serving", "chat", 1, 3, 2, 3)
	return kinds.New(nodeWorld(t, s, nil).Deps)
}

// ourCordon is what an earlier run of Responder's left on node-0.
func ourCordon(s *kubetest.Server) {
	s.Cordon("node-0", "responder", true)
	s.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		n["metadata"].(map[string]any)["annotations"] = map[string]any{"responder.dev/cordon": "r-0/fix#1/apply#1 2026-05-04T11:30:00Z"}
	})
}

// ourTaint is what an earlier run of Responder's left on node-0.
func ourTaint(s *kubetest.Server) {
	s.Edit(kubetest.NodePath("node-0"), func(spec map[string]any) {
		spec["taints"] = []any{map[string]any{"key": "responder.dev/out", "effect": "NoSchedule"}}
	})
	s.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		n["metadata"].(map[string]any)["annotations"] = map[string]any{
			"responder.dev/taint": "r-0/fix#1/apply#1 2026-05-04T11:30:00Z", "responder.dev/tainted": "responder.dev/out:NoSchedule",
		}
	})
}

// atNoon is an hour after everything in the cluster became ready.
func atNoon() time.Time { return kubetest.Epoch().Add(time.Hour) }
