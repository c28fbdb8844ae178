//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// nodeRun is one run of a playbook with one lever on the first node of a pool of
// its own, on which the service has a replica.
type nodeRun struct {
	name       string
	nodes      int    // of the pool; 0: 2
	minReady   int    // of the service; 0: 1
	neighbours string // manifests of others in the pool, POOL stands for it
	lever      string // kind
	with       string // its parameters except the node, as YAML
	hopeless   bool   // its proof never comes
	grace      bool   // the pods take seconds to go
	early      bool   // its alert comes before all the others

	before func(*testing.T, *nodeRuns, *nodeRun) // the alert
	during func(*testing.T, *nodeRuns, *nodeRun) // when the change was made and is not proven
	after  func(*testing.T, *nodeRuns, *nodeRun) // the end

	outcome machine.RunOutcome
	says    []string

	node string // the first of its pool
	all  []string
}

// nodeRuns is one responder over all of them.
type nodeRuns struct {
	cp        *rig.ControlPlane
	ns        string
	responder *rig.Service
	client    *kube.Client // as the responder's account
	repairs   *notifytest.RepairServer
}

func newNodeRuns(t *testing.T, all []*nodeRun) *nodeRuns {
	t.Helper()
	cp := rig.Shared(t)
	cp.Deploy(t)
	cp.BindNodes(t)
	w := &nodeRuns{cp: cp, ns: cp.Namespace(t)}
	cp.BindLevers(t, w.ns)
	var err error
	var ca string
	w.repairs, ca = notifytest.StartRepairServerTLS(t)
	w.repairs.Fail(notifytest.Fault{Hang: true}, notifytest.Fault{Status: http.StatusInternalServerError})
	if w.client, err = kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)}); err != nil {
		t.Fatal(err)
	}
	fleets := &crashes{engines: map[string]*rig.Fleet{}}
	services, files, manifests := "services:", map[string]string{"repairs-ca": ca, "repairs-token": repairsToken}, []string{}
	for _, r := range all {
		r.all = cp.AddNodes(t, w.ns, max(r.nodes, 2), 8)
		r.node = r.all[0]
		pool := w.ns + "-" + r.name
		cp.LabelNodes(t, r.all, "karpenter.sh/nodepool", pool)
		manifests = append(manifests, r.deployment(pool))
		if r.neighbours != "" {
			manifests = append(manifests, strings.ReplaceAll(r.neighbours, "POOL", pool))
		}
		services += strings.Replace(service(w.ns, r.name, "auto"), "min_ready: 1", fmt.Sprintf("min_ready: %d", max(r.minReady, 1)), 1)
		files["playbooks/"+r.name+".yaml"] = r.playbook()
		fleets.engines[r.name] = rig.StartFleet(t, cp, w.ns, r.name)
	}
	prometheus := scrapeAll(t, fleets)
	cp.Apply(t, w.ns, strings.Join(manifests, "---"))
	for _, r := range all {
		cp.AwaitRollout(t, w.ns, r.name, time.Minute)
	}
	w.responder = rig.StartService(t, rig.ServiceOptions{
		Prometheus: prometheus.URL, Kubeconfig: cp.Kubeconfig(t, rig.Responder), Services: services,
		Playbook: cordonPlaybook, Files: files,
		Settings: "autonomy: auto\nguards: {cooldown: 0s, nodes_out: {max: 2, percent: 25}, concurrency: {levers: 50}, budget: {levers: 100, runs: 100}}\n" +
			fmt.Sprintf("gpu: {repairs: {url: %q, ca_file: repairs-ca, token_file: repairs-token, timeout: 30s, idempotent: true}}\n", w.repairs.URL),
	})
	for _, r := range all {
		if r.early {
			w.alert(t, r)
		}
	}
	return w
}

// repairsToken is worth nothing outside the test.
const repairsToken = "rig-repairs-token-of-no-worth"

func (w *nodeRuns) alert(t *testing.T, r *nodeRun) {
	t.Helper()
	deliverAlert(t, w.responder, map[string]any{"alertname": r.name, "namespace": w.ns, "service": r.name, "severity": "critical"})
}

