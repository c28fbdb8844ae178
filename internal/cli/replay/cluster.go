package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// recordedCluster is what kube-state-metrics has recorded of a cluster: the pods of a
// workload with their nodes and whether they were ready, and the conditions of nodes.
// All other fields are empty, so that only checks that read no others may have it.
type recordedCluster struct {
	goneWorkloads
	q   step.Querier
	now func() time.Time
}

// ask returns the samples of an expression now.
func (c recordedCluster) ask(ctx context.Context, format string, args ...any) ([]slo.Sample, error) {
	v, err := c.q.Instant(ctx, fmt.Sprintf(format, args...), c.now())
	return v.Samples, err
}

// Workload implements [step.Workloads].
func (c recordedCluster) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	w := kube.Workload{Ref: ref}
	const pods = "max by (pod, node%s) (kube_pod_info{namespace=%q,created_by_kind=%q%s})"
	var found []slo.Sample
	var err error
	switch ref.Kind {
	case "Deployment", kube.Rollout:
		of := fmt.Sprintf(pods, ", created_by_name", ref.Namespace, "ReplicaSet", "")
		sets := fmt.Sprintf("max by (replicaset) (kube_replicaset_owner{namespace=%q,owner_kind=%q,owner_name=%q})", ref.Namespace, ref.Kind, ref.Name)
		found, err = c.ask(ctx, `%s * on (created_by_name) group_left () label_replace(%s, "created_by_name", "$1", "replicaset", "(.+)")`, of, sets)
	case "StatefulSet":
		found, err = c.ask(ctx, "%s", fmt.Sprintf(pods, "", ref.Namespace, "StatefulSet", fmt.Sprintf(",created_by_name=%q", ref.Name)))
	}
	if err != nil || len(found) == 0 {
		return w, orGone(err, step.RefText(ref))
	}
	ready, err := c.ask(ctx, "max by (pod) (kube_pod_status_ready{namespace=%q,condition=%q})", ref.Namespace, "true")
	if err != nil || len(ready) == 0 {
		return w, orGone(err, "which pods were ready")
	}
	for _, s := range found {
		p := kube.Pod{Name: s.Labels["pod"], Node: s.Labels["node"]}
		p.Ready = slices.ContainsFunc(ready, func(r slo.Sample) bool { return r.Labels["pod"] == p.Name && r.Value == 1 })
		if p.Ready {
			w.Ready++
		}
		w.Pods = append(w.Pods, p)
	}
	slices.SortFunc(w.Pods, func(a, b kube.Pod) int { return strings.Compare(a.Name, b.Name) })
	return w, nil
}

// orGone returns why the cluster could not be asked, else that something was not
// recorded.
func orGone(err error, what string) error {
	if err != nil {
		return err
	}
	return gone(what)
}

// Node implements [step.Nodes].
func (c recordedCluster) Node(ctx context.Context, name string) (kube.NodeState, error) {
	n := kube.NodeState{Name: name, HasGPUs: true} // those that are read are some: that none are there was not recorded
	found, err := c.ask(ctx, "max by (condition, status) (kube_node_status_condition{node=%q}) == 1", name)
	if err != nil || len(found) == 0 {
		return n, orGone(err, "the conditions of node "+name)
	}
	for _, s := range found {
		condition, status := s.Labels["condition"], s.Labels["status"]
		if status != "" { // kube-state-metrics writes true, false and unknown
			status = strings.ToUpper(status[:1]) + status[1:]
		}
		if kube.IsBadCondition(condition, status) {
			n.Conditions = append(n.Conditions, condition+"="+status)
		}
	}
	slices.Sort(n.Conditions)
	return n, nil
}

// NodePods implements [step.Nodes].
func (recordedCluster) NodePods(_ context.Context, name string) ([]kube.NodePod, error) {
	return nil, gone("the pods of node " + name)
}

// NodeView implements [step.Nodes].
func (recordedCluster) NodeView(_ context.Context, name string) (kube.NodeView, error) {
	return kube.NodeView{}, gone("node " + name)
}

// InRotation implements [step.Nodes].
func (recordedCluster) InRotation(_ context.Context, namespace string) (map[string]string, error) {
	return nil, gone("which pods of " + namespace + " got requests")
}

// readyReplicas knows how many replicas of a workload were ready, and nothing else: as
// kube.workload is assumed to say, else by kube-state-metrics.
type readyReplicas struct {
	recordedCluster
	assumed rehearsal.Findings
}

// Workload implements [step.Workloads].
func (r readyReplicas) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	w := kube.Workload{Ref: ref}
	if out, ok, err := r.assumed.Of("kube.workload", r.now()); ok && err == nil {
		if ready, ok := out["ready"].(int64); ok {
			w.Ready = int(ready)
			return w, nil
		}
	}
	kind := strings.ToLower(ref.Kind)
	if kind != "deployment" && kind != "statefulset" {
		return w, gone(step.RefText(ref))
	}
	found, err := r.ask(ctx, "max(kube_%s_status_replicas_ready{namespace=%q,%s=%q})", kind, ref.Namespace, kind, ref.Name)
	if err != nil || len(found) != 1 || !step.IsFinite(found[0].Value) {
		return w, orGone(err, step.RefText(ref))
	}
	w.Ready = int(found[0].Value)
	return w, nil
}
