// Package series looks up in a Prometheus what the queries of playbooks read.
package series

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/spelling"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Source tells which series there were since a time: Prometheus.
type Source interface {
	Metrics(ctx context.Context, since time.Time) ([]string, error)
	Labels(ctx context.Context, metric string, since time.Time) ([]string, error)
	LabelValues(ctx context.Context, metric, label string, since time.Time) ([]string, error)
}

// past is how far back a series may have had its last sample: a service
// without replicas exports nothing.
const past = 24 * time.Hour

// lint looks up what queries read.
type lint struct {
	known  []string // names that adapters know
	from   Source   // nil: there is none
	since  time.Time
	stored []string // names that from has

	labels map[string][]string // of each metric
	bounds map[string][]string // values of le

	warnings  yamldoc.Problems
	unchecked []string
}

// Lint warns of series that neither the adapters nor the given Prometheus
// know, and of labels and buckets that the series in that Prometheus do not have.
// unchecked are the metrics that an adapter knows and Prometheus does not have now.
func Lint(ctx context.Context, playbooks []*playbook.Playbook, from Source, now time.Time) (_ yamldoc.Problems, unchecked []string, err error) {
	l := lint{known: knownSeries(), from: from, since: now.Add(-past), labels: map[string][]string{}, bounds: map[string][]string{}}
	if from != nil {
		if l.stored, err = from.Metrics(ctx, l.since); err != nil {
			return withoutSource(ctx, playbooks, now, err)
		}
	}
	for _, p := range playbooks {
		for _, s := range p.Selectors() {
			if err := l.selector(ctx, s); err != nil {
				return withoutSource(ctx, playbooks, now, err)
			}
		}
	}
	slices.Sort(l.unchecked)
	return l.warnings.Sorted(), slices.Compact(l.unchecked), nil
}

// withoutSource returns the warnings that need no Prometheus, and why it could not be
// asked.
func withoutSource(ctx context.Context, playbooks []*playbook.Playbook, now time.Time, away error) (yamldoc.Problems, []string, error) {
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	warnings, _, err := Lint(ctx, playbooks, nil, now)
	return warnings, nil, cmp.Or(err, fmt.Errorf("look series up: %w", away))
}

// knownSeries returns the names that the adapters of engines and GPUs know.
func knownSeries() []string {
	return append(engine.Metrics(), dcgm.Names()...)
}

// selector checks one selector of a query.
func (l *lint) selector(ctx context.Context, s playbook.Selector) error {
	if _, stored := slices.BinarySearch(l.stored, s.Metric); stored {
		return l.matchers(ctx, s)
	}
	if slices.Contains(l.known, s.Metric) {
		if l.from != nil {
			l.unchecked = append(l.unchecked, s.Metric)
		}
		return nil
	}
	message := "no adapter of an engine or of GPUs knows the series " + s.Metric
	hint := "--prometheus URL looks it up in a Prometheus"
	if l.from != nil {
		message += fmt.Sprintf(", and Prometheus had none in the last %s", yamldoc.FormatDuration(past))
		hint = "a query of a series that does not exist has no result: check the spelling and who exports it"
	}
	if near := nearestNames(s.Metric, append(slices.Clone(l.known), l.stored...)); len(near) > 0 {
		hint = "nearest: " + strings.Join(near, ", ")
	}
	l.warn(s, s.Line, s.Column, message, hint)
	return nil
}

func (l *lint) warn(s playbook.Selector, line, column int, message, hint string) {
	l.warnings = append(l.warnings, yamldoc.Problem{File: s.File, Line: line, Column: column, Path: s.Path, Message: message, Hint: hint})
}

// matchers checks the labels of a selector whose series Prometheus has.
func (l *lint) matchers(ctx context.Context, s playbook.Selector) error {
	if len(s.Matchers) == 0 {
		return nil
	}
	labels, ok := l.labels[s.Metric]
	if !ok {
		var err error
		if labels, err = l.from.Labels(ctx, s.Metric, l.since); err != nil {
			return err
		}
		l.labels[s.Metric] = labels
	}
	for _, m := range s.Matchers {
		switch {
		case m.Absent():
		case !slices.Contains(labels, m.Label):
			hint := "its labels: " + strings.Join(slices.DeleteFunc(slices.Clone(labels), func(name string) bool { return name == "__name__" }), ", ")
			if near := nearestNames(m.Label, labels); len(near) > 0 {
				hint = "nearest: " + strings.Join(near, ", ")
			}
			l.warn(s, m.Line, m.Column, fmt.Sprintf("no series of %s has the label %s", s.Metric, m.Label), hint)
		case m.Label == "le":
			if err := l.bucket(ctx, s, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks that a matcher of le selects a bucket.
func (l *lint) bucket(ctx context.Context, s playbook.Selector, m playbook.LabelMatcher) error {
	bounds, ok := l.bounds[s.Metric]
	if !ok {
		var err error
		if bounds, err = l.from.LabelValues(ctx, s.Metric, m.Label, l.since); err != nil {
			return err
		}
		l.bounds[s.Metric] = bounds
	}
	if slices.ContainsFunc(bounds, m.Matches) {
		return nil
	}
	message := fmt.Sprintf("%s selects no bucket of %s", m, s.Metric)
	l.warn(s, m.Line, m.Column, message, "nearest: "+strings.Join(nearestBounds(m, bounds), ", "))
	return nil
}

// nearestBounds returns the buckets on both sides of the bound that a matcher
// asks for, the same bound in another spelling, or all of them.
func nearestBounds(m playbook.LabelMatcher, bounds []string) []string {
	text, _ := m.Value()
	want, err := strconv.ParseFloat(text, 64)
	if err != nil || len(bounds) == 0 {
		return bounds
	}
	below, above := math.Inf(-1), math.Inf(1)
	var lower, upper string
	for _, b := range bounds {
		v, err := strconv.ParseFloat(b, 64)
		switch {
		case err != nil:
		case v == want:
			return []string{fmt.Sprintf("%s, as it is written there", b)}
		case v < want && v > below:
			below, lower = v, b
		case v > want && (v < above || upper == ""):
			above, upper = v, b
		}
	}
	return slices.DeleteFunc([]string{lower, upper}, func(b string) bool { return b == "" })
}

// nearestNames returns up to three names that an unknown one may have been meant
// for, the closest first.
func nearestNames(got string, names []string) []string {
	type near struct {
		name     string
		distance int
	}
	bound := max(2, len(got)/3)
	var found []near
	for _, name := range names {
		if abs := len(name) - len(got); abs > bound || -abs > bound {
			continue
		}
		if d := spelling.Distance(strings.ToLower(got), strings.ToLower(name)); d <= bound {
			found = append(found, near{name, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name)) })
	found = slices.Compact(found)
	var out []string
	for _, n := range found[:min(3, len(found))] {
		out = append(out, n.name)
	}
	return out
}
