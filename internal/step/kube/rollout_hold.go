package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// HoldKind declares rollout.hold.
func HoldKind() playbook.Kind {
	return playbook.Kind{
		Name: hold,
		Role: playbook.RoleLever, Class: playbook.ClassHold,
		Doc: `Pauses the rollout of the service's Deployment while it is under way, as ` + "`kubectl rollout pause`" + ` does: the replicas that still run the release before
stay, while people decide about the rollback. It changes no pod. Undo resumes the rollout.

It heals nothing, so it is never verified: the proof is that the rollout stands still, within seconds. It stays as a loan until the pod template is another one,
by kube.rollout_undo (which ends it in the same write), by Git or by people. Then Responder resumes the rollouts at once, without a question: a hold must not keep
a fix back. It never resumes the pod spec that it held. To roll back by hand: kubectl rollout resume, then kubectl rollout undo.

Refused when no rollout is under way or all replicas run the new release already; when the rollout is a rollback of Responder's; when the Deployment is paused, or
somebody sets ` + "`spec.paused`" + ` (in Git, too); when a controlling object owns it; with the strategy Recreate; and for a StatefulSet, which has no pause.

A Rollout of Argo Rollouts is aborted, as ` + "`kubectl argo rollouts abort`" + ` does: its requests go back to the stable ReplicaSet at once, and its controller
ends the pods of the release, whose logs are kept before. That is no field of Git, so that it is done where Argo CD or Flux deploys it, too. Argo Rollouts
ends the abort when the pod template or the steps are others. Undo retries the rollout. Refused when the stable ReplicaSet is the current one, or there is none
yet, and while ` + "`spec.paused`" + ` is set, which keeps the controller from it.`,
		// Applied on the planned release only: a second time is a conflict.
		Idempotent: true,
		With:       step.Fields[holdWith](),
	}
}

const hold = "rollout.hold"

type holdWith struct {
	Back bool   `json:"back" doc:"Resumes rollouts once the pod template is another one than that of held. A loan is returned so."`
	Held string `json:"held" doc:"With back: ReplicaSet whose rollout is held."`
}

type rolloutHold struct {
	w step.Workloads
	c step.Changer
}

// NewHold returns the lever rollout.hold.
func NewHold(d step.Deps) step.Lever { return rolloutHold{d.Workloads, d.Changer} }

// holdPayload is the payload of a plan of rollout.hold.
type holdPayload struct {
	Set      string `json:"set"`      // ReplicaSet whose rollout is held
	Revision int64  `json:"revision"` // its number; 0 with Back
	Back     bool   `json:"back,omitempty"`
}

// holdReceipt also has what the proof compares with.
type holdReceipt struct {
	step.ChangeReceipt

	Updated *int `json:"updated,omitempty"` // replicas of the held release when it was held, and those that its controller may add; nil: not known
}

// Plan implements [step.Lever].
func (l rolloutHold) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[holdWith](HoldKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil || l.c == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	w, err := l.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return machine.Plan{}, err
	}
	var plan machine.Plan
	if with.Back {
		plan, err = resumePlan(w, with.Held)
	} else if err = l.allowed(ctx, w); err == nil {
		if plan = holdPlan(in, w); w.Ref.Kind == kube.Rollout {
			plan = abortPlan(in, w)
		}
	}
	if err != nil {
		return machine.Plan{}, err
	}
	p, err := step.Payload[holdPayload](hold, plan.Payload)
	if err != nil {
		return machine.Plan{}, err
	}
	_, err = l.c.Hold(ctx, p.change(in, w, !with.Back, w.Generation, true))
	if plan.Lacks, err = step.LackedRight(err); err != nil {
		return machine.Plan{}, err
	}
	if step.OwnsReplicas(w) {
		plan.Target.Generation = 0 // an autoscaler moves it; the pause and the release are checked, too
	}
	return plan, nil
}

func holdRefusal(w kube.Workload, r fault.Reason, format string, args ...any) error {
	return &fault.Error{Reason: r, Message: hold + ": " + step.RefText(w.Ref) + " " + fmt.Sprintf(format, args...)}
}

