//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// The rig itself: a bad rollout breaks the SLO, Prometheus sees it, a pair of
// Alertmanagers says so, and undoing the rollout repairs it.
func TestRigBadRolloutAndUndo(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns, _ := cp.Own(t, 2, 8)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 2))
	cp.AwaitRollout(t, ns, "chat", 30*time.Second)

	fleet := rig.StartFleet(t, cp, ns, "chat")
	hook := rig.StartWebhook(t)
	managers := rig.StartAlertmanager(t, 2, rig.WebhookConfig(hook.URL, ""))
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{
		Rules:         rig.BurnRateRules(rig.BurnRate{Namespace: ns, Service: "chat"}),
		Targets:       []string{fleet.Addr},
		Alertmanagers: rig.Addrs(managers),
	})
	prometheus.AwaitQuery(t, 30*time.Second, requestRate(ns), func(v float64) bool { return v > 150 && v < 250 })
	prometheus.AwaitQuery(t, 20*time.Second, slowShare(ns), func(v float64) bool { return v < 0.01 })

	broken := time.Now()
	cp.Kubectl(t, "-n", ns, "set", "image", "deployment/chat", "engine=vllm:v2-bad")
	cp.AwaitRollout(t, ns, "chat", 30*time.Second)
	awaitNotification(t, hook, "InferenceTTFTFastBurn", "firing", 60*time.Second)
	t.Logf("from the bad rollout to the webhook: %v", time.Since(broken).Round(100*time.Millisecond))

	undone := time.Now()
	cp.Kubectl(t, "-n", ns, "rollout", "undo", "deployment/chat")
	cp.AwaitRollout(t, ns, "chat", 30*time.Second)
	awaitNotification(t, hook, "InferenceTTFTFastBurn", "resolved", 60*time.Second)
	t.Logf("from the undo to the webhook: %v", time.Since(undone).Round(100*time.Millisecond))
	if state, err := prometheus.AlertState(t.Context(), "InferenceTTFTFastBurn"); err != nil || state != "inactive" {
		t.Errorf("alert in Prometheus: %q, %v; want inactive", state, err)
	}
}

// Too little capacity breaks both latencies, and more replicas repair them.
func TestRigOverloadAndScale(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns, _ := cp.Own(t, 1, 8)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 2))
	cp.AwaitRollout(t, ns, "chat", 30*time.Second)
	fleet := rig.StartFleet(t, cp, ns, "chat")
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{Targets: []string{fleet.Addr}})

	fleet.SetTraffic(750) // two pods serve 500
	prometheus.AwaitQuery(t, 30*time.Second, slowShare(ns), func(v float64) bool { return v > 0.9 })
	tpot := fmt.Sprintf(`histogram_quantile(0.5, sum by (le) (rate(vllm:request_time_per_output_token_seconds_bucket{namespace=%q}[10s])))`, ns)
	prometheus.AwaitQuery(t, 20*time.Second, tpot, func(v float64) bool { return v > 0.05 })

	cp.Kubectl(t, "-n", ns, "scale", "deployment/chat", "--replicas=4")
	cp.AwaitRollout(t, ns, "chat", 30*time.Second)
	prometheus.AwaitQuery(t, 40*time.Second, slowShare(ns), func(v float64) bool { return v < 0.01 })
	prometheus.AwaitQuery(t, 20*time.Second, tpot, func(v float64) bool { return v < 0.05 })
}

