package slo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

const (
	// fresh is how old the newest sample of a series may be. It covers two
	// scrapes at the usual interval of a minute.
	fresh = 2 * time.Minute

	// maxValues bounds the values of a label that are measured one by one, maxEach
	// those of the replicas' label, of which a service has many.
	maxValues = 50
	maxEach   = 1000
)

// Asker evaluates an instant query.
type Asker interface {
	Instant(ctx context.Context, expr string, at time.Time) (Vector, error)
}

// Ask is what is to be measured of one service.
type Ask struct {
	Service    string // label matchers of its series, without braces; required
	Objectives []Objective
	Progress   []Progress // where its engine shows progress; empty: stuck replicas are not looked for
}

// Measured is one objective, or one value of its label By, as measured.
type Measured struct {
	Objective Objective
	Value     string   // of the label By; empty without one
	Series    string   // what was counted
	Counts    []Counts // one for each span; NaN where nothing was counted
	Reason    fault.Reason
	Detail    string // for people, when Reason is set: why there are no counts

	service string
	from    *chosen // nil: nothing answers
}

// RatioQuery returns PromQL for the bad share over a window; empty if nothing
// answers for the objective.
func (m Measured) RatioQuery(window time.Duration) string {
	if m.from == nil {
		return ""
	}
	o := m.Objective
	if o.By != "" {
		o.Match = strings.TrimPrefix(o.Match+","+o.By+"="+strconv.Quote(m.Value), ",")
	}
	return m.from.ratio(m.service, o, window)
}

// Each returns what to ask for the same objective, for every value of a label by
// itself. It is empty if the objective is measured by a label already, or if
// nothing answers for it.
func (m Measured) Each(label string) Ask {
	if m.from == nil || m.Objective.By != "" {
		return Ask{}
	}
	o := m.Objective
	o.By, o.Values, o.Sources = label, maxEach, []Source{o.Sources[m.from.source]}
	return Ask{Service: m.service, Objectives: []Objective{o}}
}

// Name returns the name of the objective, with the label's value.
func (m Measured) Name() string {
	if m.Objective.By == "" || m.Reason != "" && m.Value == "" {
		return m.Objective.Name
	}
	return fmt.Sprintf("%s{%s=%q}", m.Objective.Name, m.Objective.By, m.Value)
}

// Measurement is what all objectives of a service measured at one moment.
type Measurement struct {
	Measured   []Measured
	Stuck      []Replica // replicas that run requests and take no step
	Hung       float64   // without stuck replicas: requests that never finish: more are in flight than those that finish account for
	HungKnown  bool      // it can be told whether requests hang
	Unfinished float64   // requests on stuck replicas, and hung ones; part of the counts of every span that ends now
	Note       string    // why not all stuck replicas are known; empty: they are
}

