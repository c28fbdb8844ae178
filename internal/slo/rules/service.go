package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine"
)

// Service is one inference endpoint whose objectives become rules.
type Service struct {
	Name     string            // unique
	Engine   string            // one of engine.Names
	Selector string            // PromQL matchers of its series, without braces
	Labels   map[string]string // by which its alerts are recognised: namespace, service
	Kind     string            // of its workload: Deployment or StatefulSet
	Workload string            // the workload's name; empty: when its replicas start is not watched
	LoadTime time.Duration     // how long a replica takes to load; 0: unknown
	Runbook  string            // URL for the alerts; may be empty
	Source   string            // file:line where it is declared, for messages
	SLOs     []SLO
}

// SLO is an objective of a [Service].
type SLO struct {
	Name      string
	Indicator string // one of engine.Indicators
	Objective float64
	Window    time.Duration
	Threshold float64 // seconds; 0 without a duration
	Model     string  // only requests of this model
	Route     string  // only series whose label route has this value
	By        string  // label whose every value must meet the objective by itself
	Custom    bool    // the histogram has other buckets than the engine's own
}

// titles name the indicators in alert names, and what is bad for people.
var titles = map[string]struct{ word, bad string }{
	engine.TTFT:    {"TTFT", "requests over the TTFT target"},
	engine.TPOT:    {"TPOT", "requests over the TPOT target"},
	engine.ITL:     {"ITL", "tokens over the ITL target"},
	engine.E2E:     {"E2E", "requests over the E2E target"},
	engine.Errors:  {"Errors", "requests failed"},
	engine.Goodput: {"Goodput", "requests failed or over the E2E target"},
}

// alertPrefix returns what the names of alerts about an indicator begin with.
func alertPrefix(indicator string) string { return "Inference" + titles[indicator].word }

// Objectives returns the objectives of a service. Each is measured by the series
// of the service's engine, in the order in which a run tries them. A threshold
// where no bucket ends is an error, unless the objective has custom buckets. notes
// tells what could not be checked.
func (s Service) Objectives() (out []Objective, notes []string, err error) {
	e, err := s.engine()
	if err != nil {
		return nil, nil, err
	}
	if len(s.SLOs) == 0 {
		return nil, nil, fmt.Errorf("%s: service %s has no objectives: declare slos, or slo.defaults", s.Source, s.Name)
	}
	var refused []error
	for _, o := range s.SLOs {
		sources, note, err := s.sources(e, o)
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: service %s, slo %s: %w", s.Source, s.Name, o.Name, err))
			continue
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("%s, slo %s: %s", s.Name, o.Name, note))
		}
		x := Objective{
			ID: s.Name + "-" + o.Name, Name: o.Name, Source: s.Source, Alert: alertPrefix(o.Indicator),
			Target: o.Objective, Period: o.Window, Bad: titles[o.Indicator].bad, Labels: s.Labels,
			Ratio: ratio(sources), Requests: requests(sources),
		}
		if s.Runbook != "" {
			a := Alert{Annotations: map[string]string{"runbook_url": s.Runbook}}
			x.Page, x.Ticket = a, a
		}
		out = append(out, x)
	}
	return out, notes, errors.Join(refused...)
}

// engine returns what the service runs.
func (s Service) engine() (engine.Engine, error) {
	e, known := engine.Named(s.Engine)
	if !known {
		return e, fmt.Errorf("%s: service %s has no engine, so its series are not known: set engine to one of %s",
			s.Source, s.Name, strings.Join(engine.Names(), ", "))
	}
	return e, nil
}

// source is where an indicator is found: series that replicas of one program
// export under different names, of which each replica counts once.
type source struct {
	series   []engine.Series
	at       float64  // threshold in seconds
	matchers []string // of the service and the objective
	sum      string
}

// sources returns where an objective is found. The first source decides whether
// the threshold can be measured. Others are left out if they have no bucket there.
func (s Service) sources(e engine.Engine, o SLO) (out []source, note string, err error) {
	all := e.Series(o.Indicator)
	if len(all) == 0 {
		return nil, "", fmt.Errorf("%s exports no series for the indicator %q; it has %s", e.Title, o.Indicator, strings.Join(measured(e), ", "))
	}
	for i, x := range all {
		exact, near := bounded(x, o.Threshold)
		switch {
		case exact || x.Histogram == "":
		case o.Custom:
			note = fmt.Sprintf("the threshold of %s s is taken as it is: without a bucket of %s that ends there, as with native histograms alone, the alerts never fire", number(o.Threshold), x.Histogram)
		case near == "":
			note = fmt.Sprintf("the buckets of %s are not known: see that one ends at %s s, else the alerts never fire", x.Histogram, number(o.Threshold))
		case i == 0:
			return nil, "", fmt.Errorf("no bucket of %s ends at %s s; the nearest are %s: take one of them, or configure the engine's buckets and add custom_buckets: true to the objective",
				x.Histogram, number(o.Threshold), near)
		default:
			continue
		}
		if n := len(out); n > 0 && alike(out[n-1].series[0], x) {
			out[n-1].series = append(out[n-1].series, x)
			continue
		}
		f := source{series: []engine.Series{x}, at: o.Threshold, sum: "sum", matchers: []string{s.Selector}}
		if o.By != "" {
			f.sum = "sum by (" + o.By + ") "
		}
		if o.Route != "" {
			f.matchers = append(f.matchers, "route="+strconv.Quote(o.Route))
		}
		if o.Model != "" && x.Model != "" {
			f.matchers = append(f.matchers, x.Model+"="+strconv.Quote(o.Model))
		}
		out = append(out, f)
	}
	return out, note, nil
}

