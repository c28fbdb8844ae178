//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The manifests are accepted, and the pod they ask for passes the namespace's
// own pod security.
func TestDeployedPodIsAdmitted(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	rig.Await(t, 30*time.Second, "the responder's pod", func(ctx context.Context) (bool, string) {
		pods, err := cp.Client.CoreV1().Pods(rig.ResponderNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=responder"})
		if err != nil {
			return false, err.Error()
		}
		events, err := cp.TryKubectl(ctx, "-n", rig.ResponderNamespace, "get", "events")
		if err != nil {
			return false, err.Error()
		}
		return len(pods.Items) == 1, events
	})
}

// On a real API server, the role of scaling is enough to scale and to be known by it
// afterwards, and not enough to change what runs; without a binding, nothing is read.
func TestScalingRoleOnlyScales(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	ns, _ := cp.Own(t, 1, 8)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 1))
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	cp.Kubectl(t, "-n", ns, "set", "image", "deployment/chat", "engine=vllm:v2")
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	chat := kube.Ref{Kind: "Deployment", Namespace: ns, Name: "chat"}
	if _, err := client.Workload(t.Context(), chat); !kube.IsForbidden(err) {
		t.Errorf("a namespace that nobody opened: %v", err)
	}
	cp.BindReading(t, ns)
	cp.Kubectl(t, "-n", ns, "create", "rolebinding", "scale", "--clusterrole=responder-lever-scale", "--serviceaccount="+rig.ResponderNamespace+":"+rig.ResponderAccount)
	rig.Await(t, 30*time.Second, "the rights", func(ctx context.Context) (bool, string) {
		yes, err := client.May(ctx, kube.Right{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: ns})
		_, unread := client.Workload(ctx, chat)
		return yes && err == nil && unread == nil, fmt.Sprint(err, unread)
	})
	w, err := client.Workload(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	a, err := client.Scale(t.Context(), kube.ScaleChange{
		Ref: chat, Replicas: 2, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}, Run: "r-1", Key: "r-1/x#1/apply#1",
	})
	if err != nil {
		t.Fatal(err)
	}
	now, err := client.Workload(t.Context(), chat)
	if err != nil || now.Replicas != 2 || now.Generation != a.Generation || now.ScaledBy != kube.EffectManager("r-1/x#1/apply") {
		t.Errorf("after %+v it is at generation %d with %d replicas by %q, %v", a, now.Generation, now.Replicas, now.ScaledBy, err)
	}
	if _, err := client.Undo(t.Context(), kube.UndoChange{Ref: chat, Pre: kube.Precondition{UID: now.UID, Generation: now.Generation}}); !kube.IsForbidden(err) {
		t.Errorf("a rollback with the right to scale: %v", err)
	}
	cp.Kubectl(t, "-n", ns, "scale", "deployment/chat", "--replicas=1")
	if w, err := client.Workload(t.Context(), chat); err != nil || w.ScaledBy != "" {
		t.Errorf("a person's scale is taken for ours: %q, %v", w.ScaledBy, err)
	}
}

// The shipped rules are rules to a real Prometheus and alert of what they are to,
// and the shipped receiver is
// one to a real Alertmanager once it stands in a whole configuration.
func TestDeployedRulesAndReceiver(t *testing.T) {
	t.Parallel()
	deploy := filepath.Join(rig.Repository(), "deploy")
	rules, err := filepath.Glob(filepath.Join(deploy, "prometheus", "*.rules.yaml"))
	if err != nil || len(rules) < 3 {
		t.Fatalf("rules are %v, %v", rules, err)
	}
	check(t, "promtool", append([]string{"check", "rules"}, rules...)...)
	tests, err := filepath.Glob(filepath.Join(deploy, "prometheus", "*_test.yaml"))
	if err != nil || len(tests) < 2 {
		t.Fatalf("tests of rules are %v, %v", tests, err)
	}
	check(t, "promtool", append([]string{"test", "rules"}, tests...)...)

	checkScrape(t, filepath.Join(deploy, "prometheus", "agents.scrape.yaml"))
	checkScrape(t, filepath.Join(deploy, "prometheus", "responder.scrape.yaml"))

	snippet, err := os.ReadFile(filepath.Join(deploy, "alertmanager", "receiver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Replace(string(snippet), "route:\n", "route:\n  receiver: people\n", 1) + "  - name: people\n"
	file := filepath.Join(t.TempDir(), "alertmanager.yml")
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, "amtool", "check-config", file)
}

// checkScrape wants a file to be a configuration of Prometheus. Debian's has no
// discovery of Kubernetes built in, and promtool looks for the files of a pod.
func checkScrape(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.NewReplacer("/var/run/secrets/kubernetes.io/serviceaccount/", dir+"/", "/etc/prometheus/responder-agent/", dir+"/", "/etc/prometheus/responder/", dir+"/").Replace(string(data))
	var config struct {
		Jobs []map[string]any `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil || len(config.Jobs) != 1 || config.Jobs[0]["kubernetes_sd_configs"] == nil {
		t.Fatalf("%s: %v, %v", file, config, err)
	}
	delete(config.Jobs[0], "kubernetes_sd_configs")
	whole, err := yaml.Marshal(map[string]any{"scrape_configs": config.Jobs})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"prometheus.yml": string(whole), "token": "x", "ca.crt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(t, "promtool", "check", "config", filepath.Join(dir, "prometheus.yml"))
}

func check(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
