package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// DrainKind declares node.drain.
func DrainKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.drain",
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Cordons a node and evicts its pods: as many at a time as their PodDisruptionBudgets let go, and those without one in turn, each when the one before
has gone. Undo lifts the cordon, if this lever set it; evicted pods stay where they run now.

The plan names every pod, and the budgets that hold pods back; one that can never let a pod go is refused. So are pods that nobody would make
anew, and pods with an emptyDir on disk unless ` + "`delete_emptydir_data`" + ` says that its loss is right. DaemonSets' pods stay. Each pod gets its
own terminationGracePeriod, or ` + "`grace`" + ` where that is longer, to finish its requests.

"Out of rotation" is the cluster's own doing here: a pod that is evicted is Terminating from then on, its EndpointSlices call it not ready, and Services
and gateways that follow them send it nothing new; it counts as gone when none of them calls it ready any more. That takes them seconds, in which a preStop hook (sleep 15) keeps the engine from being told to stop; and
what it then does with the requests it has is up to it: vLLM aborts them unless ` + "`--shutdown-timeout`" + ` (0.18 and later) gives them time, and
terminationGracePeriodSeconds has to be longer than both together. The plan names pods with GPUs that get less than 1m, that have no preStop hook, or
whose successors would count as ready before they serve, having no readiness probe.

Before each pod it is asked again how many replicas of its workload are ready: where fewer would be left than the plan said, since others died
elsewhere in the meantime, the pod stays until there are enough. So does one that has recovered since the plan, until another one is ready too.
Pods that serve together or not at all are one replica: a group of a LeaderWorkerSet, which KServe's LLMInferenceService makes; the head and the
workers of KServe's InferenceService with a workerSpec, which count for the head's Deployment; a replica of a Grove PodCliqueScalingGroup; and all of
a RayCluster, whose labels do not say which of its pods an engine spans: while some of those are ready and some are not, how many replicas there are
is unknown, and the drain is refused where a ready one is on the node, or the head, with which the others may end.

The drain is in effect when the node is empty and the pods of the service that replace the evicted ones serve. Those are waited for as long as a replica of the service may load, 10m
where that is not known; one that no node takes is not waited for.

Pods that are leaving already are waited for, since they run until they have gone. After each pod the run says how far
it is, and what holds the others back; a person's cancel, or a pause, stops it before the next one. Not empty after ` + "`within`" + `: given up; the node stays cordoned, and people are told.`,
		Idempotent: true,
		With:       step.Fields[drainWith](),
	}
}

type drainWith struct {
	nodeWith
	evictionWith
}

type nodeDrain struct{ evictor }

// NewDrain returns the lever node.drain.
func NewDrain(d step.Deps) step.Lever { return nodeDrain{evictor{newNode(d)}} }

