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

// RolloutUndoKind declares kube.rollout_undo.
func RolloutUndoKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.rollout_undo",
		Role: playbook.RoleLever, Class: playbook.ClassRollback,
		Doc: `Puts the pod template of an earlier revision back, as ` + "`kubectl rollout undo`" + ` does. Undo puts the revision it replaced back in its turn.

It changes the cluster only: service.rollback goes back through whoever owns the pod template. Refused when Argo CD, Flux or a controlling object
owns it, when rollouts are paused by others, when another revision than from_revision is current, when there is no earlier revision, or when
the earlier one does not differ; and for a Rollout of Argo Rollouts, whose steps would hold the rollback, too. A hold of rollout.hold ends in the same write; undone, the rollout is held again.`,
		// Applied on the planned revision only: a second time is a conflict.
		Idempotent: true,
		With:       step.Fields[rolloutUndoWith](),
	}
}

type kubeRolloutUndo struct {
	w step.Workloads
	c step.Changer
}

// NewRolloutUndo returns the lever kube.rollout_undo.
func NewRolloutUndo(d step.Deps) step.Lever { return kubeRolloutUndo{d.Workloads, d.Changer} }

type rolloutUndoWith struct {
	ToRevision   int64 `json:"to_revision" min:"0" doc:"Revision to go back to; unset or 0: the one before the current. What came after it goes back together."`
	FromRevision int64 `json:"from_revision" min:"0" doc:"Revision that was current when this one was chosen: refused when another one is. Unset or 0: any."`
}

// rolloutPayload is the payload of a plan of kube.rollout_undo. It holds
// revision numbers, because pod templates may hold secrets, which never go into
// the journal.
type rolloutPayload struct {
	From int64 `json:"from"` // current revision when planned; the undo goes back to it
	To   int64 `json:"to"`

	Ours bool `json:"ours,omitempty"` // the current revision was a repair of Responder's when planned; put back, it is one again

	Held string `json:"held,omitempty"` // ReplicaSet whose rollout was held when planned; the undo holds it again
}

// Plan implements [step.Lever].
func (l kubeRolloutUndo) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[rolloutUndoWith](RolloutUndoKind(), in.With)
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
	if err := rolloutAllowed(w); err != nil {
		return machine.Plan{}, err
	}
	revisions, err := l.w.Revisions(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	from, to, err := rolloutTarget(ref, revisions, with)
	if err != nil {
		return machine.Plan{}, err
	}
	_, err = l.c.Undo(ctx, kube.UndoChange{
		Ref: ref, Revision: to.Number, DryRun: true, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: w.UID, Generation: w.Generation},
	})
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := machine.Plan{
		Step: "kube.rollout_undo", Target: step.Target(w), Lacks: lacks,
		Summary: fmt.Sprintf("roll %s back from revision %d to %d", step.RefText(ref), from.Number, to.Number),
		Undo:    fmt.Sprintf("put the pod template of revision %d back", from.Number),
		Locks:   step.Locks(in.Service), Payload: step.EncodeJSON(rolloutPayload{From: from.Number, To: to.Number, Ours: from.Ours, Held: w.Held}),
		Capacity: step.RolloutCapacity(w),
	}
	plan.Notes = goBackTogether(revisions, from, to)
	for _, d := range kube.Diff(from.Fields, to.Fields) {
		plan.Diff = append(plan.Diff, machine.FieldChange{Path: "spec.template." + d.Path, From: d.From, To: d.To})
	}
	if len(plan.Diff) == 0 {
		// The dry-run says that it differs: in a secret that is never shown.
		plan.Diff = []machine.FieldChange{{Path: "spec.template", From: "(redacted)", To: fmt.Sprintf("(redacted, as of revision %d)", to.Number)}}
	}
	if w.Held != "" {
		plan.Diff = append(plan.Diff, machine.FieldChange{Path: "spec.paused", From: "true"})
		plan.Undo += ", and hold its rollout again"
		plan.Rehold = &machine.Rehold{
			Step: hold, Summary: fmt.Sprintf("hold the rollout of revision %d of %s again", from.Number, step.RefText(ref)), Back: holdBack(w.Held),
		}
	}
	if step.OwnsReplicas(w) {
		// An autoscaler moves the generation all the time; the revision, which
		// apply checks as well, moves with the pod template only.
		plan.Target.Generation = 0
	}
	step.RolloutRisk(&plan, w)
	step.NotPutBack(&plan, w)
	return plan, nil
}

// Ends tells that the rollback ends every pod: what they know is read before.
func (l kubeRolloutUndo) Ends(machine.Plan) (pods []string, all bool) { return nil, true }

