package kube

import (
	"cmp"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// This file holds what is different for a Rollout of Argo Rollouts: rollout.hold aborts its
// rollout, and levers that would need more than that are refused.

// Ends tells that an abort ends the pods of a release: what they know is read before.
func (l rolloutHold) Ends(plan machine.Plan) (pods []string, all bool) {
	return nil, plan.Target.Kind == kube.Rollout
}

// abortable refuses to abort what cannot be aborted, or would gain nothing by it. An owner
// in Git is none: status.abort is no field of Git, and the Degraded health of an aborted
// Rollout ends a sync that waits for it, so that the commit with the fix need not wait.
func abortable(w kube.Workload) error {
	for _, o := range w.Owners {
		if o.Field == "*" && !o.Deploys() {
			return step.OwnedBy(hold, w.Ref, []kube.Owner{o}, "status.abort")
		}
	}
	switch {
	case w.Held != "":
		return holdRefusal(w, fault.NothingToDo, "is held already: its rollout is aborted")
	case w.Paused:
		return holdRefusal(w, fault.NothingToDo, "is aborted or paused already, by %s; one that is paused is aborted by hand, and then resumed (kubectl argo rollouts abort)", cmp.Or(w.PausedBy, "somebody"))
	case w.Observed < w.Generation || w.Template == "":
		return holdRefusal(w, fault.Conflict, "was just changed and its controller has not seen it yet: plan again in a moment")
	case w.Stable == "":
		return holdRefusal(w, fault.NothingToDo, "has no stable release yet that its requests could go back to")
	case w.Stable == w.Template:
		return holdRefusal(w, fault.NothingToDo, "rolls nothing out: revision %d is its stable release", w.Revision)
	}
	return nil
}

func abortPlan(in step.Input, w kube.Workload) machine.Plan {
	old := 0 // ready pods of other releases
	for _, p := range w.Pods {
		if p.Ready && p.Revision != w.Revision {
			old++
		}
	}
	return machine.Plan{
		Step: hold, Target: step.Target(w),
		Summary: fmt.Sprintf("abort the rollout of revision %d of %s: its requests go back to %s", w.Revision, step.RefText(w.Ref), w.Stable),
		Diff:    []machine.FieldChange{{Path: "status.abort", To: "true"}},
		Undo:    fmt.Sprintf("retry the rollout of revision %d", w.Revision),
		Locks:   step.Locks(in.Service), Payload: step.EncodeJSON(holdPayload{Set: w.Template, Revision: w.Revision}),
		Risk: machine.RiskMedium, Why: "ends the pods of the release that rolls out, and fills up the one before",
		Capacity: machine.Capacity{
			ReadyNow: w.Ready, ReadyAfter: w.Replicas,
			LowestReady: min(w.Ready, max(old, w.Replicas-max(w.Strategy.MaxUnavailable, 0))),
		},
		Back: holdBack(w.Template),
		Notes: []string{
			fmt.Sprintf("%d pods of the release before are ready now; Argo Rollouts brings them up to %d", old, w.Replicas),
			"it stays aborted until its pod template or its steps are others (responder loans list); Argo Rollouts ends the abort then, whoever changed them",
			"to roll back by hand: kubectl argo rollouts undo, or set the template back in Git; " + goOn(w.Ref) + " lets the release go on",
		},
	}
}

// goOn returns the command by which people let a release go on that is held.
func goOn(ref kube.Ref) string {
	if ref.Kind == kube.Rollout {
		return "kubectl argo rollouts retry rollout"
	}
	return "kubectl rollout resume"
}

// notForRollouts refuses a lever on a Rollout, and names the plugin's command to take by hand.
func notForRollouts(kind string, w kube.Workload, instead string) error {
	if w.Ref.Kind != kube.Rollout {
		return nil
	}
	return &fault.Error{Reason: fault.OutOfBounds, Message: kind + ": " + step.RefText(w.Ref) + " is one of Argo Rollouts, on which this lever does not act: " + instead}
}
