package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// GPUSources asks the node agents, and dcgm-exporter for nodes without an
// agent. It does not fall back if an agent exists and does not answer, because
// that may be the fault. Either may be nil.
func GPUSources(agents, dcgm step.GPUs) step.GPUs {
	switch {
	case agents == nil:
		return dcgm
	case dcgm == nil:
		return agents
	}
	return gpuSources{agents, dcgm}
}

type gpuSources struct{ agents, dcgm step.GPUs }

// Snapshots implements [GPUs].
func (s gpuSources) Snapshots(ctx context.Context, nodes []string, back time.Duration) []gpu.Answer {
	out := s.agents.Snapshots(ctx, nodes, back)
	var left []string
	for _, a := range out {
		if errors.Is(a.Err, gpu.ErrNoAgent) {
			left = append(left, a.Node)
		}
	}
	if len(left) == 0 {
		return out
	}
	for _, b := range s.dcgm.Snapshots(ctx, left, back) {
		i := slices.IndexFunc(out, func(a gpu.Answer) bool { return a.Node == b.Node })
		if i < 0 {
			continue
		}
		if b.Err != nil {
			b.Err = fmt.Errorf("%w, and of dcgm-exporter: %w", out[i].Err, b.Err)
		}
		out[i] = b
	}
	return out
}

// DCGM reads the series of dcgm-exporter. The default of NodeLabel is Hostname,
// which is the node's name if the exporter is told it (NODE_NAME).
type DCGM struct {
	Querier   step.Querier
	NodeLabel string // label that holds the node's name
	Selector  string // more label matchers; empty: none
	Now       func() time.Time
}

// Snapshots implements [GPUs].
func (d DCGM) Snapshots(ctx context.Context, nodes []string, back time.Duration) []gpu.Answer {
	out := make([]gpu.Answer, len(nodes))
	for i, n := range nodes {
		out[i].Node = n
	}
	fail := func(err error) []gpu.Answer {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	label := d.label()
	now := d.Now().UTC().Truncate(time.Second)
	// A minute more, of which the first part may be missing.
	e := dcgm.Exported{From: now.Add(-max(dcgm.Span, (back + time.Minute).Truncate(time.Minute))), Now: now, Scraped: map[string][]dcgm.Point{}}
	all, err := d.span(ctx, d.selector(label, nodes, dcgm.Names()), e.From, now, dcgm.Step)
	if err != nil {
		return fail(fmt.Errorf("ask for dcgm-exporter's series: %w", err))
	}
	scraped, err := d.span(ctx, fmt.Sprintf("max by (UUID, uuid) (timestamp(%s))", d.selector(label, nodes, []string{scrapedName})), e.From, now, dcgm.Step)
	if err != nil {
		return fail(fmt.Errorf("ask when dcgm-exporter was scraped: %w", err))
	}
	for _, s := range scraped {
		e.Scraped[s.Labels["UUID"]+s.Labels["uuid"]] = points(s, func(v float64) bool { return v > 0 && v < 1e11 }) // seconds, up to the year 5138; no NaN
	}
	counts, err := d.counts(ctx, label, nodes, now)
	if err != nil {
		return fail(fmt.Errorf("ask how many GPUs dcgm-exporter gave: %w", err))
	}
	series := d.byNode(label, all)
	for i, n := range nodes {
		e.Series, e.Expected = series[n], counts[n]
		out[i].Snapshot, out[i].Err = dcgm.Snapshot(n, e)
	}
	d.date(ctx, label, out, func(node string, past []dcgm.Series) (gpu.Snapshot, error) {
		e.Series, e.Expected, e.Past = series[node], counts[node], past
		return dcgm.Snapshot(node, e)
	}, e.From)
	return out
}

// byNode holds series by node.
func (d DCGM) byNode(label string, all []slo.Series) map[string][]dcgm.Series {
	out := map[string][]dcgm.Series{}
	for _, s := range all {
		one := dcgm.Series{Name: s.Labels[model.MetricNameLabel], Labels: s.Labels, Points: points(s, func(float64) bool { return true })}
		out[s.Labels[label]] = append(out[s.Labels[label]], one)
	}
	return out
}

// label returns the label with the node's name.
func (d DCGM) label() string { return cmp.Or(d.NodeLabel, "Hostname") }

// scrapedName is the series that shows which GPUs exist: temperature is one of
// the exporter's default counters.
const scrapedName = "DCGM_FI_DEV_GPU_TEMP"

// counts returns, by node, the most GPUs that the exporter reported at two
// consecutive points. One point may mix two machines that had the same node
// name one after the other: Prometheus keeps the series of the first for some
// minutes.
func (d DCGM) counts(ctx context.Context, label string, nodes []string, now time.Time) (map[string]int64, error) {
	expr := fmt.Sprintf("count by (%s) (group by (%[1]s, UUID, uuid) (%s))", label, d.selector(label, nodes, []string{scrapedName}))
	all, err := d.span(ctx, expr, now.Add(-dcgm.CountSpan), now, dcgm.CountStep)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, s := range all {
		before := int64(0)
		for _, p := range points(s, func(v float64) bool { return v > 0 && v < 1<<20 }) {
			n := int64(p.Value)
			out[s.Labels[label]] = max(out[s.Labels[label]], min(before, n))
			before = n
		}
	}
	return out, nil
}

// span evaluates an expression over a range. A partial answer counts as none.
func (d DCGM) span(ctx context.Context, expr string, from, to time.Time, every time.Duration) ([]slo.Series, error) {
	m, err := d.Querier.Range(ctx, expr, from, to, every)
	if err != nil {
		return nil, err
	}
	if w := step.Warnings(m.Warnings); w != "" {
		return nil, fmt.Errorf("Prometheus could not read everything: %s", w) //nolint:staticcheck // a name
	}
	return m.Series, nil
}

// points returns the valid points of a series.
func points(s slo.Series, holds func(float64) bool) []dcgm.Point {
	var out []dcgm.Point
	for _, p := range s.Points {
		if holds(p.Value) {
			out = append(out, dcgm.Point{At: p.At, Value: p.Value})
		}
	}
	return out
}

// selector returns a selector of metrics of nodes.
func (d DCGM) selector(label string, nodes, names []string) string {
	more := ""
	if d.Selector != "" {
		more = ", " + d.Selector
	}
	return fmt.Sprintf("{__name__=~%q, %s=~%q%s}", strings.Join(names, "|"), label, quoted(nodes), more)
}

// quoted returns a regular expression that matches these texts.
func quoted(texts []string) string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = regexp.QuoteMeta(t)
	}
	return strings.Join(out, "|")
}
