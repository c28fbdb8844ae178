package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// NodeEdit is a change of one thing of a node.
type NodeEdit struct {
	Cordon   *bool             `json:"cordon,omitempty"`   // spec.unschedulable
	Taint    *Taint            `json:"taint,omitempty"`    // added
	Untaint  *Taint            `json:"untaint,omitempty"`  // removed
	Labels   map[string]string `json:"labels,omitempty"`   // set; empty value: removed
	Annotate map[string]string `json:"annotate,omitempty"` // set; empty value: removed
}

// Holds reports whether the node is as the edit leaves it. A cordon must also be
// ours.
func (e NodeEdit) Holds(n NodeState) bool {
	has := func(t *Taint) bool { return slices.Contains(n.Taints, *t) }
	switch {
	case e.Cordon != nil && *e.Cordon && (!n.Unschedulable || n.CordonedBy != FieldManager),
		e.Cordon != nil && !*e.Cordon && n.Unschedulable,
		e.Taint != nil && !has(e.Taint), e.Untaint != nil && has(e.Untaint):
		return false
	}
	for k, v := range e.Labels {
		if n.Labels[k] != v {
			return false
		}
	}
	return true
}

// NodeChange asks for an edit of one node.
type NodeChange struct {
	Name   string
	UID    string // precondition: this very node
	Stamp  string // precondition: as [NodeState.Stamp] was
	Edit   NodeEdit
	Mark   string // annotation that records the change
	Key    string // idempotency key, recorded there; empty: nothing is recorded, an edit that came to nothing is taken back
	At     time.Time
	DryRun bool
}

// nodeWrites is how often a change of a node is retried because its status changed
// between read and write. Each attempt checks the precondition.
const nodeWrites = 5

// ChangeNode edits a node if the precondition still holds, and returns the node
// after the edit. The error is a [*fault.Error].
func (c *Client) ChangeNode(ctx context.Context, ch NodeChange) (NodeState, error) {
	var err error
	for range nodeWrites {
		var n *corev1.Node
		if n, err = c.node(ctx, ch.Name); err != nil {
			return NodeState{}, err
		}
		if err = ch.still(describeState(n)); err != nil {
			return NodeState{}, err
		}
		var after *corev1.Node
		if after, err = c.patchNode(ctx, n, ch); err == nil {
			return describeState(after), nil
		}
		if e := new(fault.Error); !errors.As(err, &e) || e.Reason != fault.Conflict {
			return NodeState{}, err
		}
	}
	return NodeState{}, err
}

// still checks what the edit requires before anything is written.
func (ch NodeChange) still(n NodeState) error {
	switch {
	case ch.UID == "" || ch.Stamp == "":
		return &fault.Error{Reason: fault.Invalid, Message: "change node " + ch.Name + ": without a precondition"}
	case n.UID != ch.UID:
		return &fault.Error{Reason: fault.Conflict, Message: "change node " + ch.Name + ": it was deleted and recreated since it was read"}
	case n.Stamp() != ch.Stamp:
		return &fault.Error{Reason: fault.Conflict, Message: "change node " + ch.Name + ": its schedulability, taints or marks changed since it was read"}
	}
	return nil
}

// patchNode writes the edit and its mark in one request, on condition that
// nobody wrote the node since it was read.
func (c *Client) patchNode(ctx context.Context, n *corev1.Node, ch NodeChange) (*corev1.Node, error) {
	body, err := json.Marshal(nodePatch(n, ch))
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "change node " + ch.Name + ": patch", Err: cause{err}}
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if ch.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := c.typed.nodes().Patch(ctx, ch.Name, types.JSONPatchType, body, options)
	if err != nil {
		return nil, request{verb: "patch", resource: "nodes", name: ch.Name, write: !ch.DryRun}.fail(err)
	}
	return after, nil
}

