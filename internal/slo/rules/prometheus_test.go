package rules

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// start is when the samples of tests begin.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const scrape = time.Minute

// nan is a minute without a sample.
var nan = math.NaN()

// prometheus evaluates rules with Prometheus' own parser and engine over series
// that a test writes.
type prometheus struct {
	t      *testing.T
	engine *promql.Engine
	byName map[string][]*series
	since  map[string]time.Time // when an alert began to be pending
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newPrometheus(t *testing.T) *prometheus {
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { _ = e.Close() })
	return &prometheus{t: t, engine: e, byName: map[string][]*series{}, since: map[string]time.Time{}}
}

// scrape adds a series, of one value a minute; NaN: there is no sample.
func (p *prometheus) scrape(name string, minutes int, at func(minute int) float64) {
	p.t.Helper()
	lbls, err := parser.ParseMetric(name)
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	s := p.of(lbls)
	for m := range minutes {
		if v := at(m); !math.IsNaN(v) {
			s.samples = append(s.samples, sample{start.Add(time.Duration(m) * scrape).UnixMilli(), v})
		} else if n := len(s.samples); n > 0 && !value.IsStaleNaN(s.samples[n-1].F()) {
			s.samples = append(s.samples, sample{start.Add(time.Duration(m) * scrape).UnixMilli(), math.Float64frombits(value.StaleNaN)})
		}
	}
}

func (p *prometheus) of(l labels.Labels) *series {
	name := l.Get(model.MetricNameLabel)
	for _, s := range p.byName[name] {
		if labels.Equal(s.labels, l) {
			return s
		}
	}
	s := &series{labels: l}
	p.byName[name] = append(p.byName[name], s)
	return s
}

func (p *prometheus) query(expr string, at time.Time) promql.Vector {
	p.t.Helper()
	q, err := p.engine.NewInstantQuery(context.Background(), p, nil, expr, at)
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	r := q.Exec(context.Background())
	v, err := r.Vector()
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(v)
}

// evaluate records and alerts as Prometheus does at one moment. It returns the
// labels of what fires.
func (p *prometheus) evaluate(file *rulefmt.RuleGroups, at time.Time) []map[string]string {
	p.t.Helper()
	var firing []map[string]string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			active := map[string]bool{}
			for _, s := range p.query(r.Expr, at) {
				b := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel)
				for k, v := range r.Labels {
					b.Set(k, v)
				}
				if r.Record != "" {
					into := p.of(b.Set(model.MetricNameLabel, r.Record).Labels())
					if n := len(into.samples); n > 0 && into.samples[n-1].T() >= at.UnixMilli() {
						p.t.Fatalf("%s: two values of %s at once", r.Record, into.labels)
					}
					into.samples = append(into.samples, sample{at.UnixMilli(), s.F})
					continue
				}
				l := b.Set("alertname", r.Alert).Labels()
				id := l.String()
				active[id] = true
				if _, pending := p.since[id]; !pending {
					p.since[id] = at
				}
				if at.Sub(p.since[id]) >= time.Duration(r.For) {
					firing = append(firing, l.Map())
				}
			}
			maps.DeleteFunc(p.since, func(id string, _ time.Time) bool {
				return r.Alert != "" && strings.Contains(id, `alertname="`+r.Alert+`"`) && selected(id, r.Labels) && !active[id]
			})
		}
	}
	return firing
}

// has1 reports whether an alert may be of a rule with these labels.
func selected(id string, of map[string]string) bool {
	for k, v := range of {
		if !strings.Contains(id, k+"="+`"`+v+`"`) {
			return false
		}
	}
	return true
}

// parseRules reads a file of rules as Prometheus and promtool do.
func parseRules(t *testing.T, content []byte) *rulefmt.RuleGroups {
	t.Helper()
	out, errs := rulefmt.Parse(content, false, model.LegacyValidation)
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.Fatalf("%s", content)
	}
	return out
}

// parsed returns groups as Prometheus reads them.
func parsed(t *testing.T, groups ...Group) *rulefmt.RuleGroups {
	t.Helper()
	data, err := json.Marshal(File{Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	return parseRules(t, data)
}

// read returns the objectives of files of testdata.
func read(t *testing.T, o Options, names ...string) ([]Objective, []string) {
	t.Helper()
	var files []Document
	for _, name := range names {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, Document{name, data})
	}
	out, notes, err := Read(files, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, notes
}

// groups returns the rules of objectives.
func groups(t *testing.T, all []Objective) (out []Group, notes []string) {
	t.Helper()
	for _, o := range all {
		g, n, err := o.Group()
		if err != nil {
			t.Fatalf("%s: %v", o.ID, err)
		}
		out, notes = append(out, g), append(notes, n...)
	}
	return out, notes
}

// Querier reads the series.
func (p *prometheus) Querier(mint, maxt int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		if hints != nil {
			mint, maxt = hints.Start, hints.End
		}
		var found []storage.Series
		for _, m := range matchers {
			if m.Name != model.MetricNameLabel {
				continue
			}
			for _, s := range p.byName[m.Value] {
				if matches(s.labels, matchers) {
					found = append(found, storage.NewListSeries(s.labels, s.between(mint, maxt)))
				}
			}
		}
		return &set{found: found}
	}}, nil
}

func (s *series) between(mint, maxt int64) []chunks.Sample {
	from, _ := slices.BinarySearchFunc(s.samples, mint, func(x chunks.Sample, t int64) int { return int(x.T() - t) })
	to, _ := slices.BinarySearchFunc(s.samples, maxt+1, func(x chunks.Sample, t int64) int { return int(x.T() - t) })
	return s.samples[from:to]
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
}

type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

type set struct {
	found []storage.Series
	next  int
}

func (s *set) Next() bool                        { s.next++; return s.next <= len(s.found) }
func (s *set) At() storage.Series                { return s.found[s.next-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }
