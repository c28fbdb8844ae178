package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// SetRoute sets the weights of a route if the precondition still holds, and marks the
// change in the same write. The error is a [*fault.Error].
func (c *Client) SetRoute(ctx context.Context, ch RouteChange) (Route, error) {
	o, r, err := c.route(ctx, ch.Ref)
	if err != nil {
		return Route{}, err
	}
	now, err := describeRoute(ch.Ref, o)
	if err != nil {
		return Route{}, err
	}
	if err := now.still(ch); err != nil {
		return Route{}, err
	}
	meta := &object{meta: metav1.ObjectMeta{Annotations: now.Annotations, ResourceVersion: o.GetResourceVersion()}}
	marks := record(ch.Run, ch.Key)
	marks[ShiftMark(ch.Backend)] = ch.Key
	patch := append(meta.guarded(ch.Pre, marks), weights(now, ch.Rules)...)
	r.verb, r.write = "patch", !ch.DryRun
	body, err := json.Marshal(patch)
	if err != nil {
		return Route{}, &fault.Error{Reason: fault.Invalid, Message: r.String() + ": patch", Err: cause{err}}
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if ch.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	gvr := schema.GroupVersionResource{Group: r.group, Version: o.GroupVersionKind().Version, Resource: r.resource}
	after, err := c.dynamic.Resource(gvr).Namespace(ch.Ref.Namespace).Patch(ctx, ch.Ref.Name, types.JSONPatchType, body, options)
	if err != nil {
		return Route{}, r.fail(err)
	}
	return describeRoute(ch.Ref, after)
}

// still checks the precondition early, for a better message than the server's.
func (r Route) still(ch RouteChange) error {
	conflict := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("change %s %s/%s: ", r.Ref.Kind, r.Ref.Namespace, r.Ref.Name) + fmt.Sprintf(format, args...)}
	}
	switch {
	case r.UID != ch.Pre.UID:
		return conflict("it was deleted and recreated since it was read")
	case r.Generation != ch.Pre.Generation:
		return conflict("it is at generation %d, not at %d as read", r.Generation, ch.Pre.Generation)
	case !SameBackends(r.Rules, ch.Rules):
		return conflict("it has other backends than when it was read")
	}
	return nil
}

// weights returns the operations that set what differs.
func weights(now Route, want []RouteRule) []operation {
	var out []operation
	for i, rule := range want {
		for j, b := range rule.Backends {
			was := now.Rules[i].Backends[j]
			switch {
			case was == b, now.Ref.Kind == InferenceService && j > 0: // the rest follows from the first
			case now.Ref.Kind == InferenceService && b.Unset:
				out = append(out, operation{Op: "remove", Path: "/" + strings.ReplaceAll(canaryField, ".", "/")})
			case now.Ref.Kind == InferenceService:
				out = append(out, operation{Op: "add", Path: "/" + strings.ReplaceAll(canaryField, ".", "/"), Value: b.Weight})
			default: // "add" also replaces
				out = append(out, operation{Op: "add", Path: fmt.Sprintf("/spec/rules/%d/backendRefs/%d/weight", i, j), Value: b.Weight})
			}
		}
	}
	return out
}
