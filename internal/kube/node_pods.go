package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// NodePod is one pod bound to a node.
type NodePod struct {
	Namespace, Name, UID string

	Owner    Ref    // controlling object, a Deployment behind its ReplicaSet; zero: nobody would make the pod anew
	Group    string // pods of one group are one replica: a LeaderWorkerSet's, a Grove scaling group's, a Ray cluster's, of KServe's several nodes, else the pod's own name
	Head     bool   // the others of its group may end with it, also when it is not ready itself
	Ready    bool
	Leaving  bool          // it is being deleted
	Done     bool          // it has succeeded or failed
	Static   bool          // the kubelet's own (mirror pod), which the API cannot move
	GPUs     int           // devices that it asked for
	EmptyDir []string      // names of volumes whose content is lost with the pod
	Grace    time.Duration // terminationGracePeriodSeconds
	PreStop  bool          // every container with GPUs has a preStop hook, and is told to stop only after it
	Probed   bool          // every container with GPUs has a readiness probe, and is ready only when that says so
	Budgets  []Budget      // PodDisruptionBudgets that its eviction counts against now, or counted against when it began to leave
	Serves   bool          // its replica is one of [Serving].Ready, which has one less without it; only a [NodeView] tells
}

// String returns namespace/name.
func (p NodePod) String() string { return p.Namespace + "/" + p.Name }

// Daemon reports whether a DaemonSet owns the pod, so that it belongs to the node.
func (p NodePod) Daemon() bool { return p.Owner.Kind == "DaemonSet" }

// Budget is the status of a PodDisruptionBudget.
type Budget struct {
	Name     string // namespace/name
	Allowed  int    // disruptions it allows now
	Healthy  int
	Desired  int // healthy pods that it demands
	Expected int // pods that it counts
}

// Never reports whether the budget in its present form can allow no eviction at
// all.
func (b Budget) Never() bool { return b.Allowed == 0 && b.Expected > 0 && b.Desired >= b.Expected }

// NodeView is a node with everything that a decision to drain it needs.
type NodeView struct {
	Node    NodeState
	Pods    []NodePod   // bound to it, by namespace and name
	Pool    []NodeState // the nodes with GPUs of its pool, itself included, by name; of a node without GPUs, all of the pool
	Serving []Serving   // workloads with pods on it but for Jobs and DaemonSets, by name
}

// Node returns one node. The error is a [*fault.Error].
func (c *Client) Node(ctx context.Context, name string) (NodeState, error) {
	n, err := c.node(ctx, name)
	if err != nil {
		return NodeState{}, err
	}
	return describeState(n), nil
}

func (c *Client) node(ctx context.Context, name string) (*corev1.Node, error) {
	n, err := c.typed.nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, request{verb: "get", resource: "nodes", name: name}.fail(err)
	}
	return n, nil
}

// NodePods returns the pods bound to a node, without their budgets, by namespace
// and name. The error is a [*fault.Error].
func (c *Client) NodePods(ctx context.Context, name string) ([]NodePod, error) {
	pods, err := c.podsOn(ctx, name)
	if err != nil {
		return nil, err
	}
	out := make([]NodePod, 0, len(pods))
	for i := range pods {
		out = append(out, describeNodePod(&pods[i]))
	}
	return out, nil
}

// NodeView returns a node with its pods, their budgets, its pool and the workloads
// that serve on it. It fails if any part cannot be read. The error is a [*fault.Error].
func (c *Client) NodeView(ctx context.Context, name string) (NodeView, error) {
	var v NodeView
	var err error
	if v.Node, err = c.Node(ctx, name); err != nil {
		return v, err
	}
	pods, err := c.podsOn(ctx, name)
	if err != nil {
		return v, err
	}
	budgets := map[string][]policyv1.PodDisruptionBudget{}
	all := map[string][]corev1.Pod{}
	for _, ns := range slices.Sorted(maps.Keys(namespaces(pods))) {
		if budgets[ns], err = c.budgets(ctx, ns); err != nil {
			return v, err
		}
		if all[ns], err = c.podsOf(ctx, ns); err != nil {
			return v, err
		}
	}
	for i := range pods {
		p := describeNodePod(&pods[i])
		// A terminating pod is not unready for that alone: its budget still counts it.
		p.Budgets = budgetsOf(&pods[i], p.Ready || p.Leaving, budgets[p.Namespace])
		v.Pods = append(v.Pods, p)
	}
	v.Serving = serving(v.Pods, all)
	v.Pool, err = c.pool(ctx, v.Node)
	return v, err
}

