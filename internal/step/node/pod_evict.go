package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// EvictKind declares pod.evict.
func EvictKind() playbook.Kind {
	return playbook.Kind{
		Name: "pod.evict",
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Evicts one pod of the service, under its PodDisruptionBudget, so that its workload starts another one in its place: for a replica that stands still or
is slow while the others are well. Its successor may come up on the same node: where the node is at fault, take that out (node.drain). There is nothing
to put back: what undo takes back is the mark on the node. Where there is room for one replica more, kube.replace_pod loses none meanwhile.

Refused for a pod that belongs to somebody else, for one that nothing would replace, and in the middle of a rollout. What holds for pods in node.drain holds here.`,
		Idempotent: true,
		With:       step.Fields[evictOneWith](),
	}
}

type podEvict struct{ evictor }

// NewEvict returns the lever pod.evict.
func NewEvict(d step.Deps) step.Lever { return podEvict{evictor{newNode(d)}} }

type evictOneWith struct {
	Pod string `json:"pod" required:"true" doc:"Name of the pod, as the checks give it."`
	evictionWith
}

// Plan implements [step.Lever].
func (l podEvict) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "pod.evict"
	with, err := step.Decode[evictOneWith](EvictKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	w, err := l.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return machine.Plan{}, err
	}
	none := &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s has no pod %s on a node, or it is leaving already", kind, in.Service.Name, with.Pod)}
	at := slices.IndexFunc(w.Pods, func(p kube.Pod) bool { return p.Name == with.Pod && p.Node != "" })
	if at < 0 {
		return machine.Plan{}, none
	}
	if w.RollingOut() {
		return machine.Plan{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s is in the middle of a rollout, which replaces its pods", kind, step.RefText(w.Ref))}
	}
	v, p, err := l.opening(ctx, kind, w.Pods[at].Node, with.evictionWith)
	if err != nil {
		return machine.Plan{}, err
	}
	pods := slices.DeleteFunc(slices.Clone(v.Pods), func(x kube.NodePod) bool {
		return x.Name != with.Pod || x.Owner.Leaders() != step.RefOf(in.Service).Leaders()
	})
	m, err := movable(kind, v.Node.Name, pods, with.EmptyDir)
	if err != nil {
		return machine.Plan{}, err
	}
	if len(m.pods) == 0 {
		return machine.Plan{}, none
	}
	p.Mark = kube.MarkEvict
	v.Serving = onlyHere(v.Serving, m.pods)
	return l.evictions(ctx, in, kind, v, m, p, machine.Plan{
		Summary: fmt.Sprintf("evict pod %s of %s from node %s, for another one in its place", with.Pod, in.Service.Name, v.Node.Name),
		Undo:    "nothing to put back: its successor serves",
	})
}
