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

// EvictPodKind declares pod.evict_from_node.
func EvictPodKind() playbook.Kind {
	return playbook.Kind{
		Name: "pod.evict_from_node",
		Role: playbook.RoleLever, Class: playbook.ClassHardware,
		Doc: `Evicts the service's pods, or one of them, from a node that takes no new ones, under their PodDisruptionBudgets; everybody else's stay. Their
successors come up on other nodes. There is nothing to put back: what undo takes back is the mark on the node.

Refused on a node that takes pods, where the pod could come back: cordon it first. What holds for pods in node.drain holds here.`,
		Idempotent: true,
		With:       step.Fields[evictWith](),
	}
}

type podEvictFromNode struct{ evictor }

// NewEvictPod returns the lever pod.evict_from_node.
func NewEvictPod(d step.Deps) step.Lever { return podEvictFromNode{evictor{newNode(d)}} }

type evictWith struct {
	nodeWith
	Pod string `json:"pod" doc:"Name of the pod; unset: all of the service's on that node."`
	evictionWith
}

// Plan implements [step.Lever].
func (l podEvictFromNode) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "pod.evict_from_node"
	with, err := step.Decode[evictWith](EvictPodKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	v, p, err := l.opening(ctx, kind, with.Node, with.evictionWith)
	if err != nil {
		return machine.Plan{}, err
	}
	if !v.Node.Unschedulable {
		return machine.Plan{}, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: node %s is schedulable, so the successor could return to it: run node.cordon first", kind, v.Node.Name)}
	}
	pods := slices.DeleteFunc(slices.Clone(v.Pods), func(x kube.NodePod) bool {
		return x.Owner.Leaders() != step.RefOf(in.Service).Leaders() || with.Pod != "" && x.Name != with.Pod
	})
	m, err := movable(kind, v.Node.Name, pods, with.EmptyDir)
	if err != nil {
		return machine.Plan{}, err
	}
	if len(m.pods) == 0 {
		which := "no pod of " + in.Service.Name
		if with.Pod != "" {
			which = "no pod " + with.Pod + " of " + in.Service.Name
		}
		return machine.Plan{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s is on node %s, or it is leaving already", kind, which, v.Node.Name)}
	}
	p.Mark, p.Cordoned = kube.MarkEvict, true
	v.Serving = onlyHere(v.Serving, m.pods)
	return l.evictions(ctx, in, kind, v, m, p, machine.Plan{
		Summary: fmt.Sprintf("evict %s of %s from node %s", podCount(m.pods), in.Service.Name, v.Node.Name),
		Undo:    "nothing to put back: their successors run on other nodes",
	})
}

// onlyHere returns what serves on a node, restricted to these pods.
func onlyHere(all []kube.Serving, pods []kube.NodePod) []kube.Serving {
	groups := map[kube.Ref]map[string]bool{}
	for _, p := range pods {
		if groups[p.Owner] == nil {
			groups[p.Owner] = map[string]bool{}
		}
		if p.Ready {
			groups[p.Owner][p.Group] = true
		}
	}
	var out []kube.Serving
	for _, s := range all {
		if g, ok := groups[s.Ref]; ok {
			s.Here = min(s.Here, len(g))
			out = append(out, s)
		}
	}
	return out
}
