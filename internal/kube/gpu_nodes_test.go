package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHasGPUs(t *testing.T) {
	for name, want := range map[string]bool{"nvidia.com/gpu": true, "nvidia.com/mig-1g.10gb": true, "amd.com/gpu": false, "cpu": false} {
		n := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("0")}}}
		if got := hasGPUs(n); got != want {
			t.Errorf("a node with %s has GPUs: %v, want %v", name, got, want)
		}
	}
}
