package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// node is the mutable part of a simulated node. Its pods have no disruption
// budgets, end at once when they are evicted, and start on other nodes.
type node struct {
	spec        nodeSpec
	cordonedBy  string // empty: it takes pods
	taints      []kube.Taint
	labels      map[string]string
	annotations map[string]string
	boot        string // id of its kernel's boot
}

// nodeProduct is the GPU of every simulated node, and the name of its pool.
const nodeProduct = "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3"

// drainedBy is the run that drained the nodes that are cordoned when a world
// opens.
const drainedBy = "r-0/drain#1/apply#1"

// The cause of the drain: the node's first GPU needed a reset. Its repair began
// with a reboot.
func newNodes(sc scenario, start time.Time) []*node {
	label, value, _ := strings.Cut(nodeProduct, "=")
	out := make([]*node, 0, len(sc.nodes))
	for _, s := range sc.nodes {
		n := &node{spec: s, labels: map[string]string{label: value}, annotations: map[string]string{}, boot: bootID(sc.seed, s.name, 1)}
		if s.drained > 0 {
			at := start.Add(-s.drained)
			n.cordonedBy, n.annotations[kube.MarkDrain] = kube.FieldManager, kube.Mark(drainedBy, at)
			n.annotations[kube.GPUsWhenOut] = fmt.Sprintf("%s boot=%s reset=%s", at.UTC().Format(time.RFC3339), bootID(sc.seed, s.name, 0), gpuUUID(sc.seed, s.name, 0))
		}
		out = append(out, n)
	}
	return out
}

// takesPods reports whether the scheduler may put pods there.
func (n *node) takesPods() bool {
	return n.cordonedBy == "" && !slices.ContainsFunc(n.taints, func(t kube.Taint) bool { return t.Effect != "PreferNoSchedule" })
}

func (n *node) state(start time.Time) kube.NodeState {
	return kube.NodeState{
		Name: n.spec.name, UID: "uid-of-" + n.spec.name, Unschedulable: n.cordonedBy != "", CordonedBy: n.cordonedBy,
		Taints: slices.Clone(n.taints), Labels: maps.Clone(n.labels), Annotations: maps.Clone(n.annotations),
		Ready: true, BootID: n.boot, WellSince: start.Add(-history), Conditions: slices.Clone(n.spec.conditions), GPUs: n.spec.slots * gpusPerSlot, HasGPUs: n.spec.slots > 0, Pool: nodeProduct,
	}
}

// Node returns one node.
func (w *World) Node(_ context.Context, name string) (kube.NodeState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	n, err := w.node(name)
	if err != nil {
		return kube.NodeState{}, err
	}
	return n.state(w.start), nil
}

