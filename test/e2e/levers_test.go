//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/kube"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestLevers holds the levers to their contract on a real API server with its
// controllers, for both kinds of workload: what the fakes promise is so.
func TestLevers(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Admin)})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		meddle := map[string][]string{
			"kube.scale":        {"scale", "--replicas=4"},
			"kube.rollout_undo": {"set", "image", "engine=vllm:v3"},
		}
		for lever, with := range map[string]map[string]any{"kube.scale": {"by": int64(1)}, "kube.rollout_undo": nil} {
			t.Run(kind+"/"+lever, func(t *testing.T) {
				t.Parallel()
				steptest.TestLever(t, lever, with, func(t *testing.T) steptest.World {
					return leverWorld(t, cp, client, kind, meddle[lever])
				})
			})
		}
	}
}

// leverWorld is a workload of two replicas and two revisions, in a namespace of
// its own.
func leverWorld(t *testing.T, cp *rig.ControlPlane, client *kube.Client, kind string, meddle []string) steptest.World {
	ns, _ := cp.Own(t, 1, 8)
	manifest := inference("chat", "vllm:v1", 2)
	if kind == "StatefulSet" {
		manifest = strings.Replace(manifest, "kind: Deployment", "kind: StatefulSet", 1)
		manifest = strings.Replace(manifest, "  replicas: 2", "  replicas: 2\n  serviceName: chat\n  podManagementPolicy: Parallel", 1)
	}
	object := strings.ToLower(kind) + "/chat"
	kubectl := func(t testing.TB, args ...string) string {
		return cp.Kubectl(t, append([]string{"-n", ns}, args...)...)
	}
	settle := func(t testing.TB) {
		t.Helper()
		kubectl(t, "rollout", "status", object, "--timeout=60s")
	}
	cp.Apply(t, ns, manifest)
	settle(t)
	kubectl(t, "set", "image", object, "engine=vllm:v2")
	settle(t)
	return steptest.World{
		Service: language.Service{
			Name: ns + "/chat", Namespace: ns, Workload: language.Workload{Kind: kind, Name: "chat"}, MinReady: 1, MaxScale: 6,
		},
		Deps: step.Deps{Workloads: client, Changer: client}, Settle: settle,
		Spec: func(t testing.TB) string { return kubectl(t, "get", object, "-o", "jsonpath={.spec}") },
		Meddle: func(t testing.TB) {
			args := append([]string{}, meddle...)
			at := len(args) - 1
			kubectl(t, append(append(args[:at:at], object), meddle[at])...)
		},
	}
}
