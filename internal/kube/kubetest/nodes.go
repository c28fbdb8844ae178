package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/kube"
)

// NodePath is the API path of a node.
func NodePath(name string) string { return "/api/v1/nodes/" + name }

// PodPath is the API path of a pod.
func PodPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/pods/" + name
}

// Node stores a node that is ready since the [Epoch], with that many GPUs, and
// lets edit change it first.
func (s *Server) Node(t testing.TB, name string, gpus int, edit func(*corev1.Node)) {
	t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-H200"}},
		Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Epoch())}},
		},
	}
	if edit != nil {
		edit(n)
	}
	s.Put(NodePath(name), n)
}

// Pod stores a ready pod of a workload on a node, and lets edit change it first.
func (s *Server) Pod(t testing.TB, owner kube.Ref, name, node string, edit func(*corev1.Pod)) {
	t.Helper()
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: owner.Namespace, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": owner.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner.Kind, Name: owner.Name, UID: types.UID("uid-" + owner.Name), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "vllm", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(1), resource.DecimalSI)}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if edit != nil {
		edit(p)
	}
	s.Put(PodPath(owner.Namespace, name), p)
}

// Budget stores a PodDisruptionBudget over the pods with the label app, as its
// controller would report it.
func (s *Server) Budget(t testing.TB, namespace, app string, allowed, healthy, desired, expected int) {
	t.Helper()
	s.Put("/apis/policy/v1/namespaces/"+namespace+"/poddisruptionbudgets/"+app, policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status: policyv1.PodDisruptionBudgetStatus{
			DisruptionsAllowed: int32(allowed), CurrentHealthy: int32(healthy), DesiredHealthy: int32(desired), ExpectedPods: int32(expected),
		},
	})
}

// Linger makes evicted pods stay, terminating, until they are deleted.
func (s *Server) Linger(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linger = yes
}

// Has reports whether an object is there.
func (s *Server) Has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[path]
	return ok
}

// evict does what the eviction API does: it holds the precondition on the UID,
// asks the one budget there may be, and deletes the pod.
func (s *Server) evict(r *http.Request, path string) (int, any) {
	m, ok := s.objects[path]
	if !ok {
		return 404, failure(404, path+" not found")
	}
	var e policyv1.Eviction
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return 400, failure(400, err.Error())
	}
	o := e.DeleteOptions
	if o == nil {
		o = &metav1.DeleteOptions{}
	}
	if o.Preconditions != nil && o.Preconditions.UID != nil && fmt.Sprint(sub(m, "metadata")["uid"]) != string(*o.Preconditions.UID) {
		return 409, failure(409, "the UID in the precondition does not match the UID in record")
	}
	dry := slices.Contains(o.DryRun, metav1.DryRunAll)
	if status, body := s.disrupt(path, m, dry); status != 0 {
		return status, body
	}
	if !dry {
		s.writes = append(s.writes, "EVICT "+path)
		if s.linger {
			sub(m, "metadata")["deletionTimestamp"] = Epoch().Format(time.RFC3339)
		} else {
			delete(s.objects, path)
		}
	}
	return 201, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
}

// disrupt counts an eviction against the budget over the pod; a status other
// than 0 is the refusal.
func (s *Server) disrupt(path string, pod map[string]any, dry bool) (int, any) {
	namespace := strings.Split(path, "/")[4]
	for at, b := range s.objects {
		if !strings.HasPrefix(at, "/apis/policy/v1/namespaces/"+namespace+"/poddisruptionbudgets/") {
			continue
		}
		match := sub(sub(sub(b, "spec"), "selector"), "matchLabels")
		selector := labels.Set{}
		for k, v := range match {
			selector[k] = fmt.Sprint(v)
		}
		if !selector.AsSelector().Matches(labelsOf(pod)) {
			continue
		}
		allowed, _ := sub(b, "status")["disruptionsAllowed"].(float64)
		if allowed < 1 {
			f := failure(429, "Cannot evict pod as it would violate the pod's disruption budget.")
			f.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type:    policyv1.DisruptionBudgetCause,
				Message: fmt.Sprintf("The disruption budget %s needs more healthy pods than there are", sub(b, "metadata")["name"]),
			}}}
			return 429, f
		}
		if !dry {
			sub(b, "status")["disruptionsAllowed"] = allowed - 1
		}
	}
	return 0, nil
}

// on reports whether a pod is on the node that a field selector names.
func on(m map[string]any, selector string) bool {
	if object, ok := strings.CutPrefix(selector, "involvedObject.kind=Node,involvedObject.name="); ok {
		about := sub(m, "involvedObject")
		return about["kind"] == "Node" && about["name"] == object
	}
	node, ok := strings.CutPrefix(selector, "spec.nodeName=")
	return !ok || sub(m, "spec")["nodeName"] == node
}

// own records who set spec.unschedulable, as managedFields do.
func own(before, after map[string]any, manager string) {
	was, now := sub(before, "spec")["unschedulable"], sub(after, "spec")["unschedulable"]
	switch {
	case was == now:
	case now == nil:
		delete(sub(after, "metadata"), "managedFields")
	default:
		sub(after, "metadata")["managedFields"] = []any{map[string]any{
			"manager": manager, "operation": "Update", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:unschedulable": map[string]any{}}},
		}}
	}
}

// Cordon sets or lifts a cordon as somebody else would.
func (s *Server) Cordon(node, manager string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.objects[NodePath(node)], asMap(s.objects[NodePath(node)])
	if yes {
		sub(after, "spec")["unschedulable"] = true
	} else {
		delete(sub(after, "spec"), "unschedulable")
	}
	own(before, after, manager)
	s.put(NodePath(node), after)
}
