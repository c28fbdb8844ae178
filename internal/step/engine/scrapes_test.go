package engine

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/slotest"
	"github.com/inference-responder/responder/internal/step"
)

const (
	scrapeEvery = 15 * time.Second
	scrapeCount = 300 // 75 minutes
)

// end is the moment of the last scrape.
var end = time.Unix(0, 0).Add((scrapeCount - 1) * scrapeEvery)

// store holds series that were scraped every 15 s, and counts the queries of them.
type store struct {
	slotest.Store
	ago     time.Duration // what is added ends so long before
	queries int
}

// add adds a series; its value at each scrape is at(scrape). NaN: no sample.
func (s *store) add(name string, of map[string]string, at func(i float64) float64) {
	var points []slo.Point
	for i := range scrapeCount {
		if v := at(float64(i)); !math.IsNaN(v) {
			points = append(points, slo.Point{At: time.Unix(0, 0).Add(time.Duration(i)*scrapeEvery - s.ago), Value: v})
		}
	}
	if s.Store == nil {
		s.Store = slotest.Store{}
	}
	s.Add(name, of, points)
}

func (s *store) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	s.queries++
	return s.Store.Instant(ctx, expr, at)
}

// vllm is one replica, as vLLM exports it; rates are per second.
type vllm struct {
	labels map[string]string // more of them

	running, waiting, cache float64
	requests                float64 // that end
	prompt, output          float64 // tokens of each
	hits                    float64 // share of prompt tokens
	queue, prefill, token   float64 // mean seconds
	preempted, failed       float64 // requests
	corrupted               float64 // requests whose logits are not numbers
	refused                 float64 // requests beside the others
	deferred                float64 // requests that wait for an adapter or a transfer

	was *vllm // until twenty minutes ago
}

const changedAt = scrapeCount - 80.0 // scrape: twenty minutes ago

// counted returns a counter that grows by so much a second, and grew by was before.
func counted(was, is float64) func(float64) float64 {
	return func(i float64) float64 {
		return scrapeEvery.Seconds() * (was*min(i, changedAt) + is*max(0, i-changedAt))
	}
}

