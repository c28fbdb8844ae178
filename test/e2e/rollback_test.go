//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The whole way, with nothing simulated but the accelerators: a bad rollout
// breaks the SLO, Prometheus evaluates the burn rate, Alertmanager posts, and
// the responder, which found the service in the cluster, rolls the Deployment
// back under exactly the deployed role.
func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{discover: true})
	before := w.spec(t)

	broken := time.Now()
	w.setImage(t, "vllm:v2-bad")
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	t.Logf("from the bad rollout to the proven fix: %v", time.Since(broken).Round(100*time.Millisecond))

	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant the one before the bad rollout\n%s", after, before)
	}
	w.awaitHealthy(t)
	w.wantWrites(t, w.patched(200))
	for _, kind := range []machine.EventKind{machine.Applied, machine.Settled, machine.Verified} {
		if n := run.Has(kind); n != 1 {
			t.Errorf("%s happened %d times, want once:\n%s", kind, n, run)
		}
	}
	shown := w.responder.Must(t, "runs", "show", run.ID)
	for _, want := range []string{run.ID, "resolved", "vllm:v2-bad", "vllm:v1", w.ns + "/chat"} {
		if !strings.Contains(shown, want) {
			t.Errorf("runs show does not say %q:\n%s", want, shown)
		}
	}
	if list := w.responder.Must(t, "runs", "list"); !strings.Contains(list, "resolved") {
		t.Errorf("runs list does not say resolved:\n%s", list)
	}
	wantIntact(t, w.responder)
}

// An engine that loads its model for longer than the rollout's progress deadline:
// Kubernetes calls the rollback failed, and it is waited for, proven and kept.
func TestSlowRollbackIsKept(t *testing.T) {
	t.Parallel()
	const loads = 20 * time.Second
	w := newWorld(t, worldOptions{chat: slowToLoad(inference("chat", "vllm:v1", 2), loads)})
	before := w.spec(t)

	// The bad release loads quickly, else Kubernetes calls it failed, too.
	w.cp.Kubectl(t, "-n", w.ns, "patch", "deployment/chat", "-p",
		`{"spec": {"template": {"metadata": {"annotations": {"rig.responder/ready-delay": null}}, "spec": {"containers": [{"name": "engine", "image": "vllm:v2-bad"}]}}}}`)
	w.cp.AwaitRollout(t, w.ns, "chat", 30*time.Second)
	w.responder.AwaitRun(t, time.Minute, "the rollback applied", func(r *rig.Run) bool { return r.Has(machine.Applied) == 1 })
	w.awaitDeadlineExceeded(t)

	run := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeResolved)
	wantEnd(t, run, machine.OutcomeResolved, "stuck: ProgressDeadlineExceeded")
	applied, settled := run.Last(machine.Applied), run.Last(machine.Settled)
	if took := settled.At.Sub(applied.At); took < loads {
		t.Errorf("the rollback counted as in effect after %s, before its engines had loaded:\n%s", took, run)
	}
	for kind, want := range map[machine.EventKind]int{
		machine.Applied: 1, machine.Verified: 1, machine.VerifyEnded: 0, machine.GateOpened: 0, machine.Undone: 0,
	} {
		if n := run.Has(kind); n != want {
			t.Errorf("%s happened %d times, want %d:\n%s", kind, n, want, run)
		}
	}
	w.awaitHealthy(t)
	w.wantWrites(t, w.patched(200))
	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant the one before the bad release\n%s", after, before)
	}
	wantIntact(t, w.responder)
}

// slowToLoad gives a Deployment engines that are ready after a while only, all at
// once, and a progress deadline that is shorter.
func slowToLoad(manifest string, loads time.Duration) string {
	return strings.NewReplacer(
		"  replicas: 2", "  replicas: 2\n  progressDeadlineSeconds: 10\n  strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}",
		"metadata: {labels: {app: chat}}", fmt.Sprintf("metadata: {labels: {app: chat}, annotations: {rig.responder/ready-delay: %s}}", loads),
	).Replace(manifest)
}

// awaitDeadlineExceeded waits until Kubernetes calls the rollout failed.
func (w *world) awaitDeadlineExceeded(t *testing.T) {
	t.Helper()
	rig.Await(t, 30*time.Second, "a rollout beyond its progress deadline", func(ctx context.Context) (bool, string) {
		d, err := w.cp.Client.AppsV1().Deployments(w.ns).Get(ctx, "chat", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
				return true, ""
			}
		}
		return false, fmt.Sprint(d.Status.Conditions)
	})
}
