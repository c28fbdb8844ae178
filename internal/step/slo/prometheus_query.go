// Package slo holds the checks slo.burn, which measures the objectives of a
// service, and prometheus.query, which evaluates a PromQL query
// over a time range. Missing, stale and NaN samples are a status of the evidence
// and never count as zero.
package slo

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// QueryKind declares prometheus.query.
func QueryKind() playbook.Kind {
	return playbook.Kind{
		Name: "prometheus.query",
		Role: playbook.RoleCheck,
		Doc: `Evaluates PromQL now, or over a range when ` + "`range`" + ` is given.

` + "`status`" + ` says what the answer is worth: ` + "`ok`; `empty`" + ` (no series: missing is not zero); ` + "`stale`" + ` (the newest sample behind it is older than
` + "`max_age`" + `); ` + "`nan`" + ` (not a finite number, as 0/0 of an idle or hung engine gives). Only with ` + "`ok`" + ` are the numbers set; a condition that
reads an unset number is an error, never false or zero. ` + "`value`" + ` is set when exactly one series answers: aggregate in the query.

` + "`queries`" + ` asks for several numbers at once, each by a query that one series answers: ` + "`{p99: ..., waiting: ...}`" + ` gives ` + "`out.values.p99`" + ` and
` + "`out.values.waiting`" + `. A number that could not be measured is not in it, and ` + "`status`" + ` is that of the first such query, by name.`,
		With:  step.Fields[queryWith](),
		OneOf: [][]string{{"query", "queries"}},
		Out:   step.Fields[queryOut](),
		Lint:  lintQueries,
	}
}

// maxSeries bounds the series that evidence keeps: it goes into the journal.
const maxSeries = 50

// maxPoints is below Prometheus's own bound of 11,000 points per series.
const maxPoints = 10_000

type prometheusQuery struct{ q step.Querier }

// NewQuery returns the check prometheus.query.
func NewQuery(d step.Deps) step.Check { return prometheusQuery{d.Querier} }

type queryWith struct {
	Query   string            "json:\"query,omitempty\" type:\"query\" doc:\"PromQL to evaluate. `${service.selector}` is the service's label matchers.\""
	Queries map[string]string `json:"queries,omitempty" elem:"query" doc:"Several queries by the names of their numbers, at most 10, in place of query. They are evaluated now."`
	Asks    string            `json:"asks" doc:"What the query measures, in words: what people see in place of the expression."`
	Unit    string            "json:\"unit\" doc:\"Unit of the numbers. `ratio`, also followed by words (`ratio of requests`), is shown in percent.\""
	Range   step.Duration     `json:"range" doc:"Evaluate over this long up to now, instead of now only."`
	Step    step.Duration     `json:"step" doc:"Distance of the points of a range. Unset: a sixtieth of the range, at least 1s."`
	MaxAge  step.Duration     `json:"max_age" default:"2m" doc:"Oldest that the newest sample behind the answer may be."`
}

type queryOut struct {
	Status string             `json:"status" enum:"ok,empty,stale,nan,partial" doc:"What the answer is worth. Ask for it first. partial: Prometheus warns that it could not read everything."`
	Value  *float64           `json:"value,omitempty" doc:"The value of the one series; of a range, its last point."`
	Values map[string]float64 `json:"values" doc:"Of queries: the numbers that were measured, by name."`
	Series []seriesOut        `json:"series" doc:"The series that answered, at most 50."`
	Min    *float64           `json:"min,omitempty" doc:"Lowest point of the range, over all series."`
	Max    *float64           `json:"max,omitempty" doc:"Highest point of the range, over all series."`
	Avg    *float64           `json:"avg,omitempty" doc:"Mean of the points of the range, over all series."`
	First  *float64           `json:"first,omitempty" doc:"First point of the range, when one series answers."`
	Last   *float64           `json:"last,omitempty" doc:"Last point of the range, when one series answers."`
	At     time.Time          `json:"at" doc:"When the newest sample behind the answer was taken, as far as known; else when the query was evaluated."`
}

type seriesOut struct {
	Labels map[string]string `json:"labels" doc:"Labels of the series."`
	Value  *float64          `json:"value,omitempty" doc:"Its value; unset when not a finite number."`
}

