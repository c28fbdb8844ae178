package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUNodes names the nodes that have NVIDIA GPUs by what their device plugin
// offers (nvidia.com/gpu, nvidia.com/mig-…), sorted. A node whose plugin offers
// none any more is still there: its capacity stays, at zero.
func (c *Client) GPUNodes(ctx context.Context) ([]string, error) {
	list, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, request{verb: "list", resource: "nodes"}.fail(err)
	}
	var out []string
	for i := range list.Items {
		if hasGPUs(&list.Items[i]) {
			out = append(out, list.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func hasGPUs(n *corev1.Node) bool {
	for name := range n.Status.Capacity {
		if strings.HasPrefix(string(name), "nvidia.com/") {
			return true
		}
	}
	return false
}
