package kinds_test

import (
	"context"
	"math"
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

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step/gpu"
)

// gauge is what was scraped of a GPU's last XID, every 15 s of the two hours till
// noon; NaN: nothing was.
type gauge func(at time.Time) float64

// scrapes is a Prometheus of such gauges, by GPU. Its PromQL is the real one.
type scrapes struct {
	t        *testing.T
	gpus     map[string]gauge
	warnings []string
}

type scrape struct {
	at    int64
	value float64
}

func (s scrape) T() int64                      { return s.at }
func (s scrape) F() float64                    { return s.value }
func (s scrape) H() *histogram.Histogram       { return nil }
func (s scrape) FH() *histogram.FloatHistogram { return nil }
func (s scrape) Copy() chunks.Sample           { return s }
func (s scrape) Type() chunkenc.ValueType      { return chunkenc.ValFloat }

type seriesSet struct{ left []storage.Series }

func (s *seriesSet) Next() bool {
	s.left = s.left[1:]
	return len(s.left) > 0
}
func (s *seriesSet) At() storage.Series                  { return s.left[0] }
func (*seriesSet) Err() error                            { return nil }
func (*seriesSet) Warnings() (_ annotations.Annotations) { return nil }

func (p scrapes) selected(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var all []storage.Series
	for uuid, value := range p.gpus {
		ls := labels.FromStrings("__name__", "DCGM_FI_DEV_XID_ERRORS", "Hostname", "node-0", "UUID", uuid)
		for _, m := range ms {
			if !m.Matches(ls.Get(m.Name)) {
				ls = labels.EmptyLabels()
			}
		}
		if ls.IsEmpty() {
			continue
		}
		var points []chunks.Sample
		for at := noon.Add(-2 * time.Hour); !at.After(noon); at = at.Add(15 * time.Second) {
			if v := value(at); !math.IsNaN(v) {
				points = append(points, scrape{at.UnixMilli(), v})
			}
		}
		all = append(all, storage.NewListSeries(ls, points))
	}
	return &seriesSet{left: append([]storage.Series{nil}, all...)}
}

// Instant implements [step.Querier].
func (p scrapes) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	store := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: p.selected}}
	query, err := engine.NewInstantQuery(ctx, store, nil, expr, at)
	if err != nil {
		return slo.Vector{}, err
	}
	vec, err := query.Exec(ctx).Vector()
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	v := slo.Vector{Warnings: p.warnings}
	for _, s := range vec {
		v.Samples = append(v.Samples, slo.Sample{Labels: s.Metric.Map(), Value: s.F})
	}
	return v, nil
}

// Range implements [step.Querier].
func (p scrapes) Range(context.Context, string, time.Time, time.Time, time.Duration) (slo.Matrix, error) {
	p.t.Error("points are asked for")
	return slo.Matrix{}, nil
}

// TestQuiet: only a gauge that was scraped all the time, and never moved, says
// that no XID came.
func TestQuiet(t *testing.T) {
	steady := func(v float64) gauge { return func(time.Time) float64 { return v } }
	from := func(ago time.Duration, before, since float64) gauge {
		return func(at time.Time) float64 {
			if at.Before(noon.Add(-ago)) {
				return before
			}
			return since
		}
	}
	hole := func(ago, long time.Duration) gauge {
		return func(at time.Time) float64 {
			if at.Before(noon.Add(-ago)) || !at.Before(noon.Add(-ago+long)) {
				return 0
			}
			return math.NaN()
		}
	}
	one := func(g gauge) map[string]gauge {
		return map[string]gauge{"GPU-1": steady(0), "GPU-2": g}
	}
	nothing := math.NaN()
	for name, c := range map[string]struct {
		gpus     map[string]gauge
		warnings []string
		late     time.Duration // after noon it is asked
		says     string        // empty: none came
	}{
		"none":                     {gpus: one(steady(0))},
		"an old one stands there":  {gpus: one(steady(31))},
		"between two steps":        {gpus: one(steady(0)), late: 11 * time.Second},
		"one came":                 {gpus: one(from(30*time.Minute, 0, 95)), says: "GPU GPU-2 had another XID since, or its exporter restarted"},
		"one came and went":        {gpus: one(func(at time.Time) float64 { return map[bool]float64{true: 95}[at.Hour() == 11 && at.Minute() == 20] }), says: "had another XID since"},
		"before it went out":       {gpus: one(from(62*time.Minute, 0, 31))},
		"one that counts stands":   {gpus: one(steady(94)), says: "GPU GPU-2 had XID 94 last: a repetition of it would not show"},
		"the exporter began anew":  {gpus: one(from(30*time.Minute, 95, 0)), says: "had another XID since"},
		"not scraped for a while":  {gpus: one(hole(30*time.Minute, 3*time.Minute)), says: "of GPU GPU-2 was scraped at 118 of 121 steps of 30s"},
		"nor when it went out":     {gpus: one(from(50*time.Minute, nothing, 0)), says: "of GPU GPU-2 was scraped at 100 of 121 steps"},
		"nor now":                  {gpus: one(from(20*time.Minute, 0, nothing)), says: "of 121 steps"},
		"two scrapes were lost":    {gpus: one(hole(30*time.Minute, 30*time.Second))},
		"never":                    {gpus: map[string]gauge{"GPU-1": steady(0)}, says: "DCGM_FI_DEV_XID_ERRORS is not in Prometheus for GPU GPU-2"},
		"what is no number of one": {gpus: one(steady(0x7ffffff0)), says: "of GPU GPU-2 was scraped at 0 of 121 steps"},
		"Prometheus knows parts":   {gpus: one(steady(0)), warnings: []string{"a store is away"}, says: "could not read everything: a store is away"},
	} {
		t.Run(name, func(t *testing.T) {
			d := gpu.DCGM{Querier: scrapes{t, c.gpus, c.warnings}, Now: func() time.Time { return noon.Add(c.late) }}
			err := d.Quiet(t.Context(), "node-0", []string{"GPU-2", "GPU-1"}, noon.Add(-time.Hour))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	away := gpu.DCGM{Querier: exported{t: t}, Now: atNoon}
	if err := away.Quiet(t.Context(), "node-0", []string{"GPU-1"}, noon.Add(-time.Hour)); err == nil || !strings.Contains(err.Error(), "ask for XIDs since") {
		t.Errorf("Prometheus does not answer: %v", err)
	}
}
