package slo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Objective is one service-level objective, as it is measured.
type Objective struct {
	Name      string        // for people, e.g. ttft
	Indicator string        // what is measured; empty: Name
	Objective float64       // share of good requests, between 0 and 1
	Threshold float64       // seconds; 0 without a duration
	Period    time.Duration // over which the error budget is counted; 0: not known
	Match     string        // further label matchers, such as route="chat"; may be empty
	By        string        // label whose every value is measured by itself; may be empty
	Values    int           // most values of it that are measured; 0: 50
	Model     string        // model to select by the source's own label; may be empty
	Sources   []Source
}

// Source is where an indicator may be found: a histogram, two counters, or a
// histogram and a counter of what failed. Package engine knows the names.
type Source struct {
	Histogram string  // without _bucket and _count
	Unit      float64 // seconds of one unit of its bounds; 0: 1
	Requests  string  // counter of requests, when the histogram observes tokens

	Failed, Total           string // counters
	FailedMatch, TotalMatch string
	FailedLazy              bool // absent means none while Total (or the histogram) is there
	Model                   string
}

// Names returns the series that the source is made of.
func (s Source) Names() []string {
	var out []string
	if s.Histogram != "" {
		out = append(out, s.Histogram+"_bucket")
	}
	for _, c := range []struct{ name, match string }{{s.Failed, s.FailedMatch}, {s.Total, s.TotalMatch}} {
		if c.name == "" {
			continue
		}
		if c.match != "" {
			c.name += "{" + c.match + "}"
		}
		out = append(out, c.name)
	}
	if s.Requests != "" {
		out = append(out, s.Requests)
	}
	return out
}

// key names one part of an answer: of objective i from source j, over span k.
type key struct {
	objective, source, span int
	part                    string
}

// The parts of answers.
const (
	partNewest   = "newest"   // time of the newest sample of the classic histogram, or of the total
	partNative   = "native"   // time of the newest sample of the native histogram
	partFailed   = "failed"   // of the counter of failed requests
	partWitness  = "witness"  // of the counter that shows that failed ones would be counted
	partRequests = "requests" // of the counter of requests
	partBounds   = "bounds"   // series for each le

	partTotal = "total"
	partGood  = "good"
	partBad   = "bad"
)

// askLabel carries the key of a part through a query.
const askLabel = "responder_ask"

func (k key) String() string {
	return fmt.Sprintf("%d/%d/%d/%s", k.objective, k.source, k.span, k.part)
}

func parseKey(s string) (key, bool) {
	f := strings.SplitN(s, "/", 4)
	if len(f) != 4 {
		return key{}, false
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			return key{}, false
		}
		n[i] = v
	}
	return key{n[0], n[1], n[2], f[3]}, true
}

// ask marks an expression with its key, so that several stand in one query.
func (k key) ask(expr string) string {
	return fmt.Sprintf(`label_replace(%s,"%s","%s","","")`, expr, askLabel, k)
}

// selector returns a selector of a name with matchers; empty ones are left out.
func selector(name string, matchers ...string) string {
	matchers = slices.DeleteFunc(slices.Clone(matchers), func(m string) bool { return m == "" })
	return name + "{" + strings.Join(matchers, ",") + "}"
}

// matchers returns those of an objective in one of its sources.
func (o Objective) matchers(service string, s Source) []string {
	out := []string{service, o.Match}
	if o.Model != "" && s.Model != "" {
		out = append(out, s.Model+"="+strconv.Quote(o.Model))
	}
	return out
}

// survey asks what there is: whether the series of every source exist, how old
// they are and which buckets they have.
func survey(service string, objectives []Objective) string {
	var terms []string
	for i, o := range objectives {
		for j, s := range o.Sources {
			m := o.matchers(service, s)
			newest := func(part, series string) {
				terms = append(terms, key{i, j, 0, part}.ask("max(timestamp("+series+"))"))
			}
			if s.Histogram != "" {
				newest(partNewest, selector(s.Histogram+"_count", m...))
				newest(partNative, selector(s.Histogram, m...))
				terms = append(terms, key{i, j, 0, partBounds}.ask("count by (le) ("+selector(s.Histogram+"_bucket", m...)+")"))
			}
			if s.Failed != "" {
				newest(partFailed, selector(s.Failed, append(m, s.FailedMatch)...))
			}
			if s.Total != "" {
				part := partNewest
				if s.Histogram != "" {
					part = partWitness
				}
				newest(part, selector(s.Total, append(m, s.TotalMatch)...))
			}
			if s.Requests != "" {
				newest(partRequests, selector(s.Requests, m...))
			}
		}
	}
	return strings.Join(terms, " or ")
}

