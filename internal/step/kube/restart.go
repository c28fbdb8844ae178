package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// RestartKind declares kube.restart.
func RestartKind() playbook.Kind {
	return playbook.Kind{
		Name: restart,
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Restarts all pods of the service's workload by its own strategy, as ` + "`kubectl rollout restart`" + ` does: it sets the annotation
kubectl.kubernetes.io/restartedAt of the pod template. For one stuck replica take kube.replace_pod. A finished restart leaves nothing to put back; undo, as of
a run that is canceled in its middle, puts the pod template of before back, so that pods that were not restarted stay.

The pods' logs and their engines' numbers are kept before. Refused while rollouts are paused, with the strategies Recreate and OnDelete and with a partition, in
the middle of a rollout, for a Rollout of Argo Rollouts, and when a controlling object or Flux owns the pod template. Argo CD leaves an annotation alone that is not in Git.`,
		// Applied on the planned revision only: a second time is a conflict.
		Idempotent: true,
	}
}

const restart = "kube.restart"

// kubeRestart is a rollout of the same pod template: it is observed and undone as a
// rollback to another one is.
type kubeRestart struct{ kubeRolloutUndo }

// NewRestart returns the lever kube.restart.
func NewRestart(d step.Deps) step.Lever { return kubeRestart{kubeRolloutUndo{d.Workloads, d.Changer}} }

// Plan implements [step.Lever].
func (l kubeRestart) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	if _, err := step.Decode[struct{}](RestartKind(), in.With); err != nil {
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
	if err := restartAllowed(w); err != nil {
		return machine.Plan{}, err
	}
	_, err = l.c.Restart(ctx, l.change(in, machine.Target{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: w.UID}, w.Generation, true))
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := machine.Plan{
		Step: restart, Target: step.Target(w), Lacks: lacks,
		Summary: fmt.Sprintf("restart the %d pods of %s", w.Replicas, step.RefText(ref)),
		Diff:    []machine.FieldChange{{Path: "spec.template.metadata.annotations[" + kube.RestartedAt + "]", To: "the time of the restart"}},
		Undo:    fmt.Sprintf("before it has ended, put the pod template of revision %d back, so that pods that were not restarted stay; afterwards there is nothing to put back", w.Revision),
		Locks:   step.Locks(in.Service), Payload: step.EncodeJSON(rolloutPayload{From: w.Revision}),
		Capacity: step.RolloutCapacity(w),
	}
	if step.OwnsReplicas(w) {
		plan.Target.Generation = 0 // an autoscaler moves it; the revision is checked, too
	}
	step.RolloutRisk(&plan, w)
	return plan, nil
}

func (l kubeRestart) change(in step.Input, t machine.Target, generation int64, dryRun bool) kube.RestartChange {
	return kube.RestartChange{
		Ref: step.RefOfTarget(t), At: in.Now, DryRun: dryRun, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: t.UID, Generation: generation},
	}
}

// restartAllowed refuses what a rollback would be refused, but for Argo CD's
// ownership, and a restart that would take every replica away at once.
func restartAllowed(w kube.Workload) error {
	refuse := func(r fault.Reason, why string) error {
		return &fault.Error{Reason: r, Message: restart + ": " + step.RefText(w.Ref) + " " + why}
	}
	if err := notForRollouts(restart, w, "restart it by hand: kubectl argo rollouts restart"); err != nil {
		return err
	}
	others := w
	others.Owners = slices.DeleteFunc(slices.Clone(w.Owners), func(o kube.Owner) bool { return o.Kind == kube.ArgoCD })
	switch {
	case step.Owned(restart, others, "spec.template") != nil:
		return step.Owned(restart, others, "spec.template")
	case w.Paused:
		return refuse(fault.OutOfBounds, "has its rollouts paused: resume them first (kubectl rollout resume)")
	case w.Strategy.Type != "RollingUpdate":
		return refuse(fault.OutOfBounds, fmt.Sprintf("has the update strategy %s: it would take every replica away, or replace none", step.OrNone(w.Strategy.Type)))
	case w.Strategy.Partition > 0:
		return refuse(fault.OutOfBounds, fmt.Sprintf("updates ordinals from %d on only: the others would not be restarted", w.Strategy.Partition))
	case w.Replicas == 0:
		return refuse(fault.NothingToDo, "has no replicas")
	case w.RollingOut():
		return refuse(fault.Conflict, "is in the middle of a rollout, which replaces its pods")
	}
	return nil
}

// Apply implements [step.Lever].
func (l kubeRestart) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[rolloutPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if l.w == nil || l.c == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	generation, err := l.current(ctx, in, plan, p)
	if err != nil {
		return nil, err
	}
	a, err := l.c.Restart(ctx, l.change(in, plan.Target, generation, false))
	return step.Applied(ctx, l.w, in, plan, step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionApply, UID: a.UID, Generation: a.Generation}), err)
}
