package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InRotation returns the pods of a namespace that EndpointSlices report as ready,
// by UID, each with the name of such a slice. Whatever follows the slice may send
// them new requests, whatever the state of the pod. The error is a [*fault.Error].
func (c *Client) InRotation(ctx context.Context, namespace string) (map[string]string, error) {
	list, err := c.typed.endpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, request{verb: "list", group: "discovery.k8s.io", resource: "endpointslices", namespace: namespace}.fail(err)
	}
	out := map[string]string{}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			// By the API, a missing condition means ready.
			if e.TargetRef != nil && e.TargetRef.Kind == "Pod" && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out[string(e.TargetRef.UID)] = slice.Name
			}
		}
	}
	return out, nil
}
