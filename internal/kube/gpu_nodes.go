package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// GPUNodes returns the nodes with NVIDIA GPUs, sorted. It finds them by the
// resources of their device plugin (nvidia.com/gpu, nvidia.com/mig-…) or by the
// label of the GPU operator. A node whose plugin no longer offers GPUs still
// counts: its capacity stays, at zero. A node whose plugin never started has only
// the label.
func (c *Client) GPUNodes(ctx context.Context) ([]string, error) {
	var out []string
	err := c.eachNode(ctx, "", func(n *corev1.Node) error {
		if hasNVIDIA(n) {
			out = append(out, n.Name)
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

// gpuVendors are the prefixes of the vendors' extended resources.
var gpuVendors = []string{"nvidia.com/", "amd.com/", "gpu.intel.com/"}

// labelPresent is the GPU operator's label for nodes with NVIDIA GPUs.
const labelPresent = "nvidia.com/gpu.present"

// hasGPUs reports whether a node has GPUs of any vendor, even if none is offered
// now. A broken driver or a missing device plugin removes no GPU from the machine.
func hasGPUs(n *corev1.Node) bool {
	return hasNVIDIA(n) || offers(n, gpuVendors...)
}

func hasNVIDIA(n *corev1.Node) bool {
	return n.Labels[labelPresent] == "true" || offers(n, "nvidia.com/")
}

// offers reports whether a device plugin of a vendor is or was there: a resource
// that is no longer offered stays, at zero.
func offers(n *corev1.Node, vendors ...string) bool {
	for name := range n.Status.Capacity {
		if slices.ContainsFunc(vendors, func(v string) bool { return strings.HasPrefix(string(name), v) }) {
			return true
		}
	}
	return false
}