// deployment has one replica on each of the first two nodes of the pool.
func (r *nodeRun) deployment(pool string) string {
	m := apart(inference(r.name, "vllm:v1", 2), r.name, untainted, "nodeSelector: {karpenter.sh/nodepool: "+pool+"}",
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: ["+
			strings.Join(r.all[:2], ", ")+"]}]}]}}}")
	if r.grace {
		m = goesSlowly(m, r.name, "4s")
	}
	return m
}

func (r *nodeRun) playbook() string {
	proof := "op: '>', value: 0.1"
	const within = "1m"
	if r.hopeless {
		proof = "op: '>', value: 1000000"
	}
	node := r.node
	if node != "" { // a node has to come from a check's evidence
		node = fmt.Sprintf("'${look.ready >= 1 ? %q : \"\"}'", r.node)
	}
	return fmt.Sprintf(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: %[1]s, title: One lever, description: One lever on a node., runbook: none}
spec:
  match: ['{alertname=%[1]q}']
  autonomy: auto
  start: look
  states:
    look:
      check: kube.workload
      on_error: escalated
      next:
        - {when: out.ready >= 1, to: act}
        - {to: escalated}
    act:
      lever: %[2]s
      with: {node: %[3]s%[4]s}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      verify:
        within: %[5]s
        hold: 1s
        interval: 1s
        until: [{query: 'sum(rate(vllm:request_success_total{${service.selector}}[4s]))', %[6]s}]
        traffic: {query: 'sum(rate(vllm:request_success_total{${service.selector}}[4s]))', min_rate: 0.1}
      next:
        - {when: verified, to: resolved}
        - {to: escalated}
    resolved: {end: resolved}
    escalated: {end: escalated}
`, r.name, r.lever, node, r.with, within, proof)
}

// run is the whole of it.
func (w *nodeRuns) run(t *testing.T, r *nodeRun) {
	t.Helper()
	if r.before != nil {
		r.before(t, w, r)
	}
	if !r.early {
		w.alert(t, r)
	}
	if r.during != nil {
		rig.Await(t, 2*time.Minute, "the change", func(ctx context.Context) (bool, string) {
			run, err := runOf(ctx, w.responder, r.name, w.ns+"/"+r.name)
			if err != nil {
				return false, err.Error()
			}
			return run.Has(machine.Applied) > 0, run.String()
		})
		r.during(t, w, r)
	}
	// After each attempt whose outcome is unknown the run waits a minute: it may still land.
	wantEnd(t, awaitRunOf(t, w.responder, r.name, w.ns+"/"+r.name, 4*time.Minute), r.outcome, r.says...)
	if r.after != nil {
		r.after(t, w, r)
	}
}

// pods counts those of a service on a node that are not leaving.
func (w *nodeRuns) pods(t *testing.T, app, node string) int {
	t.Helper()
	return len(podsOn(t, w.cp, w.ns, app, node))
}

// pod is the one of a service on a node.
func (w *nodeRuns) pod(t *testing.T, app, node string) string {
	t.Helper()
	names := podsOn(t, w.cp, w.ns, app, node)
	if len(names) != 1 {
		t.Fatalf("the pods %v of %s are on %s; want one", names, app, node)
	}
	return names[0]
}

// wantNode fails unless the node's taints of people and of Responder, and its
// request, are these.
func wantNode(taints, request string, cordoned bool) func(*testing.T, *nodeRuns, *nodeRun) {
	return func(t *testing.T, w *nodeRuns, r *nodeRun) {
		t.Helper()
		n := nodeNow(t, w.cp, r.node)
		var have []string
		for _, x := range n.Spec.Taints {
			if !strings.HasPrefix(x.Key, "node.kubernetes.io/") {
				have = append(have, x.ToString())
			}
		}
		if got := strings.Join(have, " "); got != taints || n.Labels["responder.dev/gpu-reset"] != request || n.Spec.Unschedulable != cordoned {
			t.Errorf("the node has the taints %q, the request %q, cordoned: %v; want %q, %q, %v", got, n.Labels["responder.dev/gpu-reset"], n.Spec.Unschedulable, taints, request, cordoned)
		}
	}
}

// kubectl is somebody's, with the node's name in the place of NODE.
func kubectl(args ...string) func(*testing.T, *nodeRuns, *nodeRun) {
	return func(t *testing.T, w *nodeRuns, r *nodeRun) {
		t.Helper()
		var real []string
		for _, a := range args {
			real = append(real, strings.ReplaceAll(a, "NODE", r.node))
		}
		w.cp.Kubectl(t, real...)
	}
}

// canceled lets something happen, and then a person cancels the run.
func canceled(first func(*testing.T, *nodeRuns, *nodeRun)) func(*testing.T, *nodeRuns, *nodeRun) {
	return func(t *testing.T, w *nodeRuns, r *nodeRun) {
		t.Helper()
		if first != nil {
			first(t, w, r)
		}
		rig.Await(t, 30*time.Second, "the run is canceled", func(ctx context.Context) (bool, string) { // one run has the responder killed
			run, err := runOf(ctx, w.responder, r.name, w.ns+"/"+r.name)
			if err != nil {
				return false, err.Error()
			}
			said, err := w.responder.CLI(ctx, "runs", "cancel", run.ID, "--reason", "the wrong node")
			return err == nil && said.Code == 0, fmt.Sprint(said, err)
		})
	}
}

// cordonedEarlier is the cordon of an earlier run of Responder's.
func cordonedEarlier(t *testing.T, w *nodeRuns, r *nodeRun) {
	t.Helper()
	n, err := w.client.Node(t.Context(), r.node)
	if err != nil {
		t.Fatal(err)
	}
	ourCordon(t, w.client, n)
}
