// Package slotest answers PromQL over series in memory, for tests: the engine is
// Prometheus' own.
package slotest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/inference-responder/responder/internal/slo"
)

// Store holds series by their names.
type Store map[string][]storage.Series

// Add adds a series. Its points are in the order of time.
func (s Store) Add(name string, of map[string]string, points []slo.Point) {
	samples := make([]chunks.Sample, len(points))
	for i, p := range points {
		samples[i] = sample{p.At.UnixMilli(), p.Value}
	}
	b := labels.NewBuilder(labels.FromMap(of))
	b.Set(model.MetricNameLabel, name)
	s[name] = append(s[name], storage.NewListSeries(b.Labels(), samples))
}

func engine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 5e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
}

// Instant evaluates a query at a moment.
func (s Store) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	query, err := engine().NewInstantQuery(ctx, s.queryable(), nil, expr, at)
	if err != nil {
		return slo.Vector{}, err
	}
	defer query.Close()
	r := query.Exec(ctx)
	vec, err := r.Vector()
	if err != nil {
		return slo.Vector{}, err
	}
	warnings, infos := r.Warnings.AsStrings(expr, 10, 10)
	out := slo.Vector{Warnings: append(warnings, infos...)}
	for _, x := range vec {
		out.Samples = append(out.Samples, slo.Sample{Labels: x.Metric.Map(), Value: x.F, At: at})
	}
	return out, nil
}

// Range evaluates a query at every step of an interval.
func (s Store) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	query, err := engine().NewRangeQuery(ctx, s.queryable(), nil, expr, from, to, every)
	if err != nil {
		return slo.Matrix{}, err
	}
	defer query.Close()
	m, err := query.Exec(ctx).Matrix()
	out := slo.Matrix{}
	for _, x := range m {
		one := slo.Series{Labels: x.Metric.Map()}
		for _, p := range x.Floats {
			one.Points = append(one.Points, slo.Point{At: time.UnixMilli(p.T).UTC(), Value: p.F})
		}
		out.Series = append(out.Series, one)
	}
	return out, err
}

func (s Store) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: s.match}}
}

func (s Store) match(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{left: []storage.Series{nil}}
	for _, m := range ms {
		if m.Name != model.MetricNameLabel {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if !m.Matches(name) {
				continue
			}
			for _, x := range s[name] {
				if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(x.Labels().Get(m.Name)) }) {
					set.left = append(set.left, x)
				}
			}
		}
	}
	return set
}

// seriesSet is what a selector selects; its first element is the one before all.
type seriesSet struct{ left []storage.Series }

// Next implements [storage.SeriesSet].
func (s *seriesSet) Next() bool {
	s.left = s.left[1:]
	return len(s.left) > 0
}

// At implements [storage.SeriesSet].
func (s *seriesSet) At() storage.Series { return s.left[0] }

// Err implements [storage.SeriesSet].
func (s *seriesSet) Err() error { return nil }

// Warnings implements [storage.SeriesSet].
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a number at a moment, in milliseconds.
type sample struct {
	t int64
	v float64
}

// T implements [chunks.Sample].
func (s sample) T() int64 { return s.t }

// ST implements [chunks.Sample].
func (s sample) ST() int64 { return 0 }

// F implements [chunks.Sample].
func (s sample) F() float64 { return s.v }

// H implements [chunks.Sample].
func (s sample) H() *histogram.Histogram { return nil }

// FH implements [chunks.Sample].
func (s sample) FH() *histogram.FloatHistogram { return nil }

// Type implements [chunks.Sample].
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements [chunks.Sample].
func (s sample) Copy() chunks.Sample { return s }
