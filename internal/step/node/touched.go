package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// touched returns whose pods these are, beside those of the run's service: the
// other services of the catalog, and the namespaces of pods of no service.
func (l node) touched(svc playbook.Service, pods []kube.NodePod) []machine.Touched {
	byRef := l.byRef()
	found := map[string]machine.Touched{}
	for _, p := range pods {
		t := machine.Touched{Namespace: p.Namespace}
		if s, cataloged := byRef[p.Owner.Leaders()]; cataloged {
			t.Service, t.Owners = s.Name, slices.Clone(s.Owners)
		}
		if p.Owner.Leaders() != step.RefOf(svc).Leaders() {
			found[t.Name()] = t
		}
	}
	var out []machine.Touched
	for _, key := range sortedKeys(found) {
		out = append(out, found[key])
	}
	return out
}

// byRef returns the services of the catalog by their workloads.
func (l node) byRef() map[kube.Ref]playbook.Service {
	out := map[kube.Ref]playbook.Service{}
	for _, s := range l.services() {
		out[step.RefOf(s).Leaders()] = s
	}
	return out
}

// touches adds to a plan what else it acts on.
func (l node) touches(plan *machine.Plan, svc playbook.Service, pods []kube.NodePod) {
	plan.Touches = l.touched(svc, pods)
	if len(plan.Touches) == 0 {
		return
	}
	var names []string
	for _, t := range plan.Touches {
		names = append(names, t.Name())
	}
	plan.Notes = append(plan.Notes, "judged for all that has pods on the node: also for "+strings.Join(names, ", "))
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
	for _, t := range l.touched(in.Service, tenants(pods)) {
		if !slices.ContainsFunc(plan.Touches, func(was machine.Touched) bool { return was.Name() == t.Name() }) {
			return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: there is more on node %s than when it was planned: %s", plan.Step, plan.Target.Name, t.Name())}
		}
	}
	return nil
}

// controlPlane are the labels and taints of the nodes that run the cluster itself.
var controlPlane = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

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
