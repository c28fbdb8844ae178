//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// autoscaler is a HorizontalPodAutoscaler on chat. There are no metrics, so that only its
// bounds count.
func autoscaler(low, high int) string {
	return fmt.Sprintf(`
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat-autoscaler}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  minReplicas: %d
  maxReplicas: %d
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`, low, high)
}

// scaledObject is KEDA's object on chat. No KEDA runs: the test sets the replicas by its
// bounds.
const scaledObject = `
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat-autoscaler}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 2
  maxReplicaCount: 2
  triggers: [{type: cpu, metricType: Utilization, metadata: {value: "80"}}]
`

// TestAutoscalerLever holds kube.autoscaler to the contract of levers on a real API
// server, which keeps no generation of an autoscaler: with the real controller of a
// HorizontalPodAutoscaler, and with KEDA's own definition of a ScaledObject.
func TestAutoscalerLever(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Define(t, "scaledobject")
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Admin)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ object, manifest, low, high string }{
		"HorizontalPodAutoscaler": {"hpa/chat-autoscaler", autoscaler(2, 2), "minReplicas", "maxReplicas"},
		"ScaledObject":            {"scaledobject/chat-autoscaler", scaledObject, "minReplicaCount", "maxReplicaCount"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steptest.TestLever(t, "kube.autoscaler", map[string]any{"by": int64(1)}, func(t *testing.T) steptest.World {
				w := leverWorld(t, cp, client, "Deployment", nil)
				ns := w.Service.Namespace
				kubectl := func(t testing.TB, args ...string) string {
					t.Helper()
					return cp.Kubectl(t, append([]string{"-n", ns}, args...)...)
				}
				cp.Apply(t, ns, c.manifest)
				w.Deps.Scalers = client
				w.Spec = func(t testing.TB) string { return kubectl(t, "get", c.object, "-o", "jsonpath={.spec}") }
				w.Meddle = func(t testing.TB) {
					kubectl(t, "patch", c.object, "--type=merge", "-p", fmt.Sprintf(`{"spec":{%q:1,%q:4}}`, c.low, c.high))
				}
				rollout := w.Settle
				w.Settle = func(t testing.TB) {
					t.Helper()
					low := kubectl(t, "get", c.object, "-o", "jsonpath={.spec."+c.low+"}")
					if name == kube.ScaledObject {
						kubectl(t, "scale", "deployment/chat", "--replicas="+low)
					}
					rig.Await(t, 30*time.Second, "replicas by the bounds", func(context.Context) (bool, string) {
						n := kubectl(t, "get", "deployment/chat", "-o", "jsonpath={.spec.replicas}")
						high := kubectl(t, "get", c.object, "-o", "jsonpath={.spec."+c.high+"}")
						return low <= n && n <= high, n // of one digit
					})
					rollout(t)
				}
				return w
			})
		})
	}
}

// A burst is answered with the bounds of the autoscaler that owns the replicas, and the
// former bounds come back when the service has recovered without them.
func TestScaleUnderAutoscaler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{
		manifests: autoscaler(2, 2), settings: "guards: {cooldown: 1s}", service: "    recovery: 5s\n",
		files: map[string]string{"playbooks/loan-return.yaml": loanReturn(t)},
	})
	bounds := func() string {
		return strings.TrimSpace(w.cp.Kubectl(t, "-n", w.ns, "get", "hpa/chat-autoscaler", "-o", "jsonpath={.spec.minReplicas}..{.spec.maxReplicas}"))
	}
	patched := fmt.Sprintf("patch horizontalpodautoscalers %s/chat-autoscaler -> 200", w.ns)

	w.fleet.SetTraffic(600) // two pods serve 500
	incident := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeResolved)
	if got := bounds(); got != "4..4" || w.replicas(t) != 4 {
		t.Fatalf("bounds %s and %d replicas after the incident, want 4..4 and 4:\n%s", got, w.replicas(t), incident)
	}
	w.wantWrites(t, patched)

	w.awaitLoan(t, time.Minute, "looks at the load", func(r *rig.Run) bool { return r.Has(machine.WaitLooked) > 3 }) // what a replica carries has to be seen
	w.fleet.SetTraffic(200)
	loan := w.awaitLoan(t, 90*time.Second, "its end", func(r *rig.Run) bool { return r.Ending != nil })
	wantEnd(t, loan, machine.OutcomeResolved)
	if got := bounds(); got != "2..2" {
		t.Errorf("bounds %s after the loan, want 2..2:\n%s", got, loan)
	}
	w.wantWrites(t, patched, patched)
	w.wantReturned(t, incident, loan)
	w.awaitHealthy(t)
	wantIntact(t, w.responder)
}