// AllNodes returns the nodes, by name.
func (w *World) AllNodes(context.Context) ([]kube.NodeState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	out := make([]kube.NodeState, 0, len(w.nodes))
	for _, n := range w.nodes {
		out = append(out, n.state(w.start))
	}
	slices.SortFunc(out, func(a, b kube.NodeState) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// PodsByNode returns the pods of a namespace by their nodes.
func (w *World) PodsByNode(_ context.Context, namespace string) (map[string][]kube.NodePod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	out := map[string][]kube.NodePod{}
	for _, n := range w.nodes {
		here := slices.DeleteFunc(w.podsOn(n.spec.name), func(p kube.NodePod) bool { return p.Namespace != namespace })
		if len(here) > 0 {
			out[n.spec.name] = here
		}
	}
	return out, nil
}

// node finds a node. The caller holds mu.
func (w *World) node(name string) (*node, error) {
	for _, n := range w.nodes {
		if n.spec.name == name {
			return n, nil
		}
	}
	return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("node %s is not in the sandbox", name)}
}

// NodePods returns the pods bound to a node.
func (w *World) NodePods(_ context.Context, name string) ([]kube.NodePod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	return w.podsOn(name), nil
}

func (w *World) podsOn(name string) []kube.NodePod {
	var out []kube.NodePod
	for _, f := range w.fleets {
		for _, p := range slices.Concat(f.pods, f.apart) {
			if p.node == name {
				out = append(out, kube.NodePod{
					Namespace: f.ref.Namespace, Name: p.name, UID: uidOf(p.name), Owner: f.ref, Group: p.name,
					Ready: p.ready, Serves: p.ready && !slices.Contains(f.apart, p), GPUs: gpusPerSlot, Grace: time.Minute, PreStop: true, Probed: true,
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b kube.NodePod) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// NodeView returns a node with its pods, its pool, which is all nodes, and what
// serves on it.
func (w *World) NodeView(_ context.Context, name string) (kube.NodeView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	n, err := w.node(name)
	if err != nil {
		return kube.NodeView{}, err
	}
	v := kube.NodeView{Node: n.state(w.start), Pods: w.podsOn(name)}
	for _, x := range w.nodes {
		v.Pool = append(v.Pool, x.state(w.start))
	}
	slices.SortFunc(v.Pool, func(a, b kube.NodeState) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range w.fleets {
		s := kube.Serving{Ref: f.ref, GPUs: true}
		there := false
		for _, p := range f.pods {
			there = there || p.node == name
			if p.ready {
				s.Ready++
				if p.node == name {
					s.Here++
				}
			}
		}
		if there {
			v.Serving = append(v.Serving, s)
		}
	}
	return v, nil
}

// InRotation returns nothing: here a pod that is gone gets no requests.
func (w *World) InRotation(context.Context, string) (map[string]string, error) { return nil, nil }

// ChangeNode edits a node if the precondition still holds.
func (w *World) ChangeNode(_ context.Context, c kube.NodeChange) (kube.NodeState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	n, err := w.node(c.Name)
	if err != nil {
		return kube.NodeState{}, err
	}
	if was := n.state(w.start); was.UID != c.UID || was.Stamp() != c.Stamp {
		return was, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("change node %s: its schedulability, taints or marks changed since it was read", c.Name)}
	}
	if !c.DryRun {
		if err := w.commit(change{At: w.clock.Now(), Node: c.Name, Edit: &c.Edit, Mark: c.Mark, MarkedAt: c.At, Key: c.Key}); err != nil {
			return kube.NodeState{}, err
		}
	}
	return n.state(w.start), nil
}

// Evict takes one pod off its node. No budget ever blocks it.
func (w *World) Evict(_ context.Context, e kube.Eviction) (blocked string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleetOf(e.Namespace, e.Name)
	if f == nil || e.DryRun || e.UID != uidOf(e.Name) {
		return "", nil
	}
	return "", w.commit(change{At: w.clock.Now(), Ref: f.ref, Pod: e.Name})
}

// fleetOf returns the workload of a pod; nil: there is no such pod.
func (w *World) fleetOf(namespace, pod string) *fleet {
	for _, f := range w.fleets {
		if f.ref.Namespace == namespace && f.pod(pod) != nil {
			return f
		}
	}
	return nil
}

func (f *fleet) find(name string) int {
	return slices.IndexFunc(f.pods, func(p *pod) bool { return p.name == name })
}

// applyNode applies a change of a node or the eviction of a pod.
func (w *World) applyNode(c change) {
	if c.Pod != "" {
		f := w.fleet(c.Ref)
		if i := f.find(c.Pod); i >= 0 {
			f.pods = slices.Delete(f.pods, i, i+1)
		}
		f.apart = slices.DeleteFunc(f.apart, func(p *pod) bool { return p.name == c.Pod })
		return
	}
	n, err := w.node(c.Node)
	if err != nil {
		return // kept by another version of the scenario
	}
	e := c.Edit
	if e.Cordon != nil {
		n.cordonedBy = map[bool]string{true: kube.FieldManager}[*e.Cordon]
	}
	if e.Taint != nil {
		n.taints = append(n.taints, *e.Taint)
	}
	if e.Untaint != nil {
		n.taints = slices.DeleteFunc(n.taints, func(t kube.Taint) bool { return t == *e.Untaint })
	}
	edit(n.labels, e.Labels)
	edit(n.annotations, e.Annotate)
	if c.Key != "" {
		n.annotations[c.Mark] = kube.Mark(c.Key, c.MarkedAt)
	}
}

var (
	_ step.Nodes       = (*World)(nil)
	_ step.NodeChanger = (*World)(nil)
)
