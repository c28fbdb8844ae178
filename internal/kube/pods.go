package kube

import (
	"context"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods lists the pods that the workload controls, also through its ReplicaSets,
// and the workers of its leaders.
func (c *Client) pods(ctx context.Context, o *object) ([]corev1.Pod, error) {
	options, err := o.listOptions()
	if err != nil {
		return nil, err
	}
	list, err := c.typed.pods(o.ref.Namespace).List(ctx, options)
	if err != nil {
		return nil, request{verb: "list", resource: "pods", namespace: o.ref.Namespace}.fail(err)
	}
	var out []corev1.Pod
	for _, p := range list.Items {
		if o.owns(&p) {
			out = append(out, p)
		}
	}
	if ref, _ := o.leads(); ref == (Ref{}) {
		return out, nil
	}
	workers, err := c.workers(ctx, o, out)
	return append(out, workers...), err
}

func describePod(p corev1.Pod, revisions map[string]int64) Pod {
	out := Pod{Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Phase: string(p.Status.Phase), IP: p.Status.PodIP, Worker: worksForLeader(p.Labels), Containers: podContainers(p), Created: p.CreationTimestamp.Time}
	if p.DeletionTimestamp != nil {
		out.Phase = "Terminating"
	}
	if p.Status.StartTime != nil {
		out.Started = p.Status.StartTime.Time
	}
	out.Revision = revisions[p.Labels[appsv1.ControllerRevisionHashLabelKey]]
	for _, ref := range p.OwnerReferences {
		if n, ok := revisions[string(ref.UID)]; ok {
			out.Revision = n
		}
	}
	for _, cond := range p.Status.Conditions {
		switch {
		case cond.Type == corev1.PodReady:
			if out.Ready = cond.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil; out.Ready {
				out.ReadySince = cond.LastTransitionTime.Time
			}
			if out.Ready && !out.Started.IsZero() {
				out.Loading = max(0, cond.LastTransitionTime.Sub(out.Started))
			}
		case cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse:
			out.Message = clip(cond.Message)
		}
	}
	for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		out.Restarts += int(cs.RestartCount)
		if cs.RestartCount > 0 {
			out.Loading = 0
		}
		for _, ended := range []*corev1.ContainerStateTerminated{cs.State.Terminated, cs.LastTerminationState.Terminated} {
			out.OOMKilled = out.OOMKilled || ended != nil && ended.Reason == "OOMKilled"
		}
		// Containers that have not started yet are not waiting for a problem.
		if w := cs.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			out.Waiting = w.Reason
			if w.Message != "" {
				out.Message = clip(w.Message)
			}
		}
	}
	for _, cs := range p.Status.InitContainerStatuses {
		if cs.State.Running != nil && !sidecar(p, cs.Name) {
			out.Init = cs.Name
		}
	}
	out.Ended = lastEnd(p)
	return out
}

// sidecar reports whether an init container runs beside the others.
func sidecar(p corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// nodesOf reads the nodes that the pods run on, sorted by name.
func (c *Client) nodesOf(ctx context.Context, pods []corev1.Pod) ([]Node, error) {
	count := map[string]int{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			count[p.Spec.NodeName]++
		}
	}
	var out []Node
	for _, name := range slices.Sorted(maps.Keys(count)) {
		n, err := c.typed.nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, Node{Name: name, Conditions: []string{"gone"}, Pods: count[name]})
		case err != nil:
			return nil, request{verb: "get", resource: "nodes", name: name}.fail(err)
		default:
			out = append(out, describeNode(n, count[name]))
		}
	}
	return out, nil
}

func describeNode(n *corev1.Node, pods int) Node {
	out := Node{Name: n.Name, Unschedulable: n.Spec.Unschedulable, Pods: pods}
	seen := false
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			seen, out.Ready = true, cond.Status == corev1.ConditionTrue
		}
		if IsBadCondition(string(cond.Type), string(cond.Status)) {
			out.Conditions = append(out.Conditions, string(cond.Type)+"="+string(cond.Status))
		}
	}
	if !seen {
		out.Conditions = append(out.Conditions, "Ready=Unknown")
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, strings.TrimSuffix(t.Key+"="+t.Value, "=")+":"+string(t.Effect))
	}
	slices.Sort(out.Conditions)
	return out
}

// IsBadCondition reports whether a node's condition is a problem. By the convention of
// the kubelet and of node-problem-detector, a condition names a problem and is True
// when it is there; conditions named for health are the opposite. Unknown is bad
// either way: the kubelet stopped reporting.
func IsBadCondition(condition, status string) bool {
	good := corev1.ConditionFalse
	for _, healthy := range []string{"Ready", "Healthy", "Available", "OK", "Succeeded", "EtcdIsVoter"} {
		if strings.HasSuffix(condition, healthy) {
			good = corev1.ConditionTrue
		}
	}
	return corev1.ConditionStatus(status) != good
}
