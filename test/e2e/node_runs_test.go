//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestNodeRuns runs levers on nodes on a real control plane, as the account of
// deploy/: who may not be overruled, what bounds them, and who comes between.
// One of them kills the responder that runs them all.
func TestNodeRuns(t *testing.T) {
	t.Parallel()
	all := append(append(refusedByGuards(), neighboursNodes()...), overtaken()...)
	all = append(append(all, evictions()...), askedFor(), lagging(), headed())
	w := newNodeRuns(t, all)
	t.Run("each", func(t *testing.T) {
		for _, r := range all {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				w.run(t, r)
			})
		}
	})
	wantIntact(t, w.responder)
}

// refusedByGuards: each bound on what may be taken out refuses a drain.
func refusedByGuards() []*nodeRun {
	untouched := wantNode("", "", false)
	return []*nodeRun{
		{
			name: "tight", minReady: 2, lever: "node.drain", outcome: machine.OutcomeEscalated, after: untouched,
			says: []string{"1 would stay ready, needed 2"},
		},
		{
			// Two pods of one group on two nodes are one replica, and it is the last.
			name: "grouped", lever: "node.drain", outcome: machine.OutcomeEscalated, after: untouched,
			says: []string{"0 of LeaderWorkerSet ", "/big would stay ready, needed 1"},
			neighbours: `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: big}
spec:
  replicas: 2
  serviceName: big
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: big}}
  template:
    metadata:
      labels: {app: big, leaderworkerset.sigs.k8s.io/name: big, leaderworkerset.sigs.k8s.io/group-key: a}
      annotations: {leaderworkerset.sigs.k8s.io/size: "2"}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {karpenter.sh/nodepool: POOL}
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: big}}}]
      containers: [{name: engine, image: vllm:v1, resources: {limits: {nvidia.com/gpu: 4}}}]
`,
			before: func(t *testing.T, w *nodeRuns, _ *nodeRun) {
				rig.Await(t, time.Minute, "the group is ready", func(ctx context.Context) (bool, string) {
					s, err := w.cp.Client.AppsV1().StatefulSets(w.ns).Get(ctx, "big", metav1.GetOptions{})
					return err == nil && s.Status.ReadyReplicas == 2, fmt.Sprint(s.Status, err)
				})
			},
		},
		{
			name: "many", nodes: 9, lever: "node.drain", outcome: machine.OutcomeEscalated, after: untouched,
			before: cordonOthers(2), says: []string{"3 of 9 nodes of karpenter.sh/nodepool=", "would be out, limit 2: ", "a cordon by kubectl"},
		},
		{
			name: "share", nodes: 4, lever: "node.cordon", outcome: machine.OutcomeEscalated, after: untouched,
			before: cordonOthers(1), says: []string{"2 of 4 nodes of karpenter.sh/nodepool=", "would be out, limit 1 (25 %): "},
		},
	}
}

// cordonOthers lets a person take the last n nodes of the pool out.
func cordonOthers(n int) func(*testing.T, *nodeRuns, *nodeRun) {
	return func(t *testing.T, w *nodeRuns, r *nodeRun) {
		w.cp.Kubectl(t, append([]string{"cordon"}, r.all[len(r.all)-n:]...)...)
	}
}

// neighboursNodes: a node that others work on is theirs.
func neighboursNodes() []*nodeRun {
	return []*nodeRun{
		{
			name: "theirs", lever: "node.drain", outcome: machine.OutcomeEscalated, after: wantNode("", "", false),
			before: func(t *testing.T, w *nodeRuns, r *nodeRun) {
				kubectl("label", "node", "NODE", "dgxc.nvidia.com/nvsentinel-state=quarantined")(t, w, r)
				kubectl("annotate", "node", "NODE", "weave.works/kured-reboot-in-progress=2026-05-04T11:00:00Z")(t, w, r)
			},
			says: []string{"belongs to NVSentinel (label dgxc.nvidia.com/nvsentinel-state=quarantined) and to kured (annotation weave.works/kured-reboot-in-progress)"},
		},
		{
			name: "a-persons", lever: "node.uncordon", with: ", healthy_for: 1s", outcome: machine.OutcomeEscalated, after: wantNode("", "", true),
			before: kubectl("cordon", "NODE"), says: []string{"belongs to a cordon by kubectl"},
		},
	}
}

