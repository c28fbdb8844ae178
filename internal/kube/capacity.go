package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/inference-responder/responder/internal/fault"
)

// Capacity is where further replicas of a workload would find room now. Nobody is
// evicted for them, and no node is added.
type Capacity struct {
	Needs    string     // what one replica requests: "1 nvidia.com/gpu, 8 cpu, 64Gi memory"
	GPUs     int        // of one replica
	Fits     int        // further replicas that find room, after those that wait already; at most MaxFits
	Free     int        // GPUs that nothing has requested, on nodes that take such a pod
	Room     []Room     // nodes that take at least one more, most room first
	Refusals []Refusal  // why the others do not, most nodes first
	Quotas   []Exceeded // quotas of the namespace that let fewer than MaxFits replicas in
	Waiting  int        // pods of the workload that no node runs yet
	Below    int        // pods with GPUs and a lower priority on such nodes: the scheduler may evict them for a new replica
	Ignored  []string   // rules of the pod template that were not taken into account
}

// MaxFits bounds how many replicas are looked for.
const MaxFits = 100

// Room is a node that takes further replicas.
type Room struct {
	Node string
	Fits int
}

// Refusal is why nodes take no further replica.
type Refusal struct {
	Why   string // "too few free nvidia.com/gpu"
	Nodes int
}

// Exceeded is a quota that bounds further replicas.
type Exceeded struct {
	Quota    string // its name
	Resource string // requests.nvidia.com/gpu
	Left     string
	Fits     int // replicas that it lets in
}

// Capacity tells how many further replicas of a workload the nodes have room for. It
// asks for the workload, the nodes, all pods that have not ended, and the namespace's
// quotas, and computes as the scheduler's filters do: node selector and affinity, taints, requests,
// and the rule that no two replicas share a node. A workload whose replicas are groups
// of pods, or claim devices, is refused. The error is a [*fault.Error].
func (c *Client) Capacity(ctx context.Context, ref Ref) (Capacity, error) {
	o, err := c.load(ctx, ref)
	if err != nil {
		return Capacity{}, err
	}
	if group, _ := o.leads(); group != (Ref{}) {
		return Capacity{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("capacity for %s/%s: a replica is a group of pods; room for groups is not computed", ref.Namespace, ref.Name)}
	}
	own, err := c.pods(ctx, o)
	if err != nil {
		return Capacity{}, err
	}
	pod := o.model(own)
	if len(pod.Spec.ResourceClaims) > 0 {
		return Capacity{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("capacity for %s/%s: it claims devices by dynamic resource allocation, which are not counted", ref.Namespace, ref.Name)}
	}
	f, err := newForecast(pod)
	if err != nil {
		return Capacity{}, err
	}
	if err := c.eachNode(ctx, "", f.node); err != nil {
		return Capacity{}, err
	}
	if err := c.eachPod(ctx, func(p *corev1.Pod) { f.add(p, o.owns(p)) }); err != nil {
		return Capacity{}, err
	}
	quotas, err := c.typed.quotas(ref.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Capacity{}, request{verb: "list", resource: "resourcequotas", namespace: ref.Namespace}.fail(err)
	}
	return f.capacity(quotas.Items), nil
}

// model returns a pod as the next one will be: the newest that there is, which has
// what admission adds to the template (selectors, a priority, sidecars), else the template.
func (o *object) model(own []corev1.Pod) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: o.template.ObjectMeta, Spec: o.template.Spec}
	for i := range own {
		if p := &own[i]; !p.CreationTimestamp.Before(&pod.CreationTimestamp) {
			pod = &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
		}
	}
	pod.Namespace, pod.Name, pod.Spec.NodeName = o.ref.Namespace, o.ref.Name, ""
	return pod
}

// eachPod calls do with every pod that has not ended.
func (c *Client) eachPod(ctx context.Context, do func(*corev1.Pod)) error {
	ended := fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", "Succeeded"), fields.OneTermNotEqualSelector("status.phase", "Failed"))
	return each(ctx, c, "pods", metav1.ListOptions{FieldSelector: ended.String()}, func(p *corev1.Pod) error {
		do(p)
		return nil
	})
}

// owns reports whether the workload controls a pod, also through its ReplicaSets.
func (o *object) owns(p *corev1.Pod) bool {
	if controlledBy(p.OwnerReferences, o.meta.UID) {
		return true
	}
	for _, rs := range o.replicaSets {
		if controlledBy(p.OwnerReferences, rs.UID) {
			return true
		}
	}
	return false
}
