package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// TrafficKind declares traffic.shape.
func TrafficKind() playbook.Kind {
	return playbook.Kind{
		Name: "traffic.shape",
		Role: playbook.RoleCheck,
		Doc: `Compares what the service is asked for with what it was asked for before the breach, and at the same time a day and a week ago, where there is history:
arrivals, the lengths of prompts and outputs, and the values of the labels model_name and route, and of those that objectives are measured by. ` + "`shape`" + ` is ` + "`burst`" + `
when at least one and a half times as many requests arrive, ` + "`long_prompts`" + ` when prompts are at least one and a half times as long, whichever grew more, ` + "`new_label`" + ` when
neither is so and at least a twentieth of the requests have a value of a label that none had before, ` + "`none`" + ` when nothing is so, and ` + "`unknown`" + ` when there are fewer than 20 requests to
judge by, or nothing to compare with. Lengths are those of requests that ended: a client that gave up in the queue is not seen.`,
		With: step.Fields[trafficWith](),
		Out:  step.Fields[trafficOut](),
	}
}

type trafficWith struct {
	Window   step.Duration `json:"window" default:"5m" doc:"Over which requests are counted. It must hold two scrapes."`
	Lookback step.Duration `json:"lookback" default:"6h" doc:"How far back the beginning of the breach is looked for."`
	Ramp     step.Duration `json:"ramp" default:"5m" doc:"How long before the breach the time ends that is compared with: a load that grows shows in the objectives only after a while."`
}

type trafficOut struct {
	Shape      string     `json:"shape" enum:"burst,long_prompts,long_outputs,new_label,none,unknown" doc:"What changed."`
	Why        string     `json:"why" doc:"The same in a sentence with figures."`
	Since      time.Time  `json:"since" doc:"When the breach began: by the objective that is missed most, else by the alert; now without both."`
	Rate       *float64   `json:"rate,omitempty" doc:"Requests per second that arrive."`
	Prompt     *float64   `json:"prompt_tokens_mean,omitempty" unit:"tokens" doc:"Mean length of a prompt."`
	RateTimes  *float64   `json:"rate_times,omitempty" doc:"How many times as many requests arrive as before the breach."`
	RateDay    *float64   `json:"rate_times_day,omitempty" doc:"The same against a day ago."`
	RateWeek   *float64   `json:"rate_times_week,omitempty" doc:"The same against a week ago."`
	PromptTime *float64   `json:"prompt_times,omitempty" doc:"How many times as long prompts are as before the breach: by their mean or their p95, whichever grew more."`
	PromptDay  *float64   `json:"prompt_times_day,omitempty" doc:"The same against a day ago."`
	PromptWeek *float64   `json:"prompt_times_week,omitempty" doc:"The same against a week ago."`
	OutputTime *float64   `json:"output_times,omitempty" doc:"How many times as long outputs are at p95 as before the breach."`
	New        []valueOut `json:"new" doc:"Values of labels that no request had before the breach, those of most requests first, at most 10."`
	Missing    []string   `json:"missing" doc:"Fields that are absent, because nothing was measured."`
}

type valueOut struct {
	Label string  `json:"label" doc:"Label."`
	Value string  `json:"value" doc:"Its value."`
	Share float64 `json:"share" unit:"ratio" doc:"Share of the requests that have it."`
}

// Values of trafficOut.Shape.
const (
	shapeBurst   = "burst"
	shapePrompts = "long_prompts"
	shapeOutputs = "long_outputs"
	shapeNew     = "new_label"
	shapeNone    = "none"
	shapeUnknown = "unknown"
)

const (
	muchMore     = 1.5  // times: a burst, or longer prompts
	leastShare   = 0.05 // of the requests that have a new value of a label
	mostNew      = 10   // values that evidence lists
	mostLabels   = 8
	leastArrived = 20 // requests to judge by
)

type traffic struct{ q step.Querier }

// NewTraffic returns the check traffic.shape.
func NewTraffic(d step.Deps) step.Check { return traffic{d.Querier} }

