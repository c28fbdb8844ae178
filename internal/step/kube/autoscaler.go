package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

const autoscalerKind = "kube.autoscaler"

// AutoscalerKind declares kube.autoscaler.
func AutoscalerKind() playbook.Kind {
	return playbook.Kind{
		Name: autoscalerKind,
		Role: playbook.RoleLever, Class: playbook.ClassCapacity,
		Doc: `Brings the service's workload to a number of replicas by the bounds of its autoscaler: the lower bound of the HorizontalPodAutoscaler or of KEDA's
ScaledObject (minReplicas, minReplicaCount) is raised to that number, and the upper one too where it is less. An autoscaler adds replicas up to its lower bound at
once, whatever its metrics say. Undo sets exactly the former bounds. kube.scale becomes this lever where an autoscaler owns the replicas.

The same holds for what makes the workload: the bounds of KServe's InferenceService (spec.predictor.minReplicas and maxReplicas, in RawDeployment mode),
spec.replicas of a LeaderWorkerSet, and spec.replicas of the DynamoGraphDeploymentScalingAdapter of a component of Dynamo. An autoscaler of such an object comes
before it.

Where a Dynamo graph has a planner, the lower bound is that of the component in its arguments: prefill_min_endpoint or decode_min_endpoint in --config, where it is written there;
in a graph of one component, min_endpoint, or --min-endpoint of older versions. Its max_gpu_budget is never changed: a plan that it has no room for is refused with the
arithmetic. Dynamo starts its planner anew, and requests are not touched.

` + "`keep`" + ` takes the place of a pause: the lower bound becomes the number of replicas that are there as it is planned, so that none is taken away while the
metrics mislead (requests that fail early look like no load), and more still come where they are asked for. On a ScaledObject, KEDA's own pause of scale-in is set with
it: the annotation autoscaling.keda.sh/paused-scale-in, which KEDA knows since 2.18. KEDA's other pauses stop scale-out, too, and are never set. max_scale does not count, as
nothing is added. Where Argo CD or Flux owns the autoscaler, gitops.set_replicas sets that number, if it is more than Git has.

The bounds of the service are those of kube.scale, and ` + "`by`" + ` counts from the replicas of the workload. A negative ` + "`by`" + ` lowers the lower bound: the autoscaler takes
replicas away when its metrics allow it. Refused where Argo CD, Flux or a controlling object owns the autoscaler, while KEDA is paused, where several autoscalers own the
replicas, where the bounds of Dynamo's planner are not in its arguments or are of several components alike, and of an InferenceService over several nodes.`,
		OneOf: [][]string{{"replicas", "by", "keep"}},
		Steps: step.ScaleSteps(),
		// Applied on the planned bounds and marks only: a second time is a conflict.
		Idempotent: true,
		With:       step.Fields[autoscalerWith](),
	}
}

type autoscalerWith struct {
	step.ScaleWith

	Keep *bool `json:"keep" doc:"Keeps the replicas that are there. Exactly one of replicas, by and keep."`
}

type kubeAutoscaler struct {
	w    step.Workloads
	a    step.Autoscalers
	room step.Capacities
}

// NewAutoscaler returns the lever kube.autoscaler.
func NewAutoscaler(d step.Deps) step.Lever { return kubeAutoscaler{d.Workloads, d.Scalers, d.Capacity} }

// autoscalerPayload is the payload of a plan of kube.autoscaler.
type autoscalerPayload struct {
	Workload kube.Ref    `json:"workload"`
	From     kube.Bounds `json:"from"`
	To       kube.Bounds `json:"to"`
	Stamp    string      `json:"stamp"`          // of the autoscaler, as it was planned on
	Back     bool        `json:"back,omitempty"` // it gives a loan back
	Kept     bool        `json:"kept,omitempty"` // the replicas were there already: those that are not ready are not waited for
}

// Plan implements [step.Lever].
func (l kubeAutoscaler) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[autoscalerWith](AutoscalerKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil || l.a == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	ref := step.RefOf(in.Service)
	w, err := l.w.Workload(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	a, err := l.a.AutoscalerOf(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := changeable(a); err != nil {
		return machine.Plan{}, err
	}
	t, err := aimAt(with, in.Service, w, a)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := step.Settable(autoscalerKind, a, t.bounds, t.back); err != nil {
		return machine.Plan{}, err
	}
	if t.to > w.Replicas {
		if err := step.Startable(autoscalerKind, w); err != nil {
			return machine.Plan{}, err
		}
	}
	after, err := l.a.SetBounds(ctx, kube.BoundsChange{Ref: a.Ref, UID: a.UID, Stamp: a.Stamp(), To: t.bounds, Back: t.back, DryRun: true, Run: in.Run, Key: in.Key})
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	if lacks == "" && after.Bounds.String() != t.bounds.String() {
		return machine.Plan{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(
			"%s: the server makes %s of the bounds %s of %s: an admission webhook changes them", autoscalerKind, after.Bounds, t.bounds, step.RefText(a.Ref))}
	}
	plan := t.plan(in, w, a)
	plan.Lacks = lacks
	step.Forecast(ctx, l.room, &plan, ref, t.to-w.Replicas)
	plan.Notes = append(plan.Notes, t.notes(w, a)...)
	return plan, nil
}

// changeable refuses an autoscaler whose bounds somebody else would change back, or
// that does not act on them.
func changeable(a kube.Autoscaler) error {
	low, _ := a.Fields()
	if err := step.OwnedBy(autoscalerKind, a.Ref, a.Owners, "spec."+low); err != nil {
		return err
	}
	if a.Paused != "" {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
			"%s: %s is paused by its annotation %s, so that its bounds have no effect: remove the annotation first", autoscalerKind, step.RefText(a.Ref), a.Paused)}
	}
	if a.Unread() { // what its bounds are is not known
		return step.Settable(autoscalerKind, a, a.Bounds, true)
	}
	return nil
}

