package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeclaredOwners(t *testing.T) {
	yes, no := true, false
	ref := Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	tests := []struct {
		name string
		meta metav1.ObjectMeta
		want []string
	}{
		{"nobody", metav1.ObjectMeta{Labels: map[string]string{appInstance: "chart"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm"}}}, nil},
		{"argo by tracking id", metav1.ObjectMeta{Annotations: map[string]string{argoTrackingID: "prod_chat:apps/Deployment:serving/chat"}}, []string{"* ArgoCD prod_chat"}},
		{"tracking id of a copy's original", metav1.ObjectMeta{Annotations: map[string]string{argoTrackingID: "prod_chat:apps/Deployment:serving/other"}}, nil},
		{"tracking id of no known form", metav1.ObjectMeta{Annotations: map[string]string{argoTrackingID: "prod_chat"}}, []string{"* ArgoCD prod_chat"}},
		{"argo by label and manager", metav1.ObjectMeta{Labels: map[string]string{appInstance: "prod"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "argocd-controller"}}}, []string{"* ArgoCD prod"}},
		{"argo by manager alone", metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "argocd-application-controller"}}}, []string{"* ArgoCD (unknown application)"}},
		{"argo by its own label", metav1.ObjectMeta{Labels: map[string]string{argoInstance: "prod"}}, []string{"* ArgoCD prod"}},
		{"flux", metav1.ObjectMeta{Labels: map[string]string{fluxKustomize + "/name": "apps", fluxKustomize + "/namespace": "flux-system", fluxHelm + "/name": "chat"}}, []string{"* Flux apps", "* FluxHelm chat"}},
		{"kserve", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "InferenceService", Name: "chat", Controller: &yes}}}, []string{"* InferenceService chat"}},
		{"garbage collection only", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ConfigMap", Name: "x", Controller: &no}, {Kind: "ConfigMap", Name: "y"}}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, o := range declaredOwners(ref, tt.meta) {
				got = append(got, o.Field+" "+o.Kind+" "+o.Name)
				if o.Why == "" {
					t.Errorf("%s: does not say how it knows", o.Kind)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOwnerOfRollout: the pods of a Rollout of Argo Rollouts are its own, not those of a
// Deployment or a bare ReplicaSet.
func TestOwnerOfRollout(t *testing.T) {
	yes := true
	for label, want := range map[string]string{"rollouts-pod-template-hash": Rollout, "pod-template-hash": "Deployment", "hash": "ReplicaSet"} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "serving", Labels: map[string]string{label: "abc"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "chat-abc", Controller: &yes}},
		}}
		if got := ownerOf(&p); got.Kind != want {
			t.Errorf("%s: %+v, want a %s", label, got, want)
		}
	}
}
