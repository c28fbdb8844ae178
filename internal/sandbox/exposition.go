package sandbox

import (
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
		"job", f.dialect().name, "instance", p.name + ":8000",
		"namespace", f.ref.Namespace, "service", f.ref.Name, "pod", p.name,
		"model_name", f.spec.service.Model,
	}
}

// expose makes the series of an engine.
func (x *exporter) expose(at time.Time, f *fleet, p *pod) []gauge {
	e, base := p.engine, append(podLabels(f, p), f.dialect().labels...)
	var out []gauge
	add := func(name string, read func() float64, pairs ...string) {
		all := append(append([]string{}, base...), pairs...)
		out = append(out, gauge{x.store.add(name, at, all...), read})
	}
	for _, m := range f.dialect().metrics(e) {
		add(m.name, m.read, m.labels...)
	}
	for _, h := range f.dialect().histograms(e) {
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
		add(h.name+"_sum", func() float64 { return h.h.Sum })
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
