package sandbox

import (
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
	gauges []gauge         // of the engine; nil until it listens
	engine *physics.Engine // that the gauges are of; nil: it does not listen
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
				t = &target{fleet: f, up: x.store.add("up", at, targetLabels(f, p)...)}
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
		t.engine = nil
		for _, g := range t.gauges { // of the engine that was there before
			g.series.values = append(g.series.values, staleMarker)
		}
		return
	}
	if t.engine != p.engine {
		t.gauges, t.engine = x.expose(at, t, p), p.engine
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

// targetLabels are the labels that scraping adds.
func targetLabels(f *fleet, p *pod) []string {
	return []string{
		"job", f.dialect().name, "instance", p.name + ":8000",
		"namespace", f.ref.Namespace, "service", f.service().ref.Name, "pod", p.name,
	}
}

// engineLabels are the labels that the engine itself writes.
func engineLabels(f *fleet) []string {
	return append([]string{"model_name", f.spec.service.Model}, f.dialect().labels...)
}

// expose makes the series of an engine. One that follows another in the same pod goes on
// with its series, whose counters begin at 0.
func (x *exporter) expose(at time.Time, t *target, p *pod) []gauge {
	base := append(targetLabels(t.fleet, p), engineLabels(t.fleet)...)
	var out []gauge
	t.fleet.dialect().exposed(p.engine, func(name string, read func() float64, pairs ...string) {
		if n := len(out); n < len(t.gauges) {
			out = append(out, gauge{t.gauges[n].series, read})
			return
		}
		all := append(append([]string{}, base...), pairs...)
		out = append(out, gauge{x.store.add(name, at, all...), read})
	})
	return out
}

// exposed calls add for every series of an engine. The series of a histogram have to be
// read in the order in which they are added.
func (d dialect) exposed(e *physics.Engine, add func(name string, read func() float64, pairs ...string)) {
	for _, m := range d.metrics(e) {
		add(m.name, m.read, m.labels...)
	}
	for _, h := range d.histograms(e) {
		seen := 0.0 // the buckets are read in this order
		for i, b := range h.h.Bounds {
			add(h.name+"_bucket", func() float64 {
				if i == 0 {
					seen = 0
				}
				seen += h.h.Counts[i]
				return seen
			}, "le", number(b))
		}
		all := func() float64 { return seen + h.h.Counts[len(h.h.Bounds)] }
		add(h.name+"_bucket", all, "le", "+Inf")
		add(h.name+"_count", all)
		add(h.name+"_sum", func() float64 { return h.h.Sum })
	}
}