func namespaces(pods []corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for i := range pods {
		out[pods[i].Namespace] = true
	}
	return out
}

// podsOn lists the pods bound to a node, by namespace and name.
func (c *Client) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := c.typed.pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, request{verb: "list", resource: "pods"}.fail(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

func (c *Client) podsOf(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list, err := c.typed.pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, request{verb: "list", resource: "pods", namespace: namespace}.fail(err)
	}
	return list.Items, nil
}

func (c *Client) budgets(ctx context.Context, namespace string) ([]policyv1.PodDisruptionBudget, error) {
	list, err := c.typed.disruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, request{verb: "list", group: "policy", resource: "poddisruptionbudgets", namespace: namespace}.fail(err)
	}
	return list.Items, nil
}

// pool lists the nodes of the node's pool.
func (c *Client) pool(ctx context.Context, of NodeState) ([]NodeState, error) {
	selector := ""
	if label, value, ok := strings.Cut(of.Pool, "="); ok {
		selector = labels.SelectorFromSet(labels.Set{label: value}).String()
	}
	var out []NodeState
	err := c.eachNode(ctx, selector, func(node *corev1.Node) error {
		if n := describeState(node); n.HasGPUs || !of.HasGPUs || n.Name == of.Name {
			out = append(out, n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b NodeState) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func describeNodePod(p *corev1.Pod) NodePod {
	out := NodePod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Owner: ownerOf(p), Group: p.Name,
		Leaving: p.DeletionTimestamp != nil, Done: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Ready: describePod(*p, nil).Ready, Grace: 30 * time.Second,
	}
	if _, _, group := unionOf(p); group != "" {
		out.Group, out.Head = group, leadsGroup(p.Labels)
	}
	_, out.Static = p.Annotations[corev1.MirrorPodAnnotationKey]
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		out.Grace = time.Duration(*s) * time.Second
	}
	for _, v := range p.Spec.Volumes {
		// A volume in memory is shared memory of the engine's processes, for NCCL: it
		// holds nothing to keep.
		if v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory {
			out.EmptyDir = append(out.EmptyDir, v.Name)
		}
	}
	out.PreStop, out.Probed = true, true
	for _, container := range p.Spec.Containers {
		devices := 0
		for name, q := range container.Resources.Limits {
			if isGPU(name) {
				devices += int(q.Value())
			}
		}
		out.GPUs += devices
		if devices > 0 {
			out.PreStop = out.PreStop && container.Lifecycle != nil && container.Lifecycle.PreStop != nil
			out.Probed = out.Probed && container.ReadinessProbe != nil
		}
	}
	return out
}

// ownerOf returns the owner that would recreate the pod.
func ownerOf(p *corev1.Pod) Ref {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return Ref{}
	}
	out := Ref{Kind: ref.Kind, Namespace: p.Namespace, Name: ref.Name}
	for kind, label := range map[string]string{"Deployment": appsv1.DefaultDeploymentUniqueLabelKey, Rollout: rolloutHash} {
		if name, ok := strings.CutSuffix(ref.Name, "-"+p.Labels[label]); ok && ref.Kind == "ReplicaSet" && p.Labels[label] != "" {
			out.Kind, out.Name = kind, name
		}
	}
	if u, name, _ := unionOf(p); name != "" && out.Kind != "Job" {
		out.Kind, out.Name = u.kind, name
	}
	return out
}

// budgetsOf returns the budgets that apply to a pod's eviction. Budgets that let
// unready pods go do not, like in the eviction API
// (pkg/registry/core/pod/storage/eviction.go).
func budgetsOf(p *corev1.Pod, ready bool, all []policyv1.PodDisruptionBudget) []Budget {
	var out []Budget
	for _, b := range all {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Empty() && b.Spec.Selector == nil || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		s := b.Status
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodPending {
			continue
		}
		always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
		if !ready && (always || s.CurrentHealthy >= s.DesiredHealthy && s.DesiredHealthy > 0) {
			continue
		}
		out = append(out, Budget{
			Name: b.Namespace + "/" + b.Name, Allowed: int(s.DisruptionsAllowed),
			Healthy: int(s.CurrentHealthy), Desired: int(s.DesiredHealthy), Expected: int(s.ExpectedPods),
		})
	}
	return out
}
