//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/inference-responder/responder/internal/kube"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// canary is a Rollout named chat, whose definition is that of Argo Rollouts. Its controller
// takes too long to build: the test does what it is documented to do to ReplicaSets and the
// status. Its step waits for people until promoted is set.
type canary struct {
	cp       *rig.ControlPlane
	ns       string
	rollouts dynamic.ResourceInterface
	promoted bool
}

const (
	canaryRevision = "rollout.argoproj.io/revision"
	canaryHash     = "rollouts-pod-template-hash"
)

// newCanary makes a Rollout whose first release is stable.
func newCanary(t *testing.T, cp *rig.ControlPlane) *canary {
	client, err := dynamic.NewForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	ns, _ := cp.Own(t, 1, 8)
	manifest := strings.Replace(inference("chat", "vllm:v1", 2), "apiVersion: apps/v1\nkind: Deployment", "apiVersion: argoproj.io/v1alpha1\nkind: Rollout", 1)
	manifest = strings.Replace(manifest, "  replicas: 2", "  replicas: 2\n  strategy: {canary: {maxUnavailable: 1, steps: [{setWeight: 50}, {pause: {}}]}}", 1)
	cp.Apply(t, ns, manifest)
	c := &canary{cp: cp, ns: ns, rollouts: client.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}).Namespace(ns), promoted: true}
	c.settle(t)
	return c
}

func (c *canary) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return c.cp.Kubectl(t, append([]string{"-n", c.ns}, args...)...)
}

