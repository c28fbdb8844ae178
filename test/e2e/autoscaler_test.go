//go:build e2e

package e2e

import (
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

// TestAutoscalerLever holds kube.autoscaler to the contract of levers on a real API
// server, which keeps no generation of an autoscaler, and with its real controller.
func TestAutoscalerLever(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Admin)})
	if err != nil {
		t.Fatal(err)
	}
	steptest.TestLever(t, "kube.autoscaler", map[string]any{"by": int64(1)}, func(t *testing.T) steptest.World {
		w := leverWorld(t, cp, client, "Deployment", nil)
		ns := w.Service.Namespace
		cp.Apply(t, ns, autoscaler(2, 2))
		w.Deps.Scalers = client
		w.Spec = func(t testing.TB) string {
			return cp.Kubectl(t, "-n", ns, "get", "hpa/chat-autoscaler", "-o", "jsonpath={.spec}")
		}
		w.Meddle = func(t testing.TB) {
			cp.Kubectl(t, "-n", ns, "patch", "hpa/chat-autoscaler", "--type=merge", "-p", `{"spec":{"minReplicas":1,"maxReplicas":4}}`)
		}
		rollout := w.Settle
		w.Settle = func(t testing.TB) {
			t.Helper()
			time.Sleep(3 * time.Second) // the controller looks each second
			rollout(t)
		}
		return w
	})
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
