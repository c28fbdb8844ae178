package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/slo"
)

// newPromQL returns Prometheus' engine as a server runs it by default.
func newPromQL() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 30 * time.Second, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
}

// Instant evaluates expr at the given time, which may be in an earlier world. A scalar answers as one sample
// without labels. The error is a [*fault.Error].
func (w *World) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if err := w.absent(); err != nil {
		return slo.Vector{}, err
	}
	return w.of(at).instant(ctx, expr, at)
}

// absent returns an error while the simulated Prometheus does not answer.
func (w *World) absent() error {
	since := w.clock.Now().Sub(w.start)
	for _, s := range w.scenario.away {
		if since >= s.from && since < s.to {
			return &fault.Error{Reason: fault.Unreachable, Message: "the simulated Prometheus is away"}
		}
	}
	return nil
}

func (w *World) instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	w.advance()
	q, err := w.promql.NewInstantQuery(ctx, w.store, nil, expr, at)
	if err != nil {
		return slo.Vector{}, queryError(expr, fault.Invalid, err)
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return slo.Vector{}, queryError(expr, reasonOf(ctx), r.Err)
	}
	warnings, infos := r.Warnings.AsStrings(expr, 10, 10)
	out := slo.Vector{Warnings: append(warnings, infos...)}
	switch v := r.Value.(type) {
	case promql.Vector:
		for _, s := range v {
			if s.H != nil {
				return slo.Vector{}, queryError(expr, fault.Invalid, fmt.Errorf("the answer holds native histograms"))
			}
			out.Samples = append(out.Samples, slo.Sample{Labels: labelMap(s.Metric), Value: s.F, At: time.UnixMilli(s.T).UTC()})
		}
	case promql.Scalar:
		out.Samples = []slo.Sample{{Value: v.V, At: time.UnixMilli(v.T).UTC()}}
	default:
		return slo.Vector{}, queryError(expr, fault.Invalid, fmt.Errorf("the answer is a %s, not numbers", parser.DocumentedType(v.Type())))
	}
	return out, nil
}

// Range evaluates expr over [from, to], which may be in an earlier world. The error is a
// [*fault.Error].
func (w *World) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (slo.Matrix, error) {
	if err := w.absent(); err != nil {
		return slo.Matrix{}, err
	}
	return w.of(to).overTime(ctx, expr, from, to, step)
}

func (w *World) overTime(ctx context.Context, expr string, from, to time.Time, step time.Duration) (slo.Matrix, error) {
	w.advance()
	if step <= 0 || to.Before(from) {
		return slo.Matrix{}, queryError(expr, fault.Invalid, fmt.Errorf("a range from %s to %s in steps of %s", from, to, step))
	}
	q, err := w.promql.NewRangeQuery(ctx, w.store, nil, expr, from, to, step)
	if err != nil {
		return slo.Matrix{}, queryError(expr, fault.Invalid, err)
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return slo.Matrix{}, queryError(expr, reasonOf(ctx), r.Err)
	}
	matrix, err := r.Matrix()
	if err != nil {
		return slo.Matrix{}, queryError(expr, fault.Invalid, err)
	}
	warnings, infos := r.Warnings.AsStrings(expr, 10, 10)
	out := slo.Matrix{Warnings: append(warnings, infos...)}
	for _, s := range matrix {
		if len(s.Histograms) > 0 {
			return slo.Matrix{}, queryError(expr, fault.Invalid, fmt.Errorf("the answer holds native histograms"))
		}
		series := slo.Series{Labels: labelMap(s.Metric)}
		for _, p := range s.Floats {
			series.Points = append(series.Points, slo.Point{At: time.UnixMilli(p.T).UTC(), Value: p.F})
		}
		out.Series = append(out.Series, series)
	}
	return out, nil
}

func reasonOf(ctx context.Context) fault.Reason {
	if ctx.Err() != nil {
		return fault.Timeout
	}
	return fault.Invalid
}

func queryError(expr string, reason fault.Reason, err error) error {
	return &fault.Error{Reason: reason, Message: fmt.Sprintf("query %.200s in the sandbox", expr), Err: err}
}

func labelMap(l labels.Labels) map[string]string {
	out := map[string]string{}
	l.Range(func(l labels.Label) { out[l.Name] = l.Value })
	return out
}
