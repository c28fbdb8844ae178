package kube

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// MarkReplace is the annotation on a pod that was taken out of rotation to be
// replaced: the effect's key and when.
const MarkReplace = "responder.dev/replace"

// PodState is one pod, whether or not a workload still controls it.
type PodState struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	Ready, Leaving       bool
	IP                   string        // empty: it has none
	Grace                time.Duration // to finish in, once it is told to go
	Containers           []PodContainer
	EmptyDir             []string // names of volumes on disk whose content is lost with the pod
}

// PodChange edits the labels and annotations of one pod.
type PodChange struct {
	Namespace, Name, UID string
	Labels               map[string]string // to set; an empty value removes one
	Annotate             map[string]string // the same
	DryRun               bool
}

// Pod returns one pod. The error is a [*fault.Error].
func (c *Client) Pod(ctx context.Context, namespace, name string) (PodState, error) {
	p, err := c.typed.pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return PodState{}, request{verb: "get", resource: "pods", namespace: namespace, name: name}.fail(err)
	}
	return podState(p), nil
}

// ChangePod edits one pod if it still is the one with that UID. A workload whose
// selector it no longer matches lets go of it, and one whose selector it matches
// takes it. The error is a [*fault.Error].
func (c *Client) ChangePod(ctx context.Context, ch PodChange) (PodState, error) {
	r := request{verb: "patch", resource: "pods", namespace: ch.Namespace, name: ch.Name, write: !ch.DryRun}
	p, err := c.typed.pods(ch.Namespace).Get(ctx, ch.Name, metav1.GetOptions{})
	if err != nil {
		return PodState{}, request{verb: "get", resource: "pods", namespace: ch.Namespace, name: ch.Name}.fail(err)
	}
	if string(p.UID) != ch.UID {
		return PodState{}, &fault.Error{Reason: fault.Conflict, Message: r.String() + ": it was deleted and recreated since it was read"}
	}
	patch := []operation{
		{Op: "test", Path: "/metadata/uid", Value: ch.UID},
		{Op: "test", Path: "/metadata/resourceVersion", Value: p.ResourceVersion},
	}
	patch = append(patch, mapPatch("/metadata/labels", p.Labels, ch.Labels)...)
	patch = append(patch, mapPatch("/metadata/annotations", p.Annotations, ch.Annotate)...)
	body, err := json.Marshal(patch)
	if err != nil {
		return PodState{}, &fault.Error{Reason: fault.Invalid, Message: r.String() + ": patch", Err: cause{err}}
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if ch.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := c.typed.pods(ch.Namespace).Patch(ctx, ch.Name, types.JSONPatchType, body, options)
	if err != nil {
		return PodState{}, r.fail(err)
	}
	return podState(after), nil
}

func podState(p *corev1.Pod) PodState {
	d := describePod(*p, nil)
	out := PodState{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Labels: maps.Clone(p.Labels), Annotations: maps.Clone(p.Annotations),
		Ready: d.Ready, Leaving: p.DeletionTimestamp != nil, IP: d.IP, Containers: d.Containers,
		EmptyDir: describeNodePod(p).EmptyDir,
	}
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		out.Grace = time.Duration(*s) * time.Second
	}
	return out
}
