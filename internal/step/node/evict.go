package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// far is the progress of the evictions of a plan.
type far struct {
	node    string
	here    []kube.NodePod // of the plan, still there and not leaving
	leaving []kube.NodePod // of the plan, on their way out
	alone   int            // of those that leave, those without a budget
	others  []kube.NodePod // not of the plan, on their way out, and in the way of an empty node
	came    []string       // not of the plan, and in the way of an empty node
	late    time.Duration  // past the time there is; 0: not
	blocked []string       // what holds pods back, by whom
	listed  []string       // gone, and in rotation all the same, with the EndpointSlice
}

// howFar computes the progress from the pods on the node.
func howFar(in step.Input, n kube.NodeState, p nodePayload, pods []kube.NodePod) far {
	f := far{node: n.Name}
	there := map[string]kube.NodePod{}
	for _, pod := range pods {
		there[pod.UID] = pod
	}
	for _, x := range p.Pods {
		switch pod, ok := there[x.UID]; {
		case !ok:
		case pod.Leaving:
			f.leave(pod)
		default:
			f.here = append(f.here, pod)
		}
	}
	if p.Whole {
		f.came, f.others = arrived(p, pods), leavingOthers(p, pods)
	}
	if _, began := kube.ParseMark(n.Annotations[p.Mark]); !began.IsZero() {
		f.late = max(0, in.Now.Sub(began)-readSpan(p.Within))
	}
	return f
}

