package app

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A tally is a counter by labels whose values can be stored and restored. A
// prometheus.CounterVec and HistogramVec cannot: without it, counters would begin at
// zero with each start, or each start would read the whole journal.
type tally struct {
	name   string
	labels int
	desc   *prometheus.Desc

	mu     sync.Mutex         // guards values; a leaf lock
	values map[string]float64 // by label values, joined with labelSeparator
}

const labelSeparator = "\x00"

func newTally(name, help string, labels ...string) *tally {
	t := &tally{name: name, labels: len(labels), desc: prometheus.NewDesc(name, help, labels, nil), values: map[string]float64{}}
	if len(labels) == 0 {
		t.values[""] = 0
	}
	return t
}

// add counts n more under these label values.
func (t *tally) add(n float64, labels ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.values[strings.Join(labels, labelSeparator)] += n
}

// Describe implements prometheus.Collector.
func (t *tally) Describe(ch chan<- *prometheus.Desc) { ch <- t.desc }

// Collect implements prometheus.Collector.
func (t *tally) Collect(ch chan<- prometheus.Metric) {
	for key, value := range t.stored() {
		var labels []string
		if t.labels > 0 {
			labels = strings.Split(key, labelSeparator)
		}
		ch <- prometheus.MustNewConstMetric(t.desc, prometheus.CounterValue, value, labels...)
	}
}

func (t *tally) stored() map[string]float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.values)
}

func (t *tally) restore(values map[string]float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.values, values)
}

// durations is a histogram by one label that can be stored and restored.
type durations struct {
	desc   *prometheus.Desc
	bounds []float64

	mu     sync.Mutex // guards values; a leaf lock
	values map[string]spread
}

// A spread is the durations under one label value.
type spread struct {
	Count  uint64   `json:"count"`
	Sum    float64  `json:"sum"`
	Within []uint64 `json:"within"` // of each bound: how many are not longer
}

func newDurations(name, help, label string, bounds ...float64) *durations {
	return &durations{desc: prometheus.NewDesc(name, help, []string{label}, nil), bounds: bounds, values: map[string]spread{}}
}

// observe counts a duration in seconds.
func (d *durations) observe(label string, seconds float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.values[label]
	if s.Within == nil {
		s.Within = make([]uint64, len(d.bounds))
	}
	s.Count++
	s.Sum += seconds
	for i, bound := range d.bounds {
		if seconds <= bound {
			s.Within[i]++
		}
	}
	d.values[label] = s
}

// Describe implements prometheus.Collector.
func (d *durations) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect implements prometheus.Collector.
func (d *durations) Collect(ch chan<- prometheus.Metric) {
	for label, s := range d.stored() {
		buckets := map[float64]uint64{}
		for i, bound := range d.bounds {
			buckets[bound] = s.Within[i]
		}
		ch <- prometheus.MustNewConstHistogram(d.desc, s.Count, s.Sum, buckets, label)
	}
}

func (d *durations) stored() map[string]spread {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]spread{}
	for label, s := range d.values {
		s.Within = slices.Clone(s.Within)
		out[label] = s
	}
	return out
}

func (d *durations) restore(values map[string]spread) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for label, s := range values {
		if len(s.Within) == len(d.bounds) {
			d.values[label] = s
		}
	}
}
