package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
)

// This file holds what levers on a workload share: who may change a field, and
// how a change of ours is told from one of someone else.

// Owned refuses a field that someone else owns and would change back.
func Owned(kind string, w kube.Workload, field string) error {
	return OwnedBy(kind, w.Ref, w.Owners, field)
}

// OwnedBy refuses a field of an object that one of its owners would change back.
func OwnedBy(kind string, ref kube.Ref, owners []kube.Owner, field string) error {
	for _, o := range owners {
		if o.Field == "*" || o.Field == field || strings.HasPrefix(o.Field, field+".") || strings.HasPrefix(field, o.Field+".") {
			what := "change it there, it would change it back"
			if o.Kind == kube.FluxHelm {
				what = ByHelmRelease
			}
			return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
				"%s: %s of %s belongs to %s (%s): %s", kind, field, RefText(ref), OwnerName(o), o.Why, what)}
		}
	}
	return nil
}

// ByHelmRelease tells people what to do about a field that a HelmRelease of Flux owns.
const ByHelmRelease = "Flux would change it back: change its values in the repository that Flux deploys from, or suspend the HelmRelease while you change the cluster"

// OwnerName formats an owner for people.
func OwnerName(o kube.Owner) string {
	switch o.Kind {
	case kube.ArgoCD:
		return gitops.ApplicationTitle(o.Name)
	case kube.Flux:
		return gitops.ApplicationTitle(gitops.FluxName(o.Namespace, o.Name))
	case kube.FluxHelm:
		return gitops.ApplicationTitle(gitops.FluxHelmName(o.Namespace, o.Name))
	}
	return o.Kind + " " + o.Name
}

// OwnsReplicas reports whether someone else sets the replicas.
func OwnsReplicas(w kube.Workload) bool {
	return Owned("", w, "spec.replicas") != nil
}

// Target returns the object of a plan, with its UID and generation.
func Target(w kube.Workload) machine.Target {
	api := w.APIVersion
	if api == "" {
		api = "apps/v1"
	}
	return machine.Target{
		APIVersion: api, Kind: w.Ref.Kind, Namespace: w.Ref.Namespace, Name: w.Ref.Name,
		UID: w.UID, Generation: w.Generation,
	}
}

// RefOfTarget returns the reference to the object of a plan.
func RefOfTarget(t machine.Target) kube.Ref {
	return kube.Ref{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
}

// Ours reports whether the last change recorded on the object was made by this
// run's visit of this state, as the given action. The attempt does not matter:
// an earlier one may have got through after all.
func Ours(w kube.Workload, in Input, action machine.Action) bool {
	return slices.Contains([]string{w.ScaledBy, w.AbortedBy}, kube.EffectManager(Visit(in.Key)+"/"+string(action))) ||
		w.Annotations[kube.AnnotationRun] == in.Run && OursKey(w.Annotations[kube.AnnotationEffect], in, action)
}

// OursKey reports whether an effect's recorded key is of this run's visit of
// this state and of the given action, whichever attempt.
func OursKey(recorded string, in Input, action machine.Action) bool {
	rest, ok := strings.CutPrefix(recorded, Visit(in.Key)+"/")
	return recorded != "" && ok && (rest == string(action) || strings.HasPrefix(rest, string(action)+"#"))
}

// Visit is the part of an effect's key that names the run and the visit of
// the state: run/state#visit of run/state#visit/action#attempt.
func Visit(key string) string {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		return key[:i]
	}
	return key
}

// HasReason reports whether err carries the reason.
func HasReason(err error, r fault.Reason) bool { return err != nil && AsError(err).Reason == r }

// AfterConflict returns the error for a write that was refused with a conflict.
// If the conflict is with our own change, made by an attempt whose answer was
// lost, the change must not be reported as not made.
func AfterConflict(err error, w kube.Workload, readErr error, in Input, action machine.Action) error {
	if !HasReason(err, fault.Conflict) {
		return err
	}
	if readErr != nil || Ours(w, in, action) {
		e := *AsError(err)
		e.Unknown = true
		return &e
	}
	return err
}

// Applied ends an apply: it returns the receipt, or reads the target again to
// explain a refused write.
func Applied(ctx context.Context, ws Workloads, in Input, plan machine.Plan, receipt json.RawMessage, err error) (json.RawMessage, error) {
	if err == nil {
		return receipt, nil
	}
	w, readErr := ws.Workload(ctx, RefOfTarget(plan.Target))
	return nil, AfterConflict(err, w, readErr, in, machine.ActionApply)
}

// Look is the first part of every observation of a workload. P is the type of
// the lever's payload.
type Look[P any] struct {
	Planned P
	W       kube.Workload
	Over    *Observation // the target was deleted, or made anew: there is no more to see
}

// LookAt reads the target of a plan, and the payload that the lever stored in
// the plan.
func LookAt[P any](ctx context.Context, ws Workloads, plan machine.Plan) (Look[P], error) {
	var l Look[P]
	var err error
	if l.Planned, err = Payload[P](plan.Step, plan.Payload); err != nil {
		return l, err
	}
	if ws == nil {
		return l, NotConfigured("cluster", "kubernetes")
	}
	if l.W, err = ws.Workload(ctx, RefOfTarget(plan.Target)); err != nil {
		o, err := gone(plan.Target, err)
		l.Over = &o
		return l, err
	}
	if l.W.UID != plan.Target.UID {
		o := Foreign(l.W, "it was deleted and recreated")
		l.Over = &o
	}
	return l, nil
}