// measured returns the indicators that an engine has series for.
func measured(e engine.Engine) []string {
	var out []string
	for _, i := range engine.Indicators() {
		if len(e.Series(i)) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// bounded reports whether a bucket ends at a threshold, and otherwise names the
// nearest bounds; empty: they are not known.
func bounded(s engine.Series, threshold float64) (exact bool, near string) {
	below, above := engine.Around(s.Bounds, threshold)
	if below == above {
		return true, ""
	}
	var list []string
	for _, b := range []float64{below, above} {
		if !math.IsNaN(b) {
			list = append(list, number(b)+" s")
		}
	}
	return false, strings.Join(list, " and ")
}

// alike reports whether two histograms are names of the same thing in versions of
// one program, so that a replica without the first is judged by the second.
func alike(a, b engine.Series) bool {
	program := func(s engine.Series) string { name, _, _ := strings.Cut(s.Histogram, ":"); return name }
	plain := func(s engine.Series) bool { return s.Histogram != "" && s.Failed.Name == "" }
	return plain(a) && plain(b) && program(a) == program(b) && a.Model == b.Model && a.Millis == b.Millis
}

// ratio returns the share of bad events. A later source counts where the service
// has no series of an earlier one.
func ratio(sources []source) string {
	var out []string
	for _, s := range sources {
		out = append(out, s.ratio())
	}
	return strings.Join(out, "\nor\n")
}

// requests returns the requests a second that ratio is about. Where a histogram
// observes tokens and requests are not counted, they are tokens.
func requests(sources []source) string {
	var out []string
	for _, s := range sources {
		out = append(out, s.rate(func(x engine.Series) []engine.Counter {
			var names []engine.Counter
			if x.Requests != "" {
				names = append(names, engine.Counter{Name: x.Requests})
			}
			if x.Histogram != "" {
				return append(names, engine.Counter{Name: x.Histogram + "_count"})
			}
			return append(names, x.Total)
		}))
	}
	return either("\nor\n", out)
}

// rate returns the sum of the rates of series, each with its matchers. Of those
// that one replica has, the first counts.
func (s source) rate(names func(engine.Series) []engine.Counter) string {
	var out []string
	for _, x := range s.series {
		for _, n := range names(x) {
			matchers := append(slices.Clone(s.matchers), n.Match)
			out = append(out, "rate("+selector(n.Name, matchers...)+"["+Window+"])")
		}
	}
	return s.sum + "(" + either(" or ", out) + ")"
}

// either joins expressions, each of them once.
func either(or string, exprs []string) string {
	var out []string
	for _, e := range exprs {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return strings.Join(out, or)
}

func (s source) ratio() string {
	first := s.series[0]
	of := func(c engine.Counter) string {
		return s.rate(func(engine.Series) []engine.Counter { return []engine.Counter{c} })
	}
	histogram := func(suffix string, match func(engine.Series) string) string {
		return s.rate(func(x engine.Series) []engine.Counter {
			return []engine.Counter{{Name: x.Histogram + suffix, Match: match(x)}}
		})
	}
	if first.Histogram == "" {
		bad, total := of(first.Failed), of(first.Total)
		if first.Failed.Lazy {
			bad = fmt.Sprintf("(%s or 0 * %s)", bad, total)
		}
		return fmt.Sprintf("%s\n/\n%s", bad, total)
	}
	good := histogram("_bucket", func(x engine.Series) string { return le(s.at, x) })
	total := histogram("_count", func(engine.Series) string { return "" })
	if first.Failed.Name == "" {
		return fmt.Sprintf("1 - (\n  %s\n  /\n  %s\n)", good, total)
	}
	bad := of(first.Failed)
	if first.Failed.Lazy {
		bad = fmt.Sprintf("(%s or (0 * %s and on () %s))", bad, total, of(first.Total))
	}
	return fmt.Sprintf("(\n  %s\n  - %s\n  + %s\n)\n/ %s", total, good, bad, total)
}

// le returns the matcher of the bucket that ends at a threshold. Python and
// Prometheus 3 write le="1.0", Prometheus 2 keeps the le="1" of other programs.
func le(seconds float64, s engine.Series) string {
	if s.Millis {
		seconds *= 1000
	}
	text := number(seconds)
	if seconds == math.Trunc(seconds) {
		return `le=~"` + text + `(\\.0)?"`
	}
	return `le="` + text + `"`
}

// selector returns a selector of a name with matchers; empty ones are left out.
func selector(name string, matchers ...string) string {
	var out []string
	for _, m := range matchers {
		if m != "" {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return name
	}
	return name + "{" + strings.Join(out, ",") + "}"
}
