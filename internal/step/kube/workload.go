package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// WorkloadKind declares kube.workload.
func WorkloadKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.workload",
		Role: playbook.RoleCheck,
		Doc: `Looks at the service's workload: replicas and readiness, restarts, containers killed for memory or waiting, pods that cannot be scheduled, the nodes
its pods run on, warnings of the last hour, and who else owns fields of it. When any part cannot be read, the check fails: a partial
answer would look healthier than the truth. How long the ready replicas took to become ready is read from their pods: how long a service's replicas
load, as far as the cluster shows it. The StatefulSet of a LeaderWorkerSet's leaders has the workers' pods too, and a replica of it is ready
when all of its group is; so has the Deployment of the head of KServe's InferenceService with a workerSpec.`,
		Out: step.Fields[workloadOut](),
	}
}

// maxEvents bounds the events that evidence keeps, maxEventFacts those that are
// shown.
const (
	maxEvents     = 20
	maxEventFacts = 5
)

type kubeWorkload struct{ w step.Workloads }

// NewWorkload returns the check kube.workload.
func NewWorkload(d step.Deps) step.Check { return kubeWorkload{d.Workloads} }

type workloadOut struct {
	Desired       int        `json:"desired" unit:"replicas" doc:"Replicas asked for."`
	Ready         int        `json:"ready" unit:"replicas" doc:"Replicas that are ready."`
	Revision      int        `json:"revision" doc:"Number of the current revision."`
	Updated       int        `json:"updated" unit:"replicas" doc:"Replicas of the current revision."`
	RollingOut    bool       `json:"rolling_out" doc:"A rollout is not over: pods of an earlier revision are left, or the controller has not seen the newest change yet."`
	Available     int        `json:"available" unit:"replicas" doc:"Replicas ready for as long as the workload demands."`
	Unavailable   int        `json:"unavailable" unit:"replicas" doc:"Replicas missing to the desired number."`
	Restarts      int        `json:"restarts" doc:"Container restarts, summed over the pods that exist now."`
	OOMKilled     int        `json:"oom_killed" unit:"pods" doc:"Pods whose container was last ended for using too much memory."`
	Waiting       []string   `json:"waiting" doc:"Why containers wait, each reason once: CrashLoopBackOff, ImagePullBackOff, ..."`
	Unschedulable int        `json:"unschedulable" unit:"pods" doc:"Pods no node takes."`
	Blocked       int        `json:"blocked" unit:"replicas" doc:"Replicas that do not serve and do not start by themselves, those that could not be created included: see kube.pending."`
	Barred        int        `json:"blocked_by_release" unit:"replicas" doc:"Those of them that a release may have blocked: by its image, by its configuration, or because they crash."`
	Pending       string     `json:"pending" doc:"Why replicas do not serve, in a sentence; empty: all do."`
	Stuck         string     `json:"stuck" doc:"Why a rollout cannot go on (progress deadline exceeded, replica failure); empty: it can."`
	Paused        bool       `json:"paused" doc:"Rollouts of the workload are paused; of a Rollout of Argo Rollouts, or its rollout is aborted."`
	Holdable      bool       `json:"holdable" doc:"rollout.hold would hold a rollout: one is under way, and replicas of the release before are left, or of a Rollout its stable ReplicaSet."`
	Held          string     `json:"held" doc:"ReplicaSet whose rollout rollout.hold has paused or aborted; empty: none, or it is not any more."`
	HoldOver      bool       `json:"hold_over" doc:"The pod template has another spec than that of held, so the hold has to end; never of a Rollout, whose abort ends by itself then."`
	Nodes         []nodeOut  `json:"nodes" doc:"Nodes that run pods of the workload."`
	BadNodes      int        `json:"bad_nodes" unit:"nodes" doc:"Nodes among them that are not ready or have a bad condition."`
	Events        []eventOut `json:"events" doc:"Warnings of the last hour, newest first, at most 20."`
	Owners        []ownerOut `json:"owners" doc:"Who else would change fields of the workload back."`

	LastReady *time.Time `json:"last_ready,omitempty" doc:"When the youngest ready replica became ready: capacity has been as it is since then; unset without a ready one."`

	LoadTime        step.Duration `json:"load_time" doc:"How long the ready replicas of the current revision took from the start of their pod until they were ready, model and all: the median; without a ready one of that revision, of all that are ready. 0: not known, as of replicas that restarted since or seem to have loaded for more than an hour."`
	LongestLoadTime step.Duration `json:"longest_load_time" doc:"The longest of them; 0: not known."`
	LoadWithin      step.Duration `json:"load_within" doc:"How long a new replica may load: load_time of the service, or else twice this load_time; 0: neither is known."`
}

