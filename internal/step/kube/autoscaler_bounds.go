package kube

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// This file holds which bounds of an autoscaler bring a workload to a number of
// replicas, and what the plan tells people about them.

// aim is what a change of the bounds is to come to.
type aim struct {
	bounds kube.Bounds
	to     int  // replicas
	kept   bool // there are so many already
	back   bool // it gives a loan back
	note   string
}

// aimAt returns the bounds to set.
func aimAt(with autoscalerWith, svc playbook.Service, w kube.Workload, a kube.Autoscaler) (aim, error) {
	if with.Keep != nil {
		return keep(with, w, a)
	}
	if with.By != nil && *with.By < 0 || with.Replicas != nil && *with.Replicas < w.Replicas {
		return lower(with.ScaleWith, svc, w, a)
	}
	if w.Replicas == 0 && a.Ref.Kind == kube.HPA {
		return aim{}, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
			"%s: %s is switched off while %s has 0 replicas: scale that up by hand first", autoscalerKind, step.RefText(a.Ref), step.RefText(w.Ref))}
	}
	to, note, err := step.ScaleTarget(autoscalerKind, with.ScaleWith, svc, w.Replicas)
	if err != nil {
		return aim{}, err
	}
	if a.Min() >= to {
		return aim{}, nothing("the lower bound of %s is %d already: the autoscaler adds replicas up to it by itself", step.RefText(a.Ref), a.Min())
	}
	t := aim{bounds: kube.Bounds{Min: &to, Max: a.Bounds.Max, Pause: a.Bounds.Pause}, to: to, note: note}
	if a.HighOf(t.bounds) < to {
		t.bounds.Max = &to
	}
	return t, nil
}

// keep returns the bounds with which no replica is taken away.
func keep(with autoscalerWith, w kube.Workload, a kube.Autoscaler) (aim, error) {
	to := w.Replicas
	switch {
	case !*with.Keep:
		return aim{}, nothing("keep is false")
	case with.From != nil || with.Max != nil || with.Above != nil || with.Bounds != nil || with.Unpause != nil:
		return aim{}, step.Invalid("%s: keep takes no other parameter", autoscalerKind)
	}
	if err := step.Keepable(autoscalerKind, a, to); err != nil {
		return aim{}, err
	}
	t := aim{bounds: kube.Bounds{Min: &to, Max: a.Bounds.Max}, to: to, kept: true}
	_, said := a.Annotations[kube.PauseScaleIn]
	t.bounds.Pause = a.Bounds.Pause || a.Ref.Kind == kube.ScaledObject && !said // what a person says of it stays
	if t.bounds.Pause && !a.Bounds.Pause {
		t.note = "KEDA before 2.18 does not know the annotation " + kube.PauseScaleIn + ": there, the lower bound alone keeps them"
	}
	return t, nil
}

// lower returns the bounds with fewer replicas. Only the lower bound holds replicas that
// the metrics do not ask for.
func lower(with step.ScaleWith, svc playbook.Service, w kube.Workload, a kube.Autoscaler) (aim, error) {
	if with.Bounds != nil && *with.Bounds != "" {
		return giveBack(with, a)
	}
	now := a.Min()
	returns := with.Above != nil && *with.Above > 0
	if !returns && w.Replicas > now || with.Replicas != nil && *with.Replicas >= now {
		return aim{}, nothing("the metrics of %s ask for the %d replicas there, not its lower bound of %d", step.RefText(a.Ref), w.Replicas, now)
	}
	to, note, err := step.ScaleTarget(autoscalerKind, with, svc, now)
	if err != nil {
		return aim{}, err
	}
	return aim{bounds: kube.Bounds{Min: &to, Max: a.Bounds.Max, Pause: a.Bounds.Pause}, to: to, note: note}, nil
}

