package kube

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// PendingKind declares kube.pending.
func PendingKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.pending",
		Role: playbook.RoleCheck,
		Doc: `Tells why replicas of the service's workload do not serve: by the scheduler's message, by why containers wait, by warnings about volumes, network and
quotas, and by what runs instead. Causes that end only when somebody acts or makes room: ` + "`gpu`" + ` (no node has its GPUs free), ` + "`resources`" + ` (CPU, memory),
` + "`taint`" + ` (and cordons), ` + "`affinity`" + `, ` + "`volume`" + `, ` + "`image`" + `, ` + "`config`" + ` (a missing Secret, a wrong field), ` + "`crash`" + `, ` + "`network`" + `, ` + "`quota`" + `, ` + "`refused`" + ` (by an admission
webhook), ` + "`unknown`" + `. Causes that end by themselves: ` + "`creating`" + `, ` + "`download`" + ` (an init container fetches the model), ` + "`init`" + `, ` + "`loading`" + ` (the containers run, and are not
ready), ` + "`new`" + `. Where a cluster autoscaler adds nodes, ` + "`gpu`" + ` and ` + "`resources`" + ` may end by themselves, too.`,
		Out: step.Fields[pendingOut](),
	}
}

const maxPendingOut = 20 // pods that evidence keeps

type pendingOut struct {
	Pending int          `json:"pending" unit:"replicas" doc:"Replicas that do not serve, and those that were never created."`
	Blocked int          `json:"blocked" unit:"replicas" doc:"Those of them that do not start by themselves."`
	Cause   string       `json:"cause" enum:"gpu,resources,taint,affinity,volume,image,config,crash,network,quota,refused,unknown,creating,download,init,loading,new,none" doc:"Cause of the first of pods; none: all replicas serve."`
	Why     string       `json:"why" doc:"All causes in a sentence, with how many replicas they hold for; empty: all replicas serve."`
	Pods    []pendingPod `json:"pods" doc:"Those that do not start by themselves come first; at most 20."`
}

type pendingPod struct {
	Pod   string  `json:"pod" doc:"Name of the pod; empty: it was never created."`
	Cause string  `json:"cause" doc:"Why it does not serve."`
	Why   string  `json:"why" doc:"The same in the words of the cluster."`
	Age   float64 `json:"age_seconds" unit:"seconds" doc:"Since it was created; 0: not known."`
}

type kubePending struct{ w step.Workloads }

// NewPending returns the check kube.pending.
func NewPending(d step.Deps) step.Check { return kubePending{d.Workloads} }

// Run implements [step.Check].
func (c kubePending) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	if _, err := step.Decode[struct{}](PendingKind(), in.With); err != nil {
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
	pods := w.Pending()
	out := pendingOut{Pending: len(pods), Cause: "none", Why: kube.PendingText(pods), Pods: []pendingPod{}}
	for i, p := range pods {
		if p.Cause.Blocks() {
			out.Blocked++
		}
		if i < maxPendingOut {
			shown := pendingPod{Pod: p.Name, Cause: string(p.Cause), Why: p.Why}
			if !p.Since.IsZero() {
				shown.Age = max(in.Now.Sub(p.Since).Seconds(), 0)
			}
			out.Pods = append(out.Pods, shown)
		}
	}
	if len(pods) == 0 {
		return step.Finding{Out: out, Facts: []string{fmt.Sprintf("all %d replicas of %s serve", w.Replicas, step.RefText(ref))}}, nil
	}
	out.Cause = out.Pods[0].Cause
	return step.Finding{Out: out, Facts: []string{fmt.Sprintf("%d of %d replicas of %s do not serve: %s", len(pods), w.Replicas, step.RefText(ref), out.Why)}}, nil
}
