package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Claim is another actor's mark on a node. While it is there, the node is theirs.
type Claim struct {
	By  string // NVSentinel, kured, Karpenter, ...
	Why string // the label, annotation or taint that says so
}

// ClaimCordon is the Why of a claim by a cordon that is not Responder's.
const ClaimCordon = "spec.unschedulable"

// String returns the form that people use: NVSentinel (label ...).
func (c Claim) String() string { return c.By + " (" + c.Why + ")" }

// neighbour describes how another actor marks a node as its own. Exactly one of
// label, annotation and taint is set.
type neighbour struct {
	by         string
	label      string
	annotation string
	taint      string // key; one that ends in a slash is a prefix

	rest []string // values that say the actor is done, or has not begun
}

// neighbours are the actors that take nodes away, by what they write on them,
// as their own sources and documents have it (looked up in mid-2026):
//
//   - NVSentinel: fault-quarantine's annotations (fault-quarantine/pkg/common) and the state label that its
//     modules move on (data-models, statemanager). It takes both away when it gives the node back.
//   - medik8s: the taint of Self Node Remediation and Fence Agents Remediation, and that of the Node
//     Maintenance Operator. NodeHealthCheck itself writes nothing on a node: its remediators do.
//   - kured: its annotation, where it runs with --annotate-nodes. Otherwise only its cordon shows.
//   - Karpenter: pkg/apis/v1/taints.go; "disruption" is the name of v1beta1.
//   - cluster-autoscaler: utils/taints. A deletion candidate's taint is no claim: it is taken back as often as not.
//   - NVIDIA's GPU operator: k8s-operator-libs/pkg/upgrade; upgrade-required only waits for its turn. Its MIG
//     manager stops what uses the GPUs, divides them anew, and reboots the node where it has to (WITH_REBOOT).
//   - OpenShift's machine-config-operator: pkg/daemon/constants.
//   - AWS node termination handler, GKE: the machine is about to go.
//   - node.kubernetes.io/out-of-service is put there by a person or remediator who says that the node is off.
func neighbours() []neighbour {
	return []neighbour{
		{by: "NVSentinel", label: "dgxc.nvidia.com/nvsentinel-state"},
		{by: "NVSentinel", annotation: "quarantineHealthEvent"},
		{by: "NVSentinel", annotation: "quarantineValidationHealthEvent"},
		{by: "medik8s", taint: "medik8s.io/remediation"},
		{by: "medik8s node maintenance", taint: "medik8s.io/drain"},
		{by: "kured", annotation: "weave.works/kured-reboot-in-progress"},
		{by: "Karpenter", taint: "karpenter.sh/disrupted"},
		{by: "Karpenter", taint: "karpenter.sh/disruption"},
		{by: "Karpenter", taint: "karpenter.sh/rebooting"},
		{by: "Karpenter", taint: "karpenter.sh/unregistered"},
		{by: "cluster-autoscaler", taint: "ToBeDeletedByClusterAutoscaler"},
		{by: "NVIDIA GPU operator's driver upgrade", label: "nvidia.com/gpu-driver-upgrade-state", rest: []string{"upgrade-done", "upgrade-required"}},
		{by: "NVIDIA GPU operator's MIG manager", label: "nvidia.com/mig.config.state", rest: []string{"success", "failed"}},
		{by: "machine-config-operator", annotation: "machineconfiguration.openshift.io/state", rest: []string{"Done"}},
		{by: "AWS node termination handler", taint: "aws-node-termination-handler/"},
		{by: "GKE", taint: "cloud.google.com/impending-node-termination"},
		{by: "somebody who declared the node off", taint: corev1.TaintNodeOutOfService},
	}
}

// claims returns the claims on a node. A cordon that is not Responder's own is a
// claim of whoever set it.
func claims(n *corev1.Node) []Claim {
	var out []Claim
	if n.DeletionTimestamp != nil {
		out = append(out, Claim{By: "whoever deletes it", Why: "its deletionTimestamp is set"})
	}
	for _, x := range neighbours() {
		if why := x.on(n); why != "" {
			out = append(out, Claim{By: x.by, Why: why})
		}
	}
	if by := cordonedBy(n); n.Spec.Unschedulable && by != FieldManager {
		out = append(out, Claim{By: "a cordon by " + cmp.Or(by, "somebody unknown"), Why: ClaimCordon})
	}
	return out
}

// on returns where the actor marked the node; empty: it did not.
func (x neighbour) on(n *corev1.Node) string {
	counts := func(value string) bool {
		return value != "" && !slices.Contains(x.rest, value)
	}
	switch {
	case x.label != "":
		if v := n.Labels[x.label]; counts(v) {
			return "label " + x.label + "=" + v
		}
	case x.annotation != "":
		if counts(n.Annotations[x.annotation]) {
			return "annotation " + x.annotation // values can be whole events
		}
	default:
		for _, t := range n.Spec.Taints {
			if t.Key == x.taint || strings.HasSuffix(x.taint, "/") && strings.HasPrefix(t.Key, x.taint) {
				return fmt.Sprintf("taint %s:%s", t.Key, t.Effect)
			}
		}
	}
	return ""
}

// cordonedBy returns the field manager that set spec.unschedulable; empty: nobody
// did, or the server did not record it. kubectl cordon uses the name kubectl or
// kubectl-cordon, a controller its own. Several managers own the field when they
// agree on the value. The cordon is Responder's only if no other manager owns it;
// otherwise it is that of the last other writer.
func cordonedBy(n *corev1.Node) string {
	by, last, others := "", metav1.Time{}, false
	for _, m := range n.ManagedFields {
		if m.Subresource != "" || m.FieldsV1 == nil || !ownsUnschedulable(m.FieldsV1.Raw) {
			continue
		}
		var at metav1.Time
		if m.Time != nil {
			at = *m.Time
		}
		switch {
		case m.Manager == FieldManager && !others:
			by = FieldManager
		case m.Manager != FieldManager && (!others || !at.Before(&last)):
			by, last, others = m.Manager, at, true
		}
	}
	return by
}

func ownsUnschedulable(raw []byte) bool {
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	_, owns := fields.Spec["f:unschedulable"]
	return owns
}
