//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// nowhere is a pod template that no node takes: its rollout stays half way.
const nowhere = `{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"yes"}}}}}`

// heldWorld is a service whose second release has come half way, in a namespace of its own.
// The rollout stays there: no node takes the pods of the release.
func heldWorld(t *testing.T, cp *rig.ControlPlane, client *kube.Client) steptest.World {
	w := leverWorld(t, cp, client, "Deployment", nil)
	ns := w.Service.Namespace
	kubectl := func(t testing.TB, args ...string) string {
		t.Helper()
		return cp.Kubectl(t, append([]string{"-n", ns}, args...)...)
	}
	paused := func() string { return kubectl(t, "get", "deployment/chat", "-o", "jsonpath={.spec.paused}") }
	w.Settle = func(t testing.TB) {
		t.Helper()
		rig.Await(t, 30*time.Second, "the controller", func(ctx context.Context) (bool, string) {
			d, err := cp.Client.AppsV1().Deployments(ns).Get(ctx, "chat", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			return d.Status.ObservedGeneration >= d.Generation, fmt.Sprint(d.Status)
		})
	}
	w.Meddle = func(t testing.TB) {
		if paused() == "true" {
			kubectl(t, "rollout", "resume", "deployment/chat")
		} else {
			kubectl(t, "rollout", "pause", "deployment/chat")
		}
	}
	kubectl(t, "patch", "deployment/chat", "-p", nowhere)
	rig.Await(t, 30*time.Second, "a rollout that has come half way", func(ctx context.Context) (bool, string) {
		now, err := client.Workload(ctx, step.RefOf(w.Service))
		if err != nil {
			return false, err.Error()
		}
		return now.Updated == 1 && now.Revision == 3 && len(now.Pods) == 3 && now.Observed >= now.Generation, fmt.Sprintf("%+v", now)
	})
	return w
}

// TestHold holds rollout.hold to the contract of levers on a real API server with the
// Deployment controller, and kube.rollout_undo of what is held.
func TestHold(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Admin)})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		steptest.TestLever(t, "rollout.hold", nil, func(t *testing.T) steptest.World { return heldWorld(t, cp, client) })
	})
	t.Run("rollback of what is held", func(t *testing.T) {
		t.Parallel()
		steptest.TestLever(t, "kube.rollout_undo", nil, func(t *testing.T) steptest.World {
			w := heldWorld(t, cp, client)
			acts(t, client, w.Service, "r-0", nil, true)
			w.Settle(t)
			w.Meddle = func(t testing.TB) {
				cp.Kubectl(t, "-n", w.Service.Namespace, "set", "image", "deployment/chat", "engine=vllm:v4")
			}
			return w
		})
	})
	t.Run("the end", func(t *testing.T) {
		t.Parallel()
		endOfHold(t, cp, client)
	})
}

// endOfHold fixes forward while the release is held: nothing rolls out until the hold
// ends, and it ends by its own plan.
func endOfHold(t *testing.T, cp *rig.ControlPlane, client *kube.Client) {
	w := heldWorld(t, cp, client)
	ns, ref := w.Service.Namespace, step.RefOf(w.Service)
	plan := acts(t, client, w.Service, "r-0", nil, true)
	w.Settle(t)
	read := func() kube.Workload {
		now, err := client.Workload(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	if now := read(); now.Held != now.Template || now.Held == "" || now.HoldOver || now.PausedBy != kube.FieldManager || now.Updated != 1 {
		t.Errorf("held: %+v", now)
	}
	acts(t, client, w.Service, "r-1", plan.Back, false) // the release is still the one that is held
	cp.Kubectl(t, "-n", ns, "patch", "deployment/chat", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/nodeSelector"},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"vllm:v4"}]`)
	w.Settle(t)
	if now := read(); !now.HoldOver || now.Template != "" || now.Updated != 0 {
		t.Errorf("another template under the pause: %+v", now)
	}
	acts(t, client, w.Service, "r-1", plan.Back, true)
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	if now := read(); now.Paused || now.Annotations[kube.AnnotationHeld] != "" {
		t.Errorf("after its end: %+v", now)
	}
}

// acts plans rollout.hold and applies it, unless its plan is to be refused.
func acts(t *testing.T, client *kube.Client, svc language.Service, run string, with map[string]any, ok bool) *machine.Plan {
	t.Helper()
	set := kinds.New(step.Deps{Workloads: client, Changer: client})
	e := machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold", Run: run, Key: run + "/hold#1/plan#1", Service: svc, With: with}
	o := set.Do(t.Context(), e)
	if (o.Status == machine.StatusOK) != ok {
		t.Fatalf("plan: %s %s", o.Status, o.Message)
	}
	if !ok {
		return nil
	}
	e.Action, e.Key, e.Plan = machine.ActionApply, run+"/hold#1/apply#1", o.Plan
	if o := set.Do(t.Context(), e); o.Status != machine.StatusOK {
		t.Fatalf("apply: %s %s", o.Status, o.Message)
	}
	return o.Plan
}
