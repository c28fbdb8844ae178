package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ReplacePodKind declares kube.replace_pod.
func ReplacePodKind() playbook.Kind {
	return playbook.Kind{
		Name: replacePod,
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Replaces one pod of the service, a spare first, so that no replica is missing meanwhile. It takes these steps:

1. one replica more, and waiting until it is ready and in rotation, as the others are;
2. the pod is taken out of rotation (with ` + "`at_once`" + ` while the spare loads): it loses the labels by which its workload selects it, so that its workload lets go of it, and so do
the Services that select it by one of them, which send it nothing new. A Service that selects it by other labels alone sends it requests until it ends, and the run says so;
3. its requests finish, by the counters of its own ` + "`/metrics`" + `: until none is in flight twice, 5s apart or more, or ` + "`drain`" + ` is over. Where the counters cannot be read, it waits
that long. What a stuck engine holds never finishes, and is lost then;
4. it is evicted, with its own grace period, and the replicas are set back. Of a Deployment they are set back in step 2, where the spare takes its place; the
Deployment may begin a pod in between, which goes at once. A StatefulSet makes the pod of that name anew, and gives the spare back when it is ready.

PodDisruptionBudgets are asked before step 2. A person's cancel, or a pause, stops it before the next step. A cancel before step 4 gives the pod its
labels back and takes the spare away; after it nothing is put back: its successor serves. So does what is not done in time, or cannot be done. When
somebody else changes the workload in between, the pod gets its labels back, and the rest is left to people.

It needs room for one replica more, within the service's ` + "`max_scale`" + `: without that it is refused, and pod.evict, which needs no room, loses a replica
meanwhile. Refused, too, when somebody else owns the replicas, for a Rollout of Argo Rollouts, for replicas that are groups of pods, in the middle of a rollout, and for an emptyDir on
disk, as in node.drain. Rules that select pods by the labels that it loses, such as a NetworkPolicy, no longer hold for it while it finishes.`,
		Idempotent: true,
		With:       step.Fields[replaceWith](),
	}
}

const (
	replacePod = "kube.replace_pod"
	maxDrain   = 15 * time.Minute
	maxMetrics = 4 << 20 // bytes of an engine's /metrics
)

type replaceWith struct {
	Pod      string        `json:"pod" required:"true" doc:"Name of the pod, as the checks give it."`
	Drain    step.Duration `json:"drain" default:"2m" doc:"How long its requests may take to finish once it is out of rotation; at most 15m."`
	AtOnce   bool          `json:"at_once" default:"false" doc:"Take the pod out of rotation without waiting for the spare: for one that takes requests and answers none."`
	EmptyDir bool          `json:"delete_emptydir_data" default:"false" doc:"Replace a pod with an emptyDir on disk too; its content is lost."`
	WaitRoom bool          `json:"wait_for_room" default:"false" doc:"Plan it although no node has room for the spare now: where nodes are added by themselves."`
}

type kubeReplacePod struct {
	w      step.Workloads
	c      step.Changer
	pods   step.Pods
	nodes  step.Nodes
	evicts step.NodeChanger
	room   step.Capacities
	prober step.Prober
	idle   *idle
}

// NewReplacePod returns the lever kube.replace_pod.
func NewReplacePod(d step.Deps) step.Lever {
	return kubeReplacePod{d.Workloads, d.Changer, d.Pods, d.Nodes, d.NodeChanger, d.Capacity, d.Prober, &idle{since: map[string]time.Time{}}}
}

// replacePayload is the payload of a plan of kube.replace_pod.
type replacePayload struct {
	From   int               `json:"from"`  // replicas
	Ready  int               `json:"ready"` // ready pods beside the one that is replaced
	Pod    string            `json:"pod"`
	UID    string            `json:"uid"`
	Labels map[string]string `json:"labels"` // that it loses while it is out of rotation
	Drain  string            `json:"drain"`
	AtOnce bool              `json:"at_once,omitempty"` // it leaves rotation before the spare is ready
}

// Ends returns the pod: what it knows is read before.
func (l kubeReplacePod) Ends(plan machine.Plan) (pods []string, all bool) {
	p, err := step.Payload[replacePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, false
	}
	return []string{plan.Target.Namespace + "/" + p.Pod}, false
}

func (l kubeReplacePod) configured() error {
	if l.w == nil || l.c == nil || l.pods == nil || l.nodes == nil || l.evicts == nil {
		return step.NotConfigured("cluster", "kubernetes")
	}
	return nil
}

// Plan implements [step.Lever].
func (l kubeReplacePod) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[replaceWith](ReplacePodKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if d := time.Duration(with.Drain); d < 0 || d > maxDrain {
		return machine.Plan{}, step.Invalid("%s: drain is %s; it must be at most %s", replacePod, d, maxDrain)
	}
	if err := l.configured(); err != nil {
		return machine.Plan{}, err
	}
	ref := step.RefOf(in.Service)
	w, err := l.w.Workload(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	pod, err := replaceable(w, with.Pod, in.Service)
	if err != nil {
		return machine.Plan{}, err
	}
	p := replacePayload{From: w.Replicas, Ready: othersReady(w.Pods, pod.UID), Pod: pod.Name, UID: pod.UID, Drain: time.Duration(with.Drain).String(), AtOnce: with.AtOnce}
	plan := machine.Plan{
		Step: replacePod, Target: step.Target(w), Locks: append(step.Locks(in.Service), "pod:"+ref.Namespace+"/"+pod.Name),
		Summary: fmt.Sprintf("replace pod %s of %s: a spare first, then the pod goes", pod.Name, in.Service.Name),
		Undo:    fmt.Sprintf("before the pod is told to go, it gets its labels back and spec.replicas is set to %d again; afterwards nothing is put back: its successor serves", w.Replicas),
		Risk:    machine.RiskMedium, Why: "ends a pod when a spare serves in its place; what it has not finished by then is lost",
		Capacity: machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: w.Replicas}, Loading: step.Loading(w),
	}
	if with.AtOnce && pod.Ready {
		plan.Capacity.LowestReady--
		plan.Summary = fmt.Sprintf("replace pod %s of %s: it leaves rotation at once, and goes", pod.Name, in.Service.Name)
	}
	plan.Diff = []machine.FieldChange{
		{Path: "spec.replicas", From: fmt.Sprint(w.Replicas), To: fmt.Sprintf("%d, and %d again", w.Replicas+1, w.Replicas)},
		{Path: "pods[" + ref.Namespace + "/" + pod.Name + "]", From: "on " + pod.Node, To: "replaced"},
	}
	if err := l.findRoom(ctx, &plan, ref, with.WaitRoom); err != nil {
		return machine.Plan{}, err
	}
	if err := l.rehearse(ctx, in, &plan, &p, w, pod, with); err != nil {
		return machine.Plan{}, err
	}
	plan.Payload = step.EncodeJSON(p)
	return plan, nil
}

// replaceable returns the pod, unless it must not or cannot be replaced.
func replaceable(w kube.Workload, name string, svc playbook.Service) (kube.Pod, error) {
	refuse := func(r fault.Reason, format string, args ...any) (kube.Pod, error) {
		return kube.Pod{}, &fault.Error{Reason: r, Message: replacePod + ": " + step.RefText(w.Ref) + " " + fmt.Sprintf(format, args...)}
	}
	if err := cmp.Or(notForRollouts(replacePod, w, "use pod.evict"), step.Owned(replacePod, w, "spec.replicas")); err != nil {
		return kube.Pod{}, err
	}
	at := slices.IndexFunc(w.Pods, func(p kube.Pod) bool { return p.Name == name && p.Node != "" && p.Phase != "Terminating" })
	switch {
	case at < 0:
		return refuse(fault.NothingToDo, "has no pod %s on a node, or it is leaving already", name)
	case slices.ContainsFunc(w.Pods, func(p kube.Pod) bool { return p.Worker }):
		return refuse(fault.OutOfBounds, "has replicas of several pods: use pod.evict")
	case w.RollingOut():
		return refuse(fault.Conflict, "is in the middle of a rollout, which replaces its pods")
	case w.Ref.Kind == "StatefulSet" && !w.Pods[at].Ready:
		return refuse(fault.OutOfBounds, "may start no further pod while %s is not ready: use pod.evict", name)
	case svc.MaxScale <= 0:
		return refuse(fault.OutOfBounds, "sets no max_scale, so nothing may add a spare: use pod.evict")
	case w.Replicas+1 > svc.MaxScale:
		return refuse(fault.OutOfBounds, "has %d replicas, and max_scale is %d: there may be no spare; use pod.evict", w.Replicas, svc.MaxScale)
	case len(w.Selector) == 0:
		return refuse(fault.OutOfBounds, "selects its pods by no plain label, so that none can be taken out of rotation: use pod.evict")
	}
	return w.Pods[at], nil
}

// findRoom refuses a plan whose spare finds no room now.
func (l kubeReplacePod) findRoom(ctx context.Context, plan *machine.Plan, ref kube.Ref, wait bool) error {
	if l.room == nil {
		plan.Notes = append(plan.Notes, "whether a node has room for the spare is not known")
		return nil
	}
	at, err := l.room.Capacity(ctx, ref)
	switch {
	case err != nil:
		plan.Notes = append(plan.Notes, "whether a node has room for the spare is not known: "+err.Error())
	case at.Fits < 1 && !wait:
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: no room for a spare of %s: %s; pod.evict needs none", replacePod, step.RefText(ref), step.Lacking(at))}
	case at.Fits < 1:
		plan.Notes = append(plan.Notes, "no room for the spare yet: "+step.Lacking(at))
	case at.Below > 0:
		plan.Notes = append(plan.Notes, fmt.Sprintf("room for the spare: %d nodes; %d pods with GPUs have a lower priority", len(at.Room), at.Below))
	}
	return nil
}

// rehearse asks the server for a dry-run of every request of the plan, and completes
// the payload by the labels that the pod will lose.
func (l kubeReplacePod) rehearse(ctx context.Context, in step.Input, plan *machine.Plan, p *replacePayload, w kube.Workload, pod kube.Pod, with replaceWith) error {
	lack := func(err error) error {
		lacks, err := step.LackedRight(err)
		plan.Lacks = cmp.Or(plan.Lacks, lacks)
		return err
	}
	now, err := l.pods.Pod(ctx, w.Ref.Namespace, pod.Name)
	switch {
	case err != nil:
		return err
	case len(now.EmptyDir) > 0 && !with.EmptyDir:
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: the emptyDir of %s (%s) would be lost: set delete_emptydir_data: true to accept that", replacePod, pod.Name, strings.Join(now.EmptyDir, ", "))}
	}
	plan.Staged = time.Duration(with.Drain) + rotationWithin + now.Grace
	_, err = l.c.Scale(ctx, kube.ScaleChange{Ref: w.Ref, Replicas: w.Replicas + 1, DryRun: true, Run: in.Run, Key: in.Key, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}})
	if err := lack(err); err != nil {
		return err
	}
	p.Labels = map[string]string{}
	for k := range w.Selector {
		p.Labels[k] = now.Labels[k]
	}
	after, err := l.pods.ChangePod(ctx, l.released(plan, *p, in, true))
	if err := lack(err); err != nil {
		return err
	}
	if kept := keeps(after, p.Labels); len(kept) > 0 {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: pod %s keeps its labels %s, which something puts back, such as a webhook: use pod.evict", replacePod, p.Pod, labelsText(kept))}
	}
	blocked, err := l.evicts.Evict(ctx, kube.Eviction{Namespace: w.Ref.Namespace, Name: pod.Name, UID: pod.UID, DryRun: true})
	if err := lack(err); err != nil {
		return err
	}
	if blocked != "" {
		plan.Notes = append(plan.Notes, "the server would not evict it now: "+blocked+"; it is asked again when the spare is ready")
	}
	_, err = l.nodes.InRotation(ctx, w.Ref.Namespace)
	return lack(err)
}

// released is the change that takes the pod out of rotation.
func (l kubeReplacePod) released(plan *machine.Plan, p replacePayload, in step.Input, dryRun bool) kube.PodChange {
	c := kube.PodChange{
		Namespace: plan.Target.Namespace, Name: p.Pod, UID: p.UID, Labels: map[string]string{},
		Annotate: map[string]string{kube.MarkReplace: kube.Mark(in.Key, in.Now)}, DryRun: dryRun,
	}
	for k := range p.Labels {
		c.Labels[k] = ""
	}
	return c
}

// Apply implements [step.Lever]: it adds the spare.
func (l kubeReplacePod) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[replacePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if err := l.configured(); err != nil {
		return nil, err
	}
	receipt, err := l.scale(ctx, in, plan, machine.ActionApply, p.From+1, plan.Target.Generation)
	return step.Applied(ctx, l.w, in, plan, receipt, err)
}

func (l kubeReplacePod) scale(ctx context.Context, in step.Input, plan machine.Plan, action machine.Action, replicas int, generation int64) (json.RawMessage, error) {
	a, err := l.c.Scale(ctx, kube.ScaleChange{
		Ref: step.RefOfTarget(plan.Target), Replicas: replicas, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: plan.Target.UID, Generation: generation},
	})
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: a.UID, Generation: a.Generation}), nil
}

// replacing is how far a replacement is.
type replacing struct {
	p     replacePayload
	w     kube.Workload
	pod   *kube.PodState    // nil: it is gone
	spare bool              // there is one replica more
	out   bool              // the pod has lost its labels
	since time.Time         // it has been out since then
	lists map[string]string // pods in rotation, by UID
}

// Observe implements [step.Lever]. The spare moves the object's generation by one
// and giving it back by one more, so that a third party's write never goes unseen.
func (l kubeReplacePod) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	o, r, err := l.look(ctx, in, plan, receipt, undo)
	if err != nil || !o.Applied || o.Foreign || undo {
		return o, err
	}
	return l.progress(o, r), nil
}

func (l kubeReplacePod) look(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, replacing, error) {
	at, err := step.LookAt[replacePayload](ctx, l.w, plan)
	r := replacing{p: at.Planned, w: at.W}
	switch {
	case err != nil:
		return step.Observation{}, r, err
	case at.Over != nil:
		return *at.Over, r, nil
	}
	if err := l.configured(); err != nil {
		return step.Observation{}, r, err
	}
	if err := l.lookAtPod(ctx, &r); err != nil {
		return step.Observation{}, r, err
	}
	w, planned := at.W, plan.Target.Generation
	moved := w.Generation - planned
	r.spare = w.Replicas == r.p.From+1
	undone := step.Ours(w, in, machine.ActionUndo) && w.Replicas == r.p.From && moved == 2
	added := r.spare && moved == 1 && step.Mine(w, in, machine.ActionApply, receipt)
	given := w.Replicas == r.p.From && moved == 2 && step.Ours(w, in, machine.ActionSettle)
	done := step.Observation{Applied: true, Receipt: step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionApply, UID: w.UID, Generation: planned + 1})}
	switch {
	case undo && (undone || given):
		// Once the replicas are given back, the labels are all that an undo writes.
		done.Receipt = step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionUndo, UID: w.UID, Generation: w.Generation})
		step.Rolled(&done, w, r.p.From)
		if r.apart() {
			done.Settled, done.Progress = false, fmt.Sprintf("pod %s has not got its labels back; %s", r.p.Pod, done.Progress)
		}
		return done, r, nil
	case undo && added:
		return step.Observation{Progress: "not put back"}, r, nil
	case given && r.pod != nil && !r.out:
		return step.Foreign(w, fmt.Sprintf("pod %s is in rotation again", r.p.Pod)), r, nil
	case !undo && (added || given):
		return done, r, nil
	case !undo && moved == 0 && w.Replicas == r.p.From:
		return step.Observation{Progress: fmt.Sprintf("%d replicas, as before", w.Replicas)}, r, nil
	}
	return step.Foreign(w, fmt.Sprintf("someone else changed it: %d replicas, generation %d", w.Replicas, w.Generation)), r, nil
}

// lookAtPod reads the pod that is replaced, and what is in rotation.
func (l kubeReplacePod) lookAtPod(ctx context.Context, r *replacing) error {
	err := l.readPod(ctx, r)
	if err != nil {
		return err
	}
	r.lists, err = l.nodes.InRotation(ctx, r.w.Ref.Namespace)
	return err
}

func (l kubeReplacePod) readPod(ctx context.Context, r *replacing) error {
	pod, err := l.pods.Pod(ctx, r.w.Ref.Namespace, r.p.Pod)
	switch {
	case step.HasReason(err, fault.NotFound):
	case err != nil:
		return err
	case pod.UID == r.p.UID:
		r.pod = &pod
		_, r.since = kube.ParseMark(pod.Annotations[kube.MarkReplace])
		r.out = true
		for k, v := range r.p.Labels {
			r.out = r.out && pod.Labels[k] != v
		}
	}
	return nil
}

// serving counts the ready pods beside the one that is replaced; where Services list
// pods of the workload, those that are in rotation.
func (r replacing) serving() int {
	listed := 0
	for _, p := range r.w.Pods {
		if _, ok := r.lists[p.UID]; ok && p.UID != r.p.UID && p.Ready {
			listed++
		}
	}
	if _, ok := r.lists[r.p.UID]; ok || listed > 0 {
		return listed
	}
	return othersReady(r.w.Pods, r.p.UID)
}

// apart reports whether the pod is out of rotation and was not told to go.
func (r replacing) apart() bool { return r.pod != nil && r.out && !r.pod.Leaving }

func othersReady(pods []kube.Pod, uid string) int {
	n := 0
	for _, p := range pods {
		if p.Ready && p.UID != uid {
			n++
		}
	}
	return n
}

// ordinal reports whether the workload makes the pod of that name anew, so that the
// spare is given back only afterwards.
func (r replacing) ordinal() bool { return r.w.Ref.Kind == "StatefulSet" }

// progress says how far it is.
func (l kubeReplacePod) progress(o step.Observation, r replacing) step.Observation {
	serving := r.serving()
	switch {
	case r.pod != nil && r.pod.Leaving:
		o.Progress = fmt.Sprintf("pod %s is told to go, and finishes within its grace period", r.p.Pod)
	case r.pod != nil && r.out:
		o.Progress = fmt.Sprintf("pod %s is out of rotation", r.p.Pod)
	case r.pod != nil && serving <= r.p.Ready:
		o.Progress = fmt.Sprintf("the spare is not ready: %d of %d other pods serve", serving, r.p.Ready+1)
	case r.pod != nil:
		o.Progress = "the spare serves"
	case r.lists[r.p.UID] != "":
		o.Progress = fmt.Sprintf("pod %s is gone, and in rotation all the same (EndpointSlice %s)", r.p.Pod, r.lists[r.p.UID])
	case r.spare:
		o.Progress = fmt.Sprintf("pod %s is gone; %d of %d others serve", r.p.Pod, serving, r.p.Ready+1)
	default:
		step.Rolled(&o, r.w, r.p.From)
		o.Settled = o.Settled && serving > r.p.Ready
		o.Progress = fmt.Sprintf("pod %s is replaced; %s", r.p.Pod, o.Progress)
	}
	if n := len(r.w.Pods); r.w.Stuck != "" && n > 0 && !o.Settled {
		o.Progress += "; " + r.w.Stuck
	}
	return o
}

// When to take the next step.
const replaceNext = time.Second

// Advance implements stepwise of package step: it takes one step at most, so that a
// cancel stops it before the next one. The intent is that of the apply, whose plan
// names the pod. Every step may be taken twice: each names the pod's UID or the
// workload's generation.
func (l kubeReplacePod) Advance(ctx context.Context, in step.Input, plan machine.Plan) (step.Observation, error) {
	o, r, err := l.look(ctx, in, plan, nil, false)
	if err != nil || !o.Applied || o.Foreign {
		return o, err
	}
	o = l.progress(o, r)
	switch {
	case o.Settled, r.pod != nil && r.pod.Leaving:
		return o, nil
	case r.pod != nil && !r.out:
		return l.release(ctx, in, plan, r, o)
	case r.spare && !r.ordinal(), r.spare && r.pod == nil && r.serving() > r.p.Ready+1:
		// A Deployment's spare has taken the place of the pod that it let go; a
		// StatefulSet's serves until the pod of that name is ready again.
		return l.giveBack(ctx, in, plan, o)
	case r.pod != nil:
		return l.finish(ctx, plan, in, r, o)
	}
	return o, nil
}

// release takes the pod out of rotation once the spare serves and the disruption
// budgets would let it go.
func (l kubeReplacePod) release(ctx context.Context, in step.Input, plan machine.Plan, r replacing, o step.Observation) (step.Observation, error) {
	if r.serving() <= r.p.Ready && !r.p.AtOnce {
		return o, nil
	}
	blocked, err := l.evicts.Evict(ctx, kube.Eviction{Namespace: r.w.Ref.Namespace, Name: r.p.Pod, UID: r.p.UID, DryRun: true})
	if err != nil {
		return o, err
	}
	if blocked != "" {
		o.Progress += "; the pod is held back: " + blocked
		return o, nil
	}
	o.Again = replaceNext
	after, err := l.pods.ChangePod(ctx, l.released(&plan, r.p, in, false))
	switch kept := keeps(after, r.p.Labels); {
	case step.HasReason(err, fault.Conflict): // its status moved on: the next look tells
		return o, nil
	case err != nil:
		return o, err
	case len(kept) > 0:
		msg := fmt.Sprintf("%s: pod %s keeps its labels %s, which something puts back, such as a webhook", replacePod, r.p.Pod, labelsText(kept))
		return o, &fault.Error{Reason: fault.Overridden, Message: msg, Err: l.restore(ctx, r)}
	}
	o.Progress = fmt.Sprintf("pod %s is taken out of rotation", r.p.Pod)
	if r.ordinal() {
		return o, nil
	}
	// At once, so that the pod that the Deployment begins in between goes before it loads.
	return l.giveBack(ctx, in, plan, o)
}

// giveBack sets the replicas back. A conflict is somebody else's change, which the
// next look tells.
func (l kubeReplacePod) giveBack(ctx context.Context, in step.Input, plan machine.Plan, o step.Observation) (step.Observation, error) {
	p, err := step.Payload[replacePayload](plan.Step, plan.Payload)
	if err != nil {
		return o, err
	}
	_, err = l.scale(ctx, in, plan, machine.ActionSettle, p.From, plan.Target.Generation+1)
	o.Again = replaceNext
	if step.HasReason(err, fault.Conflict) {
		err = nil
	}
	return o, err
}

// finish evicts the pod once nothing is in flight on it, or its time is over.
func (l kubeReplacePod) finish(ctx context.Context, plan machine.Plan, in step.Input, r replacing, o step.Observation) (step.Observation, error) {
	switch slice := r.lists[r.p.UID]; {
	case slice != "" && in.Now.Sub(r.since) < rotationWithin:
		o.Progress += fmt.Sprintf(", and EndpointSlice %s lists it still", slice)
		o.Again = replaceNext
		return o, nil
	case slice != "":
		o.Progress += fmt.Sprintf("; EndpointSlice %s lists it by other labels: it gets requests until it ends", slice)
	}
	bound, err := time.ParseDuration(r.p.Drain)
	if err != nil {
		return o, step.Invalid("%s: the stored payload has the drain %q", plan.Step, r.p.Drain)
	}
	left := bound - in.Now.Sub(r.since)
	requests, why := l.inFlight(ctx, in.Service, *r.pod)
	switch {
	case why == "" && requests == 0 && !l.idle.twice(r.p.UID, in.Now) && left > 0:
		o.Progress += "; nothing is in flight on it now, and it is asked once more"
		o.Again = idleFor
		return o, nil
	case why == "" && requests == 0:
		o.Progress += ", and nothing is in flight on it"
	case left > 0 && why == "":
		l.idle.forget(r.p.UID)
		o.Progress += fmt.Sprintf("; %g requests in flight, %s left for them", requests, step.DurationText(left))
		return o, nil
	case left > 0:
		l.idle.forget(r.p.UID)
		o.Progress += fmt.Sprintf("; what is in flight is not known (%s), %s left for it", why, step.DurationText(left))
		return o, nil
	case why == "":
		o.Progress += fmt.Sprintf("; %g requests have not finished within %s, and are lost", requests, step.DurationText(bound))
	default:
		o.Progress += fmt.Sprintf("; what was in flight on it is not known (%s), and may be lost", why)
	}
	blocked, err := l.evicts.Evict(ctx, kube.Eviction{Namespace: r.w.Ref.Namespace, Name: r.p.Pod, UID: r.p.UID})
	if blocked != "" {
		o.Progress += "; it is held back: " + blocked
	}
	o.Again = replaceNext
	return o, err
}

// rotationWithin is how long EndpointSlices may take to follow a pod's labels. A
// Service that selects it by other labels never does: its grace period has to do then.
const rotationWithin = 30 * time.Second

// inFlight returns the requests that the pod's engine has, by its own counters; why
// says why that is not known.
func (l kubeReplacePod) inFlight(ctx context.Context, svc playbook.Service, pod kube.PodState) (requests float64, why string) {
	port := 0
	for _, c := range pod.Containers {
		if port == 0 || c.Name == svc.Container {
			port = c.Port
		}
	}
	if l.prober == nil || pod.IP == "" || port == 0 {
		return 0, "its address is not known"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(pod.IP, strconv.Itoa(port))+"/metrics", nil)
	if err != nil {
		return 0, "its address is none"
	}
	resp, err := l.prober.Do(req)
	if err != nil {
		return 0, "its /metrics do not answer"
	}
	defer func() { _ = resp.Body.Close() }() // only read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Sprintf("its /metrics answer %d", resp.StatusCode)
	}
	e, _ := engine.Named(svc.Engine)
	requests, known := e.InFlight(string(body))
	if !known {
		return 0, "its /metrics show no requests"
	}
	return requests, ""
}

// Undo implements [step.Lever]: as long as the pod has not been told to go, it gets
// its labels back; the spare goes in any case, unless it took the pod's place.
func (l kubeReplacePod) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	var out json.RawMessage
	err := step.Undone(ctx, l, in, plan, receipt, func() error {
		o, r, err := l.look(ctx, in, plan, receipt, false)
		switch {
		case err != nil:
			return err
		case !o.Applied || o.Foreign:
			return &fault.Error{Reason: fault.Conflict, Message: o.Progress}
		}
		if err := l.takeBack(ctx, r); err != nil {
			return err
		}
		if !r.spare {
			out = step.EncodeJSON(step.ChangeReceipt{Action: machine.ActionUndo, UID: r.w.UID, Generation: r.w.Generation})
			return nil
		}
		out, err = l.scale(ctx, in, plan, machine.ActionUndo, r.p.From, r.w.Generation)
		return err
	})
	return out, err
}

// takeBack gives the pod its labels back.
func (l kubeReplacePod) takeBack(ctx context.Context, r replacing) error {
	if !r.apart() {
		return nil
	}
	return l.restore(ctx, r)
}

func (l kubeReplacePod) restore(ctx context.Context, r replacing) error {
	_, err := l.pods.ChangePod(ctx, kube.PodChange{
		Namespace: r.w.Ref.Namespace, Name: r.p.Pod, UID: r.p.UID, Labels: r.p.Labels, Annotate: map[string]string{kube.MarkReplace: ""},
	})
	return err
}

// Nudge implements nudger of package step. A step that was cut off by a cancel may
// have arrived after the undo: then the pod gets its labels back once more.
func (l kubeReplacePod) Nudge(ctx context.Context, in step.Input, plan machine.Plan, undo bool) error {
	if !undo {
		return nil
	}
	_, r, err := l.look(ctx, in, plan, nil, true)
	if err == nil {
		err = l.takeBack(ctx, r)
	}
	if step.HasReason(err, fault.Conflict) {
		return nil // its status moved on: the next look tells
	}
	return err
}
