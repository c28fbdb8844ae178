package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// kubeScaleKind declares kube.scale.
func kubeScaleKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.scale",
		Role: playbook.RoleLever,
		Doc: `Sets the number of replicas of the service's workload. Undo sets the former number.

Refused when an autoscaler, Argo CD, Flux or a controlling object owns the replicas, and beyond the service's own bounds: never above its
` + "`max_scale`" + `, never below its ` + "`min_ready`" + ` or one replica. ` + "`by`" + ` stops at those bounds, ` + "`replicas`" + ` is refused beyond them.`,
		OneOf: [][]string{{"replicas", "by"}},
		// Applied on the planned generation only: a second time is a conflict.
		Idempotent: true,
		With: []playbook.Field{
			{Name: "replicas", Type: scalar(playbook.Int), Min: limit(1), Unit: "replicas", Doc: "Number to set. Exactly one of replicas and by."},
			{Name: "by", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Number to add; negative: to take away."},
			{Name: "max", Type: scalar(playbook.Int), Min: limit(1), Unit: "replicas", Doc: "Most replicas to end at; can only tighten the service's max_scale."},
		},
	}
}

type kubeScale struct {
	w Workloads
	c Changer
}

func newKubeScale(d Deps) Lever { return kubeScale{d.Workloads, d.Changer} }

type scaleWith struct {
	Replicas *int `json:"replicas"`
	By       *int `json:"by"`
	Max      *int `json:"max"`
}

// scalePayload is what a plan of kube.scale needs to be applied and undone.
type scalePayload struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Plan implements [Lever].
func (l kubeScale) Plan(ctx context.Context, in Input) (machine.Plan, error) {
	with, err := decode[scaleWith](kubeScaleKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil || l.c == nil {
		return machine.Plan{}, missing("cluster", "kubernetes")
	}
	ref := refOf(in.Service)
	w, err := l.w.Workload(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := owned("kube.scale", w, "spec.replicas"); err != nil {
		return machine.Plan{}, err
	}
	to, note, err := scaleTarget("kube.scale", with, in.Service, w.Replicas)
	if err != nil {
		return machine.Plan{}, err
	}
	applied, err := l.c.Scale(ctx, kube.ScaleChange{
		Ref: ref, Replicas: to, DryRun: true, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: w.UID, Generation: w.Generation},
	})
	lacks, err := lackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	if lacks == "" && applied.Replicas != to {
		return machine.Plan{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(
			"kube.scale: the server makes %d of %d replicas of %s: an admission webhook changes them", applied.Replicas, to, place(ref))}
	}
	plan := machine.Plan{
		Step: "kube.scale", Target: target(w), Lacks: lacks,
		Summary: fmt.Sprintf("scale %s from %d to %d replicas", place(ref), w.Replicas, to),
		Diff:    []machine.FieldChange{{Path: "spec.replicas", From: fmt.Sprint(w.Replicas), To: fmt.Sprint(to)}},
		Undo:    fmt.Sprintf("set spec.replicas back to %d", w.Replicas),
		Locks:   locks(in.Service), Payload: encode(scalePayload{From: w.Replicas, To: to}),
		Risk: machine.RiskLow, Why: "adds replicas; those that serve are not touched",
		Capacity: machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: to},
	}
	if to < w.Replicas {
		plan.Risk, plan.Why = machine.RiskHigh, fmt.Sprintf("takes %d replicas away from a service in trouble", w.Replicas-to)
		plan.Capacity.LowestReady = min(w.Ready, to)
	}
	if note != "" {
		plan.Notes = append(plan.Notes, note)
	}
	if w.Ready < w.Replicas {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%d of the %d replicas there are not ready", w.Replicas-w.Ready, w.Replicas))
	}
	return plan, nil
}

// scaleTarget is the number to set. Relative steps stop at the bounds, absolute
// numbers are refused beyond them.
func scaleTarget(kind string, with scaleWith, svc playbook.Service, now int) (to int, note string, err error) {
	low, high := max(svc.MinReady, 1), svc.MaxScale
	if with.Max != nil {
		high = min(high, *with.Max)
	}
	refuse := func(format string, args ...any) (int, string, error) {
		return 0, "", &fault.Error{Reason: fault.OutOfBounds, Message: kind + ": " + fmt.Sprintf(format, args...)}
	}
	relative := with.By != nil
	if relative {
		// Bounded before adding, so that no number wraps around.
		to = now + max(min(*with.By, 1_000_000), -1_000_000)
	} else {
		to = *with.Replicas
	}
	switch {
	case to > now && svc.MaxScale <= 0:
		return refuse("service %s sets no max_scale, so nothing may scale it up", svc.Name)
	case to > now && now >= high:
		return refuse("%d replicas already, %d are the most allowed", now, high)
	case to > high && to > now && !relative:
		return refuse("%d replicas are more than the %d allowed", to, high)
	case to > high && to > now:
		return high, fmt.Sprintf("stops at %d, the most allowed, instead of %d", high, to), nil
	case to < now && now <= low:
		return refuse("%d replicas already, %d are the fewest allowed", now, low)
	case to < low && to < now && !relative:
		return refuse("%d replicas are fewer than the %d allowed", to, low)
	case to < low && to < now:
		return low, fmt.Sprintf("stops at %d, the fewest allowed, instead of %d", low, to), nil
	case to == now:
		return 0, "", &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %d replicas already", kind, now)}
	}
	return to, "", nil
}

// Apply implements [Lever].
func (l kubeScale) Apply(ctx context.Context, in Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := payload[scalePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, p.To, plan.Target.Generation)
	return applied(ctx, l.w, in, plan, receipt, err)
}

// Undo implements [Lever].
func (l kubeScale) Undo(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := payload[scalePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	left, err := leftAt(plan, receipt)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = undone(ctx, l, in, plan, receipt, func() error {
		var err error
		out, err = l.set(ctx, in, plan, machine.ActionUndo, p.From, left)
		return err
	})
	return out, err
}

func (l kubeScale) set(ctx context.Context, in Input, plan machine.Plan, action machine.Action, replicas int, generation int64) (json.RawMessage, error) {
	if l.w == nil || l.c == nil {
		return nil, missing("cluster", "kubernetes")
	}
	a, err := l.c.Scale(ctx, kube.ScaleChange{
		Ref: refOfTarget(plan.Target), Replicas: replicas, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: plan.Target.UID, Generation: generation},
	})
	if err != nil {
		return nil, err
	}
	return encode(changeReceipt{Action: action, UID: a.UID, Generation: a.Generation}), nil
}

// Observe implements [Lever]. Every write of the object's spec moves its
// generation by one, so that a third party's write never goes unseen.
func (l kubeScale) Observe(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage, undo bool) (Observation, error) {
	at, err := lookAt[scalePayload](ctx, l.w, plan)
	if err != nil {
		return Observation{}, err
	}
	if at.over != nil {
		return *at.over, nil
	}
	w := at.w
	planned, action := plan.Target.Generation, machine.ActionApply
	want, before := at.planned.To, at.planned.From
	if undo {
		// An apply is one write after the plan, its undo the one after that.
		planned, action = planned+1, machine.ActionUndo
		want, before = before, want
	}
	switch {
	case w.Generation == planned && w.Replicas == before:
		return Observation{Progress: fmt.Sprintf("%d replicas, as before", w.Replicas)}, nil
	case w.Generation != planned+1 || w.Replicas != want || !mine(w, in, action, receipt):
		return foreign(w, fmt.Sprintf("someone else changed it: %d replicas, generation %d", w.Replicas, w.Generation)), nil
	}
	return inPlace(w, action, want), nil
}