func (c *canary) release(t testing.TB, image string) {
	t.Helper()
	c.kubectl(t, "patch", "rollout/chat", "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"`+image+`"}]`)
}

// abort sets status.abort as a person would, or takes it back.
func (c *canary) abort(t testing.TB) {
	t.Helper()
	c.kubectl(t, "patch", "rollout/chat", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"abort":%t}}`, !c.aborted(t)))
}

func (c *canary) aborted(t testing.TB) bool {
	t.Helper()
	return c.kubectl(t, "get", "rollout/chat", "-o", "jsonpath={.status.abort}") == "true"
}

// settle is one round of the controller, and waits for the pods.
func (c *canary) settle(t testing.TB) {
	t.Helper()
	stored, err := c.rollouts.Get(t.Context(), "chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Metadata metav1.ObjectMeta
		Spec     appsv1.DeploymentSpec
		Status   struct {
			Abort                    bool
			CurrentPodHash, StableRS string
		}
	}
	data, err := stored.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, hash, _ := strings.Cut(o.Spec.Template.Spec.Containers[0].Image, ":")
	number := c.ensure(t, hash, o.Metadata.UID, o.Spec.Template)
	status := map[string]any{"currentPodHash": hash, "observedGeneration": strconv.FormatInt(o.Metadata.Generation, 10), "abortedAt": nil}
	all, stable := *o.Spec.Replicas, o.Status.StableRS
	sizes := map[string]int32{hash: all}
	switch {
	case o.Status.Abort && o.Status.CurrentPodHash == hash:
		sizes = map[string]int32{stable: all}
		status["abortedAt"] = time.Now().UTC().Format(time.RFC3339)
	case o.Status.Abort: // another pod template ends it
		status["abort"] = nil
		sizes = map[string]int32{hash: 1, stable: all - 1}
	case c.promoted || stable == hash:
		stable = hash
	default:
		sizes = map[string]int32{hash: 1, stable: all - 1}
	}
	c.resize(t, sizes)
	status["stableRS"], status["updatedReplicas"] = stable, sizes[hash]
	for _, field := range []string{"replicas", "readyReplicas", "availableReplicas"} {
		status[field] = all
	}
	c.patch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]string{canaryRevision: number}}})
	c.patch(t, map[string]any{"status": status}, "status")
}

func (c *canary) patch(t testing.TB, body map[string]any, part ...string) {
	t.Helper()
	data, err := json.Marshal(body)
	if err == nil {
		_, err = c.rollouts.Patch(t.Context(), "chat", types.MergePatchType, data, metav1.PatchOptions{FieldManager: "rollouts-controller"}, part...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ensure makes the ReplicaSet of a pod template, and returns the number of its revision.
func (c *canary) ensure(t testing.TB, hash string, of types.UID, template corev1.PodTemplateSpec) string {
	t.Helper()
	sets := c.cp.Client.AppsV1().ReplicaSets(c.ns)
	list, err := sets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rs := range list.Items {
		if rs.Labels[canaryHash] == hash {
			return rs.Annotations[canaryRevision]
		}
	}
	yes, none := true, int32(0)
	labels := map[string]string{"app": "chat", canaryHash: hash}
	template.Labels = labels
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "chat-" + hash, Labels: labels, Annotations: map[string]string{canaryRevision: strconv.Itoa(len(list.Items) + 1)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "chat", UID: of, Controller: &yes}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	if _, err := sets.Create(t.Context(), rs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return rs.Annotations[canaryRevision]
}

// resize scales the ReplicaSets, those that are not named to none, and waits for their pods.
func (c *canary) resize(t testing.TB, sizes map[string]int32) {
	t.Helper()
	sets := c.cp.Client.AppsV1().ReplicaSets(c.ns)
	rig.Await(t, 30*time.Second, "the pods of the canary", func(ctx context.Context) (bool, string) {
		list, err := sets.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		done := true
		for _, rs := range list.Items {
			n := sizes[rs.Labels[canaryHash]]
			if *rs.Spec.Replicas != n {
				if _, err := sets.Patch(ctx, rs.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}); err != nil {
					return false, err.Error()
				}
			}
			done = done && *rs.Spec.Replicas == n && rs.Status.Replicas == n && rs.Status.ReadyReplicas == n
		}
		pods, err := c.cp.Client.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		want := 0
		for _, n := range sizes {
			want += int(n)
		}
		return done && len(pods.Items) == want, fmt.Sprintf("%d pods of %v", len(pods.Items), sizes)
	})
}

// world is the Rollout for the conformance test of a lever.
func (c *canary) world(client *kube.Client, meddle func(t testing.TB)) steptest.World {
	return steptest.World{
		Service: language.Service{Name: c.ns + "/chat", Namespace: c.ns, Workload: language.Workload{Kind: kube.Rollout, Name: "chat"}, MinReady: 1, MaxScale: 6},
		Deps:    step.Deps{Workloads: client, Changer: client}, Settle: c.settle, Meddle: meddle,
		Spec: func(t testing.TB) string {
			return fmt.Sprint(c.aborted(t), c.kubectl(t, "get", "rollout/chat", "-o", "jsonpath={.spec}"))
		},
	}
}

// TestRollouts holds rollout.hold and kube.scale to the contract of levers on a Rollout of
// Argo Rollouts, by its subresources on a real API server.
func TestRollouts(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Define(t, "rollout")
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Admin)})
	if err != nil {
		t.Fatal(err)
	}
	halfWay := func(t *testing.T) *canary {
		c := newCanary(t, cp)
		c.release(t, "vllm:v2")
		c.promoted = false
		c.settle(t)
		return c
	}
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		steptest.TestLever(t, "rollout.hold", nil, func(t *testing.T) steptest.World {
			c := halfWay(t)
			return c.world(client, c.abort)
		})
	})
	t.Run("scale", func(t *testing.T) {
		t.Parallel()
		steptest.TestLever(t, "kube.scale", map[string]any{"by": int64(1)}, func(t *testing.T) steptest.World {
			c := newCanary(t, cp)
			return c.world(client, func(t testing.TB) { c.kubectl(t, "scale", "rollout/chat", "--replicas=4") })
		})
	})
	t.Run("the end", func(t *testing.T) {
		t.Parallel()
		c := halfWay(t)
		// Reading and the role of the hold are enough: an abort is no right to the pod template.
		cp.Deploy(t)
		client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
		if err != nil {
			t.Fatal(err)
		}
		cp.BindReading(t, c.ns)
		c.kubectl(t, "create", "rolebinding", "hold", "--clusterrole=responder-lever-hold", "--serviceaccount="+rig.ResponderNamespace+":"+rig.ResponderAccount)
		w := c.world(client, nil)
		rig.Await(t, 30*time.Second, "the rights", func(ctx context.Context) (bool, string) {
			yes, err := client.May(ctx, kube.Right{Verb: "patch", Group: "argoproj.io", Resource: "rollouts", Subresource: "status", Namespace: c.ns})
			_, unread := client.Workload(ctx, step.RefOf(w.Service))
			return yes && err == nil && unread == nil, fmt.Sprint(err, unread)
		})
		back := acts(t, client, w.Service, "r-0", nil, true).Back
		c.settle(t)
		read := func() kube.Workload {
			now, err := client.Workload(t.Context(), step.RefOf(w.Service))
			if err != nil {
				t.Fatal(err)
			}
			return now
		}
		if now := read(); now.Held != "chat-v2" || now.Stable != "chat-v1" || now.PausedBy != kube.FieldManager || now.Updated != 0 || now.Ready != 2 {
			t.Errorf("held: %+v", now)
		}
		acts(t, client, w.Service, "r-1", back, false)
		c.release(t, "vllm:v3")
		c.settle(t)
		if now := read(); now.Held != "" || now.Paused || now.AbortedBy != "" || now.Template != "chat-v3" {
			t.Errorf("another template: %+v", now)
		}
		acts(t, client, w.Service, "r-1", back, false)
	})
}
