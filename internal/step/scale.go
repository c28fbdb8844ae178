package step

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// ScaleWith holds the parameters of levers that set a number of replicas.
type ScaleWith struct {
	Replicas *int    `json:"replicas" min:"1" unit:"replicas" doc:"Number to set. Exactly one of replicas and by."`
	By       *int    `json:"by" unit:"replicas" doc:"Number to add; negative: to take away."`
	From     *int    `json:"from" min:"0" unit:"replicas" doc:"With a positive by: the number that it is counted from, such as those that were ready as the evidence was gathered; without it the number there is now. Nothing is added where somebody has made it so many meanwhile."`
	Max      *int    `json:"max" min:"1" unit:"replicas" doc:"Most replicas to end at; can only tighten the service's max_scale."`
	Above    *int    `json:"above" min:"0" unit:"replicas" doc:"With a negative by: takes away only those above this number. A loan is returned so, as somebody may have taken some of it back."`
	Bounds   *string `json:"bounds" doc:"With a negative by, where an autoscaler owns the replicas: its bounds before the loan, as MIN..MAX, which it gets back with the last replicas on loan; empty: not known."`
	Unpause  *bool   `json:"unpause" doc:"With bounds: KEDA's pause of scale-in, which the loan has set, ends with it."`
}

// ScaleBack returns the parameters that give back a change of the replicas after the
// incident.
func ScaleBack(from, to int) map[string]any {
	back := map[string]any{"by": from - to}
	if to > from {
		back["above"] = from
	}
	return back
}

// ScaleTarget returns the number of replicas to set. A relative change stops at
// the bounds; an absolute number beyond them is refused.
func ScaleTarget(kind string, with ScaleWith, svc playbook.Service, now int) (to int, note string, err error) {
	low, high := max(svc.MinReady, 1), svc.MaxScale
	if with.Max != nil {
		high = min(high, *with.Max)
	}
	refuse := func(format string, args ...any) (int, string, error) {
		return 0, "", &fault.Error{Reason: fault.OutOfBounds, Message: kind + ": " + fmt.Sprintf(format, args...)}
	}
	relative := with.By != nil
	base := now
	if with.From != nil && relative && *with.By > 0 {
		if base = *with.From; now >= base+min(*with.By, 1_000_000) {
			return 0, "", &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %d replicas already, and %d were to be reached", kind, now, base+*with.By)}
		}
	}
	floor := 0
	if with.Above != nil && relative && *with.By < 0 {
		floor = *with.Above
	}
	if floor > 0 && now <= floor {
		return 0, "", &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %d replicas, and none above %d to take away", kind, now, floor)}
	}
	if relative {
		// Bounded before adding, so that no number wraps around.
		to = base + max(min(*with.By, 1_000_000), -1_000_000)
		if to < floor {
			to, note = floor, fmt.Sprintf("stops at %d, what was there before the loan: somebody took the rest away", floor)
		}
	} else {
		to = *with.Replicas
	}
	switch {
	case to > now && svc.MaxScale <= 0:
		return refuse("service %s sets no max_scale, so nothing may scale it up", svc.Name)
	case to > now && now >= high:
		return refuse("%d replicas already, %d are the most allowed (max_scale)", now, high)
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
	return to, note, nil
}

// Keepable returns an error if the lower bound of an autoscaler cannot keep, or keeps
// already, a number of replicas.
func Keepable(kind string, a kube.Autoscaler, replicas int) error {
	refuse := func(r fault.Reason, format string, args ...any) error {
		return &fault.Error{Reason: r, Message: kind + ": " + fmt.Sprintf(format, args...)}
	}
	switch {
	case a.Paused != "":
		return refuse(fault.OutOfBounds, "%s is paused by its annotation %s, so that its bounds have no effect: remove the annotation first", RefText(a.Ref), a.Paused)
	case Settable(kind, a, kube.Bounds{Min: &replicas}, false) != nil:
		return Settable(kind, a, kube.Bounds{Min: &replicas}, false)
	case a.Idle != nil:
		return refuse(fault.OutOfBounds, "without traffic KEDA sets %d replicas whatever the bounds of %s are (idleReplicaCount)", *a.Idle, RefText(a.Ref))
	case a.Single():
		return refuse(fault.NothingToDo, "%s follows no load: its replicas stay as they are", RefText(a.Ref))
	case a.Min() >= replicas:
		return refuse(fault.NothingToDo, "the lower bound of %s is %d, and keeps the %d replicas there", RefText(a.Ref), a.Min(), replicas)
	case a.Max() < replicas:
		return refuse(fault.NothingToDo, "%d replicas are more than the upper bound of %s, %d: it takes them away whatever the load", replicas, RefText(a.Ref), a.Max())
	}
	return nil
}

// Settable returns an error if the bounds of an autoscaler are not set to others, because they have no
// effect or something else limits the replicas.
func Settable(kind string, a kube.Autoscaler, to kube.Bounds, back bool) error {
	why := a.Refuses(to, back)
	if why == "" {
		return nil
	}
	what := "the bounds of %s have no effect: %s"
	if a.Ref.Kind == kube.DynamoGraph {
		what = "the lower bound of %s is not changed to " + strconv.Itoa(a.LowOf(to)) + ": %s"
	}
	return &fault.Error{Reason: fault.OutOfBounds, Message: kind + ": " + fmt.Sprintf(what, RefText(a.Ref), why)}
}

// PlannerRestarts is the note of a plan that changes the arguments of Dynamo's planner.
const PlannerRestarts = "Dynamo starts its planner anew with other arguments: it sets the replicas once the graph is ready, at its next adjustment. What was set at its own API is lost"

// Startable refuses to add replicas to a workload whose current revision cannot start
// while as many of another one serve as are wanted: they would be of that revision.
func Startable(kind string, w kube.Workload) error {
	if w.Revision == 0 || w.Replicas == 0 {
		return nil
	}
	others, barred := 0, map[string]string{} // why pods do not start, by their names
	for _, p := range w.Pending() {
		if slices.Contains([]kube.PendingCause{kube.PendingImage, kube.PendingConfig, kube.PendingCrash}, p.Cause) {
			barred[p.Name] = p.Why
		}
	}
	name, why := "", ""
	for _, p := range w.Pods {
		current := p.Revision == w.Revision
		switch {
		case p.Worker || p.Revision == 0:
		case p.Ready && current:
			return nil
		case p.Ready:
			others++
		case current && barred[p.Name] != "":
			name, why = p.Name, barred[p.Name]
		case current && name == "" && p.Restarts > 1 && p.Ended != nil && p.Ended.Served == kube.ServedNo: // up in between
			name, why = p.Name, "its container ended before it served, more than once"
		}
	}
	if name == "" || others < w.Replicas {
		return nil
	}
	return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
		"%s: revision %d cannot start (%s: %s), and more replicas would be of it: take it back first", kind, w.Revision, name, why)}
}

// ScaleAlternatives returns the groups of those parameters of which exactly one is given.
func ScaleAlternatives() [][]string { return [][]string{{"replicas", "by"}} }

// ScaleSteps returns the parameter that is changed in steps.
func ScaleSteps() *playbook.Stepping { return &playbook.Stepping{Param: "by", Relative: true} }
