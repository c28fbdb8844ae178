package slo

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/inference-responder/responder/internal/fault"
)

// scraped is a store of series that were scraped every 15 s for 20 minutes. Its
// queries run in the real PromQL engine.
type scraped struct {
	series  []storage.Series
	queries int
}

// add adds a series; its value at each scrape is at(scrape).
func (w *scraped) add(t *testing.T, selector string, at func(i float64) float64) {
	t.Helper()
	var ss []chunks.Sample
	for i := range 81 {
		if v := at(float64(i)); !math.IsNaN(v) {
			ss = append(ss, sample{int64(i) * 15_000, v})
		}
	}
	w.put(t, selector, ss)
}

func (w *scraped) put(t *testing.T, selector string, ss []chunks.Sample) {
	t.Helper()
	ms, err := parser.ParseMetricSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, m := range ms {
		b.Set(m.Name, m.Value)
	}
	w.series = append(w.series, storage.NewListSeries(b.Labels(), ss))
}

// histogram adds a classic histogram with buckets at 0.5 and 1.0; of its total
// events per scrape, good end within half a second.
func (w *scraped) histogram(t *testing.T, name, match string, good, total float64) {
	t.Helper()
	rate := func(v float64) func(float64) float64 { return func(i float64) float64 { return v * i } }
	w.add(t, name+`_bucket{`+match+`,le="0.5"}`, rate(good))
	w.add(t, name+`_bucket{`+match+`,le="1.0"}`, rate(total))
	w.add(t, name+`_bucket{`+match+`,le="+Inf"}`, rate(total))
	w.add(t, name+`_count{`+match+`}`, rate(total))
}

func (w *scraped) Instant(ctx context.Context, expr string, at time.Time) (Vector, error) {
	w.queries++
	store := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: w.match}}
	query, err := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}).NewInstantQuery(ctx, store, nil, expr, at)
	if err != nil {
		return Vector{}, err
	}
	r := query.Exec(ctx)
	vec, err := r.Vector()
	if err != nil {
		return Vector{}, err
	}
	warnings, infos := r.Warnings.AsStrings(expr, 10, 10)
	out := Vector{Warnings: append(warnings, infos...)}
	for _, s := range vec {
		out.Samples = append(out.Samples, Sample{Labels: s.Metric.Map(), Value: s.F})
	}
	return out, nil
}

func (w *scraped) match(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{left: []storage.Series{nil}}
	for _, s := range w.series {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			set.left = append(set.left, s)
		}
	}
	return set
}

var (
	end  = time.Unix(1200, 0)
	five = Span{Window: 5 * time.Minute}
)

func ttft(sources ...Source) Ask {
	if len(sources) == 0 {
		sources = []Source{{Histogram: "ttft", Model: "model_name"}, {Histogram: "old_ttft"}}
	}
	return Ask{Service: `service="chat"`, Objectives: []Objective{{Name: "ttft", Objective: 0.99, Threshold: 0.5, Sources: sources}}}
}

