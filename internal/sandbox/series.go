package sandbox

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrape is the distance of samples.
const scrape = 15 * time.Second

// store holds the series as a Prometheus would that scraped every target at
// every multiple of [scrape]. Samples are only ever added, at the same moments
// for all, so a series is its first moment and a row of values.
type store struct {
	mu     sync.RWMutex // guards what follows; values already there never change
	byName map[string][]*series
}

// series is one series. A pod that is gone ends it with a stale marker.
type series struct {
	labels labels.Labels
	first  int64 // milliseconds
	values []float64
}

var staleMarker = math.Float64frombits(value.StaleNaN)

func newStore() *store { return &store{byName: map[string][]*series{}} }

// add makes a series that begins at the moment of its first sample.
func (s *store) add(name string, at time.Time, pairs ...string) *series {
	sr := &series{labels: labels.FromStrings(append([]string{"__name__", name}, pairs...)...), first: at.UnixMilli()}
	s.byName[name] = append(s.byName[name], sr)
	return sr
}

// trim forgets the samples before a moment. What was handed out stays valid.
// The caller holds mu.
func (s *store) trim(before time.Time) {
	for name, list := range s.byName {
		kept := list[:0:0]
		for _, sr := range list {
			n := int((before.UnixMilli() - sr.first) / scrape.Milliseconds())
			if n > 0 && n >= len(sr.values) {
				continue // its pod is long gone
			}
			if n > 0 {
				sr.values = append(make([]float64, 0, len(sr.values)), sr.values[n:]...)
				sr.first += int64(n) * scrape.Milliseconds()
			}
			kept = append(kept, sr)
		}
		s.byName[name] = kept
	}
}

// Querier returns the samples between two moments, in milliseconds, inclusive.
func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{store: s, mint: mint, maxt: maxt}, nil
}

// querier reads the store for one query.
type querier struct {
	store      *store
	mint, maxt int64
}

// Select returns the series all matchers accept that have samples in the range.
func (q *querier) Select(_ context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := q.mint, q.maxt
	if hints != nil {
		mint, maxt = hints.Start, hints.End
	}
	q.store.mu.RLock()
	defer q.store.mu.RUnlock()
	var found []view
	for _, sr := range q.store.candidates(matchers) {
		if v := sr.between(mint, maxt); len(v.values) > 0 && matches(sr.labels, matchers) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b view) int { return labels.Compare(a.labels, b.labels) })
	return &viewSet{views: found}
}

// candidates are the series of the name asked for, or all.
func (s *store) candidates(matchers []*labels.Matcher) []*series {
	for _, m := range matchers {
		if m.Name == "__name__" && m.Type == labels.MatchEqual {
			return s.byName[m.Value]
		}
	}
	var all []*series
	for _, list := range s.byName {
		all = append(all, list...)
	}
	return all
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// between is the part of the series within two moments. It stays valid while
// samples are added.
func (sr *series) between(mint, maxt int64) view {
	every := scrape.Milliseconds()
	from := max(0, (mint-sr.first+every-1)/every)
	to := int64(-1)
	if maxt >= sr.first {
		to = min(int64(len(sr.values))-1, (maxt-sr.first)/every)
	}
	if from > to {
		return view{labels: sr.labels}
	}
	return view{labels: sr.labels, first: sr.first + from*every, values: sr.values[from : to+1 : to+1]}
}

// LabelValues returns the values of a label.
func (q *querier) LabelValues(_ context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.collect(matchers, func(l labels.Labels, add func(string)) {
		if v := l.Get(name); v != "" {
			add(v)
		}
	}), nil, nil
}

// LabelNames returns the names of labels.
func (q *querier) LabelNames(_ context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.collect(matchers, func(l labels.Labels, add func(string)) {
		l.Range(func(l labels.Label) { add(l.Name) })
	}), nil, nil
}

func (q *querier) collect(matchers []*labels.Matcher, each func(labels.Labels, func(string))) []string {
	q.store.mu.RLock()
	defer q.store.mu.RUnlock()
	seen := map[string]bool{}
	for _, sr := range q.store.candidates(matchers) {
		if matches(sr.labels, matchers) {
			each(sr.labels, func(s string) { seen[s] = true })
		}
	}
	out := make([]string, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// Close ends the query.
func (q *querier) Close() error { return nil }

// view is a part of a series.
type view struct {
	labels labels.Labels
	first  int64
	values []float64
}

// Labels names the series.
func (v view) Labels() labels.Labels { return v.labels }

// Iterator goes through the samples.
func (v view) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(&samples{view: v})
}

// samples are those of a view for one iterator, which reads a sample before it asks for
// the next: one place for all of them saves an allocation each.
type samples struct {
	view
	last sample
}

// Len is the number of samples.
func (s *samples) Len() int { return len(s.values) }

// Get is one of them, until the next call.
func (s *samples) Get(i int) chunks.Sample {
	s.last = sample{s.first + int64(i)*scrape.Milliseconds(), s.values[i]}
	return &s.last
}

// sample is one sample. No series has native histograms.
type sample struct {
	t int64
	f float64
}

// T is its moment, in milliseconds.
func (s *sample) T() int64 { return s.t }

// F is its value.
func (s *sample) F() float64 { return s.f }

// H is nil.
func (s *sample) H() *histogram.Histogram { return nil }

// FH is nil.
func (s *sample) FH() *histogram.FloatHistogram { return nil }

// Type returns the type of a float.
func (s *sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy is a copy, which the iterator does not change.
func (s *sample) Copy() chunks.Sample { c := *s; return &c }

// viewSet goes through views.
type viewSet struct {
	views []view
	next  int
}

// Next goes to the next view.
func (s *viewSet) Next() bool {
	s.next++
	return s.next <= len(s.views)
}

// At is the view it went to.
func (s *viewSet) At() storage.Series { return s.views[s.next-1] }

// Err is nil: nothing can go wrong.
func (s *viewSet) Err() error { return nil }

// Warnings are none.
func (s *viewSet) Warnings() annotations.Annotations { return nil }
