package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/inference-responder/responder/internal/fault"
)

// AnnotationHeld is the ReplicaSet whose rollout a hold has paused. It is written in
// the same request as spec.paused.
const AnnotationHeld = "responder.dev/held"

// HoldChange asks for a pause of a Deployment's rollouts or the abort of a Rollout's, or for
// the end of it.
type HoldChange struct {
	Ref    Ref
	Set    string // ReplicaSet whose rollout is paused or aborted; empty: that ends
	Pre    Precondition
	DryRun bool
	Run    string
	Key    string
}

// Hold pauses the rollouts of a Deployment if the precondition still holds, or
// resumes them. The error is a [*fault.Error].
//
// A paused Deployment makes no ReplicaSet and moves no replicas from one to another.
// Its controller still fills it up to the replicas and maxSurge, in the larger
// ReplicaSet, and scales all of them in proportion (DeploymentController.scale).
func (c *Client) Hold(ctx context.Context, ch HoldChange) (Applied, error) {
	o, err := c.load(ctx, ch.Ref)
	if err != nil {
		return Applied{}, err
	}
	if err := o.still(ch.Pre); err != nil {
		return Applied{}, err
	}
	switch {
	case o.rollout != nil:
		return c.abort(ctx, o, ch)
	case o.deployment == nil:
		return Applied{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("hold %s: only a Deployment can be paused", o)}
	case o.deployment.Spec.Paused == (ch.Set != ""):
		return Applied{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("hold %s: spec.paused is %t already", o, ch.Set != "")}
	}
	marks := record(ch.Run, ch.Key)
	if ch.Set == "" {
		return c.patch(ctx, o, append(o.guarded(ch.Pre, marks), o.resumed()...), ch.DryRun)
	}
	marks[AnnotationHeld] = ch.Set
	return c.patch(ctx, o, append(o.guarded(ch.Pre, marks), paused()), ch.DryRun)
}

func paused() operation { return operation{Op: "add", Path: "/spec/paused", Value: true} }

// resumed returns the operations that end a pause.
func (o *object) resumed() []operation {
	out := []operation{{Op: "remove", Path: "/spec/paused"}}
	if _, has := o.meta.Annotations[AnnotationHeld]; has {
		out = append(out, operation{Op: "remove", Path: annotationPath(AnnotationHeld)})
	}
	return out
}

// held returns the ReplicaSet whose rollout a hold of ours has paused. It is empty if
// the Deployment is not paused, or somebody else paused it, also after ours was resumed.
func (o *object) held() string {
	if o.deployment == nil || !o.deployment.Spec.Paused {
		return ""
	}
	if by := o.pausedBy(); by != "" && by != FieldManager {
		return ""
	}
	return o.meta.Annotations[AnnotationHeld]
}

// lastApplied is what [object.pausedBy] returns for kubectl apply.
const lastApplied = "kubectl apply"

// pausedBy returns who sets spec.paused: a field manager, [FieldManager] only if there
// is no other. Empty: nobody does, or the server does not tell.
func (o *object) pausedBy() string {
	type spec struct {
		Spec map[string]any `json:"spec"`
	}
	var last spec
	if err := json.Unmarshal([]byte(o.meta.Annotations[corev1.LastAppliedConfigAnnotation]), &last); err == nil {
		if _, sets := last.Spec["paused"]; sets {
			return lastApplied
		}
	}
	by := ""
	for _, m := range managersOf(o.meta, "", "spec", "paused") {
		if by == "" || by == FieldManager {
			by = m
		}
	}
	return by
}

// templateSet returns the ReplicaSet of the current pod template, as the Deployment
// controller finds it; empty: there is none yet. A paused Deployment gets none.
func (o *object) templateSet() string {
	want := withoutHash(o.template)
	sets := slices.Clone(o.replicaSets)
	slices.SortStableFunc(sets, func(a, b appsv1.ReplicaSet) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range sets {
		if apiequality.Semantic.DeepEqual(withoutHash(sets[i].Spec.Template), want) {
			return sets[i].Name
		}
	}
	return ""
}

// holdIsOver reports whether the pod template has another spec than that of the held
// ReplicaSet. Other labels and annotations, such as those of kubectl rollout restart, are
// no other release. If somebody deleted the ReplicaSet, nobody can tell, and the hold stays.
func (o *object) holdIsOver(held string) bool {
	at := slices.IndexFunc(o.replicaSets, func(rs appsv1.ReplicaSet) bool { return rs.Name == held })
	return at >= 0 && !apiequality.Semantic.DeepEqual(o.replicaSets[at].Spec.Template.Spec, o.template.Spec)
}
