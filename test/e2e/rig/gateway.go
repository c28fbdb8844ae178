//go:build e2e

package rig

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Define puts the definition of another project's API object into the cluster, as its
// module has it: httproute, scaledobject, rollout, servicemonitor, prometheusrule or alertmanagerconfig. Those of KServe, LeaderWorkerSet and Dynamo cannot
// be had as modules: inferenceservice, leaderworkerset and dynamo have their documented fields.
func (cp *ControlPlane) Define(t testing.TB, name string) {
	t.Helper()
	file := filepath.Join(Repository(), "test", "e2e", "rig", name+".yaml")
	if _, err := os.Stat(file); err != nil {
		if file, err = built("definitions.sh", name); err != nil {
			t.Fatal(err)
		}
	}
	cp.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", file)
	state, ok := await(30*time.Second, func(ctx context.Context) (bool, string) { // there is nothing to wait for before its first status
		out, err := cp.TryKubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "-f", file)
		return err == nil, out
	})
	if !ok {
		t.Fatalf("the definition of %s is not established: %s", name, state)
	}
}

var httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}

// StartGateway stands in for a gateway with its controller: it accepts each generation
// of an HTTPRoute, and the fleet gets its traffic by the weights of the first rule.
func StartGateway(t testing.TB, cp *ControlPlane, namespace, route string, f *Fleet) {
	t.Helper()
	client, err := dynamic.NewForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	routes := client.Resource(httpRoutes).Namespace(namespace)
	watch, err := routes.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + route})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		seen := int64(0)
		for e := range watch.ResultChan() {
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok || o.GetGeneration() == seen {
				continue
			}
			seen = o.GetGeneration()
			f.split(o)
			if _, err := routes.Patch(ctx, route, types.MergePatchType, acceptance(seen), metav1.PatchOptions{FieldManager: "gateway"}, "status"); err != nil && ctx.Err() == nil {
				t.Errorf("accept the route: %v", err)
			}
		}
	}()
}

// split gives the traffic to the two backends of a route's first rule.
func (f *Fleet) split(o *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "rules")
	refs, _, _ := unstructured.NestedSlice(rules[0].(map[string]any), "backendRefs")
	weight := func(i int) float64 {
		w, _, _ := unstructured.NestedInt64(refs[i].(map[string]any), "weight")
		return float64(w)
	}
	name, _, _ := unstructured.NestedString(refs[1].(map[string]any), "name")
	f.SetWarm(strings.TrimSpace(name), weight(1)/(weight(0)+weight(1)))
}

func acceptance(generation int64) []byte {
	condition := func(kind string) map[string]any {
		return map[string]any{
			"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": generation, "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		}
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"parents": []any{map[string]any{
		"parentRef": map[string]any{"name": "edge"}, "controllerName": "example.com/gateway", "conditions": []any{condition("Accepted"), condition("ResolvedRefs")},
	}}}})
	if err != nil {
		panic(err) // unreachable: it is made of texts and numbers
	}
	return status
}
