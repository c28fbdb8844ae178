package kube_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

var chat = kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}

func twoRevisions(t *testing.T) *kubetest.Server {
	s := kubetest.New(t)
	s.Workload(t, chat, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
	return s
}

// TestNothingIsPartial: whatever cannot be read makes the answer an error that
// names the rule to add; "no owner" is never a guess.
func TestNothingIsPartial(t *testing.T) {
	for _, resource := range []string{"deployments/chat", "replicasets", "pods", "events", "horizontalpodautoscalers", "v1alpha1", "scaledobjects"} {
		t.Run(resource, func(t *testing.T) {
			s := twoRevisions(t)
			s.Serve("keda.sh/v1alpha1", "scaledobjects")
			s.Fail(func(r *http.Request) kubetest.Fault {
				if strings.HasSuffix(r.URL.Path, "/"+resource) {
					return kubetest.Fault{Status: 403}
				}
				return kubetest.Fault{}
			})
			_, err := s.Client(t).Workload(t.Context(), chat)
			var e *fault.Error
			if !errors.As(err, &e) || e.Reason != fault.Forbidden || e.Unknown {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), "apiGroups") || !strings.Contains(err.Error(), strings.Split(resource, "/")[0]) {
				t.Errorf("%q does not say which permission is missing", err)
			}
		})
	}
}

func TestOwnersOfReplicas(t *testing.T) {
	target := func(kind, name string) map[string]any {
		return map[string]any{"spec": map[string]any{"scaleTargetRef": map[string]any{"kind": kind, "name": name}}, "metadata": map[string]any{"name": "auto", "namespace": "serving"}}
	}
	s := twoRevisions(t)
	c := s.Client(t)
	hpas, scaled := "/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/", "/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects/"
	s.Put(hpas+"other", target("Deployment", "embed"))
	s.Put(hpas+"sts", target("StatefulSet", "chat"))
	owners := func() []kube.Owner {
		t.Helper()
		w, err := c.Workload(t.Context(), chat)
		if err != nil {
			t.Fatal(err)
		}
		return w.Owners
	}
	if got := owners(); len(got) != 0 {
		t.Errorf("owners %+v, want none", got)
	}
	s.Put(hpas+"auto", target("Deployment", "chat"))
	s.Serve("keda.sh/v1alpha1", "scaledobjects")
	s.Put(scaled+"auto", target("", "chat")) // KEDA's default kind
	var got []string
	for _, o := range owners() {
		got = append(got, o.Field+" "+o.Kind+" "+o.Name)
	}
	if diff := cmp.Diff([]string{"spec.replicas HorizontalPodAutoscaler auto", "spec.replicas ScaledObject auto"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestWriteFailures: what the answer says about a write decides whether it may
// have happened. A lost answer is sent once only, however client-go would like.
func TestWriteFailures(t *testing.T) {
	tests := []struct {
		name    string
		fault   kubetest.Fault
		reason  fault.Reason
		unknown bool
		written int
	}{
		{"forbidden", kubetest.Fault{Status: 403}, fault.Forbidden, false, 0},
		{"unauthorised", kubetest.Fault{Status: 401}, fault.Forbidden, false, 0},
		{"conflict", kubetest.Fault{Status: 409}, fault.Conflict, false, 0},
		{"server failed before", kubetest.Fault{Status: 500}, fault.ServerError, true, 0},
		{"server failed after", kubetest.Fault{Status: 500, After: true}, fault.ServerError, true, 1},
		{"unavailable after", kubetest.Fault{Status: 503, After: true}, fault.ServerError, true, 1},
		{"gateway timed out after", kubetest.Fault{Status: 504, After: true}, fault.Timeout, true, 1},
		{"cut before", kubetest.Fault{Cut: true}, fault.Unreachable, true, 0},
		{"cut after", kubetest.Fault{Cut: true, After: true}, fault.Unreachable, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := twoRevisions(t)
			c := s.Client(t)
			w, err := c.Workload(t.Context(), chat)
			if err != nil {
				t.Fatal(err)
			}
			s.Fail(func(r *http.Request) kubetest.Fault {
				if r.Method == http.MethodPatch {
					return tt.fault
				}
				return kubetest.Fault{}
			})
			ch := kube.ScaleChange{Ref: chat, Replicas: 5, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}, Run: "r", Key: "k"}
			_, err = c.Scale(t.Context(), ch)
			var e *fault.Error
			if !errors.As(err, &e) || e.Reason != tt.reason || e.Unknown != tt.unknown {
				t.Errorf("got %v (%+v), want %s, unknown %v", err, e, tt.reason, tt.unknown)
			}
			if n := len(s.Writes()); n != tt.written {
				t.Errorf("%d writes, want %d", n, tt.written)
			}
			ch.DryRun = true
			if _, err = c.Scale(t.Context(), ch); errors.As(err, &e) && e.Unknown {
				t.Errorf("a dry-run cannot have happened: %v", err)
			}
		})
	}
}

// TestNeverSentIsNotUnknown: nothing listens, so nothing can have happened.
func TestNeverSentIsNotUnknown(t *testing.T) {
	s := twoRevisions(t)
	c := s.Client(t)
	w, err := c.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	_, err = c.Scale(t.Context(), kube.ScaleChange{Ref: chat, Replicas: 5, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}})
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.Unreachable || e.Unknown {
		t.Errorf("got %v, %+v", err, e)
	}
}

