package kube

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// object is a Deployment, a Rollout of Argo Rollouts or a StatefulSet, with its history.
type object struct {
	ref      Ref
	meta     metav1.ObjectMeta
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec

	deployment  *appsv1.Deployment  // of a Rollout, the fields that a Deployment has, too
	rollout     *rollout            // the others
	replicaSets []appsv1.ReplicaSet // controlled by it

	statefulSet *appsv1.StatefulSet
	revisions   []appsv1.ControllerRevision // controlled by it
}

// load reads the object and its history.
func (c *Client) load(ctx context.Context, ref Ref) (*object, error) {
	switch ref.Kind {
	case "Deployment":
		return c.loadDeployment(ctx, ref)
	case Rollout:
		return c.loadRollout(ctx, ref)
	case "StatefulSet":
		return c.loadStatefulSet(ctx, ref)
	default:
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("workload %s/%s: kind %q is not supported: use Deployment, StatefulSet or Rollout", ref.Namespace, ref.Name, ref.Kind)}
	}
}

func (c *Client) loadDeployment(ctx context.Context, ref Ref) (*object, error) {
	d, err := c.typed.deployments(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, request{verb: "get", group: "apps", resource: "deployments", namespace: ref.Namespace, name: ref.Name}.fail(err)
	}
	return c.withReplicaSets(ctx, &object{ref: ref, meta: d.ObjectMeta, selector: d.Spec.Selector, template: d.Spec.Template, deployment: d})
}

// withReplicaSets reads the ReplicaSets that an object controls.
func (c *Client) withReplicaSets(ctx context.Context, o *object) (*object, error) {
	options, err := o.listOptions()
	if err != nil {
		return nil, err
	}
	list, err := c.typed.replicaSets(o.ref.Namespace).List(ctx, options)
	if err != nil {
		return nil, request{verb: "list", group: "apps", resource: "replicasets", namespace: o.ref.Namespace}.fail(err)
	}
	for _, rs := range list.Items {
		if controlledBy(rs.OwnerReferences, o.meta.UID) {
			o.replicaSets = append(o.replicaSets, rs)
		}
	}
	return o, nil
}

func (c *Client) loadStatefulSet(ctx context.Context, ref Ref) (*object, error) {
	s, err := c.typed.statefulSets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, request{verb: "get", group: "apps", resource: "statefulsets", namespace: ref.Namespace, name: ref.Name}.fail(err)
	}
	o := &object{ref: ref, meta: s.ObjectMeta, selector: s.Spec.Selector, template: s.Spec.Template, statefulSet: s}
	options, err := o.listOptions()
	if err != nil {
		return nil, err
	}
	list, err := c.typed.controllerRevisions(ref.Namespace).List(ctx, options)
	if err != nil {
		return nil, request{verb: "list", group: "apps", resource: "controllerrevisions", namespace: ref.Namespace}.fail(err)
	}
	for _, r := range list.Items {
		if controlledBy(r.OwnerReferences, s.UID) {
			o.revisions = append(o.revisions, r)
		}
	}
	return o, nil
}

// listOptions returns the options that select what the object's selector selects.
func (o *object) listOptions() (metav1.ListOptions, error) {
	selector, err := metav1.LabelSelectorAsSelector(o.selector)
	if err != nil {
		return metav1.ListOptions{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s %s/%s: selector", o.ref.Kind, o.ref.Namespace, o.ref.Name), Err: cause{err}}
	}
	return metav1.ListOptions{LabelSelector: selector.String()}, nil
}

func controlledBy(owners []metav1.OwnerReference, uid types.UID) bool {
	for _, o := range owners {
		if o.Controller != nil && *o.Controller && o.UID == uid {
			return true
		}
	}
	return false
}

// annotationRevision is the deployment controller's annotation for the revision
// number.
const annotationRevision = "deployment.kubernetes.io/revision"

// revisionOf returns a revision number; 0 if the controller has not set it yet.
func revisionOf(annotations map[string]string) int64 {
	n, err := strconv.ParseInt(cmp.Or(annotations[rolloutRevision], annotations[annotationRevision]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// revision returns the number of the current revision according to its controller;
// 0 if not reported yet.
func (o *object) revision() int64 {
	if o.deployment != nil {
		return revisionOf(o.meta.Annotations)
	}
	for _, r := range o.revisions {
		if r.Name == o.statefulSet.Status.UpdateRevision {
			return r.Revision
		}
	}
	return 0
}

// revisionByOwner returns the pods' revision numbers: by the ReplicaSet's UID for
// a Deployment or a Rollout, by the revision's name for a StatefulSet.
func (o *object) revisionByOwner() map[string]int64 {
	out := map[string]int64{}
	for _, rs := range o.replicaSets {
		out[string(rs.UID)] = revisionOf(rs.Annotations)
	}
	for _, r := range o.revisions {
		out[r.Name] = r.Revision
	}
	return out
}
