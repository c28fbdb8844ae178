//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// Replicas are not scaled behind the back of an autoscaler that Flux would change back.
func TestScaleIsRefusedUnderAutoscalerOfFlux(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{manifests: strings.Replace(autoscaler(2, 2), "metadata: {", "metadata: {labels: {kustomize.toolkit.fluxcd.io/name: models, kustomize.toolkit.fluxcd.io/namespace: flux-system}, ", 1)})
	w.fleet.SetTraffic(750)
	run := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeEscalated)
	wantOwned(t, run, "HorizontalPodAutoscaler", "chat-autoscaler", "Flux Kustomization flux-system/models")
	w.wantWrites(t)
	if n := w.replicas(t); n != 2 {
		t.Errorf("%d replicas, want the 2 the autoscaler wants", n)
	}
}

// A pod template that Argo CD would heal back is not rolled back in the cluster.
func TestRollbackIsRefusedUnderArgoCD(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.cp.Kubectl(t, "-n", w.ns, "annotate", "deployment/chat",
		"argocd.argoproj.io/tracking-id=chat-production:apps/Deployment:"+w.ns+"/chat")
	w.setImage(t, "vllm:v2-bad")
	run := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeEscalated)
	wantOwned(t, run, "Argo CD", "chat-production")
	w.wantWrites(t)
	if image := w.image(t); image != "vllm:v2-bad" {
		t.Errorf("the image is %s, want what Git says", image)
	}
}

// wantOwned fails unless the plan was refused because someone else owns the
// field, in words that name them.
func wantOwned(t *testing.T, run *rig.Run, words ...string) {
	t.Helper()
	refused := run.Last(machine.PlanRefused)
	if refused.Reason != fault.Owned {
		t.Errorf("the plan was refused for %q, want %q:\n%s", refused.Reason, fault.Owned, run)
	}
	for _, word := range words {
		if !strings.Contains(strings.ReplaceAll(refused.Message, "ArgoCD", "Argo CD"), word) {
			t.Errorf("the reason %q does not name %q", refused.Message, word)
		}
	}
}

// A person changes the workload while the responder proves its own change: the
// run hands over and stops, and what the person did stays.
func TestHumanChangeHandsTheRunOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.setImage(t, "vllm:v2-bad")
	w.responder.AwaitRun(t, time.Minute, "the change in effect", func(r *rig.Run) bool { return r.Has(machine.Settled) == 1 })

	// At once: kubectl may take longer to start than the proof lasts.
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"engine","image":"vllm:v3"}]}}}}`
	_, err := w.cp.Client.AppsV1().Deployments(w.ns).Patch(t.Context(), "chat", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	run := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeHandedOver)
	if n := run.Has(machine.Undone); n != 0 {
		t.Errorf("the responder undid something under a person's hands:\n%s", run)
	}
	w.wantWrites(t, w.patched(200))
	if image := w.image(t); image != "vllm:v3" {
		t.Errorf("the image is %s, want the person's vllm:v3", image)
	}
}
