package step

import (
	"maps"
	"slices"

	"github.com/inference-responder/responder/internal/playbook"
)

// kind couples a declaration with what carries it out. Exactly one of check
// and lever is set, as the declaration's role says. A step receives only the
// dependencies it needs.
type kind struct {
	decl  playbook.Kind
	check func(Deps) Check
	lever func(Deps) Lever
}

// kinds is the one list of steps. A new check or lever is one file and one
// line here.
func kinds() map[string]kind {
	return map[string]kind{
		"argocd.rollback":     {decl: argocdRollbackKind(), lever: newArgocdRollback},
		"argocd.sync":         {decl: argocdSyncKind(), lever: newArgocdSync},
		"gitops.changes":      {decl: gitopsChangesKind(), check: newGitopsChanges},
		"gitops.revert":       {decl: gitopsRevertKind(), lever: newGitopsRevert},
		"gitops.set_flag":     {decl: gitopsSetFlagKind(), lever: newGitopsSetFlag},
		"gitops.set_replicas": {decl: gitopsSetReplicasKind(), lever: newGitopsSetReplicas},
		"gpu.health":          {decl: gpuHealthKind(), check: newGPUHealth},
		"gpu.reset_request":   {decl: gpuResetRequestKind(), lever: newGPUResetRequest},
		"http.probe":          {decl: httpProbeKind(), check: newHTTPProbe},
		"kube.changes":        {decl: kubeChangesKind(), check: newKubeChanges},
		"kube.rollout_undo":   {decl: kubeRolloutUndoKind(), lever: newKubeRolloutUndo},
		"kube.scale":          {decl: kubeScaleKind(), lever: newKubeScale},
		"kube.workload":       {decl: kubeWorkloadKind(), check: newKubeWorkload},
		"node.cordon":         {decl: nodeCordonKind(), lever: newNodeCordon},
		"node.drain":          {decl: nodeDrainKind(), lever: newNodeDrain},
		"node.taint":          {decl: nodeTaintKind(), lever: newNodeTaint},
		"node.uncordon":       {decl: nodeUncordonKind(), lever: newNodeUncordon},
		"node.untaint":        {decl: nodeUntaintKind(), lever: newNodeUntaint},
		"pod.evict_from_node": {decl: podEvictFromNodeKind(), lever: newPodEvictFromNode},
		"prometheus.query":    {decl: prometheusQueryKind(), check: newPrometheusQuery},
	}
}

// Kinds gives the declarations of all checks and levers, sorted by name. It
// needs no dependencies: playbooks are compiled against it offline.
func Kinds() []playbook.Kind {
	all := kinds()
	out := make([]playbook.Kind, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name].decl)
	}
	return out
}

// limit makes the pointer a field's Min and Max want.
func limit(v float64) *float64 { return &v }

// scalar is the type of that name.
func scalar(name playbook.TypeName) playbook.Type { return playbook.Type{Name: name} }

// listOf is the type of a list of elem.
func listOf(elem playbook.Type) playbook.Type {
	return playbook.Type{Name: playbook.List, Elem: &elem}
}

// mapOf is the type of a map from strings to elem.
func mapOf(elem playbook.Type) playbook.Type {
	return playbook.Type{Name: playbook.Map, Elem: &elem}
}

// object is the type of an object with these fields.
func object(fields ...playbook.Field) playbook.Type {
	return playbook.Type{Name: playbook.Object, Fields: fields}
}