// TestPreconditionIsHeldByTheServer: the object moves between our look and the
// write, so only the server can tell.
func TestPreconditionIsHeldByTheServer(t *testing.T) {
	s := twoRevisions(t)
	c := s.Client(t)
	w, err := c.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	pre := kube.Precondition{UID: w.UID, Generation: w.Generation}
	for name, write := range map[string]func() error{
		"scale": func() error {
			_, err := c.Scale(t.Context(), kube.ScaleChange{Ref: chat, Replicas: 5, Pre: pre})
			return err
		},
		"undo": func() error {
			_, err := c.Undo(t.Context(), kube.UndoChange{Ref: chat, Revision: 1, Pre: pre})
			return err
		},
	} {
		s.BeforePatch(func() {
			s.Edit(kubetest.Path(chat), func(spec map[string]any) { spec["replicas"] = 4.0 })
		})
		var e *fault.Error
		if err := write(); !errors.As(err, &e) || e.Reason != fault.Conflict || e.Unknown {
			t.Errorf("%s: got %v", name, err)
		}
		w, err := c.Workload(t.Context(), chat)
		if err != nil || w.Replicas != 4 {
			t.Errorf("%s: %d replicas, %v; want the other's 4", name, w.Replicas, err)
		}
		s.Edit(kubetest.Path(chat), func(spec map[string]any) { spec["replicas"] = 3.0 })
		pre.Generation = w.Generation + 1
	}
	if n := s.Writes(); len(n) != 0 {
		t.Errorf("wrote %v", n)
	}
}

// TestUndoKeepsAnnotations: kubectl would drop annotations that others wrote
// since; the change-cause comes back with its revision.
func TestUndoKeepsAnnotations(t *testing.T) {
	s := twoRevisions(t)
	c := s.Client(t)
	w, err := c.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undo(t.Context(), kube.UndoChange{Ref: chat, Revision: 1, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}, Run: "r-1", Key: "r-1/x#1/apply#1"}); err != nil {
		t.Fatal(err)
	}
	now, err := c.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	mark := now.Annotations[kube.AnnotationTemplate]
	if mark == "" {
		t.Error("the rollback is not marked as ours")
	}
	want := map[string]string{
		"team": "chat", "deployment.kubernetes.io/revision": "2", kube.AnnotationTemplate: mark,
		kube.AnnotationRun: "r-1", kube.AnnotationEffect: "r-1/x#1/apply#1",
	}
	if diff := cmp.Diff(want, now.Annotations); diff != "" {
		t.Error(diff)
	}
	var e *fault.Error
	_, err = c.Undo(t.Context(), kube.UndoChange{Ref: chat, Revision: 1, Pre: kube.Precondition{UID: w.UID, Generation: now.Generation}})
	if !errors.As(err, &e) || e.Reason != fault.NothingToDo {
		t.Errorf("again: %v", err)
	}
}

