//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	lang "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestSnapshotOf200Replicas: a real Prometheus with 16,000 series of 200 replicas answers
// what engine.snapshot asks, and the odd replica is found. The log tells how long it took;
// the target is 500 ms on a quiet machine.
func TestSnapshotOf200Replicas(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{History: fleetHistory(now, 200, 137)})
	querier, err := slo.NewPrometheus(slo.Options{URL: prometheus.URL})
	if err != nil {
		t.Fatal(err)
	}
	at := now.Add(-15 * time.Second)
	set := kinds.New(step.Deps{Querier: querier, Now: func() time.Time { return at }})
	svc := lang.Service{
		Name: "chat", Namespace: "serving", Engine: "vllm", Selector: `service="chat"`, Workload: lang.Workload{Kind: "Deployment", Name: "chat"},
		SLOs: []lang.SLO{{Name: "ttft", Objective: 0.99, Threshold: 0.5}},
	}
	var took []time.Duration
	var out struct {
		Bound    string
		Running  float64
		Replicas []struct{ Name, Bound string }
	}
	for i := range 6 {
		began := time.Now()
		o := set.Do(t.Context(), machine.Effect{Action: machine.ActionCheck, Step: "engine.snapshot", Service: svc, Timeout: time.Minute})
		if i > 0 { // the first opens the connection
			took = append(took, time.Since(began).Round(time.Millisecond))
		}
		if o.Status != machine.StatusOK {
			t.Fatalf("engine.snapshot: %s", o.Message)
		}
		if err := json.Unmarshal(o.Data, &out); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	t.Logf("engine.snapshot of 200 replicas took %s, median %s", took, took[len(took)/2])
	if out.Bound != "kv" || math.Abs(out.Running-1000) > 0.5 || len(out.Replicas) == 0 || out.Replicas[0].Name != "chat-137" {
		t.Errorf("bound %s, %v running, first %v; want kv, 1000, chat-137", out.Bound, out.Running, out.Replicas[:min(1, len(out.Replicas))])
	}
}

// fleetHistory is what so many replicas of vLLM exported in the last ten minutes and in
// ten minutes an hour ago, scraped every 15 s, as OpenMetrics. The odd one's cache is full.
func fleetHistory(now time.Time, replicas, odd int) string {
	type metric struct {
		name, labels string
		gauge        float64
		rate         float64 // of a counter
	}
	var all []metric
	gauge := func(name string, v float64) { all = append(all, metric{name: "vllm:" + name, gauge: v}) }
	rate := func(name, labels string, v float64) {
		all = append(all, metric{name: "vllm:" + name, labels: labels, rate: v})
	}
	gauge("num_requests_running", 5)
	gauge("num_requests_waiting", 0)
	for name, v := range map[string]float64{
		"prompt_tokens_total": 1200, "generation_tokens_total": 400, "prefix_cache_queries_total": 1200, "prefix_cache_hits_total": 600, "iteration_tokens_total_count": 80,
	} {
		rate(name, "", v)
	}
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		rate("request_success_total", `,finished_reason="`+reason+`"`, 0.5)
	}
	for name, bounds := range map[string][]string{
		"time_to_first_token_seconds": strings.Fields("0.01 0.1 0.25 0.5 1.0 2.5 5.0 10.0 +Inf"), "inter_token_latency_seconds": strings.Fields("0.01 0.025 0.05 0.1 0.5 +Inf"),
		"request_queue_time_seconds": strings.Fields("0.3 1.0 5.0 +Inf"), "request_prefill_time_seconds": strings.Fields("0.3 1.0 5.0 +Inf"),
		"request_decode_time_seconds": strings.Fields("0.3 1.0 5.0 +Inf"), "e2e_request_latency_seconds": strings.Fields("0.3 1.0 5.0 10.0 +Inf"),
		"request_prompt_tokens": strings.Fields("100.0 500.0 1000.0 2000.0 5000.0 +Inf"), "request_generation_tokens": strings.Fields("100.0 500.0 1000.0 2000.0 +Inf"),
	} {
		for i, le := range bounds {
			rate(name+"_bucket", `,le="`+le+`"`, 2*float64(i+1)/float64(len(bounds)))
		}
		rate(name+"_sum", "", 1)
		rate(name+"_count", "", 2)
	}
	var out strings.Builder
	line := func(m metric, i int, v func(at time.Time) float64) {
		for _, until := range []time.Duration{time.Hour, 0} {
			for ago := 10 * time.Minute; ago >= 0; ago -= 15 * time.Second {
				at := now.Add(-until - ago)
				fmt.Fprintf(&out, "%s{service=\"chat\",pod=\"chat-%d\",instance=\"10.0.0.%d:8000\",engine=\"0\",model_name=\"org/\\\"big\\\"\"%s} %g %d\n", m.name, i, i, m.labels, v(at), at.Unix())
			}
		}
	}
	for _, m := range all {
		for i := range replicas {
			line(m, i, func(at time.Time) float64 { return m.gauge + m.rate*at.Sub(now.Add(-2*time.Hour)).Seconds() })
		}
	}
	for i := range replicas {
		full := 0.0
		if i == odd {
			full = 1
		}
		line(metric{name: "vllm:kv_cache_usage_perc"}, i, func(time.Time) float64 { return 0.3 + 0.7*full })
		line(metric{name: "vllm:num_preemptions_total"}, i, func(at time.Time) float64 { return full * at.Sub(now.Add(-2*time.Hour)).Seconds() })
		line(metric{name: "vllm:cache_config_info", labels: `,num_gpu_blocks="2200",block_size="16",gpu_memory_utilization="0.9",cache_dtype="auto"`}, i, func(time.Time) float64 { return 1 })
	}
	out.WriteString("# EOF\n")
	return out.String()
}
