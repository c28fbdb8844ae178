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

// tenants returns the pods that a lever acts on which takes a node out: all on it
// but those that belong to the node itself, of DaemonSets and of the kubelet.
func tenants(pods []kube.NodePod) []kube.NodePod {
	return slices.DeleteFunc(slices.Clone(pods), func(p kube.NodePod) bool { return p.Static || p.Daemon() || p.Done })
}

// touched returns whose pods these are, beside those of the run's service.
func (l node) touched(svc playbook.Service, pods []kube.NodePod) []machine.Touched {
	owners := make([]kube.Ref, 0, len(pods))
	for _, p := range pods {
		owners = append(owners, p.Owner)
	}
	return step.Touched(svc, l.services(), owners)
}

// touches adds to a plan what else it acts on.
func (l node) touches(plan *machine.Plan, svc playbook.Service, pods []kube.NodePod) {
	plan.Touches = l.touched(svc, pods)
	if len(plan.Touches) == 0 {
		return
	}
	plan.Locks = append(plan.Locks, step.TouchedLocks(plan.Touches)...)
	plan.Notes = append(plan.Notes, "judged for all that has pods on the node: also for "+step.TouchedNames(plan.Touches))
}

// touchesStill refuses to act if pods of others came to the node since the guards
// judged the lever for those that were there.
func (l node) touchesStill(ctx context.Context, in step.Input, plan machine.Plan, p nodePayload) error {
	if !p.Judged {
		return nil
	}
	pods, err := l.n.NodePods(ctx, plan.Target.Name)
	if err != nil {
		return err
	}
	if more := step.TouchedSince(plan, l.touched(in.Service, tenants(pods))); more != "" {
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: there is more on node %s than when it was planned: %s", plan.Step, plan.Target.Name, more)}
	}
	return nil
}

// controlPlane are the labels and taints of the nodes that run the cluster itself: of
// kubeadm, of before Kubernetes 1.24, and of RKE, whose etcd may have nodes of its own.
var controlPlane = []string{
	"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/etcd",
}

// ordinary refuses a node of the control plane.
func ordinary(kind string, n kube.NodeState) error {
	for _, key := range controlPlane {
		_, labeled := n.Labels[key]
		if labeled || slices.ContainsFunc(n.Taints, func(t kube.Taint) bool { return t.Key == key }) {
			return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
				"%s: node %s is of the control plane (%s): Responder never takes one out or back; do it by hand", kind, n.Name, key)}
		}
	}
	return nil
}
