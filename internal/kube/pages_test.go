package kube_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// Nodes beyond the first page of the API server's answer are not missed.
func TestGPUNodesOfLaterPages(t *testing.T) {
	srv := kubetest.New(t)
	var want []string
	for i := range 1201 {
		name := fmt.Sprintf("node-%04d", i)
		srv.Node(t, name, 8, nil)
		want = append(want, name)
	}
	got, err := srv.Client(t).GPUNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
