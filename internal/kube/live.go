package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/inference-responder/responder/internal/fault"
)

// ObjectID identifies an object of any kind. The server's preferred version is
// used.
type ObjectID struct {
	Group     string // empty: core
	Kind      string
	Namespace string
	Name      string
}

// String returns the form that people use: Deployment serving/chat.
func (id ObjectID) String() string { return id.Kind + " " + id.Namespace + "/" + id.Name }

// Object returns an object as the server has it now, as JSON, without its status
// and without managedFields. Values of environment variables are not redacted:
// callers must not show them.
func (c *Client) Object(ctx context.Context, id ObjectID) ([]byte, error) {
	gvr, err := c.resource(ctx, id.Group, "", id.Kind)
	if err != nil {
		return nil, err
	}
	o, err := c.dynamic.Resource(gvr).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	if err != nil {
		return nil, request{verb: "get", group: gvr.Group, resource: gvr.Resource, namespace: id.Namespace, name: id.Name}.fail(err)
	}
	return bare(o)
}

// bare returns an object as JSON, without its status and managedFields.
func bare(o *unstructured.Unstructured) ([]byte, error) {
	unstructured.RemoveNestedField(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s %s/%s cannot be encoded", o.GetKind(), o.GetNamespace(), o.GetName()), Err: cause{err}}
	}
	return data, nil
}

// builtIn are the kinds that every server has, by group.
var builtIn = map[string]schema.GroupVersionResource{
	"apps/Deployment":                     {Group: "apps", Version: "v1", Resource: "deployments"},
	"apps/StatefulSet":                    {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"autoscaling/HorizontalPodAutoscaler": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
}

// resource returns the server's resource for a kind. An empty version selects the
// preferred one.
func (c *Client) resource(ctx context.Context, group, version, kind string) (schema.GroupVersionResource, error) {
	if known, ok := builtIn[group+"/"+kind]; ok && (version == "" || version == known.Version) {
		return known, nil
	}
	root := "/apis/" + group
	if group == "" {
		root, version = "/api", "v1"
	}
	if version == "" {
		var g metav1.APIGroup
		if err := c.typed.core().Get().AbsPath(root).Do(ctx).Into(&g); err != nil {
			return schema.GroupVersionResource{}, request{verb: "get", resource: root}.fail(err)
		}
		version = g.PreferredVersion.Version
	}
	var all metav1.APIResourceList
	if err := c.typed.core().Get().AbsPath(root + "/" + version).Do(ctx).Into(&all); err != nil {
		return schema.GroupVersionResource{}, request{verb: "get", resource: root + "/" + version}.fail(err)
	}
	for _, r := range all.APIResources {
		if r.Kind == kind && r.Namespaced && !strings.Contains(r.Name, "/") {
			return schema.GroupVersionResource{Group: group, Version: version, Resource: r.Name}, nil
		}
	}
	return schema.GroupVersionResource{}, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("the cluster serves no %s of %s/%s in namespaces", kind, group, version)}
}

// Try lets the server check a manifest, one object as YAML, without storing it:
// schema and admission, as a server-side apply of all of its fields. It returns
// the object as it would be stored, like [Client.Object]. The namespace is used
// for manifests without one.
//
// Invalid: the server refuses it, with its own text. Forbidden: we lack the
// permission to ask.
func (c *Client) Try(ctx context.Context, namespace string, manifest []byte) ([]byte, error) {
	data, err := yaml.ToJSON(manifest)
	var o unstructured.Unstructured
	if err == nil {
		err = json.Unmarshal(data, &o.Object)
	}
	if err != nil || o.GetKind() == "" || o.GetName() == "" {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "try a manifest: it has no kind or no name", Err: cause{err}}
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	gvk := o.GroupVersionKind()
	gvr, err := c.resource(ctx, gvk.Group, gvk.Version, gvk.Kind)
	if err != nil {
		return nil, err
	}
	if data, err = json.Marshal(o.Object); err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "try a manifest: it cannot be encoded", Err: cause{err}}
	}
	force := true
	stored, err := c.dynamic.Resource(gvr).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, Force: &force, FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
	r := request{verb: "patch", group: gvr.Group, resource: gvr.Resource, namespace: o.GetNamespace(), name: o.GetName()}
	switch {
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "cannot patch resource"):
		// An admission plugin refused it. A missing permission has the same form.
		return nil, &fault.Error{Reason: fault.Invalid, Message: r.String(), Err: cause{err}}
	case err != nil:
		return nil, r.fail(err)
	}
	return bare(stored)
}