// leavingOthers returns the pods outside the plan that are leaving: they run until
// they have gone, and the node is not empty until then.
func leavingOthers(p nodePayload, pods []kube.NodePod) []kube.NodePod {
	var out []kube.NodePod
	for _, pod := range pods {
		planned := slices.ContainsFunc(p.Pods, func(x podRef) bool { return x.UID == pod.UID })
		if !planned && departs(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// departs reports whether a pod is leaving and keeps the node from being empty.
func departs(p kube.NodePod) bool { return p.Leaving && !p.Static && !p.Daemon() && !p.Done }

// rotation checks, once the pods have gone, that no EndpointSlice still calls
// one of them ready: until then a pod does not count as gone.
func (l evictor) rotation(ctx context.Context, f *far, p nodePayload) error {
	if len(f.here)+len(f.leaving) > 0 {
		return nil
	}
	for _, namespace := range namespacesOf(p.Pods) {
		ready, err := l.n.InRotation(ctx, namespace)
		if err != nil {
			return err
		}
		for _, pod := range p.Pods {
			if slice, ok := ready[pod.UID]; ok && pod.Namespace == namespace {
				f.listed = append(f.listed, fmt.Sprintf("%s (EndpointSlice %s)", pod, slice))
			}
		}
	}
	return nil
}

func namespacesOf(pods []podRef) []string {
	all := map[string]bool{}
	for _, pod := range pods {
		all[pod.Namespace] = true
	}
	return sortedKeys(all)
}

// leave counts a pod as leaving.
func (f *far) leave(pod kube.NodePod) {
	f.leaving = append(f.leaving, pod)
	if len(pod.Budgets) == 0 {
		f.alone++
	}
}

// may reports whether a pod may be evicted together with those that are
// leaving. It reads the budgets, which only a [kube.NodeView] has.
func (f far) may(pod kube.NodePod, p nodePayload) bool {
	if p.AtOnce > 0 {
		return len(f.leaving) < p.AtOnce
	}
	return len(pod.Budgets) > 0 || f.alone == 0
}

// tooFew returns why a pod must not be evicted now: its workload would have
// fewer ready replicas than the plan said; empty: it may go. A plan of an
// earlier version does not say how many; then no replica goes, and the drain
// runs out of time and is undone. If the number of ready replicas is unknown, a
// ready pod goes only if all of them may, which stays so after the first pod of
// such a workload has left. A replica that recovered since the plan is not one
// that people agreed to lose: it goes only when another one stays.
func tooFew(plan machine.Plan, p nodePayload, serving []kube.Serving, pod kube.NodePod) string {
	if !pod.Serves && !untold(pod, serving) {
		return "" // there is no replica to be lost
	}
	lowest, known := plan.Lowest[step.RefText(pod.Owner)]
	if !known {
		return "the plan does not say how many replicas of " + step.RefText(pod.Owner) + " have to stay ready"
	}
	recovered := ""
	if !slices.ContainsFunc(p.Pods, func(x podRef) bool { return x.UID == pod.UID && x.Counted }) && lowest == 0 {
		lowest, recovered = 1, ": it was not ready when this was planned"
	}
	for _, s := range serving {
		switch {
		case s.Ref != pod.Owner, s.Unknown && lowest == 0:
		case s.Unknown:
			return fmt.Sprintf("how many replicas of %s are ready is not known, and %d have to stay%s", step.RefText(s.Ref), lowest, recovered)
		case s.Ready <= lowest:
			return fmt.Sprintf("%s has %s, and %d have to stay%s", step.RefText(s.Ref), readyReplicas(s.Ready), lowest, recovered)
		}
	}
	return ""
}

func readyReplicas(n int) string {
	if n == 1 {
		return "1 ready replica"
	}
	return fmt.Sprintf("%d ready replicas", n)
}

// observation adds the progress of the evictions to the observation of the
// node.
func (f far) observation(o step.Observation, p nodePayload) step.Observation {
	left := len(f.here) + len(f.leaving)
	o.Settled = left == 0 && len(f.came)+len(f.others)+len(f.listed) == 0
	o.Progress = fmt.Sprintf("%d of %d pods have left node %s", len(p.Pods)-left, len(p.Pods), f.node)
	if len(f.leaving) > 0 {
		o.Progress += ", leaving: " + names5(f.leaving)
	}
	if len(f.here) > 0 {
		o.Progress += ", still there: " + names5(f.here)
	}
	if len(f.others) > 0 {
		o.Progress += ", on their way out by others: " + names5(f.others)
	}
	if len(f.blocked) > 0 {
		o.Progress += "; held back: " + strings.Join(f.blocked, "; ")
	}
	if len(f.listed) > 0 {
		o.Progress += ", in rotation all the same: " + first5(f.listed)
	}
	switch {
	case o.Settled:
	case left == 0 && len(f.came) > 0:
		o.Degraded = true
		o.Progress += "; came back all the same: " + strings.Join(f.came, ", ") + ": it tolerates the cordon"
	case f.late > 0:
		o.Degraded = true
		o.Progress += fmt.Sprintf("; not done within %s", step.DurationText(readSpan(p.Within)))
	}
	return o
}

// loadsUnknown is how long what replaces an evicted pod is waited for, where nothing
// tells how long replicas of its service load.
const loadsUnknown = 10 * time.Minute

// replaced returns an observation that is not in effect as long as what replaces the
// evicted pods loads: until it serves, the service is short of them, and that is no
// verdict on the change. What no node takes, or has not loaded in its time, is not waited for.
func (l evictor) replaced(ctx context.Context, in step.Input, n kube.NodeState, p nodePayload, o step.Observation) step.Observation {
	_, began := kube.ParseMark(n.Annotations[p.Mark])
	if !o.Settled || l.w == nil || len(p.Pods) == 0 || began.IsZero() {
		return o
	}
	w, err := l.w.Workload(ctx, step.RefOf(in.Service))
	switch {
	case step.HasReason(err, fault.NotFound):
		return o
	case err != nil:
		o.Settled, o.Unread, o.Progress = false, err, o.Progress+"; whether what replaces them serves could not be read"
		return o
	case w.Ready >= w.Replicas:
		return o
	}
	within := cmp.Or(in.Service.LoadTime, 2*step.Loading(w), loadsUnknown)
	var coming []string
	for _, pod := range w.Pods {
		refused := pod.Node == "" && pod.Message != "" || pod.Waiting != ""
		if !pod.Ready && !pod.Over() && !refused && !pod.Created.Before(began.Truncate(time.Second)) && in.Now.Before(pod.Created.Add(within)) {
			coming = append(coming, pod.Name)
		}
	}
	if len(coming) > 0 {
		o.Settled = false
		o.Progress += "; what replaces them loads: " + first5(coming)
	}
	return o
}

// names5 joins the names of the first five pods.
func names5(pods []kube.NodePod) string {
	names := make([]string, 0, len(pods))
	for _, p := range pods {
		names = append(names, p.String())
	}
	return first5(names)
}

// When to try the next pod: at once if it may leave together with the others, else
// when one of them may have gone.
const (
	nextPodNow   = time.Second
	nextPodLater = 5 * time.Second
)

// Advance implements stepwise of package step: it evicts one pod at most, so
// that a cancel stops it before the next one. The intent is that of the apply,
// which was journaled with the name of every pod. Evicting a pod twice is
// harmless, because the request names its UID. The capacity is checked again
// before each pod: replicas that were lost elsewhere since the plan may not be
// lost here.
func (l evictor) Advance(ctx context.Context, in step.Input, plan machine.Plan) (step.Observation, error) {
	o, n, p, err := l.look(ctx, in, plan, false)
	if err != nil || !o.Applied {
		return o, err
	}
	v, err := l.n.NodeView(ctx, n.Name)
	if err != nil {
		return o, err
	}
	f := howFar(in, n, p, v.Pods)
	if err := l.rotation(ctx, &f, p); err != nil {
		return o, err
	}
	if seen := f.observation(o, p); seen.Settled || len(f.here) == 0 {
		return l.replaced(ctx, in, n, p, seen), nil
	}
	for i, pod := range f.here {
		if f.late == 0 && !f.may(pod, p) {
			continue
		}
		// Past its time nobody leaves any more: it only asks what is in the way. So
		// it does where too few replicas would stay, for a budget may say so too.
		lack := tooFew(plan, p, v.Serving, pod)
		stays := f.late > 0 || lack != ""
		blocked, err := l.c.Evict(ctx, kube.Eviction{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Grace: graceOf(pod, p), DryRun: stays})
		if err != nil {
			return o, err
		}
		if why := joined(lack, blocked); why != "" {
			f.blocked = append(f.blocked, pod.String()+": "+why)
		} else if !stays {
			f.here = append(f.here[:i:i], f.here[i+1:]...)
			f.leave(pod)
			o.Again = nextPodNow
			break
		}
	}
	switch {
	case len(f.here) == 0:
		o.Again = 0
	case o.Again == 0 || !slices.ContainsFunc(f.here, func(pod kube.NodePod) bool { return f.may(pod, p) }):
		o.Again = nextPodLater
	}
	return f.observation(o, p), nil
}

// Ends returns the pods that a plan evicts: what they know is read before.
func (l evictor) Ends(plan machine.Plan) (pods []string, all bool) {
	p, err := step.Payload[nodePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, false
	}
	for _, pod := range p.Pods {
		pods = append(pods, pod.String())
	}
	return pods, false
}

// joined joins two texts, one of which may be empty.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", and " + b
}

// graceOf returns the grace period of a pod; 0: its own.
func graceOf(pod kube.NodePod, p nodePayload) time.Duration {
	if g := readSpan(p.Grace); g > pod.Grace {
		return g
	}
	return 0
}

func podCount(pods []kube.NodePod) string {
	if len(pods) == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", len(pods))
}
