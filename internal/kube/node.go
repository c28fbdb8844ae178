package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NodeState is what a lever needs to know of a node.
type NodeState struct {
	Name string
	UID  string

	Unschedulable bool
	CordonedBy    string // field manager that set it so, ours is [FieldManager]; empty: nobody is known
	Taints        []Taint
	Labels        map[string]string
	Annotations   map[string]string
	Claims        []Claim // other actors whose node it is

	Ready      bool
	BootID     string    // of the kernel, by the kubelet: another one after each reboot; empty: unknown
	WellSince  time.Time // last change of any condition, so that one that was bad counts after it has gone; zero: unknown
	Conditions []string  // conditions that are bad, as in [Node]
	GPUs       int       // devices of any vendor that its device plugin offers
	HasGPUs    bool      // it is a node with GPUs, also where none of them is offered
	GPUsGone   bool      // its device plugin offered GPUs once, and none now
	Pool       string    // label=value that names its pool; empty: it is in none
}

// Taint is a taint of a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule, NoExecute
}

// String returns a taint as kubectl writes it: key=value:NoSchedule.
func (t Taint) String() string { return strings.TrimSuffix(t.Key+"="+t.Value, "=") + ":" + t.Effect }

// Out reports whether the node takes no new pods, for any reason. A node with GPUs
// of which none is offered takes none that ask for them. A node that an agent on
// it reports as unfit ([Troubles]) does not count as capacity.
func (n NodeState) Out() bool {
	return n.Unschedulable || !n.Ready || n.GPUsGone || len(n.Claims)+len(Troubles(n.Conditions)) > 0 || slices.ContainsFunc(n.Taints, func(t Taint) bool {
		return ours(t.Key) && t.Effect != string(corev1.TaintEffectPreferNoSchedule)
	})
}

// Stamp returns a digest of everything on the node that people and controllers
// decide on, and of nothing that changes by itself. A change planned on one stamp
// is refused on another.
func (n NodeState) Stamp() string {
	marks := map[string]string{}
	for k, v := range n.Annotations {
		if ours(k) {
			marks[k] = v
		}
	}
	labels := map[string]string{}
	for k, v := range n.Labels {
		if ours(k) {
			labels[k] = v
		}
	}
	taints := []string{}
	for _, t := range n.Taints {
		if !automatic(t.Key) {
			taints = append(taints, t.String())
		}
	}
	slices.Sort(taints)
	b, err := json.Marshal([]any{n.UID, n.Unschedulable, n.CordonedBy, taints, marks, labels, n.Claims})
	if err != nil {
		panic("kube: a node's stamp: " + err.Error()) // unreachable: strings only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// ours reports whether a label, annotation or taint key is Responder's own.
func ours(key string) bool { return strings.HasPrefix(key, "responder.dev/") }

// automatic reports whether the control plane sets a taint by itself, from
// conditions and from spec.unschedulable.
func automatic(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") && key != corev1.TaintNodeOutOfService
}

func describeState(n *corev1.Node) NodeState {
	seen := describeNode(n, 0)
	out := NodeState{
		Name: n.Name, UID: string(n.UID), Unschedulable: n.Spec.Unschedulable, Labels: maps.Clone(n.Labels),
		Annotations: maps.Clone(n.Annotations), Claims: claims(n), Ready: seen.Ready, Conditions: seen.Conditions,
		Pool: poolOf(n.Labels), HasGPUs: hasGPUs(n), BootID: n.Status.NodeInfo.BootID,
	}
	if n.Spec.Unschedulable {
		out.CordonedBy = cordonedBy(n)
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, Taint{t.Key, t.Value, string(t.Effect)})
	}
	for _, c := range n.Status.Conditions {
		if c.LastTransitionTime.IsZero() {
			out.WellSince = time.Time{}
			break
		}
		if c.LastTransitionTime.After(out.WellSince) {
			out.WellSince = c.LastTransitionTime.Time
		}
	}
	offered := false
	for name, q := range n.Status.Capacity {
		if isGPU(name) {
			out.GPUs += int(q.Value())
			offered = true
		}
	}
	out.GPUsGone = offered && out.GPUs == 0
	return out
}

// isGPU reports whether an extended resource is GPUs, or slices of them.
func isGPU(name corev1.ResourceName) bool {
	s := string(name)
	return s == "nvidia.com/gpu" || s == "nvidia.com/gpu.shared" || strings.HasPrefix(s, "nvidia.com/mig-") || s == "amd.com/gpu" || strings.HasPrefix(s, "gpu.intel.com/")
}

// poolLabels name a node's pool, the most telling first: what Karpenter, GKE,
// EKS, AKS and Cluster API call it, then the model of its GPUs.
var poolLabels = []string{
	"karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup",
	"kubernetes.azure.com/agentpool", "cluster.x-k8s.io/deployment-name", "nvidia.com/gpu.product",
}

func poolOf(labels map[string]string) string {
	for _, l := range poolLabels {
		if v := labels[l]; v != "" {
			return l + "=" + v
		}
	}
	return ""
}

// Keys of the annotations that record which effect last changed one thing of a
// node, and when: "<effect key> <RFC 3339 time>".
const (
	MarkCordon = "responder.dev/cordon"
	MarkDrain  = "responder.dev/drain"
	MarkEvict  = "responder.dev/evict"
	MarkTaint  = "responder.dev/taint"
	MarkReset  = "responder.dev/gpu-reset-request"
)

// GPUsWhenOut is the annotation that keeps what was known of a node's GPUs when
// Responder cordoned it.
const GPUsWhenOut = "responder.dev/gpus-when-out"

// Tainted is the annotation that records the taint that Responder put on a node
// while it is there. The taint's key and effect alone do not identify its owner.
const Tainted = "responder.dev/tainted"

// Mark formats the value of a mark.
func Mark(key string, at time.Time) string { return key + " " + at.UTC().Format(time.RFC3339) }

// ParseMark parses a mark; it returns zero values for anything else.
func ParseMark(s string) (key string, at time.Time) {
	key, when, _ := strings.Cut(s, " ")
	at, err := time.Parse(time.RFC3339, when)
	if err != nil {
		at = time.Time{}
	}
	return key, at
}
