//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// nodeLever is a lever on a node, and how kubectl sees it and comes between.
type nodeLever struct {
	kind   string
	with   map[string]any
	gpus   int
	ours   bool     // the node has been cordoned by an earlier run, or tainted where the lever lifts that
	shows  string   // what it changes, as a JSONPath
	first  []string // somebody's kubectl before it, with the node at the end
	after  []string // and after it
	undone string   // what shows then tells that it is not there yet
}

func nodeLevers() []nodeLever {
	const cordoned = "{.spec.unschedulable}"
	return []nodeLever{
		{kind: "node.cordon", gpus: 8, shows: cordoned, first: []string{"cordon"}, after: []string{"uncordon"}},
		{kind: "node.drain", gpus: 8, shows: cordoned, first: []string{"cordon"}, after: []string{"uncordon"}},
		// Without GPUs its conditions are the whole proof; TestGPUFaults has the other. KWOK
		// may set them once more a moment after a node is ready, so they are good for no time.
		{kind: "node.uncordon", with: map[string]any{"healthy_for": "1ms"}, ours: true, shows: cordoned, first: []string{"uncordon"}, after: []string{"cordon"}, undone: "true"},
		{
			kind: "node.taint", gpus: 8, with: map[string]any{"value": "diagnosis"}, shows: "{.spec.taints}",
			first: []string{"taint", "maintenance=yes:NoSchedule"}, after: []string{"taint", "responder.dev/out-"},
		},
		{
			kind: "node.untaint", with: map[string]any{"healthy_for": "1ms"}, ours: true, shows: "{.spec.taints}",
			first: []string{"taint", "responder.dev/out-"}, after: []string{"taint", "responder.dev/out:NoSchedule"},
			undone: `[{"effect":"NoSchedule","key":"responder.dev/out"}]`,
		},
		{
			kind: "gpu.reset_request", gpus: 8, with: map[string]any{"gpus": "GPU-8f6d", "reason": "row remapping failed"},
			shows: `{.metadata.labels.responder\.dev/gpu-reset} {.metadata.annotations.responder\.dev/gpu-reset-requested}`,
			first: []string{"annotate", "responder.dev/gpu-reset-request=r-9/other#1/apply#1 2026-05-04T11:30:00Z"},
			after: []string{"annotate", "--overwrite", "responder.dev/gpu-reset-request=r-9/other#1/apply#1 2026-05-04T11:30:00Z"},
		},
	}
}

// TestNodeLevers holds the levers on nodes to their contract on a real API
// server, as the account of deploy/ with its roles, against kubectl: whose a
// cordon is, is what its managedFields say. pod.evict_from_node has nothing that
// an undo could put back; see TestNodeRuns.
func TestNodeLevers(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	cp.BindNodes(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	for _, lever := range nodeLevers() {
		t.Run(lever.kind, func(t *testing.T) {
			t.Parallel()
			ns, _ := cp.Own(t, 1, 8)
			cp.BindLevers(t, ns)
			cp.Apply(t, ns, inference("chat", "vllm:v1", 1))
			cp.AwaitRollout(t, ns, "chat", time.Minute)
			with := map[string]any{"node": ""}
			for k, v := range lever.with {
				with[k] = v
			}
			steptest.TestLever(t, lever.kind, with, func(t *testing.T) steptest.World {
				node := lever.node(t, cp, client, ns)
				with["node"] = node
				return lever.world(cp, client, ns, node)
			})
		})
	}
}

// TestNodeReturnsRebooted: a node whose GPU needed a reset when it went out comes
// back under another boot of its kernel, as its kubelet tells that, and not under
// the same.
func TestNodeReturnsRebooted(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	cp.BindNodes(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	ns, _ := cp.Own(t, 1, 8)
	cp.BindLevers(t, ns)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 1))
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	lever := nodeLever{kind: "node.uncordon", gpus: 8, ours: true}
	node := lever.node(t, cp, client, ns)
	at := time.Now().UTC().Format(time.RFC3339)
	cp.Kubectl(t, "annotate", "node", node, fmt.Sprintf("%s=%s boot=boot-of-%s reset=GPU-0", kube.GPUsWhenOut, at, node))
	plan := func() machine.Outcome {
		return kinds.New(step.Deps{Workloads: client, Nodes: client, NodeChanger: client, GPUs: wellGPU{}}).Do(t.Context(), machine.Effect{
			Key: "r-1/back#1/plan#1", Run: "r-1", State: "back", Action: machine.ActionPlan, Step: lever.kind, Attempt: 1,
			With: map[string]any{"node": node, "healthy_for": "1ms"}, Service: lever.world(cp, client, ns, node).Service,
		})
	}
	if o := plan(); o.Reason != fault.NotMet || !strings.Contains(o.Message, "GPU-0 needed a reset or a reboot when it went out at ") || !strings.Contains(o.Message, "it was not rebooted since") {
		t.Errorf("under the same boot: %s %s %s", o.Status, o.Reason, o.Message)
	}
	cp.Kubectl(t, "patch", "node", node, "--subresource=status", "--type=merge", "-p", `{"status":{"nodeInfo":{"bootID":"another"}}}`)
	// KWOK may set its conditions once more a moment after a node is ready.
	rig.Await(t, time.Minute, "it may come back", func(context.Context) (bool, string) {
		o := plan()
		return o.Status == machine.StatusOK && o.Plan.Summary == "uncordon node "+node, fmt.Sprintf("%s %s %s", o.Status, o.Reason, o.Message)
	})
}