// TestOurs: a rollback of ours is known as such until somebody rolls out
// something else; a person's rollback never is.
func TestOurs(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		ref := kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"}
		s := kubetest.New(t)
		s.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
		c := s.Client(t)
		ours := func() bool {
			t.Helper()
			all, err := c.Revisions(t.Context(), ref)
			if err != nil || !all[len(all)-1].Current {
				t.Fatalf("%s: %+v, %v", kind, all, err)
			}
			return all[len(all)-1].Ours
		}
		if ours() {
			t.Errorf("%s: a person's rollout is taken for ours", kind)
		}
		w, err := c.Workload(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Undo(t.Context(), kube.UndoChange{Ref: ref, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}, Run: "r-1", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		s.Settle(ref, kubetest.Epoch().Add(time.Minute))
		if !ours() {
			t.Errorf("%s: our rollback is taken for a person's", kind)
		}
		s.Edit(kubetest.Path(ref), func(spec map[string]any) { pod(spec)["hostname"] = "x" })
		s.Settle(ref, kubetest.Epoch().Add(2*time.Minute))
		if ours() {
			t.Errorf("%s: what was rolled out after our rollback is taken for ours", kind)
		}
	}
}

// TestUnknownFieldsSurvive: a newer server's fields are put back as they were.
func TestUnknownFieldsSurvive(t *testing.T) {
	s := kubetest.New(t)
	s.Workload(t, chat, 1, kubetest.Template("chat", "vllm:v1"))
	path := kubetest.Path(chat)
	s.Edit(path, func(spec map[string]any) { pod(spec)["fieldOfTheFuture"] = map[string]any{"a": 1.5} })
	s.Settle(chat, kubetest.Epoch().Add(time.Minute))
	future := s.Spec(path)
	s.Edit(path, func(spec map[string]any) {
		delete(pod(spec), "fieldOfTheFuture")
		pod(spec)["hostname"] = "x"
	})
	s.Settle(chat, kubetest.Epoch().Add(2*time.Minute))
	c := s.Client(t)
	w, err := c.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undo(t.Context(), kube.UndoChange{Ref: chat, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Spec(path); got != future {
		t.Errorf("spec\n%s\nwant\n%s", got, future)
	}
}

func pod(spec map[string]any) map[string]any {
	return spec["template"].(map[string]any)["spec"].(map[string]any)
}

// TestActiveSince: a revision that was rolled back to is as young as the
// rollback, not as old as its ReplicaSet.
func TestActiveSince(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		ref := kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"}
		s := kubetest.New(t)
		s.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
		c := s.Client(t)
		current := func() (kube.Revision, []kube.Revision) {
			t.Helper()
			all, err := c.Revisions(t.Context(), ref)
			if err != nil || len(all) != 2 || !all[1].Current || all[0].Current {
				t.Fatalf("%s: %+v, %v", kind, all, err)
			}
			return all[1], all
		}
		if r, _ := current(); r.Number != 2 || !r.Active.Equal(kubetest.Epoch().Add(10*time.Minute)) || r.Fields["containers[vllm].image"] != "vllm:v2" {
			t.Errorf("%s: %+v", kind, r)
		}
		w, err := c.Workload(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Undo(t.Context(), kube.UndoChange{Ref: ref, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}}); err != nil {
			t.Fatal(err)
		}
		s.Settle(ref, kubetest.Epoch().Add(time.Hour))
		r, _ := current()
		// A StatefulSet records no time of it: not before the newest revision is all that is known.
		earliest := map[string]time.Duration{"Deployment": time.Hour, "StatefulSet": 10 * time.Minute}[kind]
		if r.Number != 3 || r.Active.Before(kubetest.Epoch().Add(earliest)) || r.Fields["containers[vllm].image"] != "vllm:v1" {
			t.Errorf("%s: after the rollback %+v", kind, r)
		}
	}
}

// TestTrouble: what kube.workload is for.
func TestTrouble(t *testing.T) {
	s := twoRevisions(t)
	s.Put("/api/v1/namespaces/serving/events/1", corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "1"}, Type: "Warning", Reason: "BackOff", Message: "Back-off restarting", Count: 4,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "chat-0"}, LastTimestamp: metav1.Now(),
	})
	s.Put("/api/v1/namespaces/serving/events/2", corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "2"}, Type: "Warning", Reason: "BackOff", Message: "of another", Count: 4,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "embed-0"}, LastTimestamp: metav1.Now(),
	})
	s.Put("/api/v1/namespaces/serving/events/3", corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "3"}, Type: "Warning", Reason: "Old", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "chat-0"},
		LastTimestamp: metav1.NewTime(time.Now().Add(-2 * time.Hour)),
	})
	s.Change("/api/v1/namespaces/serving/pods/chat-0", func(m map[string]any) {
		m["status"] = map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{
			"restartCount": 7.0, "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off"}},
			"lastState": map[string]any{"terminated": map[string]any{"reason": "OOMKilled"}},
		}}}
	})
	s.Change("/api/v1/namespaces/serving/pods/chat-1", func(m map[string]any) {
		delete(m["spec"].(map[string]any), "nodeName")
		m["status"] = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "message": "0/8 nodes: Insufficient nvidia.com/gpu"}}}
	})
	s.Change(kubetest.Path(chat), func(m map[string]any) {
		m["status"].(map[string]any)["conditions"] = []any{map[string]any{
			"type": string(appsv1.DeploymentProgressing), "status": "False", "reason": "ProgressDeadlineExceeded", "message": `ReplicaSet "chat-of-the-rollout-before" has timed out progressing.`,
		}}
		m["metadata"].(map[string]any)["annotations"].(map[string]any)[corev1.LastAppliedConfigAnnotation] = "SECRET"
	})
	c := s.Client(t)
	w, err := c.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]kube.Pod{}
	for _, p := range w.Pods {
		pods[p.Name] = p
	}
	if p := pods["chat-0"]; p.Restarts != 7 || !p.OOMKilled || p.Waiting != "CrashLoopBackOff" || p.Ready || p.Revision != 2 {
		t.Errorf("pod %+v", p)
	}
	if p := pods["chat-1"]; p.Phase != "Pending" || p.Node != "" || !strings.Contains(p.Message, "Insufficient nvidia.com/gpu") {
		t.Errorf("pod %+v", p)
	}
	if len(w.Events) != 1 || w.Events[0].Count != 4 || w.Events[0].Object != "Pod/chat-0" {
		t.Errorf("events %+v", w.Events)
	}
	if w.Stuck != "" {
		t.Errorf("stuck %q: that is another rollout's", w.Stuck)
	}
	if _, ok := w.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		t.Error("the last applied configuration repeats secrets and must not be kept")
	}
	if w.Strategy.Type != "RollingUpdate" || w.Strategy.MaxUnavailable != 1 {
		t.Errorf("strategy %+v", w.Strategy)
	}
	s.Put("/api/v1/nodes/node-0", corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: "Ready", Status: "Unknown"}, {Type: "MemoryPressure", Status: "False"}, {Type: "GPUUnhealthy", Status: "True"}, {Type: "NetworkHealthy", Status: "True"},
	}}})
	nodes, err := c.Nodes(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 1 || nodes[0].Ready || !cmp.Equal(nodes[0].Conditions, []string{"GPUUnhealthy=True", "Ready=Unknown"}) || nodes[0].Pods != 2 {
		t.Errorf("nodes %+v", nodes)
	}
}

