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

// kubeRolloutUndoKind declares kube.rollout_undo.
func kubeRolloutUndoKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.rollout_undo",
		Role: playbook.RoleLever,
		Doc: `Puts the pod template of an earlier revision back, as ` + "`kubectl rollout undo`" + ` does. Undo puts the revision it replaced back in its turn.

Refused when Argo CD, Flux or a controlling object owns the pod template, when rollouts are paused, when there is no earlier revision, or when
the earlier one does not differ.`,
		// Applied on the planned revision only: a second time is a conflict.
		Idempotent: true,
		With: []playbook.Field{
			{Name: "to_revision", Type: scalar(playbook.Int), Min: limit(0), Doc: "Revision to go back to; unset or 0: the one before the current."},
		},
	}
}

type kubeRolloutUndo struct {
	w Workloads
	c Changer
}

func newKubeRolloutUndo(d Deps) Lever { return kubeRolloutUndo{d.Workloads, d.Changer} }

type rolloutUndoWith struct {
	ToRevision int64 `json:"to_revision"`
}

// rolloutPayload is what a plan of kube.rollout_undo needs. Revisions stand for
// pod templates, which may hold secrets and never go into the journal.
type rolloutPayload struct {
	From int64 `json:"from"` // current revision when planned; the undo goes back to it
	To   int64 `json:"to"`
}

// Plan implements [Lever].
func (l kubeRolloutUndo) Plan(ctx context.Context, in Input) (machine.Plan, error) {
	with, err := decode[rolloutUndoWith](kubeRolloutUndoKind(), in.With)
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
	if err := rolloutAllowed(w); err != nil {
		return machine.Plan{}, err
	}
	revisions, err := l.w.Revisions(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	from, to, err := rolloutTarget(ref, revisions, with.ToRevision)
	if err != nil {
		return machine.Plan{}, err
	}
	_, err = l.c.Undo(ctx, kube.UndoChange{
		Ref: ref, Revision: to.Number, DryRun: true, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: w.UID, Generation: w.Generation},
	})
	lacks, err := lackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := machine.Plan{
		Step: "kube.rollout_undo", Target: target(w), Lacks: lacks,
		Summary: fmt.Sprintf("roll %s back from revision %d to %d", place(ref), from.Number, to.Number),
		Undo:    fmt.Sprintf("put the pod template of revision %d back", from.Number),
		Locks:   locks(in.Service), Payload: encode(rolloutPayload{From: from.Number, To: to.Number}),
		Capacity: rolloutCapacity(w),
	}
	for _, d := range kube.Diff(from.Fields, to.Fields) {
		plan.Diff = append(plan.Diff, machine.FieldChange{Path: "spec.template." + d.Path, From: d.From, To: d.To})
	}
	if len(plan.Diff) == 0 {
		// The dry-run says that it differs: in a secret that is never shown.
		plan.Diff = []machine.FieldChange{{Path: "spec.template", From: "(redacted)", To: fmt.Sprintf("(redacted, as of revision %d)", to.Number)}}
	}
	if ownsReplicas(w) {
		// An autoscaler moves the generation all the time; the revision, which
		// apply checks as well, moves with the pod template only.
		plan.Target.Generation = 0
	}
	rolloutRisk(&plan, w)
	return plan, nil
}

func rolloutAllowed(w kube.Workload) error {
	refuse := func(r fault.Reason, why string) error {
		return &fault.Error{Reason: r, Message: "kube.rollout_undo: " + place(w.Ref) + " " + why}
	}
	switch {
	case owned("kube.rollout_undo", w, "spec.template") != nil:
		return owned("kube.rollout_undo", w, "spec.template")
	case w.Paused:
		return refuse(fault.OutOfBounds, "has its rollouts paused: resume them first (kubectl rollout resume)")
	case w.Strategy.Type == "OnDelete":
		return refuse(fault.OutOfBounds, "has the update strategy OnDelete: nothing would replace its pods")
	case w.Strategy.Partition > 0:
		return refuse(fault.OutOfBounds, fmt.Sprintf("updates ordinals from %d on only: the others would keep what they run", w.Strategy.Partition))
	case w.Observed < w.Generation:
		return refuse(fault.Conflict, "was just changed and its controller has not seen it yet: plan again in a moment")
	}
	return nil
}

// rolloutTarget finds the current revision and the one to go back to.
func rolloutTarget(ref kube.Ref, revisions []kube.Revision, to int64) (from, target kube.Revision, err error) {
	current, previous := newestTwo(revisions)
	switch {
	case current == nil:
		return from, target, &fault.Error{Reason: fault.NoData, Message: "kube.rollout_undo: " + place(ref) + " has no revision history yet"}
	case to == current.Number:
		return from, target, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("kube.rollout_undo: %s runs revision %d already", place(ref), to)}
	case to == 0 && previous == nil:
		return from, target, &fault.Error{Reason: fault.NothingToDo, Message: "kube.rollout_undo: " + place(ref) +
			" has no earlier revision to go back to (see spec.revisionHistoryLimit)"}
	case to == 0:
		return *current, *previous, nil
	}
	for _, r := range revisions {
		if r.Number == to {
			return *current, r, nil
		}
	}
	return from, target, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("kube.rollout_undo: %s has no revision %d any more", place(ref), to)}
}