// wellGPU is one healthy GPU on every node, of which an agent that was started
// anew has forgotten all that was before. TestGPUFaults has real agents.
type wellGPU struct{}

func (wellGPU) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	now := time.Now().UTC()
	none := gpu.Known[uint64](0)
	g := gpu.GPU{
		UUID: "GPU-0", TakenAt: now, Clocks: gpu.Clocks{Reasons: gpu.Known(gpu.GPUIdle)}, ECC: gpu.ECC{Enabled: gpu.Known(true), VolatileUncorrectable: none},
		Temperature: gpu.Temperature{GPUC: gpu.Known[int64](40), SlowdownC: gpu.Known[int64](92)}, Rows: gpu.Rows{Pending: gpu.Known(false), Failed: gpu.Known(false)},
		EventsWatched: gpu.Known(true), EventsSince: now.Add(-time.Second),
	}
	for i := range 5 {
		g.Minutes = append(g.Minutes, gpu.Minute{Start: now.Add(time.Duration(i-5) * time.Minute), Samples: 60, GPUMaxC: gpu.Known[int64](40)})
	}
	var out []gpu.Answer
	for _, n := range nodes {
		out = append(out, gpu.Answer{Node: n, Snapshot: gpu.Snapshot{Format: gpu.Format, Node: n, Source: "nvml", TakenAt: now, PeriodMS: 1000, GPUs: []gpu.GPU{g}}})
	}
	return out
}

// node is a fresh one, ready and in the state that the lever is for.
func (l nodeLever) node(t *testing.T, cp *rig.ControlPlane, client *kube.Client, ns string) string {
	t.Helper()
	node := cp.AddNodes(t, ns, 1, l.gpus)[0]
	var state kube.NodeState
	rig.Await(t, time.Minute, "the node is ready", func(ctx context.Context) (_ bool, seen string) {
		var err error
		state, err = client.Node(ctx, node)
		// The taint of a node that is not ready yet goes a moment after that.
		return err == nil && state.Ready && len(state.Conditions)+len(state.Taints) == 0, fmt.Sprintf("%+v %v", state, err)
	})
	if l.ours {
		l.before(t, client, state)
	}
	return node
}

// before is what an earlier run of Responder's left on the node.
func (l nodeLever) before(t *testing.T, client *kube.Client, n kube.NodeState) {
	t.Helper()
	if l.kind != "node.untaint" {
		ourCordon(t, client, n)
		return
	}
	taint := kube.Taint{Key: "responder.dev/out", Effect: "NoSchedule"}
	if _, err := client.ChangeNode(t.Context(), kube.NodeChange{
		Name: n.Name, UID: n.UID, Stamp: n.Stamp(), Mark: kube.MarkTaint, Key: "r-0/fix#1/apply#1", At: time.Now(),
		Edit: kube.NodeEdit{Taint: &taint, Annotate: map[string]string{kube.Tainted: taint.String()}},
	}); err != nil {
		t.Fatal(err)
	}
}

// ourCordon is a cordon of an earlier run of Responder's.
func ourCordon(t *testing.T, client *kube.Client, n kube.NodeState) {
	t.Helper()
	if _, err := client.ChangeNode(t.Context(), kube.NodeChange{
		Name: n.Name, UID: n.UID, Stamp: n.Stamp(), Edit: kube.NodeEdit{Cordon: new(true)}, Mark: kube.MarkCordon, Key: "r-0/fix#1/apply#1", At: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
}

func (l nodeLever) world(cp *rig.ControlPlane, client *kube.Client, ns, node string) steptest.World {
	shown := func(t testing.TB) string {
		return strings.TrimSpace(cp.Kubectl(t, "get", "node", node, "-o", "jsonpath="+l.shows))
	}
	return steptest.World{
		Service: language.Service{Name: ns + "/chat", Namespace: ns, Workload: language.Workload{Kind: "Deployment", Name: "chat"}, MinReady: 1},
		Deps:    step.Deps{Workloads: client, Nodes: client, NodeChanger: client},
		Spec:    shown, Settle: func(testing.TB) {},
		Meddle: func(t testing.TB) {
			args := l.after
			if shown(t) == l.undone {
				args = l.first
			}
			// kubectl VERB node NAME WHAT, but for the two verbs that know only nodes.
			if strings.HasSuffix(args[0], "cordon") {
				cp.Kubectl(t, args[0], node)
				return
			}
			cp.Kubectl(t, append([]string{args[0], "node", node}, args[1:]...)...)
		},
	}
}
