package cluster

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// TestDiscoveredOfFlux: the name that discovery gives a service that Flux deploys is one
// that Flux is asked by, and what is not configured is said.
func TestDiscoveredOfFlux(t *testing.T) {
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	s := kubetest.New(t)
	s.Put(kubetest.Path(ref), map[string]any{
		"apiVersion": "apps/v1", "kind": ref.Kind, "metadata": map[string]any{
			"namespace": ref.Namespace, "name": ref.Name, "labels": map[string]any{
				"responder.dev/service": "true", "kustomize.toolkit.fluxcd.io/name": "models", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
			},
		},
	})
	marked, err := s.Client(t).Marked(t.Context(), "serving", "responder.dev/service")
	if err != nil || len(marked) != 1 {
		t.Fatalf("%d services: %v", len(marked), err)
	}
	if got, want := marked[0].Application, gitops.FluxName("flux-system", "models"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Change(kubetest.Path(ref), func(o map[string]any) {
		o["metadata"].(map[string]any)["labels"] = map[string]any{
			"responder.dev/service": "true", "helm.toolkit.fluxcd.io/name": "chat", "helm.toolkit.fluxcd.io/namespace": "serving",
		}
	})
	marked, err = s.Client(t).Marked(t.Context(), "serving", "responder.dev/service")
	if err != nil || len(marked) != 1 || marked[0].Application != gitops.FluxHelmName("serving", "chat") {
		t.Fatalf("%+v: %v", marked, err)
	}
	if _, err := (deployers{}).Application(t.Context(), marked[0].Application); err == nil || !strings.Contains(err.Error(), "gitops.flux.enabled is not set") {
		t.Errorf("without Flux: %v", err)
	}
	if _, err := (deployers{}).Application(t.Context(), "argocd/chat"); err == nil || !strings.Contains(err.Error(), "gitops.argocd is not set") {
		t.Errorf("without Argo CD: %v", err)
	}
}