// allowed refuses to pause what cannot be paused, or would gain nothing by it.
func (l rolloutHold) allowed(ctx context.Context, w kube.Workload) error {
	if err := holdable(w); err != nil {
		return err
	}
	revisions, err := l.w.Revisions(ctx, w.Ref)
	if err != nil {
		return err
	}
	if current, _ := kube.Newest(revisions); current != nil && current.Ours {
		return holdRefusal(w, fault.NothingToDo, "rolls out what Responder put back: that is the repair")
	}
	return nil
}

func holdable(w kube.Workload) error {
	if w.Ref.Kind == kube.Rollout {
		return abortable(w)
	}
	if w.Ref.Kind != "Deployment" {
		return holdRefusal(w, fault.OutOfBounds, "has no pause: only a Deployment or a Rollout has one; the rollout of a StatefulSet is held by hand, with spec.updateStrategy.rollingUpdate.partition raised to its replicas")
	}
	for _, o := range w.Owners {
		// Argo CD and Flux wait for a paused Deployment, so that the fix in Git would wait, too.
		if o.Field == "*" {
			return step.OwnedBy(hold, w.Ref, []kube.Owner{o}, "spec.paused")
		}
	}
	old, _ := sidesOf(w)
	switch {
	case w.Held != "":
		return holdRefusal(w, fault.NothingToDo, "is held already, by run %s", step.OrNone(w.Annotations[kube.AnnotationRun]))
	case w.Paused:
		return holdRefusal(w, fault.NothingToDo, "is paused already, by %s", cmp.Or(w.PausedBy, "somebody"))
	case w.PausedBy != "" && w.PausedBy != kube.FieldManager:
		return holdRefusal(w, fault.Owned, "has spec.paused set by %s, which would set it back: pause it there", w.PausedBy)
	case w.Strategy.Type != "RollingUpdate":
		return holdRefusal(w, fault.OutOfBounds, "has the update strategy %s: the pods of the release before are gone", step.OrNone(w.Strategy.Type))
	case w.Observed < w.Generation || w.Template == "":
		return holdRefusal(w, fault.Conflict, "was just changed and its controller has not seen it yet: plan again in a moment")
	case old == 0:
		return holdRefusal(w, fault.NothingToDo, "rolls nothing out: all its pods are of revision %d", w.Revision)
	case w.Updated >= w.Replicas:
		return holdRefusal(w, fault.NothingToDo, "is nearly rolled out: all %d replicas are of revision %d, and the %d pods left of the release before end also under a pause", w.Replicas, w.Revision, old)
	}
	return nil
}

// sidesOf counts the pods that are there of releases before the current one, and of the
// current one.
func sidesOf(w kube.Workload) (old, current int) {
	for _, p := range w.Pods {
		switch {
		case p.Worker || p.Over():
		case p.Revision == w.Revision:
			current++
		default:
			old++
		}
	}
	return old, current
}

// fills returns how many pods a paused Deployment still makes, and whether of the current
// release: it is filled up to its replicas and maxSurge, in the larger ReplicaSet, of
// equal ones in the newer. What is aborted gets none.
func fills(w kube.Workload) (more int, current bool) {
	if w.Ref.Kind == kube.Rollout {
		return 0, false
	}
	old, updated := sidesOf(w)
	return max(0, w.Replicas+max(w.Strategy.MaxSurge, 0)-old-updated), updated >= old
}

func holdPlan(in step.Input, w kube.Workload) machine.Plan {
	ref := step.RefText(w.Ref)
	old, current := sidesOf(w)
	more, ofCurrent := fills(w)
	plan := machine.Plan{
		Step: hold, Target: step.Target(w),
		Summary: fmt.Sprintf("hold the rollout of revision %d of %s", w.Revision, ref),
		Diff:    []machine.FieldChange{{Path: "spec.paused", To: "true"}},
		Undo:    fmt.Sprintf("resume the rollout of revision %d", w.Revision),
		Locks:   step.Locks(in.Service), Payload: step.EncodeJSON(holdPayload{Set: w.Template, Revision: w.Revision}),
		Risk: machine.RiskLow, Why: "changes no pod, and restarts nothing",
		Capacity: machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: old + current + more},
		Back:     holdBack(w.Template),
		Notes: []string{
			fmt.Sprintf("while it is held, %d replicas of the release before and %d of revision %d stay; %d are ready now, and those that load go on loading", old, current, w.Revision, w.Ready),
			"every rollout of it waits; Responder resumes them as soon as the pod template has another spec (responder loans list)",
			"to roll back by hand: kubectl rollout resume, then kubectl rollout undo; kubectl refuses the undo while it is paused",
		},
	}
	switch {
	case more > 0 && ofCurrent:
		plan.Notes = append(plan.Notes, fmt.Sprintf("its controller may add up to %d more of revision %d, up to the replicas and maxSurge", more, w.Revision))
	case more > 0:
		plan.Notes = append(plan.Notes, fmt.Sprintf("its controller brings up to %d replicas of the release before back, up to the replicas and maxSurge", more))
	}
	return plan
}

