package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// TestReplicas: many workloads cost one request for each kind in each namespace, and one
// that is not there is no workload without replicas.
func TestReplicas(t *testing.T) {
	srv := kubetest.New(t)
	at := func(kind, namespace, name string) kube.Ref {
		return kube.Ref{Kind: kind, Namespace: namespace, Name: name}
	}
	chat, embed, rank := at("Deployment", "prod", "chat"), at("Deployment", "prod", "embed"), at("StatefulSet", "test", "rank")
	put := func(ref kube.Ref, wanted, ready int32) {
		meta := metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}
		if ref.Kind == "StatefulSet" {
			srv.Put(kubetest.Path(ref), appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &wanted}, Status: appsv1.StatefulSetStatus{ReadyReplicas: ready}})
			return
		}
		srv.Put(kubetest.Path(ref), appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &wanted}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}})
	}
	put(chat, 2, 2)
	put(embed, 3, 0)
	put(rank, 4, 4)
	lists := 0
	srv.Fail(func(r *http.Request) (f kubetest.Fault) {
		if strings.HasSuffix(r.URL.Path, "/deployments") || strings.HasSuffix(r.URL.Path, "/statefulsets") {
			lists++
		}
		return f
	})
	c := srv.Client(t)
	got, err := c.Replicas(t.Context(), []kube.Ref{chat, embed, rank})
	want := map[kube.Ref]kube.ReplicaCount{chat: {Wanted: 2, Ready: 2}, embed: {Wanted: 3}, rank: {Wanted: 4, Ready: 4}}
	if d := cmp.Diff(want, got); d != "" || err != nil || lists != 2 {
		t.Errorf("%d lists, %v (-want +got):\n%s", lists, err, d)
	}
	for _, bad := range []kube.Ref{at("Deployment", "prod", "gone"), at("DaemonSet", "prod", "chat")} {
		if _, err := c.Replicas(t.Context(), []kube.Ref{chat, bad}); err == nil || !strings.Contains(err.Error(), bad.Kind) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
