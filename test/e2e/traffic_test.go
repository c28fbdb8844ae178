//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// warmRoute is an HTTPRoute in front of chat and of chat-stable, the release before.
const warmRoute = `
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: edge}]
  rules:
    - backendRefs: [{name: chat, port: 8000}, {name: chat-stable, port: 8000, weight: 0}]
`

// TestTrafficShift holds traffic.shift to the contract of levers on a real API server,
// with the Gateway API's own definition of an HTTPRoute and KServe's fields.
func TestTrafficShift(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Define(t, "httproute")
	cp.Define(t, "inferenceservice")
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Admin)})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{kube.HTTPRoute, kube.InferenceService} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			steptest.TestLever(t, "traffic.shift", map[string]any{"by": int64(40)}, func(t *testing.T) steptest.World {
				return warmWorld(t, cp, client, kind)
			})
		})
	}
}

// warmWorld is a service with a warm revision, in a namespace of its own.
func warmWorld(t *testing.T, cp *rig.ControlPlane, client *kube.Client, kind string) steptest.World {
	ns, _ := cp.Own(t, 1, 8)
	kubectl := func(t testing.TB, args ...string) string {
		return cp.Kubectl(t, append([]string{"-n", ns}, args...)...)
	}
	svc := language.Service{
		Name: ns + "/chat", Namespace: ns, Workload: language.Workload{Kind: "Deployment", Name: "chat"}, MinReady: 1, MaxScale: 6,
		Warm: language.Warm{Route: language.Workload{Kind: kind, Name: "chat"}, Backend: "chat-stable", Workload: language.Workload{Kind: "Deployment", Name: "chat-stable"}},
	}
	warm, object, carryOut := "chat-stable", "httproute/chat", func(t testing.TB) {
		kubectl(t, "patch", "httproute/chat", "--subresource=status", "--type=merge", "-p", accepted(kubectl(t, "get", "httproute/chat", "-o", "jsonpath={.metadata.generation}")))
	}
	meddle := `[{"op": "replace", "path": "/spec/rules/0/backendRefs/1/weight", "value": 7}]`
	manifest := warmRoute
	if kind == kube.InferenceService {
		svc.Warm.Backend, svc.Warm.Workload = "", language.Workload{}
		warm, object = "chat-predictor-00001-deployment", "inferenceservice/chat"
		carryOut = func(t testing.TB) {
			canary := kubectl(t, "get", object, "-o", "jsonpath={.spec.predictor.canaryTrafficPercent}")
			kubectl(t, "patch", object, "--subresource=status", "--type=merge", "-p", rolledOut(t, canary))
		}
		meddle = `[{"op": "add", "path": "/spec/predictor/canaryTrafficPercent", "value": 7}]`
		manifest = "\n---\napiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: chat}\nspec: {predictor: {minReplicas: 2}}\n"
	}
	cp.Apply(t, ns, inference("chat", "vllm:v2", 2)+"---"+inference(warm, "vllm:v1", 2)+manifest)
	for _, name := range []string{"chat", warm} {
		cp.AwaitRollout(t, ns, name, time.Minute)
	}
	carryOut(t)
	return steptest.World{
		Service: svc, Deps: step.Deps{Workloads: client, Routes: client}, Settle: carryOut,
		Spec:   func(t testing.TB) string { return kubectl(t, "get", object, "-o", "jsonpath={.spec}") },
		Meddle: func(t testing.TB) { kubectl(t, "patch", object, "--type=json", "-p", meddle) },
	}
}

