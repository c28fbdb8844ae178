package step

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/gpu"
)

// GPUSources asks the node agents, and dcgm-exporter about the nodes where no
// agent runs. An agent that is there and does not answer is not passed over: that
// may be the fault. Either may be nil.
func GPUSources(agents, dcgm GPUs) GPUs {
	switch {
	case agents == nil:
		return dcgm
	case dcgm == nil:
		return agents
	}
	return gpuSources{agents, dcgm}
}

type gpuSources struct{ agents, dcgm GPUs }

// Snapshots implements [GPUs].
func (s gpuSources) Snapshots(ctx context.Context, nodes []string) []gpu.Answer {
	out := s.agents.Snapshots(ctx, nodes)
	var left []string
	for _, a := range out {
		if errors.Is(a.Err, gpu.ErrNoAgent) {
			left = append(left, a.Node)
		}
	}
	if len(left) == 0 {
		return out
	}
	for _, b := range s.dcgm.Snapshots(ctx, left) {
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

// DCGM reads dcgm-exporter's series. Its zero value for NodeLabel is Hostname,
// which is the node's name where the exporter is told it (NODE_NAME).
type DCGM struct {
	Querier   Querier
	NodeLabel string // label that holds the node's name
	Selector  string // more label matchers; empty: none
	Now       func() time.Time
}

// Snapshots implements [GPUs].
func (d DCGM) Snapshots(ctx context.Context, nodes []string) []gpu.Answer {
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
	label := d.NodeLabel
	if label == "" {
		label = "Hostname"
	}
	now := d.Now().UTC().Truncate(time.Second)
	m, err := d.Querier.Range(ctx, d.selector(label, nodes, gpu.DCGMNames()), now.Add(-gpu.DCGMSpan), now, gpu.DCGMStep)
	if err != nil {
		return fail(fmt.Errorf("ask for dcgm-exporter's series: %w", err))
	}
	if w := warnings(m.Warnings); w != "" {
		return fail(fmt.Errorf("ask for dcgm-exporter's series: Prometheus could not read everything: %s", w))
	}
	scraped, err := d.scraped(ctx, label, nodes, now)
	if err != nil {
		return fail(err)
	}
	series := map[string][]gpu.Series{}
	for _, s := range m.Series {
		one := gpu.Series{Name: s.Labels[model.MetricNameLabel], Labels: s.Labels}
		for _, p := range s.Points {
			one.Points = append(one.Points, gpu.Point{At: p.At, Value: p.Value})
		}
		series[s.Labels[label]] = append(series[s.Labels[label]], one)
	}
	for i, n := range nodes {
		out[i].Snapshot, out[i].Err = gpu.FromDCGM(n, series[n], scraped, now)
	}
	return out
}

// scraped gives when each GPU was last scraped. Temperature is among the
// exporter's default counters.
func (d DCGM) scraped(ctx context.Context, label string, nodes []string, now time.Time) (map[string]time.Time, error) {
	v, err := d.Querier.Instant(ctx, fmt.Sprintf("max by (UUID, uuid) (timestamp(%s))", d.selector(label, nodes, []string{"DCGM_FI_DEV_GPU_TEMP"})), now)
	if err != nil {
		return nil, fmt.Errorf("ask when dcgm-exporter was scraped: %w", err)
	}
	out := map[string]time.Time{}
	for _, s := range v.Samples {
		if s.Value > 0 && s.Value < 1e11 { // seconds, up to the year 5138; no NaN
			out[s.Labels["UUID"]+s.Labels["uuid"]] = time.UnixMilli(int64(s.Value * 1000)).UTC()
		}
	}
	return out, nil
}

// selector selects metrics of nodes.
func (d DCGM) selector(label string, nodes, names []string) string {
	quoted := make([]string, len(nodes))
	for i, n := range nodes {
		quoted[i] = regexp.QuoteMeta(n)
	}
	more := ""
	if d.Selector != "" {
		more = ", " + d.Selector
	}
	return fmt.Sprintf("{__name__=~%q, %s=~%q%s}", strings.Join(names, "|"), label, strings.Join(quoted, "|"), more)
}