type nodeOut struct {
	Name          string   `json:"name" doc:"Node."`
	Ready         bool     `json:"ready" doc:"Its Ready condition is True."`
	Unschedulable bool     `json:"unschedulable" doc:"It is cordoned."`
	Conditions    []string `json:"conditions" doc:"Conditions that are bad, e.g. MemoryPressure, Ready=Unknown."`
	Pods          int      `json:"pods" unit:"pods" doc:"Pods of the workload on it."`
}

type eventOut struct {
	Reason  string `json:"reason" doc:"Reason, e.g. FailedScheduling."`
	Object  string `json:"object" doc:"Kind/name it is about."`
	Message string `json:"message" doc:"Message."`
	Count   int    `json:"count" doc:"How often."`
}

type ownerOut struct {
	Field string `json:"field" doc:"Field owned; * for all."`
	Kind  string `json:"kind" doc:"HorizontalPodAutoscaler, ScaledObject, ArgoCD, Flux (a Kustomization), FluxHelm (a HelmRelease), or a controlling object's kind."`
	Name  string `json:"name" doc:"Its name."`
}

// Run implements [step.Check].
func (c kubeWorkload) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	if _, err := step.Decode[struct{}](WorkloadKind(), in.With); err != nil {
		return step.Finding{}, err
	}
	if c.w == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	ref := step.RefOf(in.Service)
	w, err := c.w.Workload(ctx, ref)
	if err != nil {
		return step.Finding{}, err
	}
	nodes, err := c.w.Nodes(ctx, ref)
	if err != nil {
		return step.Finding{}, err
	}
	out := workloadEvidence(w)
	out.loaded(step.Loadings(w), in.Service.LoadTime)
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, nodeOut{n.Name, n.Ready, n.Unschedulable, append([]string{}, n.Conditions...), n.Pods})
		if !n.Ready || len(n.Conditions) > 0 {
			out.BadNodes++
		}
	}
	return step.Finding{Out: out, Facts: workloadFacts(ref, w, out)}, nil
}

func workloadEvidence(w kube.Workload) workloadOut {
	out := workloadOut{
		Desired: w.Replicas, Ready: w.Ready, Revision: int(w.Revision), Updated: w.Updated, RollingOut: w.RollingOut(), Available: w.Available,
		Unavailable: max(w.Unavailable, w.Replicas-w.Available, 0),
		Waiting:     []string{}, Stuck: w.Stuck, Paused: w.Paused, Holdable: holdable(w) == nil, Held: w.Held, HoldOver: w.HoldOver,
		Nodes: []nodeOut{}, Events: []eventOut{}, Owners: []ownerOut{},
	}
	for _, p := range w.Pods {
		out.Restarts += p.Restarts
		if p.OOMKilled {
			out.OOMKilled++
		}
		if at := p.ReadySince; !at.IsZero() && (out.LastReady == nil || at.After(*out.LastReady)) {
			out.LastReady = &at
		}
		if p.Waiting != "" && !slices.Contains(out.Waiting, p.Waiting) {
			out.Waiting = append(out.Waiting, p.Waiting)
		}
		if p.Node == "" && p.Phase == "Pending" && p.Message != "" {
			out.Unschedulable++
		}
	}
	slices.Sort(out.Waiting)
	pending := w.Pending()
	for _, p := range pending {
		if p.Cause.Blocks() {
			out.Blocked++
		}
		if slices.Contains([]kube.PendingCause{kube.PendingImage, kube.PendingConfig, kube.PendingCrash}, p.Cause) {
			out.Barred++
		}
	}
	out.Pending = kube.PendingText(pending)
	for _, e := range w.Events[:min(len(w.Events), maxEvents)] {
		out.Events = append(out.Events, eventOut{e.Reason, e.Object, e.Message, e.Count})
	}
	for _, o := range w.Owners {
		out.Owners = append(out.Owners, ownerOut{o.Field, o.Kind, o.Name})
	}
	return out
}