// overtaken: somebody comes between. Only what is Responder's own is taken back.
func overtaken() []*nodeRun {
	return []*nodeRun{
		{
			name: "taint", lever: "node.taint", with: ", value: diagnosis", hopeless: true, outcome: machine.OutcomeCanceled,
			during: canceled(kubectl("taint", "node", "NODE", "maintenance=yes:PreferNoSchedule")), after: wantNode("maintenance=yes:PreferNoSchedule", "", false),
		},
		{
			name: "untainted", lever: "node.taint", hopeless: true, outcome: machine.OutcomeHandedOver, says: []string{"someone changed it since"},
			during: kubectl("taint", "node", "NODE", "responder.dev/out-"), after: wantNode("", "", false),
		},
		{
			name: "request", lever: "gpu.reset_request", with: ", via: label, reason: row remapping failed", hopeless: true, outcome: machine.OutcomeCanceled,
			during: canceled(nil), after: wantNode("", "", false),
		},
		{
			name: "taken-up", lever: "gpu.reset_request", with: ", via: label, reason: row remapping failed", hopeless: true, outcome: machine.OutcomeHandedOver,
			during: canceled(kubectl("label", "--overwrite", "node", "NODE", "responder.dev/gpu-reset=in-progress")), after: wantNode("", "in-progress", false),
		},
		{
			name: "lifted", lever: "node.cordon", hopeless: true, outcome: machine.OutcomeHandedOver, says: []string{"someone changed it since"},
			during: kubectl("uncordon", "NODE"), after: wantNode("", "", false),
		},
	}
}

// evictions of one service's pods from a node that takes no new ones.
func evictions() []*nodeRun {
	return []*nodeRun{
		{
			name: "evicted", lever: "pod.evict_from_node", grace: true, outcome: machine.OutcomeResolved, before: cordonedEarlier,
			says: []string{"1 of 1 pods have left node"}, neighbours: fmt.Sprintf(sideDeployment, "stays"),
			during: func(t *testing.T, w *nodeRuns, _ *nodeRun) {
				w.awaitAsked(t)
				w.responder.Kill9()
				w.responder.Restart(t)
			},
			after: func(t *testing.T, w *nodeRuns, r *nodeRun) {
				wantNode("", "", true)(t, w, r)
				if w.pods(t, r.name, r.node) != 0 || w.pods(t, "stays", r.node)+w.pods(t, "stays", r.all[1]) != 2 {
					t.Errorf("%d pods of its own and %d of another service are there; want none, and both", w.pods(t, r.name, r.node), w.pods(t, "stays", r.node))
				}
				run, err := runOf(t.Context(), w.responder, r.name, w.ns+"/"+r.name)
				if err != nil {
					t.Fatal(err)
				}
				// The dry-run that each plan makes looks the same in the audit log.
				evicted := -run.Has(machine.PlanCompleted)
				for _, e := range w.cp.AuditWrites(t, rig.Responder) {
					if e.Namespace == w.ns && e.Subresource == "eviction" && e.Code == http.StatusCreated && strings.HasPrefix(e.Name, r.name+"-") {
						evicted++
					}
				}
				if evicted != 1 {
					t.Errorf("its pod was evicted %d times, want once:\n%s", evicted, run)
				}
			},
		},
		{
			name: "kept", lever: "pod.evict_from_node", outcome: machine.OutcomeEscalated, after: wantNode("", "", true),
			says: []string{"/kept never lets pod "},
			before: func(t *testing.T, w *nodeRuns, r *nodeRun) {
				cordonedEarlier(t, w, r)
				w.cp.Apply(t, w.ns, "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: kept}\nspec: {minAvailable: 2, selector: {matchLabels: {app: kept}}}\n")
				rig.Await(t, time.Minute, "the budget counts", func(ctx context.Context) (bool, string) {
					b, err := w.cp.Client.PolicyV1().PodDisruptionBudgets(w.ns).Get(ctx, "kept", metav1.GetOptions{})
					return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods == 2, fmt.Sprint(b, err)
				})
			},
		},
		{
			// No budget guards side: that its other replica dies after the plan is all that speaks for it.
			name: "bereft", lever: "node.drain", with: ", within: 15s", grace: true, outcome: machine.OutcomeEscalated,
			neighbours: fmt.Sprintf(sideDeployment, "side"),
			says:       []string{"leaving: ", "/bereft-", "held back: ", "/side has 1 ready replica, and 1 have to stay", "not done within 15s"},
			before:     func(t *testing.T, w *nodeRuns, _ *nodeRun) { w.cp.AwaitRollout(t, w.ns, "side", time.Minute) },
			during: func(t *testing.T, w *nodeRuns, r *nodeRun) {
				w.cp.Kubectl(t, "-n", w.ns, "annotate", "pod", w.pod(t, "side", r.all[1]), "rig.responder/ready=false")
			},
			after: func(t *testing.T, w *nodeRuns, r *nodeRun) {
				wantNode("", "", true)(t, w, r)
				if w.pods(t, "side", r.node) != 1 {
					t.Errorf("%d pods of side are on the node, want the one that still serves", w.pods(t, "side", r.node))
				}
			},
		},
		{
			name: "gone", lever: "pod.evict_from_node", grace: true, outcome: machine.OutcomeHandedOver, before: cordonedEarlier,
			says: []string{"is gone: someone deleted it"}, during: kubectl("delete", "node", "NODE", "--wait=false"),
		},
	}
}