// Run implements [step.Check].
func (c traffic) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[trafficWith](TrafficKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	ask, err := asked(c.q, TrafficKind().Name, in)
	if err != nil {
		return step.Finding{}, err
	}
	q, window := step.Patient(c.q), time.Duration(with.Window)
	out := trafficOut{Shape: shapeUnknown, New: []valueOut{}, Missing: []string{}}
	if out.Since, err = began(ctx, q, ask, in, window, time.Duration(with.Lookback)); err != nil {
		return step.Finding{}, err
	}
	const day = 24 * time.Hour
	ago := []time.Duration{max(in.Now.Sub(out.Since), window) + time.Duration(with.Ramp), day, 7 * day}
	view, err := slo.Views(ctx, q, ask.Service, ask.Progress, in.Now, window, ago...)
	if err != nil {
		return step.Finding{}, err
	}
	spans := []slo.Span{{Window: window}}
	for _, d := range ago {
		spans = append(spans, slo.Span{Window: window, Offset: d})
	}
	loads, err := slo.Loads(ctx, q, ask.Service, ask.Progress, in.Now, spans...)
	if err != nil {
		return step.Finding{}, err
	}
	labels := labelsOf(in.Service)
	split, note, err := slo.Splits(ctx, q, ask.Service, ask.Progress, labels, in.Now, spans[:2]...)
	if err != nil {
		return step.Finding{}, err
	}
	view.Why = cmp.Or(view.Why, note)
	t := asking{view: view, window: window}
	for _, l := range loads {
		t.loads = append(t.loads, l.Over(view.Copies))
	}
	facts := out.compare(t, labels, split)
	return step.Finding{Out: out, Facts: append([]string{out.Why}, facts...)}, nil
}

// began returns when the breach began.
func began(ctx context.Context, q step.Querier, ask slo.Ask, in step.Input, window, lookback time.Duration) (time.Time, error) {
	since := in.Now
	if at := in.Alert.StartsAt; !at.IsZero() && at.Before(in.Now) {
		since = at
	}
	if len(ask.Objectives) == 0 {
		return since.UTC(), nil
	}
	m, err := slo.Measure(ctx, q, slo.Ask{Service: ask.Service, Objectives: ask.Objectives}, in.Now, slo.Span{Window: window})
	if err != nil {
		return time.Time{}, err
	}
	if worst, _, missed := step.Missed(m, in.Alert); missed {
		at, err := worst.Began(ctx, q, in.Now, window, lookback)
		if err != nil {
			return time.Time{}, err
		}
		since = at
	}
	return since.UTC(), nil
}

// labelsOf returns the labels whose values are compared.
func labelsOf(svc playbook.Service) []string {
	out := []string{"model_name", "route"}
	for _, o := range svc.SLOs {
		if o.By != "" && !slices.Contains(out, o.By) && len(out) < mostLabels {
			out = append(out, o.By)
		}
	}
	return out
}

// asking is what a service was asked for: now, before the breach, a day and a week
// ago.
type asking struct {
	view   slo.View
	loads  []slo.Load
	window time.Duration
}

// then returns the lengths of the k-th time.
func (t asking) then(k int) slo.Stretch {
	if k == 0 {
		return t.view.Now
	}
	return t.view.Before[k-1]
}

// rate returns how many times as many requests arrive as at the k-th time; NaN where
// it was not measured, or too few arrived then to tell.
func (t asking) rate(k int) float64 {
	now, then := t.loads[0].Rate, t.loads[k].Rate
	if !(max(now, then)*t.window.Seconds() >= leastArrived) {
		return math.NaN()
	}
	return now / then
}

// prompts returns how many times as long prompts are as at the k-th time.
func (t asking) prompts(k int) float64 {
	out, now, then := math.NaN(), t.then(0), t.then(k)
	if !t.enough(k) {
		return out
	}
	for _, v := range []float64{now.PromptMean / then.PromptMean, now.Prompt.P95 / then.Prompt.P95} {
		if step.IsFinite(v) && !(v <= out) {
			out = v
		}
	}
	return out
}

// outputs returns how many times as long outputs are as before the breach.
func (t asking) outputs() float64 {
	if !t.enough(1) {
		return math.NaN()
	}
	return t.then(0).Output.P95 / t.then(1).Output.P95
}

// outputWords says how much longer outputs are; empty: that is not known.
func (t asking) outputWords() string {
	if times := t.outputs(); step.IsFinite(times) {
		return fmt.Sprintf(", outputs %.2g times", times)
	}
	return ""
}

// enough reports whether enough requests ended, now and at the k-th time, to
// compare their lengths.
func (t asking) enough(k int) bool {
	return min(t.then(0).Ended, t.then(k).Ended)*t.window.Seconds() >= leastArrived
}

