package slo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// world is a store of a few counters scraped every 15 s from 0 to an end.
type world map[string]int64

type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Copy() chunks.Sample           { return s }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }

type seriesSet struct{ left []storage.Series }

func (s *seriesSet) Next() bool {
	s.left = s.left[1:]
	return len(s.left) > 0
}
func (s *seriesSet) At() storage.Series                  { return s.left[0] }
func (*seriesSet) Err() error                            { return nil }
func (*seriesSet) Warnings() (_ annotations.Annotations) { return nil }

func (w world) selectSeries(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{left: []storage.Series{nil}}
	for name, end := range w {
		if ms[len(ms)-1].Value != name {
			continue
		}
		var ss []chunks.Sample
		for at := int64(0); at <= end; at += 15 {
			ss = append(ss, sample{at * 1000, float64(at)})
		}
		set.left = append(set.left, storage.NewListSeries(labels.FromStrings("__name__", name), ss))
	}
	return set
}

func (w world) instant(t *testing.T, expr string, at int64) Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	store := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: w.selectSeries}}
	query, err := engine.NewInstantQuery(context.Background(), store, nil, expr, time.Unix(at, 0))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	vec, err := query.Exec(context.Background()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var v Vector
	for _, s := range vec {
		v.Samples = append(v.Samples, Sample{Value: s.F})
	}
	return v
}

// TestFreshness asks the real PromQL engine: x was scraped until 60 s, y until
// 1800 s.
func TestFreshness(t *testing.T) {
	w := world{"x": 60, "y": 1800}
	tests := []struct {
		expr string
		at   int64
		want int64 // seconds of the oldest newest sample; -1: no answer
	}{
		{`y`, 300, 300},
		{`sum(rate(y[5m]))`, 307, 300},
		{`sum(rate(x[5m]))`, 300, 60},
		{`sum(rate(x[5m])) / sum(rate(y[5m]))`, 300, 60},
		{`y offset 4m`, 300, -1},
		{`x @ 10`, 300, -1},
		{`vector(0)`, 300, -1},
		{`nothing_yet or vector(0)`, 300, -1},
		{`sum(rate(nothing_yet[5m])) or vector(0)`, 300, -1},
		{`max_over_time(rate(y[1m])[2m:15s])`, 300, 300},
		// The target died long ago, but an hour's rate still has a value.
		{`rate(x[1h])`, 1800, 0},
		{`rate(x[1h]) + rate(x[1h]) + rate(y[1h])`, 1800, 0},
	}
	for _, tt := range tests {
		q, _, err := FreshnessQuery(tt.expr)
		if err != nil {
			t.Fatal(err)
		}
		got := int64(-1)
		if q != "" {
			if at, ok := Newest(w.instant(t, q, tt.at)); ok {
				got = at.Unix()
			}
		}
		if got != tt.want {
			t.Errorf("%s: newest %d, want %d (asked %s)", tt.expr, got, tt.want, q)
		}
	}
}

func TestFreshnessRefuses(t *testing.T) {
	if _, _, err := FreshnessQuery(`sum(`); err == nil || !strings.Contains(err.Error(), "sum(") {
		t.Errorf("got %v", err)
	}
}
