package kubetest

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/kube"
)

// marks returns the annotation and the label by which a controller marks its ReplicaSets:
// with their revision, and with the hash of their pod template.
func marks(kind string) (revision, hash string) {
	if kind == kube.Rollout {
		return "rollout.argoproj.io/revision", "rollouts-pod-template-hash"
	}
	return "deployment.kubernetes.io/revision", appsv1.DefaultDeploymentUniqueLabelKey
}

// canary returns a Rollout of Argo Rollouts, whose second step waits for people.
func canary(meta metav1.ObjectMeta, spec appsv1.DeploymentSpec) map[string]any {
	m := asMap(appsv1.Deployment{ObjectMeta: meta, Spec: spec})
	sub(m, "spec")["strategy"] = map[string]any{"canary": map[string]any{
		"maxUnavailable": 1, "steps": []any{map[string]any{"setWeight": 20}, map[string]any{"pause": map[string]any{}}},
	}}
	return m
}

// settleRollout does what the controller of Argo Rollouts would do once somebody has promoted
// the release. An aborted rollout goes back, until the pod template is another one.
func (s *Server) settleRollout(ref kube.Ref, m map[string]any, now time.Time) {
	status, current := sub(m, "status"), hash(sub(sub(m, "spec"), "template"))
	if status["abort"] == true && status["currentPodHash"] == current {
		stable := fmt.Sprint(status["stableRS"])
		s.settlePods(ref, m, replicaSet(ref.Name+"-"+stable), stable, now)
		s.statusOf(m, current)
		status["abortedAt"] = now.Format(time.RFC3339)
	} else {
		if status["abort"] == true {
			delete(status, "abort")
			delete(sub(m, "metadata"), "managedFields")
		}
		delete(status, "abortedAt")
		s.settleDeployment(ref, m, now)
		status["stableRS"] = current
	}
	seen(m)
	s.put(Path(ref), m)
}

// seen records which pod template and generation the controller has seen.
func seen(m map[string]any) {
	status := sub(m, "status")
	status["currentPodHash"] = hash(sub(sub(m, "spec"), "template"))
	status["observedGeneration"] = fmt.Sprint(sub(m, "metadata")["generation"])
}

// Abort sets status.abort as somebody else would.
func (s *Server) Abort(ref kube.Ref, manager string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.objects[Path(ref)], asMap(s.objects[Path(ref)])
	sub(after, "status")["abort"] = yes
	s.put(Path(ref), statusOnly(before, after, manager))
}

// Aborted reports whether status.abort is set.
func (s *Server) Aborted(ref kube.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sub(s.objects[Path(ref)], "status")["abort"] == true
}

// statusOnly returns an object after a write of its status, which changes nothing else, and
// records who set status.abort, as managedFields do.
func statusOnly(before, after map[string]any, manager string) map[string]any {
	next := asMap(before)
	next["status"] = after["status"]
	if sub(before, "status")["abort"] != sub(after, "status")["abort"] {
		sub(next, "metadata")["managedFields"] = []any{map[string]any{
			"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "subresource": "status",
			"fieldsV1": map[string]any{"f:status": map[string]any{"f:abort": map[string]any{}}},
		}}
	}
	return next
}