// Measure counts the events of every objective over every span that ends at the
// moment, or before it, with three queries. What is missing, stale, partial or
// not a number has a reason instead of counts; an error means that Prometheus
// did not answer, and is a [*fault.Error].
//
// Counts are increases of counters: PromQL corrects restarts. It cannot see
// events before a series' first sample, so the first seconds of a new replica
// count for nothing, and it extrapolates to the ends of the window. A replica
// that is not scraped has no events at all.
func Measure(ctx context.Context, q Asker, a Ask, at time.Time, spans ...Span) (Measurement, error) {
	if a.Service == "" || len(a.Objectives) == 0 || len(spans) == 0 {
		return Measurement{}, &fault.Error{Reason: fault.Invalid, Message: "measure a service: it needs label matchers, an objective and a window"}
	}
	there, err := read(ctx, q, survey(a.Service, a.Objectives), at)
	if err != nil {
		return Measurement{}, err
	}
	from := make([]*chosen, len(a.Objectives))
	out := Measurement{}
	missing := make([]Measured, len(a.Objectives))
	for i, o := range a.Objectives {
		missing[i] = Measured{Objective: o}
		from[i] = choose(i, o, there, at, &missing[i])
	}
	got := answered{}
	if expr := counts(a.Service, a.Objectives, from, spans); expr != "" {
		if got, err = read(ctx, q, expr, at); err != nil {
			return Measurement{}, err
		}
	}
	if len(a.Progress) > 0 {
		v, err := ask(ctx, q, stuck(a.Service, a.Progress), at)
		if err != nil {
			return Measurement{}, err
		}
		out.Stuck, out.Unfinished, out.Note = unfinished(v)
		if expr := hung(a.Service, a.Progress); expr != "" && len(out.Stuck) == 0 {
			got, err := read(ctx, q, expr, at)
			if err != nil {
				return Measurement{}, err
			}
			out.Hung, out.HungKnown = got.hanging(len(a.Progress))
			out.Unfinished += out.Hung
		}
	}
	for i, c := range from {
		if c == nil {
			out.Measured = append(out.Measured, missing[i])
			continue
		}
		for _, m := range collect(i, a.Objectives[i], c, got, spans, out.Unfinished) {
			m.service, m.from = a.Service, c
			out.Measured = append(out.Measured, m)
		}
	}
	return out, nil
}

// answered holds the parts of an answer, by the labels that are left.
type answered struct {
	parts   map[key][]Sample
	partial string // what Prometheus could not read
}

func (a answered) one(k key) (float64, bool) {
	s := a.parts[k]
	if len(s) == 0 {
		return math.NaN(), false
	}
	return s[0].Value, true
}

// read asks and sorts the answer by its parts.
func read(ctx context.Context, q Asker, expr string, at time.Time) (answered, error) {
	out := answered{parts: map[key][]Sample{}}
	if expr == "" {
		return out, nil
	}
	v, err := ask(ctx, q, expr, at)
	if err != nil {
		return answered{}, err
	}
	for _, s := range v.Samples {
		if k, ok := parseKey(s.Labels[askLabel]); ok {
			out.parts[k] = append(out.parts[k], s)
		}
	}
	out.partial = v.partial()
	return out, nil
}

// partial returns what Prometheus could not read; empty: it read all.
func (v Vector) partial() string {
	out := ""
	for _, w := range v.Warnings {
		if !strings.HasPrefix(w, "PromQL info") {
			out = w
		}
	}
	return out
}

// mayBePartial is how an answer is described of which Prometheus could not read a part.
const mayBePartial = "the answer may be partial: "

// ask evaluates a query; its error is a [*fault.Error].
func ask(ctx context.Context, q Asker, expr string, at time.Time) (Vector, error) {
	v, err := q.Instant(ctx, expr, at)
	if err == nil {
		return v, nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return Vector{}, err
	}
	return Vector{}, &fault.Error{Reason: fault.ServerError, Message: "measure a service", Err: err}
}