// Apply implements [step.Lever].
func (l kubeAutoscaler) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[autoscalerPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, p.To, p.Stamp, p.Back)
	if err == nil || !step.HasReason(err, fault.Conflict) {
		return receipt, err
	}
	// The conflict may be with an earlier attempt of ours, whose answer was lost.
	a, readErr := l.a.Autoscaler(ctx, step.RefOfTarget(plan.Target))
	e := *step.AsError(err)
	e.Unknown = readErr != nil || ourBounds(a, in, machine.ActionApply)
	return nil, &e
}

// Undo implements [step.Lever].
func (l kubeAutoscaler) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[autoscalerPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = step.Undone(ctx, l, in, plan, receipt, func() error {
		a, err := l.a.Autoscaler(ctx, step.RefOfTarget(plan.Target))
		if err != nil {
			return err
		}
		if a.Bounds.String() != p.To.String() || !ourBounds(a, in, machine.ActionApply) {
			return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: the bounds of %s changed since the look", plan.Step, step.RefText(a.Ref))}
		}
		out, err = l.set(ctx, in, plan, machine.ActionUndo, p.From, a.Stamp(), true)
		return err
	})
	return out, err
}

func (l kubeAutoscaler) set(ctx context.Context, in step.Input, plan machine.Plan, action machine.Action, to kube.Bounds, stamp string, back bool) (json.RawMessage, error) {
	if l.a == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	a, err := l.a.SetBounds(ctx, kube.BoundsChange{
		Ref: step.RefOfTarget(plan.Target), UID: plan.Target.UID, Stamp: stamp, To: to, Back: back, Run: in.Run, Key: in.Key,
	})
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: a.UID}), nil
}

// ourBounds reports whether the last recorded change of the autoscaler was made by this
// run's visit of this state, as the given action.
func ourBounds(a kube.Autoscaler, in step.Input, action machine.Action) bool {
	return a.Annotations[kube.AnnotationRun] == in.Run && step.OursKey(a.Annotations[kube.AnnotationEffect], in, action)
}

// Observe implements [step.Lever]. An autoscaler has no generation that tells of each
// write: the bounds count, with the mark of who set them last.
func (l kubeAutoscaler) Observe(ctx context.Context, in step.Input, plan machine.Plan, _ json.RawMessage, undo bool) (step.Observation, error) {
	p, err := step.Payload[autoscalerPayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, err
	}
	if l.w == nil || l.a == nil {
		return step.Observation{}, step.NotConfigured("cluster", "kubernetes")
	}
	name := step.RefText(step.RefOfTarget(plan.Target))
	a, err := l.a.Autoscaler(ctx, step.RefOfTarget(plan.Target))
	switch {
	case step.HasReason(err, fault.NotFound):
		return step.Observation{Foreign: true, Progress: name + " is gone: someone deleted it"}, nil
	case err != nil:
		return step.Observation{}, err
	case a.UID != plan.Target.UID:
		return step.Observation{Foreign: true, Progress: name + ": it was deleted and recreated"}, nil
	}
	want, before, action := p.To, p.From, machine.ActionApply
	untouched := a.Stamp() == p.Stamp
	if undo {
		want, before, action = p.From, p.To, machine.ActionUndo
		untouched = ourBounds(a, in, machine.ActionApply)
	}
	switch {
	case untouched && a.Bounds.String() == before.String():
		return step.Observation{Progress: fmt.Sprintf("bounds %s, as before", a.Bounds)}, nil
	case a.Bounds.String() != want.String() || !ourBounds(a, in, action):
		o := step.Observation{Foreign: true, Progress: fmt.Sprintf("%s: someone else changed it: bounds %s", name, a.Bounds)}
		if a.Inert != "" {
			o.Progress += "; " + a.Inert
		}
		if run := a.Annotations[kube.AnnotationRun]; run != "" {
			o.Progress += "; the last recorded change is of run " + run
		}
		return o, nil
	}
	o := step.Observation{Applied: true, Receipt: step.EncodeJSON(step.ChangeReceipt{Action: action, UID: a.UID})}
	l.follow(ctx, &o, p.Workload, a)
	if p.Kept && !undo && o.Unread == nil {
		o.Settled, o.Degraded = true, false
	}
	return o, nil
}

// follow fills in what the autoscaler has made of its bounds so far. More replicas than
// its lower bound are its own choice.
func (l kubeAutoscaler) follow(ctx context.Context, o *step.Observation, ref kube.Ref, a kube.Autoscaler) {
	w, err := l.w.Workload(ctx, ref)
	if err != nil {
		o.Unread = err
		return
	}
	replicas := w.Replicas
	w.Replicas = min(replicas, a.Min())
	step.Rolled(o, w, a.Min())
	switch {
	case replicas < a.Min():
		o.Progress += fmt.Sprintf("; %s has not set them yet", step.RefText(a.Ref))
		if a.Broken != "" {
			o.Progress += ": " + a.Broken
		}
	case replicas > a.Max():
		o.Settled = false
		o.Progress = fmt.Sprintf("%d replicas, %s has not taken those above %d away yet", replicas, step.RefText(a.Ref), a.Max())
	}
}