// A scale writes the subresource and nothing else, and is known as ours by the manager of the
// replicas until somebody else sets them. A status that is written meanwhile is no conflict.
func TestScaleWritesTheSubresource(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		ref := kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"}
		s := kubetest.New(t)
		s.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"))
		c := s.Client(t)
		w, err := c.Workload(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		s.BeforePatch(func() { s.Settle(ref, kubetest.Epoch().Add(time.Minute)) }) // moves the resource version, not the generation
		a, err := c.Scale(t.Context(), kube.ScaleChange{
			Ref: ref, Replicas: 5, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}, Run: "r-1", Key: "r-1/x#1/apply#2",
		})
		if err != nil || a.Replicas != 5 || a.Generation != w.Generation+1 {
			t.Fatalf("%s: %+v, %v", kind, a, err)
		}
		if got := s.Writes(); len(got) != 1 || got[0] != "PATCH "+kubetest.Path(ref)+"/scale" {
			t.Errorf("%s: wrote %v", kind, got)
		}
		now, err := c.Workload(t.Context(), ref)
		if err != nil || now.Generation != a.Generation || now.ScaledBy != kube.EffectManager("r-1/x#1/apply") || len(now.Annotations) != len(w.Annotations) {
			t.Errorf("%s: then it is %+v, %v", kind, now, err)
		}
	}
	if kube.EffectManager("r-1/x#1/apply#1") == kube.EffectManager("r-1/x#1/undo#1") || kube.EffectManager("r-1/x#1/apply#1") == kube.EffectManager("r-1/x#2/apply#1") {
		t.Error("two effects have the same mark")
	}
	if name := kube.EffectManager(strings.Repeat("x", 300) + "/apply#1"); len(name) > 128 {
		t.Errorf("the API server refuses a field manager of %d characters", len(name))
	}
}
