package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	got, err := RuleServices(write(`
  - {namespace: serving, workload: {name: chat}, engine: vllm}
  - {namespace: other, workload: {name: chat}, engine: sglang}
  - {namespace: serving, workload: {name: search}, engine: vllm, name: search-a}
  - {namespace: serving, workload: {name: search, kind: StatefulSet}, engine: vllm, name: search-b}
`))
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
	_, err = RuleServices(write(`
  - {namespace: serving, workload: {name: chat}, engine: vllm}
  - {namespace: serving, workload: {name: search}, engine: vllm, name: search, match: ['{namespace="serving"}']}
`))
	if err == nil || !strings.Contains(err.Error(), `responder.yaml:4: an alert with the labels namespace="serving" and service="serving/chat" would not find service serving/chat: it would belong to service search`) {
		t.Errorf("got %v", err)
	}
}
