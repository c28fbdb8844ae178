package cluster

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
)

// largeFleet is the configuration of 10,000 fully described services: an operator may write
// them into one file.
func largeFleet() []byte {
	var b strings.Builder
	b.WriteString("auth: {insecure: true}\nautonomy: suggest\nservices:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, `  - name: serving/chat-%[1]d
    namespace: serving
    workload: {kind: Deployment, name: chat-%[1]d}
    container: vllm
    engine: vllm
    model: meta-llama/Llama-3.3-70B-Instruct-%[1]d
    endpoint: http://chat-%[1]d.serving.svc.cluster.local:8000
    slos:
      - {name: ttft, objective: 0.99, window: 28d, threshold: 0.5}
      - {name: tpot, objective: 0.99, window: 28d, threshold: 0.05}
      - {name: errors, objective: 0.999, window: 28d}
    gitops: {application: chat-%[1]d, repository: https://git.example/serving.git, path: apps/chat-%[1]d}
    owners: ['user:ada', 'group:ml-platform']
    autonomy: suggest
    min_ready: 2
    max_scale: 12
    selector: model_name="meta-llama/Llama-3.3-70B-Instruct-%[1]d",namespace="serving"
`, i)
	}
	return []byte(b.String())
}

func TestConfigurationOfALargeFleet(t *testing.T) {
	c, err := config.Parse("f.yaml", largeFleet())
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.Services()); n != 10_000 {
		t.Errorf("%d services", n)
	}
}

func BenchmarkConfigurationOfALargeFleet(b *testing.B) {
	fleet := largeFleet()
	b.SetBytes(int64(len(fleet)))
	for b.Loop() {
		c, err := config.Parse("f.yaml", fleet)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Open(c, nil, slog.New(slog.DiscardHandler)); err != nil {
			b.Fatal(err)
		}
	}
}