// askedFor is a reset asked for over https: of several GPUs, with a token, once.
// The responder is killed while it waits for the first answer, and the second is
// that the repair server is out of order.
func askedFor() *nodeRun {
	return &nodeRun{
		name: "asked", lever: "gpu.reset_request", with: `, gpus: "GPU-8f6d, GPU-9a1b", reason: row remapping failed`, early: true,
		outcome: machine.OutcomeResolved, says: []string{"asked for as OPS-1"},
		after: func(t *testing.T, w *nodeRuns, r *nodeRun) {
			wantNode("", "requested", false)(t, w, r)
			if ticket := nodeNow(t, w.cp, r.node).Annotations["responder.dev/gpu-reset-ticket"]; ticket != "OPS-1" {
				t.Errorf("the node names the ticket %q", ticket)
			}
			taken := w.repairs.Taken()
			if len(taken) != 1 || w.repairs.Seen() < 3 {
				t.Fatalf("%d requests came, with the keys of %v; want three or more with one key", w.repairs.Seen(), taken)
			}
			body := taken[0].Body
			if body["key"] != taken[0].Key || body["node"] != r.node || fmt.Sprint(body["gpus"]) != "[GPU-8f6d GPU-9a1b]" || body["service"] != w.ns+"/asked" {
				t.Errorf("asked for %v under the key %s", body, taken[0].Key)
			}
			for _, token := range w.repairs.Tokens() {
				if token != "Bearer "+repairsToken {
					t.Errorf("shown the token %q", token)
				}
			}
		},
	}
}

// awaitAsked waits until the request of the run asked waits for its answer.
func (w *nodeRuns) awaitAsked(t *testing.T) {
	t.Helper()
	rig.Await(t, time.Minute, "the request for a reset", func(context.Context) (bool, string) { return w.repairs.Seen() > 0, "nobody asked" })
}

// sideDeployment is of nobody's concern, on two nodes of the pool.
const sideDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {karpenter.sh/nodepool: POOL}
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: %[1]s}}}]
      containers: [{name: web, image: web:v1}]
`
