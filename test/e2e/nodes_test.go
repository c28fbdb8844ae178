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

// A node is emptied by a run, on a real control plane: as it should be, and in
// every way in which somebody or something comes between.
func TestNodeIsDrained(t *testing.T) {
	t.Parallel()
	c := &crashes{cp: rig.Shared(t), engines: map[string]*rig.Fleet{}}
	c.cp.Deploy(t)
	c.cp.BindNodes(t)
	c.prometheus = scrapeAll(t, c)
	c.kubeconfig = c.cp.Kubeconfig(t, rig.Responder)
	for name, run := range map[string]func(*testing.T, *drained){
		"empty": drainedEmpty, "killed": drainedKilled, "canceled": drainCanceled, "uncordoned": drainOvertaken,
		"deleted": drainOfDeleted, "never": drainRefused, "blocked": drainBlocked,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c.drain(t, name))
		})
	}
}

// drained is a pool of three nodes with two services, chat and side, and a
// responder that is to empty the node on which both have a replica.
type drained struct {
	*rig.Service
	cp   *rig.ControlPlane
	ns   string
	node string
}

func (c *crashes) drain(t *testing.T, name string) *drained {
	t.Helper()
	ns, nodes := c.cp.Own(t, 3, 8)
	d := &drained{cp: c.cp, ns: ns, node: nodes[0]}
	c.cp.BindLevers(t, d.ns)
	var all []string
	for _, app := range []string{"chat", "side"} {
		all = append(all, goesSlowly(apart(inference(app, "vllm:v1", 3), app, tainted), app, "5s"))
	}
	c.cp.Apply(t, d.ns, strings.Join(all, "---"))
	fleet := rig.StartFleet(t, c.cp, d.ns, "chat")
	c.mu.Lock()
	c.engines["drain-"+name] = fleet
	c.mu.Unlock()
	for _, app := range []string{"chat", "side"} {
		c.cp.AwaitRollout(t, d.ns, app, time.Minute)
	}
	d.Service = rig.StartService(t, rig.ServiceOptions{
		Prometheus: c.prometheus.URL, Kubeconfig: c.kubeconfig, Playbook: drainPlaybook(d.node),
		NoShipped: true, // else the alert matches inference-slo-breach, too
		Services:  "services:" + service(d.ns, "chat", "auto") + service(d.ns, "side", "auto"), Settings: "autonomy: auto",
	})
	c.prometheus.AwaitQuery(t, time.Minute, requestRate(d.ns), func(v float64) bool { return v > 1 })
	return d
}

