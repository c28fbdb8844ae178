package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// TestProves: what a probe of the kubelet proves, by engine and path. What nobody
// documents is unknown, and never counts as weak or as strong.
func TestProves(t *testing.T) {
	get := func(path string) kube.HealthProbe { return kube.HealthProbe{Kind: "http", Path: path, Port: 8000} }
	none, tcp, exec := kube.HealthProbe{}, kube.HealthProbe{Kind: "tcp"}, kube.HealthProbe{Kind: "exec"}
	for _, tt := range []struct {
		engine           string
		readiness, start kube.HealthProbe
		proves, probe    string
		weak             bool
	}{
		{"vllm", none, none, "nothing", "none", true},
		{"vllm", tcp, none, "listens", "tcp", true},
		{"vllm", get("/health"), none, "alive", "GET /health", true},
		{"vllm", get("/v1/models"), none, "loaded", "GET /v1/models", false},
		{"vllm", get("/health"), get("/v1/models"), "loaded", "GET /health", false},
		{"vllm", get("/health_generate"), none, "unknown", "GET /health_generate", false},
		{"sglang", get("/health"), none, "alive", "GET /health", true},
		{"sglang", get("/health_generate"), none, "generates", "GET /health_generate", false},
		{"sglang", exec, get("/health_generate"), "generates", "exec", false},
		{"kserve", get("/v2/models/chat/ready"), none, "loaded", "GET /v2/models/chat/ready", false},
		{"kserve", get("/openai/v1/models"), tcp, "loaded", "GET /openai/v1/models", false},
		{"dynamo", get("/live"), none, "alive", "GET /live", true},
		{"dynamo", get("/v1/models/chat/ready"), none, "loaded", "GET /v1/models/chat/ready", false},
		{"vllm", exec, get("/health"), "unknown", "exec", false},
		{"", get("/our/own?x=1"), none, "unknown", "GET /our/own?x=1", false},
		{"", get("/v1/models?x=1"), none, "loaded", "GET /v1/models?x=1", false},
	} {
		var out readinessOut
		pods := []kube.Pod{
			{Name: "old", Revision: 1, Containers: []kube.PodContainer{{Name: "engine"}}},
			{Name: "new", Revision: 2, Containers: []kube.PodContainer{{Name: "sidecar", Readiness: tcp}, {Name: "engine", Readiness: tt.readiness, Startup: tt.start}}},
		}
		out.proof(pods, 2, playbook.Service{Engine: tt.engine, Container: "engine"})
		if out.Proves != tt.proves || out.Weak != tt.weak || out.Probe != tt.probe {
			t.Errorf("%s %+v %+v: %s, weak %v, %s", tt.engine, tt.readiness, tt.start, out.Proves, out.Weak, out.Probe)
		}
	}
	var out readinessOut
	if out.proof([]kube.Pod{{Name: "a"}}, 1, playbook.Service{}); out.Proves != "unknown" || out.Weak || out.Probe != "" {
		t.Errorf("no containers are known: %+v", out)
	}
}

// readying is a workload as it is.
type readying struct {
	step.Workloads
	is  kube.Workload
	err error
}

func (r readying) Workload(context.Context, kube.Ref) (kube.Workload, error) { return r.is, r.err }

// TestReadiness: a replica that is ready, runs requests and takes no step is silent; one
// that is young or idle is not.
func TestReadiness(t *testing.T) {
	s := &store{}
	usual().add(s, "busy", nil)
	usual().add(s, "gone", func(_ string, i, v float64) float64 { // its series ended long ago
		if i > 100 {
			return math.NaN()
		}
		return v
	})
	(vllm{running: 3}).add(s, "silent", nil)
	(vllm{}).add(s, "idle", nil)
	(vllm{}).add(s, "young", nil)
	ready := func(name string, since time.Duration) kube.Pod {
		return kube.Pod{Name: name, Ready: true, Revision: 1, ReadySince: end.Add(-since), Loading: 4 * time.Minute, Containers: []kube.PodContainer{{Name: "e", Readiness: kube.HealthProbe{Kind: "http", Path: "/health"}}}}
	}
	loading := func(name string, since time.Duration) kube.Pod {
		return kube.Pod{Name: name, Revision: 1, Containers: []kube.PodContainer{{Name: "e", Since: end.Add(-since)}}}
	}
	w := kube.Workload{Revision: 1, Pods: []kube.Pod{
		ready("busy", time.Hour), ready("silent", time.Hour), ready("idle", time.Hour), ready("young", time.Minute), ready("dark", time.Hour),
		loading("loads", 3*time.Minute), loading("overdue", 9*time.Minute),
		{Name: "pending", Revision: 1, Containers: []kube.PodContainer{{Name: "e"}}},
		{Name: "worker", Worker: true, Ready: true},
		{Name: "leaving", Phase: "Terminating", Containers: []kube.PodContainer{{Name: "e", Since: end}}},
	}}
	run := func(q step.Querier, w step.Workloads) (readinessOut, []string) {
		t.Helper()
		found, err := NewReadiness(step.Deps{Querier: q, Workloads: w}).Run(t.Context(), step.Input{Service: chat(), Now: end})
		if err != nil {
			t.Fatal(err)
		}
		out, ok := found.Out.(readinessOut)
		if !ok {
			t.Fatalf("%T", found.Out)
		}
		return out, found.Facts
	}
	out, facts := run(s, readying{is: w})
	four, minute := 240.0, 60.0
	want := readinessOut{
		Why: out.Why, Weak: true, Proves: "alive", Probe: "GET /health", Ready: 5, Silent: 2, SilentPods: []string{"dark", "silent"},
		Loading: 2, LoadingPods: []string{"overdue", "loads"}, LongestLoading: 540, UsualLoading: &four, LongestUsual: &four, YoungestReady: &minute,
		LoadingOverdue: 1, LoadingOverduePods: []string{"overdue"},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	const why = "being ready (GET /health) proves only that the engine's process is alive; 5 replicas are ready; 2 of them took no step for 5m: dark, silent; " +
		"2 are loading, the longest for 9m: overdue, loads; the ready ones took up to 4m; 1 of them are overdue"
	if out.Why != why || len(facts) != 1 {
		t.Errorf("%s\n%v", out.Why, facts)
	}
	if out, facts := run(nil, readying{is: w}); out.Silent != -1 || out.Loading != 2 || !strings.Contains(facts[1], "which ready replicas take no step is not known") {
		t.Errorf("without Prometheus: %+v %v", out, facts)
	}
	idle := &store{}
	(vllm{}).add(idle, "busy", nil)
	if out, _ := run(idle, readying{is: kube.Workload{Revision: 1, Pods: w.Pods[:1]}}); out.Silent != 0 {
		t.Errorf("no traffic at all: %+v", out)
	}
	if _, err := NewReadiness(step.Deps{Workloads: readying{err: errors.New("forbidden")}}).Run(t.Context(), step.Input{Service: chat(), Now: end}); err == nil {
		t.Error("a cluster that does not answer is no error")
	}
}
