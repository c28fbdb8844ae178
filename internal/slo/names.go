package slo

import (
	"context"
	"fmt"
	"slices"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Metrics returns the names of all series since a time, sorted. The error is a
// [*fault.Error].
func (p *Prometheus) Metrics(ctx context.Context, since time.Time) ([]string, error) {
	return p.labelValues(ctx, "names of all series", model.MetricNameLabel, nil, since)
}

// Labels returns the names of the labels that series of a metric had since a
// time, sorted. The error is a [*fault.Error].
func (p *Prometheus) Labels(ctx context.Context, metric string, since time.Time) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	names, _, _, err := p.api.LabelNames(ctx, []string{selects(metric)}, since, time.Now(), promv1.WithTimeout(p.timeout))
	if err != nil {
		return nil, p.fail("labels of "+metric, err)
	}
	return sorted(names), nil
}

// LabelValues returns the values that a label of a metric's series had since a
// time, sorted. The error is a [*fault.Error].
func (p *Prometheus) LabelValues(ctx context.Context, metric, label string, since time.Time) ([]string, error) {
	return p.labelValues(ctx, "label "+label+" of "+metric, label, []string{selects(metric)}, since)
}

func (p *Prometheus) labelValues(ctx context.Context, what, label string, matches []string, since time.Time) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	values, _, _, err := p.api.LabelValues(ctx, label, matches, since, time.Now(), promv1.WithTimeout(p.timeout))
	if err != nil {
		return nil, p.fail(what, err)
	}
	return sorted(values), nil
}

func sorted[T ~string](names []T) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	slices.Sort(out)
	return out
}

// selects returns the selector of a metric of any name.
func selects(metric string) string {
	return fmt.Sprintf("{%s=%q}", model.MetricNameLabel, metric)
}
