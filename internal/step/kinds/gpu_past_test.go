package kinds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/slo"
	gpusteps "github.com/inference-responder/responder/internal/step/gpu"
)

// dividedGPU is a Prometheus of 26 hours of a GPU of seven instances, for each of which
// the exporter gives all series. One has had XID 63 all the time, the others
// XID 94 for three hours, and the GPU is in hardware slowdown for as long.
type dividedGPU struct {
	t      *testing.T
	points *int // of the past
}

func (dividedGPU) selected(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	late := func(before, since float64) gauge {
		return func(at time.Time) float64 {
			if at.Before(noon.Add(-3 * time.Hour)) {
				return before
			}
			return since
		}
	}
	set := &seriesSet{left: []storage.Series{nil}}
	add := func(instance int, name, event string, value gauge) {
		ls := labels.FromStrings("__name__", name, "Hostname", "node-0", "UUID", "GPU-1", "gpu", "0", "GPU_I_ID", fmt.Sprint(instance), "clock_event", event)
		for _, m := range ms {
			if !m.Matches(ls.Get(m.Name)) {
				return
			}
		}
		var points []chunks.Sample
		for at := noon.Add(-26 * time.Hour); !at.After(noon); at = at.Add(time.Minute) {
			points = append(points, scrape{at.UnixMilli(), value(at)})
		}
		set.left = append(set.left, storage.NewListSeries(ls, points))
	}
	for i := range 7 {
		xid := late(0, 94)
		if i == 3 {
			xid = late(63, 63)
		}
		add(i, "DCGM_FI_DEV_XID_ERRORS", "", xid)
		add(i, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "", late(1, 8))
		add(i, "DCGM_EXP_CLOCK_EVENTS_COUNT", "hw_slowdown", late(0, 60))
		add(i, "DCGM_FI_DEV_GPU_TEMP", "", late(50, 50))
	}
	return set
}

// Instant implements [step.Querier].
func (p dividedGPU) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	p.t.Error("one moment is asked for")
	return slo.Vector{}, nil
}

// Range implements [step.Querier].
func (p dividedGPU) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	store := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: p.selected}}
	query, err := engine.NewRangeQuery(ctx, store, nil, expr, from, to, every)
	if err != nil {
		return slo.Matrix{}, err
	}
	all, err := query.Exec(ctx).Matrix()
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	var m slo.Matrix
	for _, s := range all {
		one := slo.Series{Labels: s.Metric.Map()}
		for _, f := range s.Floats {
			one.Points = append(one.Points, slo.Point{At: time.UnixMilli(f.T).UTC(), Value: f.F})
		}
		if m.Series = append(m.Series, one); every == dcgm.PastStep {
			*p.points += len(one.Points)
		}
	}
	return m, nil
}

// TestPastOfADividedGPU: the past is as large as that of a GPU that is not divided,
// and says of each XID when it came.
func TestPastOfADividedGPU(t *testing.T) {
	points := 0
	d := gpusteps.DCGM{Querier: dividedGPU{t, &points}, Now: atNoon}
	a := d.Snapshots(t.Context(), []string{"node-0"}, 0)[0]
	if a.Err != nil || len(a.Snapshot.GPUs) != 1 || len(a.Snapshot.Errors) > 0 {
		t.Fatalf("%+v", a)
	}
	const perSeries = int(dcgm.PastSpan/dcgm.PastStep) + 1
	if most := 4 * perSeries; points == 0 || points > most { // two XIDs at once, a mask, a count
		t.Errorf("%d points of the past, want %d at most", points, most)
	}
	g, three := a.Snapshot.GPUs[0], noon.Add(-3*time.Hour)
	since := map[uint64]time.Time{}
	for _, e := range g.Events {
		since[e.Data] = e.At
		if e.OrBefore != (e.Data == 63) {
			t.Errorf("%+v", e)
		}
	}
	if len(since) != 2 || !since[94].Equal(three) || !since[63].Equal(noon.Add(-dcgm.Span-dcgm.PastSpan)) {
		t.Errorf("XIDs %+v", g.Events)
	}
	var slow []gpu.Stretch
	for _, one := range g.Stretches {
		if one.Reason == gpu.HWSlowdown {
			slow = append(slow, one)
		}
	}
	if len(slow) != 1 || !slow[0].Since.Equal(three) || slow[0].OrBefore {
		t.Errorf("stretches %+v", g.Stretches)
	}
}