// giveBack returns the bounds after a loan is given back: with the last of the replicas
// on loan, exactly the former ones. The upper bound is given back too, where a loan has
// raised it together with the lower one.
func giveBack(with step.ScaleWith, a kube.Autoscaler) (aim, error) {
	former, err := kube.ParseBounds(*with.Bounds)
	if err != nil {
		return aim{}, err
	}
	if with.By == nil {
		return aim{}, step.Invalid("%s: bounds is given together with a negative by only", autoscalerKind)
	}
	now, floor := a.Min(), a.LowOf(former)
	unpause := a.Bounds.Pause && with.Unpause != nil && *with.Unpause // whatever has become of the number
	if now <= floor && !unpause {
		return aim{}, nothing("the lower bound of %s is %d, so that what was on loan is given back already", step.RefText(a.Ref), now)
	}
	if with.Above != nil {
		floor = max(floor, *with.Above)
	}
	by := max(*with.By, -1_000_000)
	left := min(now, max(now+by, floor))
	last := now+by <= a.LowOf(former) && (!a.Single() || left <= a.LowOf(former)) // with Single, the bound is the replicas
	t := aim{bounds: kube.Bounds{Min: &left, Max: a.Bounds.Max, Pause: a.Bounds.Pause && !unpause}, to: left, back: true}
	switch {
	case last:
		t.bounds.Min = former.Min
	case left == now:
		t.bounds.Min = a.Bounds.Min
	}
	switch high := a.HighOf(former); {
	case a.Bounds.Max == nil: // nothing was lent of it
	case a.Max() != now && high != a.Max():
		t.note = fmt.Sprintf("the upper bound stays at %d, as somebody else set it since", a.Max())
	case a.Max() != now:
	case last:
		t.bounds.Max = former.Max
	case high < now:
		t.bounds.Max = new(max(high, left))
	}
	return t, nil
}

func nothing(format string, args ...any) error {
	return &fault.Error{Reason: fault.NothingToDo, Message: autoscalerKind + ": " + fmt.Sprintf(format, args...)}
}

// plan returns the plan, without its notes.
func (t aim) plan(in step.Input, w kube.Workload, a kube.Autoscaler) machine.Plan {
	diff := boundsDiff(a, t.bounds)
	var changes, back []string
	for _, d := range diff {
		field := strings.TrimPrefix(d.Path, "spec.")
		changes = append(changes, fmt.Sprintf("%s from %s to %s", field, d.From, d.To))
		back = append(back, fmt.Sprintf("%s back to %s", field, d.From))
	}
	plan := machine.Plan{
		Step:    autoscalerKind,
		Target:  machine.Target{APIVersion: a.APIVersion, Kind: a.Ref.Kind, Namespace: a.Ref.Namespace, Name: a.Ref.Name, UID: a.UID},
		Summary: fmt.Sprintf("scale %s from %d to %d replicas by %s: %s", step.RefText(w.Ref), w.Replicas, t.to, a.Ref.Kind+" "+a.Ref.Name, strings.Join(changes, ", ")),
		Diff:    diff, Undo: "set " + strings.Join(back, " and "),
		Locks:   step.Locks(in.Service),
		Payload: step.EncodeJSON(autoscalerPayload{Workload: w.Ref, From: a.Bounds, To: t.bounds, Stamp: a.Stamp(), Back: t.back, Kept: t.kept}),
		Risk:    machine.RiskLow, Why: "adds replicas; those that serve are not touched",
		Capacity: machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: max(t.to, w.Ready)},
		Loading:  step.Loading(w),
	}
	if t.kept {
		plan.Summary = fmt.Sprintf("keep the %d replicas of %s by %s: %s", t.to, step.RefText(w.Ref), a.Ref.Kind+" "+a.Ref.Name, strings.Join(changes, ", "))
		plan.Why = "asks for no more than there are; the autoscaler takes none of them away"
		plan.Capacity.ReadyAfter = w.Ready
	}
	if a.LowOf(t.bounds) > a.Min() {
		before := w.Replicas
		if t.kept {
			before = a.Min() // so many the autoscaler might have left
		}
		plan.Back = step.ScaleBack(before, t.to)
		plan.Back["by"] = a.Min() - a.LowOf(t.bounds) // what was lent is the difference of the lower bounds
		plan.Back["bounds"] = a.Bounds.String()
		if t.bounds.Pause && !a.Bounds.Pause {
			plan.Back["unpause"] = true
		}
		return plan
	}
	plan.Summary = fmt.Sprintf("lower the bounds of %s: %s", step.RefText(a.Ref), strings.Join(changes, ", "))
	plan.Risk, plan.Why = machine.RiskHigh, "lets the autoscaler take replicas away from a service in trouble"
	if a.Single() {
		plan.Why = "takes replicas away from a service in trouble"
	}
	plan.Back, plan.Class = step.ScaleBack(a.Min(), a.LowOf(t.bounds)), playbook.ClassReturn
	plan.Capacity.LowestReady, plan.Capacity.ReadyAfter = min(w.Ready, t.to, a.HighOf(t.bounds)), t.to
	return plan
}

