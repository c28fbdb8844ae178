package sandbox

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// exporter turns the pods' engines into series, scrape by scrape.
type exporter struct {
	store   *store
	targets map[*pod]*target
	order   []*pod // targets in the order they appeared: the series' order never varies

	jobs map[string][]gauge // of the Jobs that diagnosed nodes, by node
}

// target is what is scraped of one pod.
type target struct {
	fleet  *fleet
	up     *series
	gauges []gauge // of the engine; nil until it listens
}

// gauge is a series and where its value comes from.
type gauge struct {
	series *series
	read   func() float64
}

func newExporter(s *store) *exporter {
	return &exporter{store: s, targets: map[*pod]*target{}, jobs: map[string][]gauge{}}
}

// scrape takes one sample of every pod of the fleets, and ends the series of
// pods that are gone. The caller holds the store's lock.
func (x *exporter) scrape(at time.Time, fleets []*fleet) {
	alive := map[*pod]bool{}
	for _, f := range fleets {
		for _, p := range f.pods {
			if p.node == "" {
				continue // no address yet: nothing to scrape
			}
			alive[p] = true
			t := x.targets[p]
			if t == nil {
				t = &target{fleet: f, up: x.store.add("up", at, podLabels(f, p)...)}
				x.targets[p] = t
				x.order = append(x.order, p)
			}
			x.sample(at, t, p)
		}
	}
	kept := x.order[:0]
	for _, p := range x.order {
		if alive[p] {
			kept = append(kept, p)
			continue
		}
		t := x.targets[p]
		t.up.values = append(t.up.values, staleMarker)
		for _, g := range t.gauges {
			g.series.values = append(g.series.values, staleMarker)
		}
		delete(x.targets, p)
	}
	x.order = kept
}

// sample takes one sample of a pod. A pod that still loads its model answers no scrape.
func (x *exporter) sample(at time.Time, t *target, p *pod) {
	if p.engine == nil {
		t.up.values = append(t.up.values, 0)
		return
	}
	if t.gauges == nil {
		t.gauges = x.expose(at, t.fleet, p)
	}
	t.up.values = append(t.up.values, 1)
	for _, g := range t.gauges {
		g.series.values = append(g.series.values, g.read())
	}
}

// diagnoses takes one sample of the Jobs that diagnose repaired nodes, as
// kube-state-metrics exports them. The caller holds the store's lock.
func (x *exporter) diagnoses(at time.Time, nodes []nodeSpec, start time.Time) {
	for _, n := range nodes {
		ended := start.Add(-n.repaired)
		if n.repaired == 0 || at.Before(ended) {
			continue
		}
		if x.jobs[n.name] == nil {
			labels := []string{"job", "kube-state-metrics", "namespace", "gpu-operator", "job_name", "gpu-diagnosis-" + n.name}
			x.jobs[n.name] = []gauge{
				{x.store.add("kube_job_status_succeeded", at, labels...), func() float64 { return 1 }},
				{x.store.add("kube_job_status_completion_time", at, labels...), func() float64 { return float64(ended.Unix()) }},
			}
		}
		for _, g := range x.jobs[n.name] {
			g.series.values = append(g.series.values, g.read())
		}
	}
}

// podLabels are the labels that scraping adds.
func podLabels(f *fleet, p *pod) []string {
	return []string{
		"job", "vllm", "instance", p.name + ":8000",
		"namespace", f.ref.Namespace, "service", f.ref.Name, "pod", p.name,
		"model_name", f.spec.service.Model,
	}
}

// expose makes the series of an engine.
func (x *exporter) expose(at time.Time, f *fleet, p *pod) []gauge {
	e, base := p.engine, append(podLabels(f, p), "engine", "0")
	var out []gauge
	add := func(name string, read func() float64, pairs ...string) {
		all := append(append([]string{}, base...), pairs...)
		out = append(out, gauge{x.store.add(name, at, all...), read})
	}
	count := func(v *float64) func() float64 { return func() float64 { return *v } }
	whole := func(of func() int) func() float64 { return func() float64 { return float64(of()) } }

	add("vllm:num_requests_running", whole(e.Running))
	add("vllm:num_requests_waiting", whole(e.Waiting))
	add("vllm:num_requests_waiting_by_reason", whole(e.Waiting), "reason", "capacity")
	add("vllm:num_requests_waiting_by_reason", func() float64 { return 0 }, "reason", "deferred")
	add("vllm:kv_cache_usage_perc", e.Usage)
	add("vllm:num_preemptions_total", count(&e.Preempted))
	add("vllm:prompt_tokens_total", count(&e.Prompted))
	add("vllm:generation_tokens_total", count(&e.Generated))
	add("vllm:prefix_cache_queries_total", count(&e.Queried))
	add("vllm:prefix_cache_hits_total", count(&e.Hit))
	add("vllm:iteration_tokens_total_count", count(&e.Steps))
	add("vllm:request_success_total", func() float64 { return e.Finished - math.Floor(e.Finished/10) }, "finished_reason", "stop")
	add("vllm:request_success_total", func() float64 { return math.Floor(e.Finished / 10) }, "finished_reason", "length")
	add("vllm:request_success_total", count(&e.Aborted), "finished_reason", "abort")
	add("vllm:request_success_total", count(&e.Failed), "finished_reason", "error")
	add("vllm:cache_config_info", func() float64 { return 1 }, cacheConfig(e)...)

	for _, h := range histograms(e) {
		seen := 0.0 // the buckets are read in this order
		for i, b := range h.h.Bounds {
			add(h.name+"_bucket", func() float64 {
				if i == 0 {
					seen = 0
				}
				seen += h.h.Counts[i]
				return seen
			}, "le", bound(b))
		}
		all := func() float64 { return seen + h.h.Counts[len(h.h.Bounds)] }
		add(h.name+"_bucket", all, "le", "+Inf")
		add(h.name+"_count", all)
		add(h.name+"_sum", count(&h.h.Sum))
	}
	return out
}

// cacheConfig are the labels of vLLM's cache_config_info that tell how large the KV
// cache is, and why.
func cacheConfig(e *physics.Engine) []string {
	f := e.Flags()
	caching := "True"
	if f.NoPrefixCaching {
		caching = "False"
	}
	return []string{
		"block_size", strconv.Itoa(f.BlockSize), "num_gpu_blocks", strconv.Itoa(e.Blocks()), "cache_dtype", "auto", "enable_prefix_caching", caching,
		"gpu_memory_utilization", strconv.FormatFloat(f.GPUMemoryUtilization, 'f', -1, 64), "kv_cache_size_tokens", strconv.Itoa(e.Blocks() * f.BlockSize),
	}
}

// bound writes a bucket's bound as Python and Prometheus 3 do: 1.0, not 1.
func bound(b float64) string {
	s := strconv.FormatFloat(b, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