// Run implements [step.Check].
func (c prometheusQuery) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[queryWith](QueryKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.q == nil {
		return step.Finding{}, step.NotConfigured("Prometheus", "prometheus.url")
	}
	if len(with.Queries) > 0 {
		return c.several(ctx, with, in.Now)
	}
	out, facts, err := c.one(ctx, with, in.Now)
	if err != nil {
		return step.Finding{}, err
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

// several evaluates queries one after the other. Each is a number of its own.
func (c prometheusQuery) several(ctx context.Context, with queryWith, now time.Time) (step.Finding, error) {
	if len(with.Queries) > maxQueries || with.Range > 0 {
		return step.Finding{}, step.Invalid("prometheus.query: at most %d queries, and none with range", maxQueries)
	}
	all := queryOut{Status: "ok", Values: map[string]float64{}, Series: []seriesOut{}, At: now.UTC()}
	var facts []string
	for _, name := range slices.Sorted(maps.Keys(with.Queries)) {
		with.Query, with.Asks = with.Queries[name], name
		out, lines, err := c.one(ctx, with, now)
		if err != nil {
			return step.Finding{}, fmt.Errorf("query %s: %w", name, err)
		}
		if out.At.Before(all.At) {
			all.At = out.At
		}
		switch {
		case out.Value != nil:
			all.Values[name] = *out.Value
		case out.Status == "ok": // several series
			out.Status, lines = "partial", []string{name + ": " + fmt.Sprintf("%d series answer, want one: aggregate them", len(out.Series))}
		}
		if all.Status == "ok" {
			all.Status = out.Status
		}
		facts = append(facts, lines...)
	}
	return step.Finding{Out: all, Facts: facts}, nil
}

// lintQueries checks the names of several queries.
func lintQueries(with map[string]any) []playbook.Complaint {
	queries, ok := with["queries"].(map[string]any)
	if !ok {
		return nil
	}
	var out []playbook.Complaint
	if len(queries) == 0 || len(queries) > maxQueries {
		out = append(out, playbook.Complaint{At: []string{"queries"}, Message: fmt.Sprintf("%d queries, want 1 to %d", len(queries), maxQueries)})
	}
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		if !queryName.MatchString(name) {
			out = append(out, playbook.Complaint{
				At: []string{"queries", name}, Message: fmt.Sprintf("%q cannot name a number", name), Hint: "letters, digits and underscores, as in out.values.p99",
			})
		}
	}
	if _, ranged := with["range"]; ranged {
		out = append(out, playbook.Complaint{At: []string{"range"}, Message: "queries are evaluated now", Hint: "remove range, or use query"})
	}
	return out
}

var queryName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,62}$`)

// maxQueries limits the queries of one check.
const maxQueries = 10

// one evaluates one query.
func (c prometheusQuery) one(ctx context.Context, with queryWith, now time.Time) (queryOut, []string, error) {
	series, remarks, err := c.ask(ctx, with, now)
	if err != nil {
		return queryOut{}, nil, err
	}
	warned := step.Warnings(remarks)
	out := queryOut{Status: "ok", Values: map[string]float64{}, Series: []seriesOut{}, At: now.UTC()}
	newest, known, err := step.NewestSample(ctx, c.q, with.Query, now)
	if err != nil {
		return queryOut{}, nil, err
	}
	known = known && !newest.IsZero()
	stale := known && now.Sub(newest) > time.Duration(with.MaxAge)
	if known && newest.Unix() != 0 && newest.Before(now) {
		out.At = newest.UTC()
	}
	switch {
	case len(series) == 0:
		out.Status = "empty"
	case stale:
		out.Status = "stale"
	case !finite(series):
		out.Status = "nan"
	case warned != "":
		out.Status = "partial"
	}
	fill(&out, series, with.Range > 0)
	facts := out.facts(with, now.Sub(newest), newest)
	if warned != "" {
		facts = append(facts, "Prometheus warns: "+warned)
	}
	return out, facts, nil
}

// ask evaluates the query and returns series of points, one point each for an
// instant query.
func (c prometheusQuery) ask(ctx context.Context, with queryWith, now time.Time) ([]slo.Series, []string, error) {
	if with.Range == 0 {
		v, err := c.q.Instant(ctx, with.Query, now)
		if err != nil {
			return nil, nil, err
		}
		var out []slo.Series
		for _, s := range v.Samples {
			out = append(out, slo.Series{Labels: s.Labels, Points: []slo.Point{{At: s.At, Value: s.Value}}})
		}
		return out, v.Warnings, nil
	}
	span, step := time.Duration(with.Range), time.Duration(with.Step)
	if step == 0 {
		step = max(span/60, time.Second)
	}
	if span/step > maxPoints {
		return nil, nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(
			"prometheus.query: %s in steps of %s is more than %d points: use a longer step", span, step, maxPoints)}
	}
	m, err := c.q.Range(ctx, with.Query, now.Add(-span), now, step)
	if err != nil {
		return nil, nil, err
	}
	var out []slo.Series
	for _, s := range m.Series {
		if len(s.Points) > 0 {
			out = append(out, s)
		}
	}
	return out, m.Warnings, nil
}

// fill sets the numbers of each series and, if the status is ok, those of the
// whole answer.
func fill(out *queryOut, series []slo.Series, ranged bool) {
	for _, s := range series[:min(len(series), maxSeries)] {
		so := seriesOut{Labels: s.Labels}
		if so.Labels == nil {
			so.Labels = map[string]string{}
		}
		if v := s.Points[len(s.Points)-1].Value; out.Status != "stale" && step.IsFinite(v) {
			so.Value = &v
		}
		out.Series = append(out.Series, so)
	}
	if out.Status != "ok" {
		return
	}
	if len(series) == 1 {
		points := series[0].Points
		out.Value = &points[len(points)-1].Value
		if ranged {
			out.First, out.Last = &points[0].Value, out.Value
		}
	}
	if !ranged {
		return
	}
	low, high, total, n := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, s := range series {
		for _, p := range s.Points {
			low, high, total, n = min(low, p.Value), max(high, p.Value), total+p.Value, n+1
		}
	}
	avg := total / float64(n)
	out.Min, out.Max, out.Avg = &low, &high, &avg
}

// facts formats the answer with the playbook's description, one line per
// series. Without a description it shows the expression.
func (out queryOut) facts(with queryWith, age time.Duration, newest time.Time) []string {
	what, is := with.Asks, ": "
	if what == "" {
		what, is = step.Shorten(with.Query), " is "
	}
	say := func(v float64) string { return playbook.Quantity(v, with.Unit) }
	switch {
	case out.Status == "empty":
		return []string{what + ": no series answers (missing is not zero)"}
	case out.Status == "stale":
		return []string{fmt.Sprintf("%s: stale, the newest sample is %s, allowed %s", what, step.Ago(age, newest), step.DurationText(time.Duration(with.MaxAge)))}
	case out.Status == "nan":
		return []string{what + ": not a finite number (nothing was measured)"}
	case out.Status == "partial":
		return []string{what + ": the answer may be partial, so it is not used"}
	case with.Range > 0:
		return []string{fmt.Sprintf("%s over %s: min %s, avg %s, max %s", what, step.DurationText(time.Duration(with.Range)), say(*out.Min), say(*out.Avg), say(*out.Max))}
	case out.Value != nil:
		return []string{what + is + say(*out.Value)}
	}
	var lines []string
	for i, s := range out.Series {
		if i == maxFacts {
			lines = append(lines, fmt.Sprintf("and %d more series", len(out.Series)-i))
			break
		}
		lines = append(lines, seriesName(s.Labels, with.Asks != "")+is+say(*s.Value))
	}
	return append(lines, "asked: "+what)
}

// seriesName returns the name that distinguishes a series from the others. If
// the playbook has a description, the value of a single label is name enough.
func seriesName(labels map[string]string, words bool) string {
	if words && len(labels) == 1 {
		for _, v := range labels {
			return v
		}
	}
	return labelText(labels)
}

// maxFacts is how many series get a line for people.
const maxFacts = 5

// labelText formats labels like PromQL.
func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", k, labels[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func finite(series []slo.Series) bool {
	for _, s := range series {
		for _, p := range s.Points {
			if !step.IsFinite(p.Value) {
				return false
			}
		}
	}
	return true
}