// holdBack returns the parameters that end the hold of a ReplicaSet's rollout.
func holdBack(set string) map[string]any { return map[string]any{"back": true, "held": set} }

// resumePlan ends a hold whose release is no longer the one that would roll out.
func resumePlan(w kube.Workload, held string) (machine.Plan, error) {
	switch {
	case w.Held == "" && w.Paused:
		return machine.Plan{}, holdRefusal(w, fault.NothingToDo, "was paused by %s, who has to resume it", cmp.Or(w.PausedBy, "somebody"))
	case w.Held == "":
		return machine.Plan{}, holdRefusal(w, fault.NothingToDo, "is not held any more")
	case held != "" && w.Held != held:
		return machine.Plan{}, holdRefusal(w, fault.NothingToDo, "is held for another release, %s", w.Held)
	case !w.HoldOver:
		return machine.Plan{}, holdRefusal(w, fault.OutOfBounds,
			"still has the pod template of %s: resumed, the release that was held would go on; roll it back, or let it go on by hand (%s)", w.Held, goOn(w.Ref))
	}
	ref := step.RefText(w.Ref)
	return machine.Plan{
		Step: hold, Target: step.Target(w), Class: playbook.ClassReturn,
		Summary: fmt.Sprintf("resume the rollouts of %s: its pod template is no longer that of %s", ref, w.Held),
		Diff:    []machine.FieldChange{{Path: "spec.paused", From: "true"}},
		Undo:    "pause them again",
		Ends:    "the hold was approved with its end: as soon as the pod template is another one",
		Payload: step.EncodeJSON(holdPayload{Set: w.Held, Back: true}),
		Risk:    machine.RiskMedium, Why: "what somebody set since rolls out, as the strategy allows",
		Capacity: step.RolloutCapacity(w),
	}, nil
}

func (p holdPayload) change(in step.Input, w kube.Workload, pause bool, generation int64, dryRun bool) kube.HoldChange {
	ch := kube.HoldChange{Ref: w.Ref, DryRun: dryRun, Run: in.Run, Key: in.Key, Pre: kube.Precondition{UID: w.UID, Generation: generation}}
	if pause {
		ch.Set = p.Set
	}
	if !dryRun {
		ch.Pre.Version = w.Version
	}
	return ch
}

// Apply implements [step.Lever].
func (l rolloutHold) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	at, err := step.LookAt[holdPayload](ctx, l.w, plan)
	if err != nil {
		return nil, err
	}
	p, w := at.Planned, at.W
	generation := cmp.Or(plan.Target.Generation, w.Generation)
	moved := at.Over != nil || generation != w.Generation || w.Paused != p.Back || !p.Back && w.Template != p.Set || p.Back && (w.Held != p.Set || !w.HoldOver)
	if moved {
		err := &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s changed since it was planned", hold, step.RefText(step.RefOfTarget(plan.Target)))}
		return nil, step.AfterConflict(err, w, nil, in, machine.ActionApply)
	}
	if l.c == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	a, err := l.c.Hold(ctx, p.change(in, w, !p.Back, generation, false))
	if err != nil {
		return step.Applied(ctx, l.w, in, plan, nil, err)
	}
	receipt := holdReceipt{ChangeReceipt: step.ChangeReceipt{Action: machine.ActionApply, UID: a.UID, Generation: a.Generation}}
	if !p.Back {
		most := w.Updated
		if more, current := fills(w); current {
			most += more
		}
		receipt.Updated = &most
	}
	return step.EncodeJSON(receipt), nil
}