// The annotations of the pod template reach the simulated kubelets, the
// scheduler counts GPUs, and a pod that is not ready gets no traffic.
func TestRigPods(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns, _ := cp.Own(t, 1, 2)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 2))
	cp.AwaitRollout(t, ns, "chat", 30*time.Second)
	fleet := rig.StartFleet(t, cp, ns, "chat")
	rig.Await(t, 10*time.Second, "both pods in the fleet", func(context.Context) (bool, string) {
		return len(fleet.Ready()) == 2, fmt.Sprint(fleet.Ready())
	})

	pod := fleet.Ready()[0]
	cp.Kubectl(t, "-n", ns, "annotate", "pod", pod, "rig.responder/ready=false")
	rig.Await(t, 10*time.Second, "a pod out of the fleet", func(context.Context) (bool, string) {
		return len(fleet.Ready()) == 1, fmt.Sprint(fleet.Ready())
	})
	cp.Kubectl(t, "-n", ns, "annotate", "pod", pod, "rig.responder/ready-")
	rig.Await(t, 10*time.Second, "the pod back", func(context.Context) (bool, string) {
		return len(fleet.Ready()) == 2, fmt.Sprint(fleet.Ready())
	})

	cp.Kubectl(t, "-n", ns, "scale", "deployment/chat", "--replicas=3")
	rig.Await(t, 20*time.Second, "a pod without a GPU", func(ctx context.Context) (bool, string) {
		pods, err := cp.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
		if err != nil {
			return false, err.Error()
		}
		for _, p := range pods.Items {
			for _, c := range p.Status.Conditions {
				if strings.Contains(c.Message, "Insufficient nvidia.com/gpu") {
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("%d pods pending", len(pods.Items))
	})
}

// What stages.yaml promises beyond readiness: jobs end, a held image stays
// Pending, an engine without memory crashes, slow starts and stops take their
// time, and nodes fail and recover.
func TestRigKubelets(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns, nodes := cp.Own(t, 1, 8)
	cp.Apply(t, ns, job("good", ``)+"---"+job("bad", `rig.responder/fails: "true"`)+
		"---"+pod("held", `rig.responder/waiting: ImagePullBackOff`)+
		"---"+pod("slow", `rig.responder/ready-delay: 2s, rig.responder/delete-delay: 2s`)+
		"---"+strings.Replace(pod("full", ""), "image: vllm:v1", "image: vllm:v1, args: [--model=chat, --max-num-seqs=2048]", 1))

	const reason = "{.status.containerStatuses[0].state.waiting.reason}"
	const ready = `{.status.conditions[?(@.type=="Ready")].status}`
	for _, want := range []struct{ object, path, value string }{
		{"job/good", "{.status.succeeded}", "1"},
		{"job/bad", "{.status.failed}", "1"},
		{"pod/held", reason, "ImagePullBackOff"},
		{"pod/full", reason, "CrashLoopBackOff"},
		{"pod/slow", ready, "True"},
		{"node/" + nodes[0], ready, "True"},
	} {
		awaitField(t, cp, ns, want.object, want.path, want.value)
	}
	slow, err := cp.Client.CoreV1().Pods(ns).Get(t.Context(), "slow", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if took := slow.Status.StartTime.Sub(slow.CreationTimestamp.Time); took < time.Second {
		t.Errorf("the slow pod was ready after %v", took)
	}
	gone := time.Now()
	cp.Kubectl(t, "-n", ns, "delete", "pod", "slow")
	if took := time.Since(gone); took < time.Second {
		t.Errorf("the slow pod was gone after %v", took)
	}

	cp.Kubectl(t, "annotate", "node", nodes[0], "rig.responder/node-ready=false")
	awaitField(t, cp, ns, "node/"+nodes[0], ready, "False")
	cp.Kubectl(t, "annotate", "node", nodes[0], "rig.responder/node-ready-")
	awaitField(t, cp, ns, "node/"+nodes[0], ready, "True")
}

// A server that is killed comes back with its files, and takes new rules.
func TestRigRestart(t *testing.T) {
	t.Parallel()
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{})
	one := func(v float64) bool { return v == 1 }
	prometheus.AwaitQuery(t, 10*time.Second, "vector(1)", one)
	prometheus.Kill9()
	if _, err := prometheus.Query(t.Context(), "vector(1)"); err == nil {
		t.Error("a killed Prometheus answers")
	}
	prometheus.Restart(t)
	prometheus.SetRules(t, "groups: [{name: g, rules: [{record: one, expr: vector(1)}]}]")
	prometheus.AwaitQuery(t, 10*time.Second, "one", one)
}

// A service account's kubeconfig carries its rights and no more, and its
// writes, the refused ones too, can be told from everybody else's.
func TestRigUserAndAudit(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns := cp.Namespace(t)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 0))
	cp.Kubectl(t, "-n", ns, "create", "serviceaccount", "responder")
	cp.Kubectl(t, "-n", ns, "create", "role", "scale", "--verb=get,patch", "--resource=deployments/scale,deployments")
	cp.Kubectl(t, "-n", ns, "create", "rolebinding", "scale", "--role=scale", "--serviceaccount="+ns+":responder")

	user := rig.ServiceAccount(ns, "responder")
	kubeconfig := cp.Kubeconfig(t, user)
	cp.Kubectl(t, "--kubeconfig="+kubeconfig, "-n", ns, "scale", "deployment/chat", "--replicas=1")
	if out, err := cp.TryKubectl(t.Context(), "--kubeconfig="+kubeconfig, "-n", ns, "delete", "deployment/chat"); err == nil {
		t.Errorf("deleted a deployment without the right to: %s", out)
	}
	var got []string
	for _, e := range cp.AuditWrites(t, user) {
		got = append(got, e.String())
	}
	want := []string{"patch deployments/scale " + ns + "/chat -> 200", "delete deployments " + ns + "/chat -> 403"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("writes of the service account:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func awaitField(t *testing.T, cp *rig.ControlPlane, ns, object, path, want string) {
	t.Helper()
	rig.Await(t, 20*time.Second, object+" "+path+" = "+want, func(ctx context.Context) (bool, string) {
		got, err := cp.TryKubectl(ctx, "-n", ns, "get", object, "-o", "jsonpath="+path)
		return err == nil && got == want, fmt.Sprint(got, err)
	})
}

func requestRate(ns string) string {
	return fmt.Sprintf(`sum(rate(vllm:request_success_total{namespace=%q}[10s]))`, ns)
}

// slowShare is the share of requests that waited longer than 0.5 s for their
// first token.
func slowShare(ns string) string {
	return fmt.Sprintf(`1 - sum(rate(vllm:time_to_first_token_seconds_bucket{namespace=%[1]q,le="0.5"}[10s]))
		/ sum(rate(vllm:time_to_first_token_seconds_count{namespace=%[1]q}[10s]))`, ns)
}

func awaitNotification(t *testing.T, hook *rig.Webhook, alertname, status string, limit time.Duration) {
	t.Helper()
	rig.Await(t, limit, alertname+" "+status+" at the webhook", func(context.Context) (bool, string) {
		return hook.Has(alertname, status), fmt.Sprintf("%+v", hook.Notifications())
	})
}

func job(name, annotations string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {%s}}
    spec: {restartPolicy: Never, containers: [{name: main, image: vllm:v1}]}
`, name, annotations)
}

func pod(name, annotations string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {%s}}
spec: {containers: [{name: main, image: vllm:v1}]}
`, name, annotations)
}