// InPlace returns the observation of our own change.
func InPlace(w kube.Workload, action machine.Action, replicas int) Observation {
	o := Observation{Applied: true, Receipt: EncodeJSON(ChangeReceipt{Action: action, UID: w.UID, Generation: w.Generation})}
	Rolled(&o, w, replicas)
	return o
}

// gone returns the observation of a target that was deleted or recreated.
func gone(t machine.Target, err error) (Observation, error) {
	if HasReason(err, fault.NotFound) {
		return Observation{Foreign: true, Progress: RefText(RefOfTarget(t)) + " is gone: someone deleted it"}, nil
	}
	return Observation{}, err
}

// Foreign returns the observation of a change by someone else.
func Foreign(w kube.Workload, what string) Observation {
	by := ""
	if run := w.Annotations[kube.AnnotationRun]; run != "" {
		by = "; the last recorded change is of run " + run
	}
	return Observation{Foreign: true, Progress: RefText(w.Ref) + ": " + what + by}
}

// Rolled fills in the progress of a rollout.
func Rolled(o *Observation, w kube.Workload, replicas int) {
	o.Rollout = RolloutOf(w)
	old := 0
	for _, p := range w.Pods {
		// Those on their way out get no new requests.
		if p.Phase != "Terminating" && p.Revision != 0 && w.Revision != 0 && p.Revision != w.Revision {
			old++
		}
	}
	seen := w.Observed >= w.Generation
	o.Settled = seen && w.Replicas == replicas && w.Updated >= replicas && w.Ready >= replicas && w.Available >= replicas && old == 0
	o.Degraded = seen && w.Stuck != "" && !o.Settled
	o.Slow = o.Degraded
	switch {
	case !seen:
		o.Progress = "the controller has not seen the change yet"
	case o.Degraded:
		o.Progress = "stuck: " + w.Stuck
	default:
		o.Progress = fmt.Sprintf("%d of %d replicas updated, %d ready", w.Updated, replicas, w.Ready)
		if old > 0 {
			o.Progress += fmt.Sprintf(", %d of the old left", old)
		}
	}
	if n, why := unscheduled(w.Pods); n > 0 && !o.Settled {
		o.Progress += fmt.Sprintf("; no node takes %d of the pods: %s", n, why)
	}
}

// RolloutOf returns how far the newest rollout of a workload has come. Nil: its
// controller has not seen the newest change yet.
func RolloutOf(w kube.Workload) *machine.Progress {
	if w.Observed < w.Generation {
		return nil
	}
	p := &machine.Progress{Revision: w.Revision}
	for _, pod := range w.Pods {
		if pod.Worker || pod.Over() || pod.Revision != w.Revision {
			continue
		}
		if p.Done++; pod.Ready {
			p.Done++
		}
	}
	return p
}

// unscheduled counts the pods that no node takes, and returns why for one of them.
func unscheduled(pods []kube.Pod) (n int, why string) {
	for _, p := range pods {
		if p.Node == "" && p.Phase == "Pending" && p.Message != "" {
			n, why = n+1, p.Message
		}
	}
	return n, why
}

// Payload decodes what a lever stored in its plan or receipt.
func Payload[T any](kind string, data json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return v, Invalid("%s: the stored payload cannot be decoded: %v", kind, err)
	}
	return v, nil
}

// Undone reverts a change. It observes the target first, so that it reverts
// exactly what the apply left, and observes it again if the write hits a
// conflict.
func Undone(ctx context.Context, l Lever, in Input, plan machine.Plan, receipt json.RawMessage, write func() error) error {
	for range 3 {
		o, err := l.Observe(ctx, in, plan, receipt, false)
		switch {
		case err != nil:
			return err
		case o.Foreign:
			return undoBlocked(ctx, l, in, plan, receipt, o)
		case !o.Applied:
			return &fault.Error{Reason: fault.NothingToDo, Message: plan.Step + ": the change is not in place, there is nothing to undo"}
		}
		err = write()
		if !HasReason(err, fault.Conflict) {
			return err
		}
	}
	return &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": the object keeps changing: " + plan.Undo + " could not be done yet"}
}

// undoBlocked distinguishes an undo that already happened from a change by
// someone else.
func undoBlocked(ctx context.Context, l Lever, in Input, plan machine.Plan, receipt json.RawMessage, seen Observation) error {
	o, err := l.Observe(ctx, in, plan, receipt, true)
	if err != nil {
		return err
	}
	if o.Applied {
		return &fault.Error{Reason: fault.Conflict, Unknown: true, Message: plan.Step + ": it seems to be undone already"}
	}
	return &fault.Error{Reason: fault.ForeignChange, Message: seen.Progress, Err: errors.New("nothing was undone")}
}

// ChangeReceipt is the receipt of an apply or an undo.
type ChangeReceipt struct {
	Action     machine.Action `json:"action"`
	UID        string         `json:"uid"`
	Generation int64          `json:"generation"`
}

// Mine reports whether the object is as this run's action left it, by the
// record on the object or by the receipt.
func Mine(w kube.Workload, in Input, action machine.Action, receipt json.RawMessage) bool {
	if Ours(w, in, action) {
		return true
	}
	var r ChangeReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &r) != nil {
		return false
	}
	return r.Action == action && r.UID == w.UID && r.Generation == w.Generation
}

// LackedRight separates a missing right from other errors of a dry-run. RBAC
// cannot grant a dry-run alone, so an installation that only observes has no
// such right. Its plan stands and names the missing right, and the guard named
// rights refuses to apply it.
func LackedRight(err error) (lacks string, rest error) {
	if kube.IsForbidden(err) {
		return err.Error(), nil
	}
	return "", err
}
