//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	check(t, "promtool", "test", "rules", filepath.Join(deploy, "prometheus", "gpu_test.yaml"))

	checkScrape(t, filepath.Join(deploy, "prometheus", "agents.scrape.yaml"))

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
	text := strings.NewReplacer("/var/run/secrets/kubernetes.io/serviceaccount/", dir+"/", "/etc/prometheus/responder-agent/", dir+"/").Replace(string(data))
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