func accepted(generation string) string {
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type": %q, "status": "True", "reason": %[1]q, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": %s}`, kind, generation)
	}
	return fmt.Sprintf(`{"status": {"parents": [{"parentRef": {"name": "edge"}, "controllerName": "example.com/gateway", "conditions": [%s, %s]}]}}`, condition("Accepted"), condition("ResolvedRefs"))
}

// rolledOut is the status that KServe writes once Knative splits as it was told.
func rolledOut(t testing.TB, canary string) string {
	t.Helper()
	percent := 100
	if canary != "" {
		var err error
		if percent, err = strconv.Atoi(canary); err != nil {
			t.Fatal(err)
		}
	}
	return kserveSplit(int64(percent))
}

// kserveSplit is the status of a service of which the newest revision gets a percentage.
func kserveSplit(percent int64) string {
	return fmt.Sprintf(`{"status": {"components": {"predictor": {
  "latestReadyRevision": "chat-predictor-00002", "latestRolledoutRevision": "chat-predictor-00002", "previousRolledoutRevision": "chat-predictor-00001",
  "traffic": [{"revisionName": "chat-predictor-00002", "percent": %d}, {"revisionName": "chat-predictor-00001", "percent": %d}]}}}}`, percent, 100-percent)
}

// A release makes first tokens late, and the one before is kept warm: requests move
// there at once, the objectives prove it, they stay there while the release runs, a
// restart of it included, and go back once another does.
func TestRequestsMoveToTheWarmRevision(t *testing.T) {
	t.Parallel()
	rig.Shared(t).Define(t, "httproute")
	w := newWorld(t, worldOptions{
		manifests: warmRoute,
		settings:  "guards: {cooldown: 1s}",
		service:   "    recovery: 5s\n    warm: {route: {name: chat}, backend: chat-stable, workload: {name: chat-stable}}\n",
		files:     map[string]string{"playbooks/loan-return.yaml": loanReturn(t)},
	})
	w.fleet.SetWarm("chat-stable", 0)
	rig.StartGateway(t, w.cp, w.ns, "chat", w.fleet)
	w.cp.Apply(t, w.ns, inference("chat-stable", "vllm:v1", 2))
	w.cp.AwaitRollout(t, w.ns, "chat-stable", time.Minute)
	w.prometheus.AwaitQuery(t, 20*time.Second, fmt.Sprintf(`count(vllm:num_requests_running{namespace=%q})`, w.ns), func(v float64) bool { return v == 4 })

	w.setImage(t, "vllm:v2-bad")
	incident := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeResolved)
	if got := w.weights(t); got != "0 100" {
		t.Errorf("the weights are %s, want all at the warm revision:\n%s", got, incident)
	}
	if image := w.image(t); image != "vllm:v2-bad" {
		t.Errorf("the image is %s, want the release where it is", image)
	}
	patched := fmt.Sprintf("patch httproutes %s/chat -> 200", w.ns)
	w.wantWrites(t, patched)
	loan := w.awaitLoan(t, time.Minute, "a wait for another release", func(r *rig.Run) bool {
		return strings.Contains(r.String(), "left-behind")
	})
	if owed := w.responder.Must(t, "loans", "list"); !strings.Contains(owed, loan.ID) {
		t.Errorf("loans list does not have %s:\n%s", loan.ID, owed)
	}
	w.cp.Kubectl(t, "-n", w.ns, "rollout", "restart", "deployment/chat")
	w.cp.AwaitRollout(t, w.ns, "chat", time.Minute)
	looks := loan.Has(machine.WaitLooked)
	w.awaitLoan(t, time.Minute, "looks at the release that was restarted", func(r *rig.Run) bool { return r.Has(machine.WaitLooked) > looks+2 })
	if got := w.weights(t); got != "0 100" {
		t.Errorf("the weights are %s, though the release still runs", got)
	}

	w.setImage(t, "vllm:v3")
	loan = w.awaitLoan(t, 2*time.Minute, "its end", func(r *rig.Run) bool { return r.Ending != nil })
	wantEnd(t, loan, machine.OutcomeResolved)
	if got := w.weights(t); got != "100 0" {
		t.Errorf("the weights are %s after the loan:\n%s", got, loan)
	}
	w.wantWrites(t, patched, patched)
}

// weights are those of the route's backends.
func (w *world) weights(t *testing.T) string {
	t.Helper()
	return w.cp.Kubectl(t, "-n", w.ns, "get", "httproute/chat", "-o", "jsonpath={.spec.rules[0].backendRefs[*].weight}")
}