func nodePatch(n *corev1.Node, ch NodeChange) []operation {
	patch := []operation{
		{Op: "test", Path: "/metadata/uid", Value: string(n.UID)},
		{Op: "test", Path: "/metadata/resourceVersion", Value: n.ResourceVersion},
	}
	annotations := maps.Clone(ch.Edit.Annotate)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if ch.Key != "" {
		annotations[ch.Mark] = Mark(ch.Key, ch.At)
	}
	patch = append(patch, mapPatch("/metadata/annotations", n.Annotations, annotations)...)
	patch = append(patch, mapPatch("/metadata/labels", n.Labels, ch.Edit.Labels)...)
	switch cordon := ch.Edit.Cordon; {
	case cordon == nil:
	case *cordon:
		patch = append(patch, operation{Op: "add", Path: "/spec/unschedulable", Value: true})
	case n.Spec.Unschedulable:
		patch = append(patch, operation{Op: "remove", Path: "/spec/unschedulable"})
	}
	if t := ch.Edit.Taint; t != nil {
		kept := append(without(n.Spec.Taints, *t), corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
		patch = append(patch, operation{Op: "add", Path: "/spec/taints", Value: kept})
	}
	if t := ch.Edit.Untaint; t != nil {
		if kept := without(n.Spec.Taints, *t); len(kept) > 0 {
			patch = append(patch, operation{Op: "add", Path: "/spec/taints", Value: kept})
		} else {
			patch = append(patch, operation{Op: "remove", Path: "/spec/taints"})
		}
	}
	return patch
}

// without returns the taints except that one. A node has at most one taint per key
// and effect.
func without(all []corev1.Taint, t Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(all), func(x corev1.Taint) bool { return x.Key == t.Key && string(x.Effect) == t.Effect })
}

// mapPatch sets and removes keys of a map that may not be there yet.
func mapPatch(path string, has, want map[string]string) []operation {
	if len(want) == 0 {
		return nil
	}
	var patch []operation
	if len(has) == 0 {
		patch = append(patch, operation{Op: "add", Path: path, Value: map[string]string{}})
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		at := path + "/" + pointer(k)
		_, there := has[k]
		switch {
		case want[k] != "":
			patch = append(patch, operation{Op: "add", Path: at, Value: want[k]})
		case there:
			patch = append(patch, operation{Op: "remove", Path: at})
		}
	}
	return patch
}

// Eviction asks for one pod to leave its node.
type Eviction struct {
	Namespace, Name string
	UID             string        // precondition: this very pod
	Grace           time.Duration // for it to finish; 0: its own terminationGracePeriod
	DryRun          bool
}

// Evict asks the API server to evict a pod under its disruption budgets. If a
// budget does not allow it now, blocked is the budget's name and nothing was done.
// A pod that is gone, or was replaced by another of that name, is no error. The
// error is a [*fault.Error].
//
// It is one request of policy/v1. kubectl's drain package loops over pods
// internally: it cannot be stopped between two pods, and it cannot be bound to the
// UID of a pod; see docs/decisions/0009.
func (c *Client) Evict(ctx context.Context, e Eviction) (blocked string, err error) {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: (*types.UID)(&e.UID)}}
	if e.Grace > 0 {
		seconds := int64((e.Grace + time.Second - 1) / time.Second)
		options.GracePeriodSeconds = &seconds
	}
	if e.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, DeleteOptions: options}
	err = c.typed.evict(ctx, eviction)
	r := request{verb: "create", resource: "pods/eviction", namespace: e.Namespace, name: e.Name, write: !e.DryRun}
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return "", nil // gone, or not the pod that was meant: the precondition kept it
	case apierrors.IsTooManyRequests(err) && errors.As(err, &status) && status.Status().Details != nil:
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return clip(cause.Message), nil
			}
		}
		return "", r.fail(err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Sprintf("namespace %s is being deleted: the pod goes with it", e.Namespace), nil
	default:
		return "", r.fail(err)
	}
}