// chosen is the source of an objective that answers.
type chosen struct {
	source int
	native bool
	le     string // regular expression of the spellings of the threshold's bucket
	failed bool   // the counter of failed requests exists
}

// events returns the expressions that count the events of an objective over a
// span, by their parts.
func (c chosen) events(service string, o Objective, span Span) map[string]string {
	s := o.Sources[c.source]
	m := o.matchers(service, s)
	sum := "sum"
	if o.By != "" {
		sum = "sum by (" + o.By + ") "
	}
	increase := func(name string, more ...string) string {
		return fmt.Sprintf("%s(increase(%s%s))", sum, selector(name, append(slices.Clone(m), more...)...), span)
	}
	out := map[string]string{}
	switch {
	case c.native:
		h := increase(s.Histogram)
		at := strconv.FormatFloat(o.Threshold/s.unit(), 'g', -1, 64)
		out[partTotal] = "histogram_count(" + h + ")"
		out[partGood] = "histogram_fraction(-Inf, " + at + ", " + h + ") * histogram_count(" + h + ")"
	case s.Histogram != "":
		out[partTotal] = increase(s.Histogram + "_count")
		out[partGood] = increase(s.Histogram+"_bucket", "le=~"+strconv.Quote(c.le))
	default:
		out[partTotal] = increase(s.Total, s.TotalMatch)
	}
	if c.failed {
		out[partBad] = increase(s.Failed, s.FailedMatch)
	}
	if s.Requests != "" {
		out[partRequests] = increase(s.Requests)
	}
	return out
}

// ratio returns the expression of the bad share over a window, by the label of
// the objective.
func (c chosen) ratio(service string, o Objective, window time.Duration) string {
	e := c.events(service, o, Span{Window: window})
	total, failed := e[partTotal], "0 * "+e[partTotal]
	if c.failed {
		failed = fmt.Sprintf("(%s or %s)", e[partBad], failed)
	}
	if e[partGood] == "" {
		return failed + " / " + total
	}
	return fmt.Sprintf("(%s - %s + %s) / %s", total, e[partGood], failed, total)
}

// counts asks for the events of every objective over every span.
func counts(service string, objectives []Objective, from []*chosen, spans []Span) string {
	var terms []string
	for i, o := range objectives {
		if from[i] == nil {
			continue
		}
		for k, span := range spans {
			events := from[i].events(service, o, span)
			for _, part := range slices.Sorted(maps.Keys(events)) {
				terms = append(terms, key{i, from[i].source, k, part}.ask(events[part]))
			}
		}
	}
	return strings.Join(terms, " or ")
}

func (s Source) unit() float64 {
	if s.Unit == 0 {
		return 1
	}
	return s.Unit
}

// bucket returns a regular expression of the le values that are the threshold,
// in the spellings that were found: Python and Prometheus 3 write 1.0, Go
// programs and Prometheus 2 write 1. All replicas must have the bucket.
func bucket(found map[string]float64, threshold, unit float64) (le, problem string) {
	var spellings []string
	var with, all float64
	below, above := math.Inf(-1), math.Inf(1)
	for text, series := range found {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		if math.IsInf(v, 1) {
			all = series
			continue
		}
		switch v *= unit; {
		case math.Abs(v-threshold) <= 1e-9*math.Max(1, threshold):
			spellings, with = append(spellings, strings.ReplaceAll(text, ".", `\.`)), with+series
		case v < threshold:
			below = math.Max(below, v)
		default:
			above = math.Min(above, v)
		}
	}
	switch {
	case len(spellings) == 0:
		return "", fmt.Sprintf("no bucket ends at %s s; the nearest are %s", number(threshold), nearest(below, above))
	case with < all:
		return "", fmt.Sprintf("%s of %s series have no bucket that ends at %s s", number(all-with), number(all), number(threshold))
	}
	slices.Sort(spellings)
	return strings.ReplaceAll(strings.Join(spellings, "|"), "+", `\+`), ""
}

// nearest names the bounds around a threshold.
func nearest(below, above float64) string {
	switch {
	case math.IsInf(below, -1) && math.IsInf(above, 1):
		return "none: the histogram has no buckets"
	case math.IsInf(below, -1):
		return number(above) + " s"
	case math.IsInf(above, 1):
		return number(below) + " s"
	}
	return number(below) + " s and " + number(above) + " s"
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// Span is a stretch of time, up to Offset before the moment of asking.
type Span struct{ Window, Offset time.Duration }

// String returns the span as a range of PromQL.
func (s Span) String() string {
	out := fmt.Sprintf("[%dms]", s.Window.Milliseconds())
	if s.Offset > 0 {
		out += fmt.Sprintf(" offset %dms", s.Offset.Milliseconds())
	}
	return out
}
