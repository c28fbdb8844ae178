package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AllNodes returns the nodes of the cluster, by name. The error is a [*fault.Error].
func (c *Client) AllNodes(ctx context.Context) ([]NodeState, error) {
	var out []NodeState
	err := c.eachNode(ctx, "", func(n *corev1.Node) error {
		out = append(out, describeState(n))
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b NodeState) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// PodsByNode returns the pods of a namespace that are bound to a node, by node, without
// their budgets, as the API server's cache has them. The error is a [*fault.Error].
func (c *Client) PodsByNode(ctx context.Context, namespace string) (map[string][]NodePod, error) {
	list, err := c.typed.pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, request{verb: "list", resource: "pods", namespace: namespace}.fail(err)
	}
	out := map[string][]NodePod{}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" {
			out[p.Spec.NodeName] = append(out[p.Spec.NodeName], describeNodePod(p))
		}
	}
	return out, nil
}