// Plan implements [step.Lever].
func (l nodeDrain) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "node.drain"
	with, err := step.Decode[drainWith](DrainKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	v, p, err := l.opening(ctx, kind, with.Node, with.evictionWith)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := notOurCordon(kind, v.Node); err != nil {
		return machine.Plan{}, err
	}
	m, err := movable(kind, v.Node.Name, v.Pods, with.EmptyDir)
	if err != nil {
		return machine.Plan{}, err
	}
	if len(m.pods) == 0 && !m.leaves && v.Node.Unschedulable {
		return machine.Plan{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s, and it has no pods to evict", kind, nodeFacts(v.Node))}
	}
	p.Mark, p.Whole = kube.MarkDrain, true
	var out machine.Plan
	if !v.Node.Unschedulable {
		p.Do, p.Back = kube.NodeEdit{Cordon: new(true)}, kube.NodeEdit{Cordon: new(false), Annotate: noted(v.Node)}
		out.Diff = []machine.FieldChange{{Path: "spec.unschedulable", From: "false", To: "true"}}
		out.Undo = fmt.Sprintf("uncordon node %s; evicted pods stay where they run now", v.Node.Name)
	} else {
		p.Cordoned = true
		out.Undo = fmt.Sprintf("none is needed: node %s stays cordoned as it was, and evicted pods stay where they run now", v.Node.Name)
	}
	p.Pool = takesOut(&out, v)
	out.Summary = fmt.Sprintf("drain node %s: %s", v.Node.Name, podCount(m.pods))
	return l.evictions(ctx, in, kind, v, m, p, out)
}

// evictor holds what levers that evict pods share: Apply marks the node, and
// while the change takes effect the pods are evicted one after the other, each
// by one request with its UID.
type evictor struct{ node }

// evictionWith holds the parameters of levers that evict pods.
type evictionWith struct {
	EmptyDir bool          `json:"delete_emptydir_data" default:"false" doc:"Evict pods with an emptyDir on disk too; its content is lost."`
	Grace    step.Duration `json:"grace" doc:"Least time that each pod gets to finish; its own terminationGracePeriod where that is longer."`
	Within   step.Duration `json:"within" default:"20m" doc:"Time for all of it, at most 29m."`
	AtOnce   int           `json:"at_once" min:"1" max:"100" unit:"pods" doc:"Most pods that may be leaving at the same time. Unset: as many as their budgets let go, and one without a budget."`
}

// maxWithin keeps a drain within the time that a change has to take effect, so
// that it fails with its own message.
const maxWithin = 29 * time.Minute

func (w evictionWith) payload(kind string) (nodePayload, error) {
	if time.Duration(w.Within) <= 0 || time.Duration(w.Within) > maxWithin {
		return nodePayload{}, step.Invalid("%s: within is %s; it must be more than 0 and at most %s", kind, time.Duration(w.Within), maxWithin)
	}
	return nodePayload{Grace: time.Duration(w.Grace).String(), Within: time.Duration(w.Within).String(), AtOnce: w.AtOnce}, nil
}

// opening is the first part of such a plan: it refuses a node that somebody
// else works on, and checks the parameters of the eviction.
func (l evictor) opening(ctx context.Context, kind, name string, with evictionWith) (kube.NodeView, nodePayload, error) {
	p, err := with.payload(kind)
	if err != nil {
		return kube.NodeView{}, p, err
	}
	v, err := l.freeView(ctx, kind, name)
	return v, p, err
}

// evictions completes a plan: the pods to evict, what blocks them, and the
// capacity that it costs.
func (l evictor) evictions(ctx context.Context, in step.Input, kind string, v kube.NodeView, m moves, p nodePayload, out machine.Plan) (machine.Plan, error) {
	p.Pods = podRefs(m.pods, v.Serving)
	notes, lacks, err := l.forecast(ctx, kind, m.pods)
	if err != nil {
		return machine.Plan{}, err
	}
	plan, err := l.plan(ctx, in, kind, v.Node, p)
	if err != nil {
		return machine.Plan{}, err
	}
	for _, namespace := range namespacesOf(p.Pods) {
		_, err := l.n.InRotation(ctx, namespace)
		lack, err := step.LackedRight(err)
		if err != nil {
			return machine.Plan{}, err
		}
		lacks = cmp.Or(lacks, lack)
	}
	l.touches(&plan, in.Service, m.pods)
	plan.Lacks = cmp.Or(plan.Lacks, lacks)
	plan.Pool, plan.Locks = out.Pool, append(plan.Locks, out.Locks...)
	plan.Summary, plan.Undo, plan.Diff = out.Summary, out.Undo, out.Diff
	for _, pod := range m.pods {
		plan.Diff = append(plan.Diff, machine.FieldChange{Path: "pods[" + pod.String() + "]", From: "on " + v.Node.Name, To: "evicted"})
	}
	plan.Notes = append(append(plan.Notes, notes...), m.notes...)
	plan.Notes = append(append(plan.Notes, longest(m.pods, p)...), disruptionWarnings(m.pods, p)...)
	if err := l.capacity(ctx, &plan, in.Service, v); err != nil {
		return machine.Plan{}, err
	}
	plan.Risk, plan.Why = machine.RiskMedium, "moves pods that serve, as their disruption budgets allow"
	if unguarded(m.pods) {
		plan.Risk, plan.Why = machine.RiskHigh, "moves pods that no PodDisruptionBudget protects"
	}
	return plan, nil
}

// longest warns if the grace periods of the pods may exceed the time of the
// drain.
func longest(pods []kube.NodePod, p nodePayload) []string {
	var inTurn, together time.Duration // those without a budget, and at best the others
	for _, pod := range pods {
		switch grace := max(pod.Grace, readSpan(p.Grace)); {
		case p.AtOnce > 0:
			inTurn += grace / time.Duration(p.AtOnce)
		case len(pod.Budgets) > 0:
			together = max(together, grace)
		default:
			inTurn += grace
		}
	}
	if total := max(inTurn, together); total > readSpan(p.Within) {
		return []string{fmt.Sprintf("pods that use their whole grace period need %s, but the drain is given up after %s", step.DurationText(total), step.DurationText(readSpan(p.Within)))}
	}
	return nil
}

// readSpan decodes a duration that a plan stored.
func readSpan(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}

func unguarded(pods []kube.NodePod) bool {
	for _, p := range pods {
		if p.Ready && p.GPUs > 0 && len(p.Budgets) == 0 {
			return true
		}
	}
	return false
}

// Apply makes the mark, and the cordon, when the pods are still those of the plan.
func (l evictor) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[nodePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	pods, err := l.n.NodePods(ctx, plan.Target.Name)
	if err != nil {
		return nil, err
	}
	if came := arrived(p, pods); p.Whole && len(came) > 0 {
		if n, err := l.n.Node(ctx, plan.Target.Name); err != nil || !oursOn(n, p.Mark, in, machine.ActionApply) {
			return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: pod %s came to node %s since it was planned", plan.Step, came[0], plan.Target.Name)}
		}
	}
	return l.node.Apply(ctx, in, plan)
}

// arrived returns the pods that would have to be evicted and are not in the
// plan.
func arrived(p nodePayload, pods []kube.NodePod) []string {
	planned := map[string]bool{}
	for _, x := range p.Pods {
		planned[x.UID] = true
	}
	var out []string
	for _, pod := range pods {
		if !planned[pod.UID] && !pod.Static && !pod.Daemon() && !pod.Leaving && !pod.Done {
			out = append(out, pod.String())
		}
	}
	return out
}

// Observe implements [step.Lever]: the node as it was left, and how far the pods are.
func (l evictor) Observe(ctx context.Context, in step.Input, plan machine.Plan, _ json.RawMessage, undo bool) (step.Observation, error) {
	o, n, p, err := l.look(ctx, in, plan, undo)
	if err != nil || !o.Applied || undo {
		return o, err
	}
	pods, err := l.n.NodePods(ctx, n.Name)
	f := howFar(in, n, p, pods)
	if err == nil {
		err = l.rotation(ctx, &f, p)
	}
	if err != nil {
		o.Settled, o.Unread, o.Progress = false, err, "how far the pods are could not be read"
		return o, nil
	}
	return l.replaced(ctx, in, n, p, f.observation(o, p)), nil
}