// rolloutCapacity is how few replicas may be ready while the rollout goes on.
// The controller takes ready pods away only down to what the strategy allows.
func rolloutCapacity(w kube.Workload) machine.Capacity {
	c := machine.Capacity{ReadyNow: w.Ready, ReadyAfter: w.Replicas}
	switch {
	case w.Strategy.Type == "Recreate":
	case w.Strategy.Type == "RollingUpdate" && w.Strategy.MaxUnavailable >= 0:
		c.LowestReady = min(w.Ready, max(w.Replicas-w.Strategy.MaxUnavailable, 0))
	default:
		c.Unknown = true
	}
	return c
}

// rolloutRisk says nothing of how many are ready now: the plan's digest must
// not move by itself.
func rolloutRisk(plan *machine.Plan, w kube.Workload) {
	plan.Risk, plan.Why = machine.RiskMedium, "replaces every pod, step by step as its strategy allows"
	switch {
	case plan.Capacity.Unknown:
		plan.Risk, plan.Why = machine.RiskHigh, "replaces every pod; how many stay ready cannot be said"
	case w.Strategy.Type == "Recreate" || w.Strategy.MaxUnavailable >= w.Replicas:
		plan.Risk, plan.Why = machine.RiskHigh, "replaces every pod; its strategy lets all of them be missing at once"
	}
	if w.Ref.Kind == "StatefulSet" && w.Ready < w.Replicas {
		plan.Notes = append(plan.Notes, "a StatefulSet waits for broken pods to become ready: they may have to be deleted by hand")
	}
}

// Apply implements [Lever].
func (l kubeRolloutUndo) Apply(ctx context.Context, in Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := payload[rolloutPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if l.w == nil || l.c == nil {
		return nil, missing("cluster", "kubernetes")
	}
	ref := refOfTarget(plan.Target)
	generation := plan.Target.Generation
	if generation == 0 {
		w, err := l.w.Workload(ctx, ref)
		if err != nil {
			return nil, err
		}
		if w.UID != plan.Target.UID || w.Revision != p.From || w.Observed < w.Generation {
			err := &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("kube.rollout_undo: %s moved on to revision %d since it was planned", place(ref), w.Revision)}
			return nil, afterConflict(err, w, nil, in, machine.ActionApply)
		}
		generation = w.Generation
	}
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, p.To, generation)
	return applied(ctx, l.w, in, plan, receipt, err)
}

// Undo implements [Lever].
func (l kubeRolloutUndo) Undo(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := payload[rolloutPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = undone(ctx, l, in, plan, receipt, func() error {
		// Between the look and the write nothing may move, an autoscaler's
		// write included; what the look saw stands in its receipt.
		o, err := l.Observe(ctx, in, plan, receipt, false)
		if err != nil {
			return err
		}
		if !o.Applied {
			return &fault.Error{Reason: fault.Conflict, Message: o.Progress}
		}
		seen, err := payload[changeReceipt](plan.Step, o.Receipt)
		if err != nil {
			return err
		}
		out, err = l.set(ctx, in, plan, machine.ActionUndo, p.From, seen.Generation)
		return err
	})
	return out, err
}

func (l kubeRolloutUndo) set(ctx context.Context, in Input, plan machine.Plan, action machine.Action, revision, generation int64) (json.RawMessage, error) {
	if l.w == nil || l.c == nil {
		return nil, missing("cluster", "kubernetes")
	}
	a, err := l.c.Undo(ctx, kube.UndoChange{
		Ref: refOfTarget(plan.Target), Revision: revision, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: plan.Target.UID, Generation: generation},
	})
	if err != nil {
		return nil, err
	}
	return encode(changeReceipt{Action: action, UID: a.UID, Generation: a.Generation}), nil
}

// Observe implements [Lever]. Each pod template that becomes current gets the
// next revision number, so that a third party's rollout never goes unseen,
// while an autoscaler's change of the replicas is none of this lever's business.
func (l kubeRolloutUndo) Observe(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage, undo bool) (Observation, error) {
	at, err := lookAt[rolloutPayload](ctx, l.w, plan)
	if err != nil {
		return Observation{}, err
	}
	if at.over != nil {
		return *at.over, nil
	}
	p, w := at.planned, at.w
	before, action := p.From, machine.ActionApply
	if undo {
		before, action = p.From+1, machine.ActionUndo
	}
	made := mine(w, in, action, receipt)
	seen := w.Observed >= w.Generation
	switch {
	case w.Revision < before || w.Revision > before+1:
		if undo && w.Revision == p.From && !seen && ours(w, in, machine.ActionUndo) {
			break // both changes are written, the controller has seen neither
		}
		return foreign(w, fmt.Sprintf("someone else rolled it out: revision %d", w.Revision)), nil
	case !made && w.Revision == before:
		return Observation{Progress: fmt.Sprintf("revision %d, as before", w.Revision)}, nil
	case !made:
		return foreign(w, fmt.Sprintf("someone else rolled it out: revision %d", w.Revision)), nil
	case seen && w.Revision == before:
		return foreign(w, fmt.Sprintf("someone else put revision %d back", w.Revision)), nil
	}
	return inPlace(w, action, w.Replicas), nil
}