// compare judges the traffic and returns lines for people.
func (out *trafficOut) compare(t asking, labels []string, split map[string]map[string][]float64) []string {
	out.numbers(t)
	facts := out.values(labels, split)
	now := t.loads[0]
	rate, prompts := t.rate(1), t.prompts(1)
	switch {
	case t.view.Why != "":
		out.Why = "what is asked for is not known: " + t.view.Why
		return nil
	case math.IsNaN(t.view.Copies):
		out.Why = "what is asked for is not known: some replicas are scraped more often than others, so requests cannot be counted"
		return nil
	case !(now.Rate*t.window.Seconds() >= leastArrived):
		out.Why = fmt.Sprintf("what changed is not known: fewer than %d requests are known to have arrived within %s", leastArrived, step.DurationText(t.window))
		return facts
	case rate >= muchMore && !(prompts > rate):
		out.Shape, out.Why = shapeBurst, fmt.Sprintf("a burst: %.3g requests per second arrive, before the breach %.3g", now.Rate, t.loads[1].Rate)
	case prompts >= muchMore:
		out.Shape, out.Why = shapePrompts, fmt.Sprintf("prompts are %.2g times as long as before the breach: %s, before %s", prompts, lengths(t.then(0)), lengths(t.then(1)))
	case t.outputs() >= muchMore:
		out.Shape, out.Why = shapeOutputs, fmt.Sprintf("outputs are %.2g times as long as before the breach: p95 %.0f tokens, before %.0f", t.outputs(), t.then(0).Output.P95, t.then(1).Output.P95)
	case len(out.New) > 0 && out.New[0].Share >= leastShare:
		out.Shape, out.Why = shapeNew, fmt.Sprintf("%s of the requests have %s %q, none had it before the breach", slo.Percent(out.New[0].Share), out.New[0].Label, out.New[0].Value)
	case math.IsNaN(rate) || math.IsNaN(prompts):
		out.Why = "what changed is not known: nothing was measured before the breach, or too few requests ended to compare lengths"
	default:
		out.Shape, out.Why = shapeNone, fmt.Sprintf("as before the breach: %.2g times the requests, prompts %.2g times as long%s", rate, prompts, t.outputWords())
	}
	for k, when := range []string{"a day ago", "a week ago"} {
		if times := t.rate(k + 2); step.IsFinite(times) {
			facts = append(facts, fmt.Sprintf("against %s: %.2g times the requests", when, times))
		} else {
			facts = append(facts, when+": not known")
		}
	}
	return facts
}

func lengths(s slo.Stretch) string {
	out := fmt.Sprintf("%.0f tokens on average", s.PromptMean)
	if step.IsFinite(s.Prompt.P95) {
		out += fmt.Sprintf(" (p95 %.0f)", s.Prompt.P95)
	}
	return out
}

// numbers adds the numbers, and names what is missing.
func (out *trafficOut) numbers(t asking) {
	for _, f := range []struct {
		name  string
		to    **float64
		value float64
	}{
		{"rate", &out.Rate, t.loads[0].Rate},
		{"prompt_tokens_mean", &out.Prompt, t.then(0).PromptMean},
		{"rate_times", &out.RateTimes, t.rate(1)},
		{"rate_times_day", &out.RateDay, t.rate(2)},
		{"rate_times_week", &out.RateWeek, t.rate(3)},
		{"prompt_times", &out.PromptTime, t.prompts(1)},
		{"prompt_times_day", &out.PromptDay, t.prompts(2)},
		{"prompt_times_week", &out.PromptWeek, t.prompts(3)},
		{"output_times", &out.OutputTime, t.outputs()},
	} {
		if *f.to = known(f.value); *f.to == nil {
			out.Missing = append(out.Missing, f.name)
		}
	}
}

// values finds the new values of labels.
func (out *trafficOut) values(labels []string, split map[string]map[string][]float64) (facts []string) {
	for _, label := range labels {
		before, all := 0.0, 0.0
		for _, n := range split[label] {
			all, before = all+n[0], before+n[1]
		}
		switch {
		case len(split[label]) == 0:
			facts = append(facts, "no series has the label "+label)
		case !(before > 0):
			facts = append(facts, "which values the label "+label+" had before is not known")
		default:
			for _, value := range slices.Sorted(maps.Keys(split[label])) {
				if n := split[label][value]; n[1] == 0 && n[0] > 0 {
					out.New = append(out.New, valueOut{label, value, n[0] / all})
				}
			}
		}
	}
	slices.SortStableFunc(out.New, func(a, b valueOut) int { return -cmp.Compare(a.Share, b.Share) })
	out.New = out.New[:min(len(out.New), mostNew)]
	var names []string
	for _, v := range out.New {
		names = append(names, fmt.Sprintf("%s %q (%s of the requests)", v.Label, v.Value, slo.Percent(v.Share)))
	}
	if len(names) > 0 {
		facts = append(facts, "new since the breach began: "+strings.Join(names, ", "))
	}
	return facts
}
