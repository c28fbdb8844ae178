package sandbox

import (
	"math"
	"strconv"
	"strings"
	"time"
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
	for _, h := range p.engine.histograms() {
		h.d.show()
	}
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
	whole := func(v *float64) func() float64 { return func() float64 { return math.Floor(*v) } }

	add("vllm:num_requests_running", func() float64 { return math.Round(e.running) })
	add("vllm:num_requests_waiting", func() float64 { return math.Round(e.waiting) })
	add("vllm:num_requests_waiting_by_reason", func() float64 { return math.Round(e.waiting) }, "reason", "capacity")
	add("vllm:num_requests_waiting_by_reason", func() float64 { return 0 }, "reason", "deferred")
	add("vllm:kv_cache_usage_perc", func() float64 { return e.cache })
	add("vllm:num_preemptions_total", whole(&e.preempted))
	add("vllm:prompt_tokens_total", whole(&e.prompted))
	add("vllm:generation_tokens_total", whole(&e.generated))
	add("vllm:prefix_cache_queries_total", whole(&e.prompted))
	add("vllm:prefix_cache_hits_total", func() float64 { return math.Floor(e.prompted * 0.31) })
	add("vllm:iteration_tokens_total_count", whole(&e.steps))
	add("vllm:request_success_total", func() float64 { return math.Floor(e.completed * 0.9) }, "finished_reason", "stop")
	add("vllm:request_success_total", func() float64 { return math.Floor(e.completed) - math.Floor(e.completed*0.9) }, "finished_reason", "length")
	add("vllm:request_success_total", whole(&e.aborted), "finished_reason", "abort")
	add("vllm:request_success_total", whole(&e.failed), "finished_reason", "error")

	for _, h := range e.histograms() {
		for i, b := range h.d.bounds {
			add(h.name+"_bucket", func() float64 { return h.d.shown[i] }, "le", bound(b))
		}
		all := len(h.d.bounds)
		add(h.name+"_bucket", func() float64 { return h.d.shown[all] }, "le", "+Inf")
		add(h.name+"_count", func() float64 { return h.d.shown[all] })
		add(h.name+"_sum", func() float64 { return h.d.sum })
	}
	return out
}

// bound writes a bucket's bound as Python and Prometheus 3 do: 1.0, not 1.
func bound(b float64) string {
	s := strconv.FormatFloat(b, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