func TestMeasure(t *testing.T) {
	counter := func(perScrape float64) func(float64) float64 { return func(i float64) float64 { return perScrape * i } }
	errorsOf := func(lazy bool) Ask {
		a := ttft(Source{Failed: "requests_total", FailedMatch: `code="500"`, FailedLazy: lazy, Total: "requests_total"})
		a.Objectives[0].Name, a.Objectives[0].Threshold = "errors", 0
		return a
	}
	tests := []struct {
		name  string
		world func(w *scraped)
		ask   Ask
		want  []Counts // of each Measured, over five minutes: 20 scrapes
		why   fault.Reason
		text  string
	}{
		{
			"two replicas", func(w *scraped) {
				w.histogram(t, "ttft", `service="chat",pod="a"`, 9, 10)
				w.histogram(t, "ttft", `service="chat",pod="b"`, 5, 10)
				w.histogram(t, "ttft", `service="other",pod="c"`, 0, 10)
			}, ttft(), []Counts{{120, 400}}, "", "ttft_bucket",
		},
		{"an older name", func(w *scraped) { w.histogram(t, "old_ttft", `service="chat"`, 9, 10) }, ttft(), []Counts{{20, 200}}, "", "old_ttft_bucket"},
		{"no series", func(*scraped) {}, ttft(), nil, fault.NoData, "ttft_bucket, old_ttft_bucket"},
		{"idle", func(w *scraped) { w.histogram(t, "ttft", `service="chat"`, 0, 0) }, ttft(), []Counts{{0, 0}}, "", ""},
		{
			"gone for four minutes", func(w *scraped) {
				w.add(t, `ttft_count{service="chat"}`, func(i float64) float64 {
					if i > 64 {
						return math.NaN()
					}
					return i
				})
			}, ttft(), nil, fault.Stale, "4m0s old",
		},
		{
			"a threshold without a bucket", func(w *scraped) { w.histogram(t, "ttft", `service="chat"`, 9, 10) },
			func() Ask { a := ttft(); a.Objectives[0].Threshold = 0.7; return a }(), nil, fault.Invalid, "no bucket ends at 0.7 s; the nearest are 0.5 s and 1 s",
		},
		{
			"a bucket that one replica lacks", func(w *scraped) {
				w.histogram(t, "ttft", `service="chat",pod="a"`, 9, 10)
				w.add(t, `ttft_bucket{service="chat",pod="b",le="+Inf"}`, counter(10))
				w.add(t, `ttft_count{service="chat",pod="b"}`, counter(10))
			}, ttft(), nil, fault.Invalid, "1 of 2 series have no bucket that ends at 0.5 s",
		},
		{
			"both spellings of a bucket", func(w *scraped) {
				w.histogram(t, "ttft", `service="chat",pod="a"`, 9, 10)
				w.add(t, `ttft_bucket{service="chat",pod="b",le="1"}`, counter(8))
				w.add(t, `ttft_bucket{service="chat",pod="b",le="+Inf"}`, counter(10))
				w.add(t, `ttft_count{service="chat",pod="b"}`, counter(10))
			}, func() Ask { a := ttft(); a.Objectives[0].Threshold = 1; return a }(), []Counts{{40, 400}}, "", "",
		},
		{
			"milliseconds", func(w *scraped) {
				w.add(t, `latency_bucket{service="chat",le="500"}`, counter(9))
				w.add(t, `latency_bucket{service="chat",le="+Inf"}`, counter(10))
				w.add(t, `latency_count{service="chat"}`, counter(10))
			}, ttft(Source{Histogram: "latency", Unit: 0.001}), []Counts{{20, 200}}, "", "",
		},
		{
			"tokens weigh as requests", func(w *scraped) {
				w.histogram(t, "itl", `service="chat"`, 900, 1000)
				w.add(t, `requests_total{service="chat"}`, counter(10))
			}, ttft(Source{Histogram: "itl", Requests: "requests_total"}), []Counts{{20, 200}}, "", "",
		},
		{
			"errors that did not occur", func(w *scraped) { w.add(t, `requests_total{service="chat",code="200"}`, counter(10)) },
			errorsOf(true),
			[]Counts{{0, 200}},
			"", "",
		},
		{
			"errors that would not be counted", func(w *scraped) { w.add(t, `requests_total{service="chat",code="200"}`, counter(10)) },
			errorsOf(false), nil, fault.NoData, `requests_total{code="500"}`,
		},
		{
			"errors", func(w *scraped) {
				w.add(t, `requests_total{service="chat",code="200"}`, counter(9))
				w.add(t, `requests_total{service="chat",code="500"}`, counter(1))
			}, errorsOf(true), []Counts{{20, 200}}, "", "",
		},
		{
			"goodput", func(w *scraped) {
				w.histogram(t, "e2e", `service="chat"`, 8, 10)
				w.add(t, `requests_total{service="chat",code="500"}`, counter(1))
			}, ttft(Source{Histogram: "e2e", Failed: "requests_total", FailedMatch: `code="500"`}), []Counts{{60, 200}}, "", "",
		},
		{
			"by route", func(w *scraped) {
				w.histogram(t, "ttft", `service="chat",route="a"`, 9, 10)
				w.histogram(t, "ttft", `service="chat",route="b"`, 5, 10)
			}, func() Ask { a := ttft(); a.Objectives[0].By = "route"; return a }(), []Counts{{20, 200}, {100, 200}}, "", "",
		},
		{
			"one model of two", func(w *scraped) {
				w.histogram(t, "ttft", `service="chat",model_name="a"`, 9, 10)
				w.histogram(t, "ttft", `service="chat",model_name="b"`, 5, 10)
			}, func() Ask { a := ttft(); a.Objectives[0].Model = "a"; return a }(), []Counts{{20, 200}}, "", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &scraped{}
			tt.world(w)
			m, err := Measure(t.Context(), w, tt.ask, end, five)
			if err != nil {
				t.Fatal(err)
			}
			var got []Counts
			for _, x := range m.Measured {
				if x.Reason != tt.why || !strings.Contains(x.Detail+x.Series, tt.text) {
					t.Errorf("reason %q: %q of %q, want %q: %q", x.Reason, x.Detail, x.Series, tt.why, tt.text)
				}
				for _, c := range x.Counts {
					got = append(got, Counts{math.Round(c.Bad), math.Round(c.Total)})
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if w.queries > 3 {
				t.Errorf("%d queries, want at most 3", w.queries)
			}
		})
	}
}

// TestMeasureNative: a native histogram has any threshold.
func TestMeasureNative(t *testing.T) {
	w := &scraped{}
	var ss []chunks.Sample
	for i := range 81 {
		n := float64(10 * i)
		ss = append(ss, native{sample{int64(i) * 15_000, 0}, &histogram.FloatHistogram{
			Schema: histogram.CustomBucketsSchema, CustomValues: []float64{0.5, 1}, Count: n, Sum: n,
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []float64{0.9 * n, 0.1 * n},
		}})
	}
	w.put(t, `ttft{service="chat"}`, ss)
	for threshold, bad := range map[float64]float64{0.5: 20, 0.75: 10, 1: 0} {
		a := ttft()
		a.Objectives[0].Threshold = threshold
		m, err := Measure(t.Context(), w, a, end, five)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Measured[0]; got.Reason != "" || math.Abs(got.Counts[0].Bad-bad) > 0.1 || math.Abs(got.Counts[0].Total-200) > 0.1 {
			t.Errorf("threshold %v: %+v, want %v of 200", threshold, got, bad)
		}
	}
}

type native struct {
	sample
	h *histogram.FloatHistogram
}

func (n native) FH() *histogram.FloatHistogram { return n.h.Copy() }
func (native) Type() chunkenc.ValueType        { return chunkenc.ValFloatHistogram }
func (n native) Copy() chunks.Sample           { return n }

// TestMeasureSpans: the time before, and a span that nothing was scraped in.
func TestMeasureSpans(t *testing.T) {
	w := &scraped{}
	w.histogram(t, "ttft", `service="chat"`, 9, 10)
	m, err := Measure(t.Context(), w, ttft(), end, five, Span{Window: time.Minute, Offset: 5 * time.Minute}, Span{Window: time.Minute, Offset: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got := m.Measured[0].Counts
	if math.Round(got[1].Total) != 40 || math.Round(got[1].Bad) != 4 || got[2].usable() {
		t.Errorf("%+v, want 4 of 40 before, and nothing an hour ago", got)
	}
}

// TestMeasureStuck: one of four replicas takes requests and does nothing.
func TestMeasureStuck(t *testing.T) {
	w := &scraped{}
	replica := func(pod string, running float64, tokens func(float64) float64) {
		sel := `service="chat",engine="0",pod="` + pod + `"`
		w.add(t, "running{"+sel+"}", func(float64) float64 { return running })
		w.add(t, "waiting{"+sel+"}", func(float64) float64 { return 3 })
		w.add(t, "tokens{"+sel+"}", tokens)
	}
	works := func(i float64) float64 { return 1000 * i }
	stands := func(i float64) float64 { return 1000 * min(i, 60) }
	for _, pod := range []string{"a", "b", "c"} {
		replica(pod, 4, works)
		w.histogram(t, "ttft", `service="chat",pod="`+pod+`"`, 10, 10)
	}
	w.histogram(t, "ttft", `service="chat",pod="d"`, 0, 0)
	replica("d", 7, stands)
	replica("idle", 0, stands)
	w.add(t, `tokens{service="chat",engine="0",pod="new"}`, func(float64) float64 { return 0 })
	w.add(t, `running{service="chat",engine="0",pod="new"}`, func(i float64) float64 {
		if i < 78 {
			return math.NaN()
		}
		return 2
	})
	a := ttft()
	a.Progress = []Progress{{Running: "running", Waiting: "waiting", Steps: []string{"steps", "tokens"}, Finished: "ttft_count"}}
	m, err := Measure(t.Context(), w, a, end, five)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Replica{{Name: "d", InFlight: 10}}, m.Stuck); diff != "" {
		t.Error(diff)
	}
	// As many as another replica finishes in two minutes: 8 scrapes of 10.
	if math.Round(m.Unfinished) != 80 || math.Round(m.Measured[0].Counts[0].Bad) != 80 || math.Round(m.Measured[0].Counts[0].Total) != 680 || m.Note != "" {
		t.Errorf("%+v", m)
	}
	a.Progress[0].Steps = []string{"nothing"}
	if m, err = Measure(t.Context(), w, a, end, five); err != nil || m.Note == "" || len(m.Stuck) > 0 {
		t.Errorf("without a counter of steps: %+v, %v", m, err)
	}
}

type failing struct{ err error }

func (f failing) Instant(context.Context, string, time.Time) (Vector, error) { return Vector{}, f.err }

func TestMeasureFails(t *testing.T) {
	var e *fault.Error
	if _, err := Measure(t.Context(), failing{errors.New("boom")}, ttft(), end, five); !errors.As(err, &e) || e.Reason != fault.ServerError {
		t.Errorf("got %v", err)
	}
	if _, err := Measure(t.Context(), failing{}, Ask{Objectives: ttft().Objectives}, end, five); !errors.As(err, &e) || e.Reason != fault.Invalid {
		t.Errorf("no selector: %v", err)
	}
	a := ttft()
	a.Progress = []Progress{{Running: "running", Waiting: "waiting", Steps: []string{"steps_total"}, Finished: "finished_total"}}
	m, err := Measure(t.Context(), partly{}, a, end, five)
	if err != nil || m.Measured[0].Reason != fault.NoData || !strings.Contains(m.Measured[0].Detail, "store is away") || !strings.Contains(m.Note, "store is away") {
		t.Errorf("partial: %+v, %v", m, err)
	}
}

type partly struct{}

func (partly) Instant(context.Context, string, time.Time) (Vector, error) {
	return Vector{Warnings: []string{"store is away"}}, nil
}
