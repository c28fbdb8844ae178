package kubetest

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/kube"
)

// Path is where a workload is stored.
func Path(ref kube.Ref) string {
	if ref.Kind == kube.Rollout {
		return "/apis/argoproj.io/v1alpha1/namespaces/" + ref.Namespace + "/rollouts/" + ref.Name
	}
	return "/apis/apps/v1/namespaces/" + ref.Namespace + "/" + strings.ToLower(ref.Kind) + "s/" + ref.Name
}

// Epoch is when the objects of [Server.Workload] begin to be made.
func Epoch() time.Time { return time.Date(2026, 5, 4, 11, 0, 0, 0, time.UTC) }

// Workload puts up a workload of which each template was rolled out in turn,
// ten minutes apart from [Epoch] on, and settles it.
func (s *Server) Workload(t testing.TB, ref kube.Ref, replicas int32, templates ...corev1.PodTemplateSpec) {
	t.Helper()
	meta := metav1.ObjectMeta{
		Name: ref.Name, Namespace: ref.Namespace, UID: types.UID("uid-" + ref.Name), Generation: 1,
		Annotations: map[string]string{"team": "chat"},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": ref.Name}}
	for i, template := range templates {
		if i > 0 {
			s.Edit(Path(ref), func(spec map[string]any) { spec["template"] = asMap(template) })
		} else if ref.Kind == "StatefulSet" {
			s.Put(Path(ref), appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
				Replicas: &replicas, Selector: selector, Template: template,
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: "RollingUpdate"},
			}})
		} else if ref.Kind == kube.Rollout {
			s.Put(Path(ref), canary(meta, appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}))
		} else {
			s.Put(Path(ref), appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: selector, Template: template,
				Strategy: appsv1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDeployment{}},
			}})
		}
		s.Settle(ref, Epoch().Add(time.Duration(i)*10*time.Minute))
	}
}

// Settle does what the workload's controller and the kubelets would do, until
// everything is as the spec says.
func (s *Server) Settle(ref kube.Ref, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.objects[Path(ref)]
	if ref.Kind == "StatefulSet" {
		s.settleStatefulSet(ref, m, now)
		return
	}
	if ref.Kind == kube.Rollout {
		s.settleRollout(ref, m, now)
		return
	}
	s.settleDeployment(ref, m, now)
}

func (s *Server) settleDeployment(ref kube.Ref, m map[string]any, now time.Time) {
	template := sub(sub(m, "spec"), "template")
	name := ref.Name + "-" + hash(template)
	numbered, label := marks(ref.Kind)
	dir := "/apis/apps/v1/namespaces/" + ref.Namespace + "/replicasets/"
	newest := 0
	for path, rs := range s.objects {
		if strings.HasPrefix(path, dir+ref.Name+"-") {
			newest = max(newest, revision(rs))
		}
	}
	rs, old := s.objects[dir+name]
	paused := sub(m, "spec")["paused"] == true
	if paused && !old { // no ReplicaSet is made
		s.statusOf(m, hash(template))
		s.put(Path(ref), m)
		return
	}
	if !old {
		rs = asMap(appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: ref.Namespace, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now),
			Labels: map[string]string{"app": ref.Name, label: hash(template)}, OwnerReferences: controller(ref, m),
		}})
		copied := asMap(template)
		sub(sub(copied, "metadata"), "labels")[label] = hash(template)
		sub(rs, "spec")["template"] = copied
	}
	if n := revision(rs); n < newest || n == 0 {
		annotations := sub(sub(rs, "metadata"), "annotations")
		if n != 0 {
			annotations[numbered+"-history"] = strconv.Itoa(n)
		}
		annotations[numbered] = strconv.Itoa(newest + 1)
		sub(m, "status")["conditions"] = []any{map[string]any{
			"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
			"message":        fmt.Sprintf("ReplicaSet %q has successfully progressed.", name),
			"lastUpdateTime": now.Format(time.RFC3339),
		}}
	}
	s.put(dir+name, rs)
	sub(sub(m, "metadata"), "annotations")[numbered] = strconv.Itoa(revision(rs))
	if paused {
		s.statusOf(m, hash(template))
	} else {
		s.settlePods(ref, m, replicaSet(name), hash(template), now)
		s.status(m, nil)
	}
	s.put(Path(ref), m)
}

func replicaSet(name string) metav1.OwnerReference {
	return metav1.OwnerReference{Kind: "ReplicaSet", Name: name, UID: types.UID("uid-" + name)}
}

// statusOf sets the status of a Deployment that keeps the pods it has.
func (s *Server) statusOf(m map[string]any, revision string) {
	updated := 0
	_, label := marks(fmt.Sprint(m["kind"]))
	dir := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s-", sub(m, "metadata")["namespace"], sub(m, "metadata")["name"])
	for path, p := range s.objects {
		if strings.HasPrefix(path, dir) && labelsOf(p)[label] == revision {
			updated++
		}
	}
	s.status(m, map[string]any{"updatedReplicas": float64(updated)})
}