// add exports a replica, with every sample passed through change.
func (v vllm) add(s *store, pod string, change func(name string, i, value float64) float64) {
	was := v
	if v.was != nil {
		was = *v.was
	}
	of := func(more ...string) map[string]string {
		out := map[string]string{"service": "chat", "job": "vllm", "pod": pod, "instance": pod + ":8000", "engine": "0", "model_name": `org/"big" model`}
		for k, x := range v.labels {
			out[k] = x
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	put := func(name string, at func(float64) float64, more ...string) {
		s.add(name, of(more...), func(i float64) float64 {
			if change == nil {
				return at(i)
			}
			return change(name, i, at(i))
		})
	}
	gauge := func(is float64) func(float64) float64 { return func(float64) float64 { return is } }
	rate := func(f func(v vllm) float64) func(float64) float64 { return counted(f(was), f(v)) }

	put("vllm:num_requests_running", gauge(v.running))
	put("vllm:num_requests_waiting", gauge(v.waiting+v.deferred))
	if v.deferred > 0 { // today's versions always have it
		put("vllm:num_requests_waiting_by_reason", gauge(v.waiting), "reason", "capacity")
		put("vllm:num_requests_waiting_by_reason", gauge(v.deferred), "reason", "deferred")
	}
	put("vllm:kv_cache_usage_perc", gauge(v.cache))
	put("vllm:num_preemptions_total", rate(func(v vllm) float64 { return v.preempted }))
	put("vllm:prompt_tokens_total", rate(func(v vllm) float64 { return v.requests * v.prompt }))
	put("vllm:generation_tokens_total", rate(func(v vllm) float64 { return v.requests * v.output }))
	put("vllm:iteration_tokens_total_count", rate(func(v vllm) float64 { return v.requests * v.output / 4 }))
	put("vllm:prefix_cache_queries_total", rate(func(v vllm) float64 { return v.requests * v.prompt }))
	put("vllm:prefix_cache_hits_total", rate(func(v vllm) float64 { return v.requests * v.prompt * v.hits }))
	put("vllm:request_success_total", rate(func(v vllm) float64 { return v.requests - v.failed }), "finished_reason", "stop")
	put("vllm:request_success_total", rate(func(v vllm) float64 { return v.failed }), "finished_reason", "error")
	put("vllm:request_success_total", rate(func(vllm) float64 { return 0 }), "finished_reason", "abort")
	put("vllm:corrupted_requests_total", rate(func(v vllm) float64 { return v.corrupted }))
	put("http_requests_total", rate(func(v vllm) float64 { return v.requests - v.failed }), "handler", "/v1/completions", "status", "2xx")
	put("http_requests_total", rate(func(v vllm) float64 { return 9 }), "handler", "/metrics", "status", "4xx")
	if v.refused > 0 {
		put("http_requests_total", rate(func(v vllm) float64 { return v.refused }), "handler", "/v1/completions", "status", "4xx")
	}
	put("vllm:cache_config_info", gauge(1), "num_gpu_blocks", "2200", "block_size", "16", "gpu_memory_utilization", "0.9")
	phases := map[string]func(v vllm) float64{
		"vllm:request_queue_time_seconds":   func(v vllm) float64 { return v.queue },
		"vllm:request_prefill_time_seconds": func(v vllm) float64 { return v.prefill },
		"vllm:request_decode_time_seconds":  func(v vllm) float64 { return v.token * v.output },
		"vllm:e2e_request_latency_seconds":  func(v vllm) float64 { return v.queue + v.prefill + v.token*v.output },
	}
	for name, f := range phases {
		put(name+"_sum", rate(func(v vllm) float64 { return v.requests * f(v) }))
		put(name+"_count", rate(func(v vllm) float64 { return v.requests }))
	}
	put("vllm:inter_token_latency_seconds_sum", rate(func(v vllm) float64 { return v.requests * v.output * v.token }))
	put("vllm:inter_token_latency_seconds_count", rate(func(v vllm) float64 { return v.requests * v.output }))
	for name, f := range map[string]func(v vllm) float64{
		"vllm:request_prompt_tokens": func(v vllm) float64 { return v.prompt }, "vllm:request_generation_tokens": func(v vllm) float64 { return v.output },
	} {
		for _, le := range []float64{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, math.Inf(1)} {
			put(name+"_bucket", rate(func(v vllm) float64 { return v.requests * share(f(v), le) }), "le", leOf(le))
		}
		put(name+"_sum", rate(func(v vllm) float64 { return v.requests * f(v) }))
		put(name+"_count", rate(func(v vllm) float64 { return v.requests }))
	}
}

// share is the share of lengths up to a bound if they are spread evenly up to twice
// their mean.
func share(mean, le float64) float64 { return min(1, le/(2*mean)) }

func leOf(le float64) string {
	if math.IsInf(le, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(le, 'f', 1, 64)
}

// chat is a service of vLLM.
func chat() playbook.Service {
	return playbook.Service{
		Name: "chat", Engine: "vllm", Selector: `service="chat"`, Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"},
		SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Threshold: 0.5}},
	}
}

// usual is a replica at an ordinary load.
func usual() vllm {
	return vllm{running: 5, cache: 0.3, requests: 2, prompt: 600, output: 200, hits: 0.5, queue: 0.001, prefill: 0.1, token: 0.012}
}

// find runs a check on a store and returns its evidence and facts.
func find[T any](t *testing.T, s *store, make func(step.Deps) step.Check, in step.Input) (T, []string) {
	t.Helper()
	if in.Service.Name == "" {
		in.Service = chat()
	}
	in.Now = end
	f, err := make(step.Deps{Querier: s}).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	out, ok := f.Out.(T)
	if !ok {
		t.Fatalf("the evidence is a %T", f.Out)
	}
	return out, f.Facts
}

func podName(i int) string { return fmt.Sprintf("chat-%04d", i) }

// lastScrapes keeps only so many samples.
func lastScrapes(n float64) func(name string, i, v float64) float64 {
	return func(_ string, i, v float64) float64 {
		if i < scrapeCount-n {
			return math.NaN()
		}
		return v
	}
}