// choose returns the first source of an objective that answers, or nil and why.
func choose(i int, o Objective, there answered, at time.Time, why *Measured) *chosen {
	if there.partial != "" {
		why.Reason, why.Detail = fault.NoData, mayBePartial+there.partial
		return nil
	}
	var names []string
	old := time.Time{}
	for j, s := range o.Sources {
		names = append(names, s.Names()...)
		part := func(name string) (time.Time, bool) {
			v, ok := there.one(key{i, j, 0, name})
			return time.UnixMilli(int64(v * 1000)).UTC(), ok
		}
		newest, classic := part(partNewest)
		since, native := part(partNative)
		if native && (!classic || !newest.After(at.Add(-fresh))) {
			newest, classic = since, false
		}
		_, failed := part(partFailed)
		_, witness := part(partWitness)
		_, requests := part(partRequests)
		switch {
		case !classic && !native,
			s.Failed != "" && !failed && !s.FailedLazy,
			s.Failed != "" && !failed && s.Histogram != "" && s.Total != "" && !witness,
			s.Requests != "" && !requests:
			continue
		case newest.Before(at.Add(-fresh)):
			if newest.After(old) {
				old = newest
			}
			continue
		}
		c := &chosen{source: j, native: native && !classic, failed: failed}
		if s.Histogram == "" || c.native {
			return c
		}
		var problem string
		if c.le, problem = bucket(bounds(there.parts[key{i, j, 0, partBounds}]), o.Threshold, s.unit()); problem == "" {
			return c
		}
		if native {
			c.native = true
			return c
		}
		why.Series, why.Reason, why.Detail = s.Histogram, fault.Invalid, s.Histogram+": "+problem
		return nil
	}
	why.Reason, why.Detail = fault.NoData, "none of these series exists: "+strings.Join(unique(names), ", ")
	if !old.IsZero() {
		why.Reason, why.Detail = fault.Stale, fmt.Sprintf("the newest sample is %s old; looked for: %s", at.Sub(old).Round(time.Second), strings.Join(unique(names), ", "))
	}
	return nil
}

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// bounds returns how many series have each le.
func bounds(samples []Sample) map[string]float64 {
	out := map[string]float64{}
	for _, s := range samples {
		out[s.Labels["le"]] = s.Value
	}
	return out
}

// collect turns the parts of an objective's answer into counts, one Measured
// for each value of its label.
func collect(i int, o Objective, c *chosen, got answered, spans []Span, unfinished float64) []Measured {
	source := o.Sources[c.source]
	base := Measured{Objective: o, Series: source.Names()[0]}
	if c.native {
		base.Series = source.Histogram
	}
	values := map[string]bool{}
	for k := range spans {
		for _, s := range got.parts[key{i, c.source, k, partTotal}] {
			values[s.Labels[o.By]] = true
		}
	}
	switch {
	case got.partial != "":
		base.Reason, base.Detail = fault.NoData, mayBePartial+got.partial
	case len(values) == 0:
		base.Reason, base.Detail = fault.NoData, base.Series+" has fewer than two samples in the window"
	case len(values) > cmp.Or(o.Values, maxValues):
		base.Reason, base.Detail = fault.Invalid, fmt.Sprintf("the label %s has %d values, at most %d are measured one by one", o.By, len(values), cmp.Or(o.Values, maxValues))
	}
	if base.Reason != "" {
		return []Measured{base}
	}
	var out []Measured
	for _, value := range slices.Sorted(maps.Keys(values)) {
		m := base
		m.Value = value
		for k, span := range spans {
			n := count(got, o, c, key{i, c.source, k, ""}, value)
			if span.Offset == 0 {
				n = Counts{Bad: n.Bad + unfinished, Total: n.Total + unfinished}
			}
			m.Counts = append(m.Counts, n)
		}
		if n := m.Counts[0]; math.IsNaN(n.Bad + n.Total) {
			m.Reason, m.Detail = fault.NotANumber, m.Series+" has no number for the window"
		}
		out = append(out, m)
	}
	return out
}

// count returns the counts of one value over one span.
func count(got answered, o Objective, c *chosen, at key, value string) Counts {
	part := func(name string) float64 {
		at.part = name
		for _, s := range got.parts[at] {
			if s.Labels[o.By] == value {
				return s.Value
			}
		}
		return math.NaN()
	}
	source := o.Sources[c.source]
	n := Counts{Total: part(partTotal)}
	if n.Total == 0 {
		return n
	}
	if source.Histogram != "" {
		n.Bad = max(0, n.Total-part(partGood))
	}
	if source.Requests != "" { // tokens of one request are not independent: weigh them as requests
		weight := part(partRequests) / n.Total
		n.Bad, n.Total = n.Bad*weight, n.Total*weight
	}
	if c.failed {
		failed := part(partBad)
		if math.IsNaN(failed) && (source.FailedLazy || o.By != "") {
			failed = 0 // no series of this value or in this window
		}
		n.Bad += failed
	}
	n.Bad = min(n.Bad, n.Total)
	return n
}