// boundsDiff returns the fields that change.
func boundsDiff(a kube.Autoscaler, to kube.Bounds) []machine.FieldChange {
	text := func(n *int) string {
		if n == nil {
			return "(not set)"
		}
		return fmt.Sprint(*n)
	}
	low, high := a.Fields()
	var out []machine.FieldChange
	for _, d := range []machine.FieldChange{ // one field may be both: the upper bound is never set then
		{Path: "spec." + low, From: text(a.Bounds.Min), To: text(to.Min)},
		{Path: "spec." + high, From: text(a.Bounds.Max), To: text(to.Max)},
	} {
		if d.From != d.To {
			out = append(out, d)
		}
	}
	if a.Bounds.Pause != to.Pause {
		said := map[bool]string{false: text(nil), true: "true"}
		out = append(out, machine.FieldChange{Path: "metadata.annotations." + kube.PauseScaleIn, From: said[a.Bounds.Pause], To: said[to.Pause]})
	}
	return out
}

// scaleInPaused reports whether KEDA's pause of scale-in is set after the change, by us or by somebody else.
func scaleInPaused(a kube.Autoscaler, to kube.Bounds) bool {
	return to.Pause || !a.Bounds.Pause && kube.ScaleInPaused(a.Annotations)
}

// notes tell people what the autoscaler does, and what it will do.
func (t aim) notes(w kube.Workload, a kube.Autoscaler) []string {
	var out []string
	if t.note != "" {
		out = append(out, t.note)
	}
	if a.Desired > 0 {
		now := fmt.Sprintf("%s asks for %d replicas, between %d and %d", a.Ref.Kind, a.Desired, a.Min(), a.Max())
		if a.Limited != "" {
			now += ": " + a.Limited
		}
		out = append(out, now)
	}
	if a.Ref.Kind == kube.DynamoGraph {
		out = append(out, step.PlannerRestarts)
	}
	if a.Broken != "" {
		out = append(out, "the autoscaler reports "+a.Broken)
	}
	switch low := a.LowOf(t.bounds); {
	case a.Single(): // nothing follows a load
	case low > a.Min():
		out = append(out, fmt.Sprintf("it keeps at least %d replicas, whatever the load, until the bounds are given back", low))
	case scaleInPaused(a, t.bounds):
		out = append(out, "its pause of scale-in stays set ("+kube.PauseScaleIn+"), so that it takes no replicas away")
	default:
		out = append(out, fmt.Sprintf("the autoscaler takes replicas away when its metrics allow it, down to %d", low))
	}
	if a.Idle != nil {
		out = append(out, fmt.Sprintf("without traffic KEDA sets %d replicas all the same (idleReplicaCount)", *a.Idle))
	}
	if over := w.Replicas - a.HighOf(t.bounds); over > 0 {
		out = append(out, fmt.Sprintf("the upper bound takes %d of the %d replicas away at once, whatever the load", over, w.Replicas))
	}
	if w.Ready < w.Replicas {
		out = append(out, fmt.Sprintf("%d of the %d replicas there are not ready", w.Replicas-w.Ready, w.Replicas))
	}
	return out
}
