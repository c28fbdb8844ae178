package kube

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// Custom returns an object of another project's API as JSON, with its status. The error
// is NotFound where the object does not exist, or the API is not installed.
func (c *Client) Custom(ctx context.Context, r schema.GroupVersionResource, namespace, name string) ([]byte, error) {
	o, err := c.dynamic.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, request{verb: "get", group: r.Group, resource: r.Resource, namespace: namespace, name: name}.fail(err)
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: r.Resource + " " + namespace + "/" + name + " cannot be encoded", Err: cause{err}}
	}
	return data, nil
}

// Annotate sets an annotation of an object of another project's API.
func (c *Client) Annotate(ctx context.Context, r schema.GroupVersionResource, namespace, name, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return &fault.Error{Reason: fault.Invalid, Message: "the annotation " + key + " cannot be encoded", Err: err}
	}
	_, err = c.dynamic.Resource(r).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return request{verb: "patch", group: r.Group, resource: r.Resource, namespace: namespace, name: name}.fail(err)
	}
	return nil
}
