package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// BoundsChange asks for other bounds of an autoscaler.
type BoundsChange struct {
	Ref    Ref
	UID    string // precondition: this very object
	Stamp  string // precondition: as [Autoscaler.Stamp] was
	To     Bounds
	Back   bool // takes a change back: a loan, or one that is undone
	DryRun bool
	Run    string // run id, recorded in an annotation as responder.dev/run
	Key    string // idempotency key, recorded in an annotation as responder.dev/effect
}

// Ceiling is a limit of the replicas beside the bounds, which is never changed.
type Ceiling struct {
	Most   int    // replicas; -1: not known
	Starts int    // lower bound that is still valid, whatever others have above theirs; -1: not known
	Why    string // for people
}

// Refuses returns why the bounds are not set to others, whoever owns them; empty: they may be.
// What was lent or lowered is always taken back, where the place of the bound is known and the others
// are valid.
func (a Autoscaler) Refuses(to Bounds, back bool) string {
	low := a.LowOf(to)
	switch {
	case a.Unread():
		return a.Inert
	case a.Inert != "" && (a.planner == nil || !back):
		return a.Inert
	case a.Ceiling == nil || low <= a.Min():
		return ""
	case !back && low > a.Ceiling.Most, back && a.Ceiling.Starts >= 0 && low > a.Ceiling.Starts:
		return a.Ceiling.Why
	}
	return ""
}

// Unread reports whether the bounds of a planner could not be read.
func (a Autoscaler) Unread() bool { return a.planner != nil && a.planner.At < 0 }

// SetBounds sets the bounds of an autoscaler if the precondition still holds, and
// returns the autoscaler after that. The error is a [*fault.Error].
//
// The resource version that was read guards the write. The autoscaler moves it with
// every status, so a conflict is looked at again, and sent again only while the stamp is
// the planned one.
func (c *Client) SetBounds(ctx context.Context, ch BoundsChange) (Autoscaler, error) {
	for try := 1; ; try++ {
		o, err := c.scaler(ctx, ch.Ref)
		if err != nil {
			return Autoscaler{}, err
		}
		now, err := describeAutoscaler(ch.Ref, o)
		if err != nil {
			return Autoscaler{}, err
		}
		if err := ch.Still(now); err != nil {
			return Autoscaler{}, err
		}
		after, err := c.patchBounds(ctx, o, now, ch)
		var conflict *fault.Error
		if try == scaleTries || !errors.As(err, &conflict) || conflict.Reason != fault.Conflict {
			return after, err
		}
	}
}

// Still returns an error if the change does not fit the autoscaler as it is now.
func (ch BoundsChange) Still(a Autoscaler) error {
	what := fmt.Sprintf("change the bounds of %s %s/%s", ch.Ref.Kind, ch.Ref.Namespace, ch.Ref.Name)
	low, high := a.LowOf(ch.To), a.HighOf(ch.To)
	switch {
	case ch.UID == "" || ch.Stamp == "":
		return &fault.Error{Reason: fault.Invalid, Message: what + ": the precondition on UID and stamp is missing"}
	case ch.To.Pause && a.Ref.Kind != ScaledObject:
		return &fault.Error{Reason: fault.Invalid, Message: what + ": only KEDA has a pause"}
	case low < 0 || high < max(low, 1):
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: from %d to %d replicas", what, low, high)}
	case a.Refuses(ch.To, ch.Back) != "":
		return &fault.Error{Reason: fault.OutOfBounds, Message: what + ": " + a.Refuses(ch.To, ch.Back)}
	case ch.To.Pause && !a.Bounds.Pause && a.Annotations[PauseScaleIn] != "":
		return &fault.Error{Reason: fault.Conflict, Message: what + ": somebody set its annotation " + PauseScaleIn}
	case a.UID != ch.UID:
		return &fault.Error{Reason: fault.Conflict, Message: what + ": it was deleted and recreated since it was read"}
	case a.Stamp() != ch.Stamp:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: they are %s, or were set by another run, since they were read", what, a.Bounds)}
	case a.Bounds.String() == ch.To.String():
		return &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: they are %s already", what, ch.To)}
	}
	return nil
}

// boundsPatch sets the bounds that differ and the marks in one write.
func boundsPatch(o *unstructured.Unstructured, now Autoscaler, ch BoundsChange) ([]operation, error) {
	patch := []operation{
		{Op: "test", Path: "/metadata/uid", Value: ch.UID},
		{Op: "test", Path: "/metadata/resourceVersion", Value: o.GetResourceVersion()},
	}
	notes := record(ch.Run, ch.Key)
	if _, part, ok := strings.Cut(ch.Ref.Name, "/"); ok {
		notes = map[string]string{partMark(AnnotationRun, part): ch.Run, partMark(AnnotationEffect, part): ch.Key}
	}
	if _, stale := o.GetAnnotations()[annotationPaused]; stale && !ch.To.Pause {
		notes[annotationPaused] = "" // removed
	}
	switch {
	case now.Bounds.Pause == ch.To.Pause:
	case ch.To.Pause:
		notes[PauseScaleIn], notes[annotationPaused] = "true", ch.Run
	default:
		notes[PauseScaleIn] = "" // removed
	}
	patch = append(patch, mapPatch("/metadata/annotations", o.GetAnnotations(), notes)...)
	set := func(field string, from, to *int) {
		switch path := "/spec/" + strings.ReplaceAll(field, ".", "/"); {
		case field == "": // the other one is both
		case to == nil && from != nil:
			patch = append(patch, operation{Op: "remove", Path: path})
		case to != nil && (from == nil || *from != *to):
			patch = append(patch, operation{Op: "add", Path: path, Value: *to})
		}
	}
	low, high := now.Fields()
	if p := now.planner; p != nil {
		to, err := p.With(ch.To.Min)
		if err != nil {
			return nil, err
		}
		at := fmt.Sprintf("/spec/services/%s/extraPodSpec/mainContainer/args/%d", pointer(p.Service), p.At)
		return append(patch, operation{Op: "replace", Path: at, Value: to}), nil
	}
	set(low, now.Bounds.Min, ch.To.Min)
	set(high, now.Bounds.Max, ch.To.Max)
	return patch, nil
}

// patchBounds sends the only kind of request of this package that writes an autoscaler.
func (c *Client) patchBounds(ctx context.Context, o *unstructured.Unstructured, now Autoscaler, ch BoundsChange) (Autoscaler, error) {
	gvr, err := scalerResource(ch.Ref)
	if err != nil {
		return Autoscaler{}, err
	}
	patch, err := boundsPatch(o, now, ch)
	if err != nil {
		return Autoscaler{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("change the bounds of %s: %v", ch.Ref.Name, err)}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return Autoscaler{}, &fault.Error{Reason: fault.Invalid, Message: "change the bounds of " + ch.Ref.Name + ": patch", Err: cause{err}}
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if ch.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	r := request{verb: "patch", group: gvr.Group, resource: gvr.Resource, namespace: ch.Ref.Namespace, name: o.GetName(), write: !ch.DryRun}
	answer, err := c.dynamic.Resource(gvr).Namespace(ch.Ref.Namespace).Patch(ctx, o.GetName(), types.JSONPatchType, body, options)
	if err != nil {
		return Autoscaler{}, r.fail(err)
	}
	after, err := describeAutoscaler(ch.Ref, answer)
	if err != nil {
		return Autoscaler{}, &fault.Error{Reason: fault.ServerError, Unknown: r.write, Message: r.String() + ": the answer holds no autoscaler", Err: cause{err}}
	}
	return after, nil
}
