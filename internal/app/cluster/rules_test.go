package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// The labels of a service's alerts lead back to it, also where workloads share a
// name, and a service that no alert would find is refused.
func TestRuleServices(t *testing.T) {
	write := func(services string) string {
		file := filepath.Join(t.TempDir(), "responder.yaml")
		if err := os.WriteFile(file, []byte("auth: {insecure: true}\nservices:\n"+services), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	got, err := RuleServices(t.Context(), write(`
  - {namespace: serving, workload: {name: chat}, engine: vllm}
  - {namespace: other, workload: {name: chat}, engine: sglang}
  - {namespace: serving, workload: {name: search}, engine: vllm, name: search-a}
  - {namespace: serving, workload: {name: search, kind: StatefulSet}, engine: vllm, name: search-b}
`), false)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"serving chat", "other chat", "serving search-a", "serving search-b"}
	for i, s := range got {
		if label := s.Labels["namespace"] + " " + s.Labels["service"]; label != want[i] {
			t.Errorf("service %s: labels %s, want %s", s.Name, label, want[i])
		}
		if len(s.SLOs) != 2 || s.SLOs[0].Indicator != "ttft" {
			t.Errorf("service %s: objectives %v, want the defaults", s.Name, s.SLOs)
		}
	}
	got, err = RuleServices(t.Context(), discovering(t), true)
	if err != nil || len(got) != 2 || got[1].Name != "serving/found" || got[1].Engine != "vllm" || got[1].Source != "Deployment serving/found" || len(got[1].SLOs) != 2 {
		t.Errorf("with the cluster's: %+v, %v", got, err)
	}
	_, err = RuleServices(t.Context(), write(`
  - {namespace: serving, workload: {name: chat}, engine: vllm}
  - {namespace: serving, workload: {name: search}, engine: vllm, name: search, match: ['{namespace="serving"}']}
`), false)
	if err == nil || !strings.Contains(err.Error(), `responder.yaml:4: an alert with the labels namespace="serving" and service="serving/chat" would not find service serving/chat: it would belong to service search`) {
		t.Errorf("got %v", err)
	}
}

// discovering returns a configuration of a declared service, and of a cluster in which
// another one is labelled.
func discovering(t *testing.T) string {
	t.Helper()
	cluster := kubetest.New(t)
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "found"}
	cluster.Workload(t, ref, 1, kubetest.Template("found", "vllm/vllm-openai:v0.10"))
	cluster.Change(kubetest.Path(ref), func(object map[string]any) {
		object["metadata"].(map[string]any)["labels"] = map[string]any{"responder.dev/service": "true"}
	})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"responder.yaml": "auth: {insecure: true}\nkubernetes: {kubeconfig: kubeconfig}\ndiscovery: {enabled: true}\nservices:\n  - {namespace: serving, workload: {name: chat}, engine: vllm}\n",
		"kubeconfig": "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],\n" +
			"clusters: [{name: x, cluster: {server: '" + cluster.URL + "'}}], users: [{name: x, user: {}}]}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "responder.yaml")
}