func rolloutAllowed(w kube.Workload) error {
	refuse := func(r fault.Reason, why string) error {
		return &fault.Error{Reason: r, Message: "kube.rollout_undo: " + step.RefText(w.Ref) + " " + why}
	}
	if err := notForRollouts("kube.rollout_undo", w, "its steps would hold the rollback, too; by hand: kubectl argo rollouts undo, then kubectl argo rollouts promote --full; rollout.hold aborts a rollout under way"); err != nil {
		return err
	}
	switch {
	case step.Owned("kube.rollout_undo", w, "spec.template") != nil:
		return step.Owned("kube.rollout_undo", w, "spec.template")
	case w.Paused && w.Held == "":
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
func rolloutTarget(ref kube.Ref, revisions []kube.Revision, with rolloutUndoWith) (from, target kube.Revision, err error) {
	current, previous := kube.Newest(revisions)
	if err := step.SameRevision("kube.rollout_undo", ref, current, with.FromRevision); err != nil {
		return from, target, err
	}
	to := with.ToRevision
	switch {
	case current == nil:
		return from, target, &fault.Error{Reason: fault.NoData, Message: "kube.rollout_undo: " + step.RefText(ref) + " has no revision history yet"}
	case to == current.Number:
		return from, target, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("kube.rollout_undo: %s runs revision %d already", step.RefText(ref), to)}
	case to == 0 && previous == nil:
		return from, target, &fault.Error{Reason: fault.NothingToDo, Message: "kube.rollout_undo: " + step.RefText(ref) +
			" has no earlier revision to go back to (see spec.revisionHistoryLimit)"}
	case to == 0:
		return *current, *previous, nil
	}
	for _, r := range revisions {
		if r.Number == to {
			return *current, r, nil
		}
	}
	return from, target, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("kube.rollout_undo: %s has no revision %d any more", step.RefText(ref), to)}
}

// goBackTogether tells which revisions are taken back by one rollback, if it is more
// than one.
func goBackTogether(revisions []kube.Revision, from, to kube.Revision) []string {
	var notes []string
	for _, r := range revisions {
		if r.Number > to.Number && r.Number <= from.Number {
			note := fmt.Sprintf("revision %d goes back", r.Number)
			if r.Cause != "" {
				note += ": " + r.Cause
			}
			notes = append(notes, note)
		}
	}
	if len(notes) < 2 {
		return nil
	}
	return append([]string{fmt.Sprintf("%d releases go back together, as one change", len(notes))}, notes...)
}

// Apply implements [step.Lever].
func (l kubeRolloutUndo) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
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
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, kube.UndoChange{Revision: p.To}, generation)
	return step.Applied(ctx, l.w, in, plan, receipt, err)
}

// current returns the generation that a plan is applied on: the planned one. Where an
// autoscaler moves it all the time, it is the present one, if the revision is the
// planned one.
func (l kubeRolloutUndo) current(ctx context.Context, in step.Input, plan machine.Plan, p rolloutPayload) (int64, error) {
	if plan.Target.Generation != 0 {
		return plan.Target.Generation, nil
	}
	ref := step.RefOfTarget(plan.Target)
	w, err := l.w.Workload(ctx, ref)
	if err != nil {
		return 0, err
	}
	if w.UID != plan.Target.UID || w.Revision != p.From || w.Observed < w.Generation {
		err := &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s moved on to revision %d since it was planned", plan.Step, step.RefText(ref), w.Revision)}
		return 0, step.AfterConflict(err, w, nil, in, machine.ActionApply)
	}
	return w.Generation, nil
}

// Undo implements [step.Lever].
func (l kubeRolloutUndo) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[rolloutPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = step.Undone(ctx, l, in, plan, receipt, func() error {
		// Between the look and the write nothing may move, an autoscaler's
		// write included; what the look saw stands in its receipt.
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
		out, err = l.set(ctx, in, plan, machine.ActionUndo, kube.UndoChange{Revision: p.From, Hold: p.Held, PutBack: !p.Ours, Acquits: !p.Ours && in.Verdict != ""}, seen.Generation)
		return err
	})
	return out, err
}

func (l kubeRolloutUndo) set(ctx context.Context, in step.Input, plan machine.Plan, action machine.Action, ch kube.UndoChange, generation int64) (json.RawMessage, error) {
	if l.w == nil || l.c == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	ch.Ref, ch.Run, ch.Key = step.RefOfTarget(plan.Target), in.Run, in.Key
	ch.Pre = kube.Precondition{UID: plan.Target.UID, Generation: generation}
	a, err := l.c.Undo(ctx, ch)
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: a.UID, Generation: a.Generation}), nil
}

// Observe implements [step.Lever]. Each pod template that becomes current gets the
// next revision number, so that a third party's rollout never goes unseen,
// while an autoscaler's change of the replicas is none of this lever's business.
func (l kubeRolloutUndo) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	at, err := step.LookAt[rolloutPayload](ctx, l.w, plan)
	if err != nil {
		return step.Observation{}, err
	}
	if at.Over != nil {
		return *at.Over, nil
	}
	p, w := at.Planned, at.W
	before, action := p.From, machine.ActionApply
	if undo {
		before, action = p.From+1, machine.ActionUndo
	}
	made := step.Mine(w, in, action, receipt)
	seen := w.Observed >= w.Generation
	switch {
	case w.Revision < before || w.Revision > before+1:
		if undo && w.Revision == p.From && !seen && step.Ours(w, in, machine.ActionUndo) {
			break // both changes are written, the controller has seen neither
		}
		return step.Foreign(w, fmt.Sprintf("someone else rolled it out: revision %d", w.Revision)), nil
	case !made && w.Revision == before:
		return step.Observation{Progress: fmt.Sprintf("revision %d, as before", w.Revision)}, nil
	case !made:
		return step.Foreign(w, fmt.Sprintf("someone else rolled it out: revision %d", w.Revision)), nil
	case seen && w.Revision == before:
		return step.Foreign(w, fmt.Sprintf("someone else put revision %d back", w.Revision)), nil
	}
	o := step.InPlace(w, action, w.Replicas)
	if undo && p.Held != "" {
		o.Settled, o.Degraded, o.Slow = seen && w.Held == p.Held, false, false // no more replicas get it
	}
	return o, nil
}