// HalfWay rolls a pod template out to the first n pods of a Deployment or a Rollout, and no further.
func (s *Server) HalfWay(ref kube.Ref, template corev1.PodTemplateSpec, n int, now time.Time) {
	s.Edit(Path(ref), func(spec map[string]any) { spec["template"], spec["replicas"] = asMap(template), float64(n) })
	s.mu.Lock()
	m := s.objects[Path(ref)]
	all := map[string]map[string]any{}
	for path, p := range s.objects {
		if strings.HasPrefix(path, "/api/v1/namespaces/"+ref.Namespace+"/pods/"+ref.Name+"-") {
			all[path] = p
		}
	}
	s.settleDeployment(ref, m, now)
	sub(m, "spec")["replicas"] = float64(len(all))
	for path, p := range all {
		if s.objects[path] == nil {
			s.objects[path] = p
		}
	}
	s.statusOf(m, hash(sub(sub(m, "spec"), "template")))
	if ref.Kind == kube.Rollout {
		seen(m)
	}
	s.put(Path(ref), m)
	s.mu.Unlock()
}

func (s *Server) settleStatefulSet(ref kube.Ref, m map[string]any, now time.Time) {
	template := asMap(sub(sub(m, "spec"), "template"))
	name := ref.Name + "-" + hash(template)
	template["$patch"] = "replace"
	dir := "/apis/apps/v1/namespaces/" + ref.Namespace + "/controllerrevisions/"
	newest := 0.0
	for path, r := range s.objects {
		if n, ok := r["revision"].(float64); ok && strings.HasPrefix(path, dir+ref.Name+"-") {
			newest = max(newest, n)
		}
	}
	r, old := s.objects[dir+name]
	if !old {
		r = asMap(appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: ref.Namespace, CreationTimestamp: metav1.NewTime(now),
				Labels: map[string]string{"app": ref.Name}, OwnerReferences: controller(ref, m),
			},
			Data: runtime.RawExtension{Raw: encode(map[string]any{"spec": map[string]any{"template": template}})},
		})
	}
	if n, ok := r["revision"].(float64); !ok || n < newest || n == 0 {
		r["revision"] = newest + 1
	}
	s.put(dir+name, r)
	s.settlePods(ref, m, controller(ref, m)[0], name, now)
	s.status(m, map[string]any{"currentRevision": name, "updateRevision": name})
	s.put(Path(ref), m)
}

// settlePods keeps as many pods as the workload wants of that owner, with the hash of
// its pod template or the name of its revision, removes the others, and adds ready
// ones. A pod that lost its label is none of them, and keeps its name.
func (s *Server) settlePods(ref kube.Ref, m map[string]any, owner metav1.OwnerReference, revision string, now time.Time) {
	dir := "/api/v1/namespaces/" + ref.Namespace + "/pods/"
	label := "controller-revision-hash"
	if owner.Kind == "ReplicaSet" {
		_, label = marks(ref.Kind)
	}
	has, taken := map[string]bool{}, map[string]bool{}
	for path, p := range s.objects {
		name, ok := strings.CutPrefix(path, dir)
		switch {
		case !ok || !strings.HasPrefix(name, ref.Name+"-"):
		case labelsOf(p)["app"] != ref.Name:
			taken[name] = true
		case labelsOf(p)[label] == revision && sub(p, "metadata")["deletionTimestamp"] == nil:
			has[name] = true
		default:
			delete(s.objects, path)
		}
	}
	isController := true
	owner.Controller = &isController
	for i, n := 0, 0; n < count(m); i++ {
		name := fmt.Sprintf("%s-%d", ref.Name, i)
		if taken[name] {
			continue
		}
		n++
		if has[name] {
			delete(has, name)
			continue
		}
		s.put(dir+name, asMap(corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: ref.Namespace, Labels: map[string]string{"app": ref.Name, label: revision},
				OwnerReferences: []metav1.OwnerReference{owner},
			},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%2)},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: now},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		}))
	}
	for name := range has {
		delete(s.objects, dir+name)
	}
}

func (s *Server) status(m, more map[string]any) {
	status := sub(m, "status")
	for _, k := range []string{"replicas", "readyReplicas", "updatedReplicas", "availableReplicas"} {
		status[k] = float64(count(m))
	}
	status["observedGeneration"] = sub(m, "metadata")["generation"]
	for k, v := range more {
		status[k] = v
	}
}

func count(m map[string]any) int {
	n, ok := sub(m, "spec")["replicas"].(float64)
	if !ok {
		return 1
	}
	return int(n)
}

func revision(rs map[string]any) int {
	for _, kind := range []string{"Deployment", kube.Rollout} {
		numbered, _ := marks(kind)
		if n, err := strconv.Atoi(fmt.Sprint(sub(sub(rs, "metadata"), "annotations")[numbered])); err == nil {
			return n
		}
	}
	return 0
}

func controller(ref kube.Ref, m map[string]any) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: version(Path(ref)), Kind: ref.Kind, Name: ref.Name, UID: types.UID(fmt.Sprint(sub(m, "metadata")["uid"])), Controller: &yes,
	}}
}

func hash(template any) string { return fmt.Sprintf("%.5x", sha256.Sum256(encode(template))) }

// Template is a pod template of one container named vllm.
func Template(app, image string, args ...string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "vllm", Image: image, Args: args}}},
	}
}