// loaded records how long the replicas took to become ready. stated is what the
// catalog says of it; 0: nothing.
func (out *workloadOut) loaded(took []time.Duration, stated time.Duration) {
	if n := len(took); n > 0 {
		out.LoadTime, out.LongestLoadTime = step.Duration(took[(n-1)/2]), step.Duration(took[n-1])
	}
	out.LoadWithin = 2 * out.LoadTime
	if stated > 0 {
		out.LoadWithin = step.Duration(stated)
	}
}

func workloadFacts(ref kube.Ref, w kube.Workload, out workloadOut) []string {
	facts := []string{fmt.Sprintf("%s: %d of %d replicas ready, %d of the current revision %d",
		step.RefText(ref), out.Ready, out.Desired, out.Updated, w.Revision)}
	add := func(yes bool, format string, args ...any) {
		if yes {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	add(out.Stuck != "", "rollout is stuck: %s", out.Stuck)
	add(out.Paused && out.Held == "", "rollouts are paused by %s", cmp.Or(w.PausedBy, "somebody"))
	add(out.Held != "" && !out.HoldOver, "the rollout of %s is held (responder loans list)", out.Held)
	add(out.HoldOver, "the rollout of %s was held, and the pod template is another one since", out.Held)
	add(out.LoadTime > 0 && out.Ready < out.Desired, "its replicas took %s to become ready, at most %s",
		step.DurationText(time.Duration(out.LoadTime)), step.DurationText(time.Duration(out.LongestLoadTime)))
	add(out.Restarts > 0, "%d container restarts", out.Restarts)
	add(out.OOMKilled > 0, "%d pods were killed for using too much memory", out.OOMKilled)
	add(out.Pending != "", "replicas that do not serve: %s", out.Pending)
	for _, n := range out.Nodes {
		add(!n.Ready || len(n.Conditions) > 0, "node %s with %d of its pods: %s", n.Name, n.Pods, nodeState(n))
	}
	add(out.BadNodes == 0 && len(out.Nodes) > 0, "all %d nodes are healthy by their conditions", len(out.Nodes))
	for _, o := range w.Owners {
		facts = append(facts, fmt.Sprintf("%s is owned by %s (%s)", fieldName(o.Field), step.OwnerName(o), o.Why))
	}
	return append(facts, eventFacts(out.Events, w.Pods)...)
}

// eventFacts describes events for people, those with the same message as one. A
// probe that failed while a pod started says nothing once the pod is ready.
func eventFacts(events []eventOut, pods []kube.Pod) []string {
	started := func(e eventOut) bool {
		ready := slices.ContainsFunc(pods, func(p kube.Pod) bool { return p.Ready && e.Object == "Pod/"+p.Name })
		return ready && (strings.HasPrefix(e.Message, "Readiness probe failed") || strings.HasPrefix(e.Message, "Startup probe failed"))
	}
	var shown []eventOut
	more := map[string]int{} // further objects, by reason and message
	for _, e := range events {
		same := slices.IndexFunc(shown, func(o eventOut) bool { return o.Reason == e.Reason && o.Message == e.Message })
		switch {
		case started(e):
		case same < 0:
			shown = append(shown, e)
		default:
			shown[same].Count += e.Count
			more[e.Reason+e.Message]++
		}
	}
	var facts []string
	for _, e := range shown[:min(len(shown), maxEventFacts)] {
		object := e.Object
		if n := more[e.Reason+e.Message]; n > 0 {
			object += fmt.Sprintf(" and %d more", n)
		}
		facts = append(facts, fmt.Sprintf("%dx %s on %s: %s", e.Count, e.Reason, object, e.Message))
	}
	return facts
}

func nodeState(n nodeOut) string {
	state := append([]string{}, n.Conditions...)
	if !n.Ready && len(state) == 0 {
		state = append(state, "not ready")
	}
	if n.Unschedulable {
		state = append(state, "cordoned")
	}
	return strings.Join(state, ", ")
}

func fieldName(field string) string {
	if field == "*" {
		return "every field"
	}
	return field
}
