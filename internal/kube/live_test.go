package kube_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// TestObject: built-in kinds are asked for at once, others by the version that
// the server prefers; nothing of a manager's notes comes along.
func TestObject(t *testing.T) {
	s := twoRevisions(t)
	s.Serve("keda.sh/v1alpha1", "scaledobjects")
	s.Put("/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects/chat", map[string]any{
		"metadata": map[string]any{"name": "chat", "namespace": "serving"}, "spec": map[string]any{"minReplicaCount": 2},
	})
	s.Change(kubetest.Path(chat), func(o map[string]any) {
		meta := o["metadata"].(map[string]any)
		meta["managedFields"] = []any{map[string]any{"manager": "argocd"}}
		meta["annotations"].(map[string]any)["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
	})
	c := s.Client(t)
	data, err := c.Object(t.Context(), kube.ObjectID{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat"})
	if err != nil || !strings.Contains(string(data), `"image":"vllm:v2"`) || !strings.Contains(string(data), `"kind":"Deployment"`) {
		t.Errorf("%s, %v", data, err)
	}
	for _, gone := range []string{"managedFields", "last-applied", `"status"`} {
		if strings.Contains(string(data), gone) {
			t.Errorf("%s is in %s", gone, data)
		}
	}
	scaled := kube.ObjectID{Group: "keda.sh", Kind: "ScaledObject", Namespace: "serving", Name: "chat"}
	if data, err := c.Object(t.Context(), scaled); err != nil || !strings.Contains(string(data), `"minReplicaCount":2`) {
		t.Errorf("%s, %v", data, err)
	}
	for name, id := range map[string]kube.ObjectID{
		"not there":     {Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "other"},
		"no such kind":  {Group: "keda.sh", Kind: "ScaledJob", Namespace: "serving", Name: "chat"},
		"no such group": {Group: "serving.kserve.io", Kind: "InferenceService", Namespace: "serving", Name: "chat"},
	} {
		if _, err := c.Object(t.Context(), id); kubeReason(err) != fault.NotFound {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	s.Fail(func(*http.Request) kubetest.Fault { return kubetest.Fault{Status: 403} })
	if _, err := c.Object(t.Context(), scaled); kubeReason(err) != fault.Forbidden || !strings.Contains(err.Error(), "apiGroups") {
		t.Errorf("forbidden: %v", err)
	}
}

// TestTry: the server judges and stores nothing; a refusal of admission is told
// from a right that we lack.
func TestTry(t *testing.T) {
	s := twoRevisions(t)
	c := s.Client(t)
	manifest := []byte("# tuned\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat}\nspec:\n  replicas: 0x2\n")
	data, err := c.Try(t.Context(), "serving", manifest)
	if err != nil || !strings.Contains(string(data), `"replicas":2`) || !strings.Contains(string(data), `"namespace":"serving"`) {
		t.Errorf("%s, %v", data, err)
	}
	for name, tt := range map[string]struct {
		fault kubetest.Fault
		want  fault.Reason
	}{
		"no right":          {kubetest.Fault{Status: 403, Message: `deployments.apps "chat" is forbidden: User "r" cannot patch resource "deployments" in API group "apps"`}, fault.Forbidden},
		"admission says no": {kubetest.Fault{Status: 403, Message: `admission webhook "limits.example.com" denied the request: at most 256`}, fault.Invalid},
		"not its schema":    {kubetest.Fault{Status: 422}, fault.Invalid},
		"bad request":       {kubetest.Fault{Status: 400}, fault.Invalid},
		"away":              {kubetest.Fault{Cut: true}, fault.Unreachable},
	} {
		s.Fail(func(*http.Request) kubetest.Fault { return tt.fault })
		_, err := c.Try(t.Context(), "serving", manifest)
		if kubeReason(err) != tt.want || !strings.Contains(err.Error(), tt.fault.Message) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	s.Fail(nil)
	for name, text := range map[string]string{"no object": "a: b", "not YAML": "a: [", "a list": "- a", "unknown kind": "apiVersion: x.io/v1\nkind: Y\nmetadata: {name: z}"} {
		if _, err := c.Try(t.Context(), "serving", []byte(text)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("it wrote: %q", w)
	}
}

func kubeReason(err error) fault.Reason {
	var e *fault.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Reason
}

// TestMarked: the workloads of one namespace are asked for there, so that a right in that
// namespace suffices.
func TestMarked(t *testing.T) {
	s := twoRevisions(t)
	s.Change(kubetest.Path(chat), func(o map[string]any) {
		o["metadata"].(map[string]any)["labels"] = map[string]any{"responder.dev/service": "true"}
	})
	var asked []string
	s.Fail(func(r *http.Request) kubetest.Fault {
		asked = append(asked, r.URL.Path)
		if strings.Contains(r.URL.Path, "/namespaces/serving/") {
			return kubetest.Fault{}
		}
		return kubetest.Fault{Status: 403}
	})
	c := s.Client(t)
	if m, err := c.Marked(t.Context(), "serving", "responder.dev/service"); err != nil || len(m) != 1 || m[0].Ref != chat {
		t.Errorf("%+v, %v, after %q", m, err, asked)
	}
	if _, err := c.Marked(t.Context(), "batch", "responder.dev/service"); kubeReason(err) != fault.Forbidden || !strings.Contains(err.Error(), "list deployments.apps batch") {
		t.Errorf("in another namespace: %v", err)
	}
	if _, err := c.Marked(t.Context(), "", "responder.dev/service"); kubeReason(err) != fault.Forbidden {
		t.Errorf("in all namespaces: %v", err)
	}
}