func drainPlaybook(node string) string {
	return strings.ReplaceAll(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: empty-node, title: Empty a node, description: One lever., runbook: none}
spec:
  match: ['{alertname="InferenceTTFTFastBurn"}']
  autonomy: auto
  start: look
  states:
    look:
      check: kube.workload
      on_error: escalated
      next:
        - {when: out.ready >= 1, to: empty}
        - {to: escalated}
    empty:
      lever: node.drain
      with: {node: '${look.nodes.filter(n, n.name == "NODE")[0].name}', within: 20s}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      verify:
        within: 1m
        hold: 2s
        interval: 1s
        until: [{query: 'sum(rate(vllm:request_success_total{${service.selector}}[4s]))', op: '>', value: 0.1}]
        traffic: {query: 'sum(rate(vllm:request_success_total{${service.selector}}[4s]))', min_rate: 0.1}
      next:
        - {when: verified, to: resolved}
        - {to: escalated}
    resolved: {end: resolved}
    escalated: {end: escalated}
`, "NODE", node)
}

// alert delivers the alert until it is acknowledged.
func (d *drained) alert(t *testing.T) {
	t.Helper()
	deliverUntilTaken(t, d.Service, alertBody(t, d.ns, "chat"))
}

// halfway delivers the alert and waits until the first pod is on its way out
// and the second is not.
func (d *drained) halfway(t *testing.T) {
	t.Helper()
	d.alert(t)
	d.AwaitRun(t, time.Minute, "the first pod on its way out", func(r *rig.Run) bool { return r.Has(machine.Settling) > 0 })
}

// pods counts those of a service on the node that are not leaving.
func (d *drained) pods(t *testing.T, app string) int {
	t.Helper()
	return len(podsOn(t, d.cp, d.ns, app, d.node))
}

// rotation counts the pods that EndpointSlices call ready, and those of them on the node.
func (d *drained) rotation(ctx context.Context) (all, here int, err error) {
	list, err := d.cp.Client.DiscoveryV1().EndpointSlices(d.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready && e.NodeName != nil {
				all++
				if *e.NodeName == d.node {
					here++
				}
			}
		}
	}
	return all, here, nil
}

// evictions counts what the API server let the responder evict. A dry-run of
// one, which each plan makes for both pods, looks the same in the audit log:
// it says so in its body.
func (d *drained) evictions(t *testing.T, run *rig.Run) int {
	t.Helper()
	n := -2 * run.Has(machine.PlanCompleted)
	for _, e := range d.cp.AuditWrites(t, rig.Responder) {
		if e.Namespace == d.ns && e.Subresource == "eviction" && e.Code == http.StatusCreated {
			n++
		}
	}
	return n
}

// end waits for the end of the run and fails unless it says that.
func (d *drained) end(t *testing.T, outcome machine.RunOutcome, says ...string) *rig.Run {
	t.Helper()
	run := d.AwaitEnd(t, 2*time.Minute, outcome)
	var told []string
	for _, e := range run.Events {
		told = append(told, string(e.Kind)+": "+e.Message)
	}
	for _, want := range says {
		if !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("the run does not say %q:\n%s", want, strings.Join(told, "\n"))
		}
	}
	wantIntact(t, d.Service)
	return run
}

func (d *drained) wantCordon(t *testing.T, want bool) {
	t.Helper()
	if n := nodeNow(t, d.cp, d.node); n.Spec.Unschedulable != want {
		t.Errorf("the node is cordoned: %v, want %v; its annotations are %v", n.Spec.Unschedulable, want, n.Annotations)
	}
}

// drainedEmpty: cordoned, both pods evicted in turn, out of rotation, proven, and kept.
func drainedEmpty(t *testing.T, d *drained) {
	d.cp.Apply(t, d.ns, "apiVersion: v1\nkind: Service\nmetadata: {name: chat}\nspec: {selector: {app: chat}, ports: [{port: 8000}]}\n")
	rig.Await(t, time.Minute, "all pods of chat in rotation", func(ctx context.Context) (bool, string) {
		all, here, err := d.rotation(ctx)
		return err == nil && all == 3 && here == 1, fmt.Sprint(all, here, err)
	})
	d.alert(t)
	run := d.end(t, machine.OutcomeResolved, "0 of 2 pods have left", "2 of 2 pods have left")
	d.wantCordon(t, true)
	if _, here, err := d.rotation(t.Context()); err != nil || here > 0 {
		t.Errorf("%d pods of the node are in rotation, %v; want none", here, err)
	}
	if d.pods(t, "chat")+d.pods(t, "side") > 0 || d.evictions(t, run) != 2 {
		t.Errorf("%d and %d pods are there, %d were evicted; want none and 2", d.pods(t, "chat"), d.pods(t, "side"), d.evictions(t, run))
	}
}

// drainedKilled: kill -9 between two pods, and it goes on where it was.
func drainedKilled(t *testing.T, d *drained) {
	d.halfway(t)
	d.Kill9()
	d.Restart(t)
	run := d.end(t, machine.OutcomeResolved, "2 of 2 pods have left")
	d.wantCordon(t, true)
	if n := d.evictions(t, run); n != 2 {
		t.Errorf("%d pods were evicted, want 2: each once", n)
	}
}

// drainCanceled: a person says stop, the second pod stays and the cordon goes.
func drainCanceled(t *testing.T, d *drained) {
	d.halfway(t)
	run := d.AwaitRun(t, time.Minute, "the run", func(*rig.Run) bool { return true })
	d.Must(t, "runs", "cancel", run.ID, "--reason", "not now")
	d.end(t, machine.OutcomeCanceled)
	d.wantCordon(t, false)
	if n := d.pods(t, "side"); n != 1 {
		t.Errorf("%d pods of side are on the node, want the one that was there", n)
	}
}

// drainOvertaken: a person lifts the cordon, and the run hands over.
func drainOvertaken(t *testing.T, d *drained) {
	d.halfway(t)
	d.cp.Kubectl(t, "uncordon", d.node)
	d.end(t, machine.OutcomeHandedOver, "someone changed it since")
	d.wantCordon(t, false)
}

// drainOfDeleted: the node goes away under the run.
func drainOfDeleted(t *testing.T, d *drained) {
	d.halfway(t)
	d.cp.Kubectl(t, "delete", "node", d.node, "--wait=false")
	d.end(t, machine.OutcomeHandedOver, "is gone: someone deleted it")
}

// drainRefused: a budget that can never let a pod go is named in the plan's
// place, and the node is not touched.
func drainRefused(t *testing.T, d *drained) {
	d.budget(t, "side")
	d.alert(t)
	run := d.end(t, machine.OutcomeEscalated, "PodDisruptionBudget "+d.ns+"/side never lets pod "+d.ns+"/side-")
	d.wantCordon(t, false)
	if n := d.evictions(t, run); n != 0 {
		t.Errorf("%d pods were evicted, want none", n)
	}
}

// drainBlocked: a budget that comes in the midst stops it; it is named, and
// the cordon goes.
func drainBlocked(t *testing.T, d *drained) {
	d.halfway(t)
	d.budget(t, "side")
	d.end(t, machine.OutcomeEscalated, "held back: "+d.ns+"/side-", "The disruption budget side needs 3 healthy pods", "not done within 20s")
	d.wantCordon(t, true) // the node is as suspect as before, and half of its pods have left
	if n := d.pods(t, "side"); n != 1 {
		t.Errorf("%d pods of side are on the node, want the one that was there", n)
	}
}

// budget demands all three pods of a service and waits until that counts.
func (d *drained) budget(t *testing.T, app string) {
	t.Helper()
	d.cp.Apply(t, d.ns, fmt.Sprintf(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s}
spec: {minAvailable: 3, selector: {matchLabels: {app: %[1]s}}}
`, app))
	rig.Await(t, 30*time.Second, "the budget counts", func(ctx context.Context) (bool, string) {
		b, err := d.cp.Client.PolicyV1().PodDisruptionBudgets(d.ns).Get(ctx, app, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods == 3, fmt.Sprint(b, err)
	})
}
