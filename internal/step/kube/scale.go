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

// ScaleKind declares kube.scale.
func ScaleKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.scale",
		Role: playbook.RoleLever, Class: playbook.ClassCapacity,
		Doc: `Sets the number of replicas of the service's workload. Undo sets the former number.

Where an autoscaler owns the replicas, or what makes the workload does (KServe, LeaderWorkerSet, Dynamo), this lever becomes kube.autoscaler, and where Argo CD or Flux does and the service says where in Git it is, gitops.set_replicas.
Refused where anybody else owns them, and beyond the service's own bounds: never above its
` + "`max_scale`" + `, never below its ` + "`min_ready`" + ` or one replica. ` + "`by`" + ` stops at those bounds, ` + "`replicas`" + ` is refused beyond them. The plan says whether nodes and quotas have room for the new replicas now, and which
pods of lower priority the scheduler may evict for them.`,
		OneOf: step.ScaleAlternatives(),
		Steps: step.ScaleSteps(),
		// Applied on the planned generation only: a second time is a conflict.
		Idempotent: true,
		With:       step.Fields[step.ScaleWith](),
	}
}

type kubeScale struct {
	w    step.Workloads
	c    step.Changer
	room step.Capacities
}

// NewScale returns the lever kube.scale.
func NewScale(d step.Deps) step.Lever { return kubeScale{d.Workloads, d.Changer, d.Capacity} }

// scalePayload is the payload of a plan of kube.scale.
type scalePayload struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Plan implements [step.Lever].
func (l kubeScale) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[step.ScaleWith](ScaleKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil || l.c == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	ref := step.RefOf(in.Service)
	w, err := l.w.Workload(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := step.Owned("kube.scale", w, "spec.replicas"); err != nil {
		return machine.Plan{}, err
	}
	to, note, err := step.ScaleTarget("kube.scale", with, in.Service, w.Replicas)
	if err != nil {
		return machine.Plan{}, err
	}
	if to > w.Replicas {
		if err := step.Startable("kube.scale", w); err != nil {
			return machine.Plan{}, err
		}
	}
	applied, err := l.c.Scale(ctx, kube.ScaleChange{
		Ref: ref, Replicas: to, DryRun: true, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: w.UID, Generation: w.Generation},
	})
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	if lacks == "" && applied.Replicas != to {
		return machine.Plan{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(
			"kube.scale: the server makes %d of %d replicas of %s: an admission webhook changes them", applied.Replicas, to, step.RefText(ref))}
	}
	plan := machine.Plan{
		Step: "kube.scale", Target: step.Target(w), Lacks: lacks,
		Summary: fmt.Sprintf("scale %s from %d to %d replicas", step.RefText(ref), w.Replicas, to),
		Diff:    []machine.FieldChange{{Path: "spec.replicas", From: fmt.Sprint(w.Replicas), To: fmt.Sprint(to)}},
		Undo:    fmt.Sprintf("set spec.replicas back to %d", w.Replicas),
		Locks:   step.Locks(in.Service), Payload: step.EncodeJSON(scalePayload{From: w.Replicas, To: to}),
		Risk: machine.RiskLow, Why: "adds replicas; those that serve are not touched",
		Capacity: machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: to},
		Back:     step.ScaleBack(w.Replicas, to), Loading: step.Loading(w),
	}
	if to < w.Replicas {
		plan.Risk, plan.Why = machine.RiskHigh, fmt.Sprintf("takes %d replicas away from a service in trouble", w.Replicas-to)
		plan.Capacity.LowestReady, plan.Class = min(w.Ready, to), playbook.ClassReturn
	}
	step.Forecast(ctx, l.room, &plan, ref, to-w.Replicas)
	if note != "" {
		plan.Notes = append(plan.Notes, note)
	}
	if w.Ready < w.Replicas {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%d of the %d replicas there are not ready", w.Replicas-w.Ready, w.Replicas))
	}
	return plan, nil
}

// Apply implements [step.Lever].
func (l kubeScale) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[scalePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, p.To, plan.Target.Generation)
	return step.Applied(ctx, l.w, in, plan, receipt, err)
}

// Undo implements [step.Lever].
func (l kubeScale) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[scalePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = step.Undone(ctx, l, in, plan, receipt, func() error {
		// Between the look and the write nothing may move; what the look saw stands in
		// its receipt.
		o, err := l.Observe(ctx, in, plan, receipt, false)
		if err != nil {
			return err
		}
		if !o.Applied {
			return &fault.Error{Reason: fault.Conflict, Message: o.Progress}
		}
		seen, err := step.Payload[step.ChangeReceipt](plan.Step, o.Receipt)
		if err != nil {
			return err
		}
		out, err = l.set(ctx, in, plan, machine.ActionUndo, p.From, seen.Generation)
		return err
	})
	return out, err
}

func (l kubeScale) set(ctx context.Context, in step.Input, plan machine.Plan, action machine.Action, replicas int, generation int64) (json.RawMessage, error) {
	if l.w == nil || l.c == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	a, err := l.c.Scale(ctx, kube.ScaleChange{
		Ref: step.RefOfTarget(plan.Target), Replicas: replicas, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: plan.Target.UID, Generation: generation},
	})
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: a.UID, Generation: a.Generation}), nil
}

// Observe implements [step.Lever]. The replicas that this lever set, with its mark, are
// in place whatever else of the object somebody has changed since, such as its pod
// template. Whoever sets the replicas takes the mark away.
func (l kubeScale) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	at, err := step.LookAt[scalePayload](ctx, l.w, plan)
	if err != nil {
		return step.Observation{}, err
	}
	if at.Over != nil {
		return *at.Over, nil
	}
	w := at.W
	planned, action := plan.Target.Generation, machine.ActionApply
	want, before := at.Planned.To, at.Planned.From
	if undo {
		// An apply is one write after the plan.
		planned, action = planned+1, machine.ActionUndo
		want, before = before, want
	}
	untouched := w.Generation == planned || undo && step.Ours(w, in, machine.ActionApply)
	switch {
	case untouched && w.Replicas == before:
		return step.Observation{Progress: fmt.Sprintf("%d replicas, as before", w.Replicas)}, nil
	case w.Replicas != want || !step.Mine(w, in, action, receipt):
		return step.Foreign(w, fmt.Sprintf("someone else changed it: %d replicas, generation %d", w.Replicas, w.Generation)), nil
	}
	o := step.InPlace(w, action, want)
	if want > before && w.Observed >= w.Generation && w.Ready >= want && w.Available >= want {
		// They serve, of whatever revision: somebody's rollout is no part of it.
		o.Settled, o.Degraded, o.Slow = true, false, false
	}
	return o, nil
}
