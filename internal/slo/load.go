package slo

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// Load is what a service was asked to do over a span. What was not measured is NaN.
type Load struct {
	Ended   float64 // requests per second that ended
	Rate    float64 // requests per second that arrived: those that ended, and by how many more were in flight
	Tokens  float64 // prompt tokens per second that arrived: the rate, times the tokens of a request
	Running float64 // requests that were computed at the end of the span
	Waiting float64 // requests in the queue at the end of the span; for capacity alone where the engine tells
	Held    float64 // requests that were computed or in any queue then

	Cache     float64 // share of the KV cache in use at the end of the span, of the replica that uses most
	Preempted float64 // requests per second that lost their place in it
}

// The parts of the answer about load; the objective of their keys is -2.
const (
	partEnded   = "ended"   // requests that ended
	partPrompts = "prompts" // tokens of their prompts
	partRunning = "running" // at the end of the span
	partWaiting = "waiting"
	partQueue   = "queue" // whatever it waits for
	partHeld    = "held"
	partEarlier = "earlier" // in flight at its beginning

	partCache     = "cache"     // most of it in use
	partPreempted = "preempted" // requests
)

// Loads measures the load over each span with one query. A saturated engine
// finishes no more requests the more arrive, so what piles up counts as arrived. A
// partial answer measures nothing.
func Loads(ctx context.Context, q Asker, service string, all []Progress, at time.Time, spans ...Span) ([]Load, error) {
	var terms []string
	for j, p := range all {
		for k, span := range spans {
			add := func(part, expr string) { terms = append(terms, key{-2, j, k, part}.ask("sum("+expr+")")) }
			ago := func(name string, d time.Duration, match ...string) string {
				s := selector(name, append(match, service)...)
				if d > 0 {
					s += fmt.Sprintf(" offset %dms", d.Milliseconds())
				}
				return s
			}
			first := func(names []string, expr func(name string) string) string {
				var each []string
				for _, n := range names {
					each = append(each, expr(n))
				}
				return strings.Join(each, " or ")
			}
			if len(p.Cache) > 0 {
				terms = append(terms, key{-2, j, k, partCache}.ask("max("+first(p.Cache, func(n string) string { return ago(n, span.Offset) })+")"))
			}
			if len(p.Preempted) > 0 {
				add(partPreempted, first(p.Preempted, func(n string) string { return fmt.Sprintf("increase(%s%s)", selector(n, service), span) }))
			}
			begin := span.Offset + span.Window
			add(partEnded, fmt.Sprintf("increase(%s%s)", selector(p.Finished, service), span))
			add(partPrompts, fmt.Sprintf("increase(%s%s)", selector(p.Prompts, service), span))
			add(partRunning, ago(p.Running, span.Offset))
			waits := ago(p.Waiting, span.Offset)
			if p.Capacity.Name != "" { // not every replica has the version that tells
				each := "sum by (" + replicaLabels + ") ("
				waits = each + ago(p.Capacity.Name, span.Offset, p.Capacity.Match) + ") or " + each + waits + ")"
			}
			add(partWaiting, waits)
			add(partQueue, ago(p.Waiting, span.Offset))
			held := fmt.Sprintf("sum(%s) + sum(%s)", ago(p.Running, span.Offset), ago(p.Waiting, span.Offset))
			for _, queue := range p.Queues {
				held += fmt.Sprintf(" + (sum(%s) or 0 * sum(%s))", ago(queue, span.Offset), ago(p.Waiting, span.Offset))
			}
			terms = append(terms, key{-2, j, k, partHeld}.ask(held))
			terms = append(terms, key{-2, j, k, partEarlier}.ask(fmt.Sprintf("sum(%s) + sum(%s)", ago(p.Running, begin), ago(p.Waiting, begin))))
		}
	}
	out := make([]Load, len(spans))
	got, err := read(ctx, q, strings.Join(terms, " or "), at)
	for k := range spans {
		out[k] = Load{Ended: math.NaN(), Rate: math.NaN(), Tokens: math.NaN(), Running: math.NaN(), Waiting: math.NaN(), Held: math.NaN(), Cache: math.NaN(), Preempted: math.NaN()}
		for j := range all {
			if got.partial != "" {
				break
			}
			if l := got.load(j, k, spans[k].Window); !math.IsNaN(l.Rate) || !math.IsNaN(l.Waiting) {
				out[k] = l
				break
			}
		}
	}
	return out, err
}

// load reads the load that one engine shows over one span.
func (a answered) load(source, span int, window time.Duration) Load {
	part := func(name string) float64 {
		v, _ := a.one(key{-2, source, span, name})
		return v
	}
	ended, running, waiting := part(partEnded), part(partRunning), part(partWaiting)
	out := Load{
		Ended: ended / window.Seconds(), Rate: ended / window.Seconds(), Tokens: math.NaN(), Running: running, Waiting: waiting, Held: part(partHeld), Cache: part(partCache),
		Preempted: part(partPreempted) / window.Seconds(),
	}
	if more := running + part(partQueue) - part(partEarlier); more > 0 {
		out.Rate += more / window.Seconds()
	}
	if ended > 0 {
		out.Tokens = out.Rate * part(partPrompts) / ended
	}
	return out
}

// Times returns how many times another load it is: by requests or by prompt
// tokens, whichever grew more; NaN if neither can be told.
func (l Load) Times(before Load) float64 {
	out := math.NaN()
	for _, v := range []float64{l.Rate / before.Rate, l.Tokens / before.Tokens} {
		if v >= 0 && !math.IsInf(v, 0) && !(v <= out) {
			out = v
		}
	}
	return out
}

// LoadRate is a load that replicas carry, as PromQL for how much of it a second.
type LoadRate struct{ Name, Rate string }

// LoadRates returns the loads of the service over a window, and PromQL for the number of
// its replicas; empty if its engine shows neither.
func (a Ask) LoadRates(window time.Duration) (loads []LoadRate, replicas string) {
	var ended, prompts, outputs, gauges []string
	for _, p := range a.Progress {
		rate := func(counter string) string {
			return fmt.Sprintf("rate(%s%s)", selector(counter, a.Service), Span{Window: window})
		}
		ended, gauges = append(ended, rate(p.Finished)), append(gauges, selector(p.Running, a.Service))
		if p.Prompts != "" {
			prompts = append(prompts, rate(p.Prompts))
		}
		if p.Work.Generated != "" {
			outputs = append(outputs, rate(p.Work.Generated))
		}
	}
	if len(gauges) == 0 {
		return nil, ""
	}
	loads = []LoadRate{{"requests", "sum(" + strings.Join(ended, " or ") + ")"}}
	if len(prompts) > 0 {
		loads = append(loads, LoadRate{"prompt tokens", "sum(" + strings.Join(prompts, " or ") + ")"})
	}
	if len(outputs) > 0 {
		loads = append(loads, LoadRate{"output tokens", "sum(" + strings.Join(outputs, " or ") + ")"})
	}
	return loads, "count(count by (" + replicaLabels + ") (" + strings.Join(gauges, " or ") + "))"
}