// Undo implements [step.Lever].
func (l rolloutHold) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	if l.w == nil || l.c == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	var out json.RawMessage
	err := step.Undone(ctx, l, in, plan, receipt, func() error {
		at, err := step.LookAt[holdPayload](ctx, l.w, plan)
		if err != nil {
			return err
		}
		if at.Over != nil || at.W.Paused == at.Planned.Back {
			return &fault.Error{Reason: fault.Conflict, Message: hold + ": it changed since the look"}
		}
		a, err := l.c.Hold(ctx, at.Planned.change(in, at.W, at.Planned.Back, at.W.Generation, false))
		out = step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionUndo, UID: a.UID, Generation: a.Generation})
		return err
	})
	return out, err
}

// Observe implements [step.Lever]. Only the pause counts, with the mark of who set it:
// a change of the pod template or of the replicas is none of this lever's business.
func (l rolloutHold) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	at, err := step.LookAt[holdPayload](ctx, l.w, plan)
	if err != nil {
		return step.Observation{}, err
	}
	if at.Over != nil {
		return *at.Over, nil
	}
	p, w := at.Planned, at.W
	action, pauses := machine.ActionApply, !p.Back
	if undo {
		action, pauses = machine.ActionUndo, p.Back
	}
	ours := !w.Paused || w.Held == p.Set
	made := step.Ours(w, in, action)
	switch {
	case w.Paused && !ours:
		return step.Foreign(w, "it is paused by "+cmp.Or(w.PausedBy, "somebody else")), nil
	case w.Paused != pauses && (made || !undo && (len(receipt) > 0 || step.Ours(w, in, machine.ActionUndo))):
		return step.Foreign(w, "someone else "+pausedText(w.Paused)+" its rollouts"), nil
	case w.Paused != pauses:
		return step.Observation{Progress: standing(w)}, nil
	case !made:
		return step.Foreign(w, "someone else "+pausedText(w.Paused)+" its rollouts"), nil
	}
	o := step.Observation{
		Applied: true, Settled: w.Observed >= w.Generation, Progress: standing(w),
		Receipt: step.EncodeJSON(step.ChangeReceipt{Action: action, UID: w.UID, Generation: w.Generation}),
	}
	if !o.Settled {
		o.Progress = "the controller has not seen the change yet"
	}
	return o, nil
}

func pausedText(paused bool) string {
	if paused {
		return "paused"
	}
	return "resumed"
}

// standing describes how far a rollout has come.
func standing(w kube.Workload) string {
	text := fmt.Sprintf("%d of %d replicas are of revision %d, and %d are ready", w.Updated, w.Replicas, w.Revision, w.Ready)
	switch {
	case w.HoldOver:
		return "rollouts are paused, and the pod template is no longer that of " + w.Held
	case w.Paused && w.Ref.Kind == kube.Rollout:
		return "the rollout is aborted: " + text
	case w.Paused:
		return "the rollout stands still: " + text
	default:
		return "rollouts go on: " + text
	}
}

// Prove implements prover of package step. A hold heals nothing, so at best it has
// improved the outlook: the release that it holds does not reach more replicas.
func (l rolloutHold) Prove(ctx context.Context, _ step.Input, plan machine.Plan, receipt json.RawMessage) (machine.Sample, error) {
	at, err := step.LookAt[holdPayload](ctx, l.w, plan)
	if err != nil {
		return machine.Sample{}, err
	}
	var made holdReceipt
	if len(receipt) > 0 {
		if made, err = step.Payload[holdReceipt](plan.Step, receipt); err != nil {
			return machine.Sample{}, err
		}
	}
	w := at.W
	switch {
	case at.Planned.Back:
		return machine.Sample{Verdict: machine.VerdictVerified, Message: standing(w)}, nil
	case !w.HoldOver && made.Updated != nil && w.Updated > *made.Updated:
		return machine.Sample{Verdict: machine.VerdictFailed, Reason: fault.NotMet, Message: fmt.Sprintf(
			"%d replicas are of revision %d, more than the %d that a pause explains: something goes on rolling it out", w.Updated, w.Revision, *made.Updated)}, nil
	}
	return machine.Sample{Verdict: machine.VerdictImproved, Message: standing(w)}, nil
}
