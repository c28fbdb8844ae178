package slo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Work is where engines show what their requests are made of and where their time
// goes. Lists hold the newest name first; what is empty is not exported.
type Work struct {
	Generated                  string   // counter of output tokens
	PrefixHits, PrefixQueries  []string // counters of prompt tokens that the prefix cache had, and was asked for
	PromptLength, OutputLength []string // histograms of tokens of a request
	Queue, Prefill, Decode     string   // histograms of the seconds of a request in each phase
	FirstToken, Whole          string   // histograms of the seconds to the first token, and of a request: without Prefill and Decode, these are their differences
	Token                      []string // histograms of the seconds between two tokens
	Failed, Aborted, Refused   Part     // requests
	Config                     string   // series whose labels hold num_gpu_blocks and block_size
	Capacity                   string   // gauge of the tokens that the KV cache holds
	Drafted, Accepted          string   // counters of tokens that speculative decoding drafted, and of those that were right
	AcceptRate                 string   // gauge of their share, where there are no counters
	Corrupted                  string   // counter of requests whose logits were not numbers
	TransfersFailed            string   // counter of transfers of KV blocks between engines that failed
}

// Part is a counter, or the part of one that label matchers select. While the
// counter Total is there, an absent part means none.
type Part struct{ Name, Match, Total string }

// View is what the engines of a service showed. What was not measured is NaN.
type View struct {
	Newest time.Time // of their gauges; zero: there are none
	Why    string    // why nothing is known; empty otherwise

	Now       Stretch   // over the window that ends now
	Before    []Stretch // over the same window as long ago as was asked for
	KV        []KV      // the different configurations of the KV cache, that of most replicas first
	Restarted int       // replicas whose counters began anew within the window; they are counted since
	Busiest   float64   // most requests that one engine computed at once within the window
	Copies    float64   // how many times every replica is scraped; NaN: not all of them equally often
	Buckets   []string  // histograms whose buckets differ between replicas: they have no quantiles
}

// Stretch is what a service did over a stretch of time.
type Stretch struct {
	Ended         float64 // requests per second
	PromptTokens  float64 // per second
	OutputTokens  float64 // per second
	Failed        float64 // requests per second that ended with an error of the server
	Aborted       float64 // requests per second that their clients gave up
	Refused       float64 // requests per second that were answered with 4xx, such as those too long
	HitRate       float64 // share of prompt tokens that the prefix cache had
	PromptMean    float64 // tokens of a request
	Prompt        Quantiles
	Output        Quantiles
	QueueSeconds  float64 // mean of a request that ended
	PrefillSecs   float64
	DecodeSeconds float64
	TokenSeconds  float64 // mean time between two tokens
	AcceptRate    float64 // share of drafted tokens that were right
	Transfers     float64 // transfers of KV blocks per second that failed
	Corrupted     float64 // requests per second whose logits were not numbers
	Replicas      float64 // that had samples at its end
	Derived       bool    // PrefillSecs is what the first token takes beyond the queue, also for requests that do not stream
}

// Quantiles are tokens of a request.
type Quantiles struct{ P50, P95 float64 }

// KV is one configuration of the KV cache of an engine.
type KV struct {
	Engines     int     // that have it; replicas with data-parallel ranks have several
	Blocks      float64 // NaN: not known, as the others
	BlockSize   float64 // tokens
	Tokens      float64
	Utilization float64 // share of the GPU's memory that the engine may use
	Fixed       bool    // its size was set directly, so Utilization does not matter

	Labels map[string]string // that the engine tells of its configuration
}

// The parts of the answer about a view; the objective of their keys is -4, and
// span 0 is now.
const (
	partAnswers   = "answers" // time of the newest sample of a gauge
	partMost      = "most"    // series of one engine
	partLeast     = "least"
	partRestarted = "restarted"
	partServing   = "serving"
	partBusiest   = "busiest"
	partConfig    = "config"
	partCapacity  = "capacity"
	partGenerated = "generated"
	partHits      = "hits"
	partQueries   = "queries"
	partFails     = "fails"
	partAborts    = "aborts"
	partRefuses   = "refuses"
	partDrafted   = "drafted"
	partAccepted  = "accepted"
	partAccepts   = "accepts"
	partTransfers = "transfers"
	partCorrupted = "corrupted" // requests
	partSum       = "sum/"      // with the name of a phase
	partCount     = "count/"
	partLengths   = "lengths/" // requests per second by bucket, with prompt or output
	partBuckets   = "buckets/" // series by bucket
)

// engineLabels tell engines apart however often they are scraped.
const engineLabels = "namespace, pod, instance, engine, dp_rank, tp_rank, pp_rank, model_name"

// configLabels are those of the configuration of a KV cache.
const configLabels = "num_gpu_blocks, block_size, kv_cache_size_tokens, gpu_memory_utilization, kv_cache_memory_bytes, num_gpu_blocks_override, " +
	"enable_prefix_caching, cache_dtype"

// Views measures what the engines of a service do over a window that ends now, and
// did over windows that ended so long ago, with one query.
func Views(ctx context.Context, q Asker, service string, all []Progress, at time.Time, window time.Duration, before ...time.Duration) (View, error) {
	spans := []Span{{Window: window}}
	for _, ago := range before {
		spans = append(spans, Span{Window: window, Offset: ago})
	}
	var terms []string
	for j, p := range all {
		ask := func(span int, part, expr string) {
			if expr != "" {
				terms = append(terms, key{-4, j, span, part}.ask(expr))
			}
		}
		running := selector(p.Running, service)
		copies := "count by (" + engineLabels + ") (" + running + ")"
		ask(0, partAnswers, "max(timestamp("+running+"))")
		ask(0, partMost, "max("+copies+")")
		ask(0, partLeast, "min("+copies+")")
		ask(0, partBusiest, fmt.Sprintf("max(max_over_time(%s%s))", running, Span{Window: window}))
		ask(0, partRestarted, restarts(service, p, Span{Window: window}))
		if w := p.Work; w.Config != "" {
			ask(0, partConfig, "count by ("+configLabels+") (count by ("+engineLabels+", "+configLabels+") ("+selector(w.Config, service)+"))")
		}
		if w := p.Work; w.Capacity != "" {
			ask(0, partCapacity, `count_values("tokens", max by (`+engineLabels+`) (`+selector(w.Capacity, service)+"))")
		}
		for k, span := range spans {
			parts := p.stretch(service, span)
			for _, part := range slices.Sorted(maps.Keys(parts)) {
				ask(k, part, parts[part])
			}
		}
	}
	got, err := read(ctx, q, strings.Join(terms, " or "), at)
	if err != nil {
		return View{}, err
	}
	return got.view(all, at, spans), nil
}

// restarts counts the replicas whose counters began anew.
func restarts(service string, p Progress, span Span) string {
	return "count(" + p.resets(service, span) + ")"
}

// resets returns the replicas whose counters began anew.
func (p Progress) resets(service string, span Span) string {
	names := p.Steps
	if len(names) == 0 {
		names = []string{p.Finished}
	}
	return "max by (" + replicaLabels + ") (" + firstOf(names, func(n string) string {
		return fmt.Sprintf("resets(%s%s)", selector(n, service), span)
	}) + ") > 0"
}

// stretch returns the expressions of all numbers over a span, by their parts.
func (p Progress) stretch(service string, span Span) map[string]string {
	w := p.Work
	total := func(match string, names ...string) string {
		return sumOf(names, func(n string) string { return fmt.Sprintf("increase(%s%s)", selector(n, service, match), span) })
	}
	at := ""
	if span.Offset > 0 {
		at = fmt.Sprintf(" offset %dms", span.Offset.Milliseconds())
	}
	out := map[string]string{
		// A pod may have several targets.
		partServing: "(count(count by (pod) (" + selector(p.Running, service, `pod!=""`) + at + ")) or count(count by (instance) (" + selector(p.Running, service) + at + ")))",
		partEnded:   total("", p.Finished), partPrompts: total("", p.Prompts), partGenerated: total("", w.Generated),
		partHits: total("", w.PrefixHits...), partQueries: total("", w.PrefixQueries...),
		partDrafted: total("", w.Drafted), partAccepted: total("", w.Accepted), partTransfers: total("", w.TransfersFailed), partCorrupted: total("", w.Corrupted),
	}
	if w.AcceptRate != "" {
		out[partAccepts] = fmt.Sprintf("avg(avg_over_time(%s%s))", selector(w.AcceptRate, service), span)
	}
	for part, of := range map[string]Part{partFails: w.Failed, partAborts: w.Aborted, partRefuses: w.Refused} {
		out[part] = total(of.Match, of.Name)
		if out[part] != "" && of.Total != "" {
			out[part] = fmt.Sprintf("(%s or 0 * %s)", out[part], total("", of.Total))
		}
	}
	for phase, names := range w.phases() {
		out[partSum+phase], out[partCount+phase] = total("", suffixed(names, "_sum")...), total("", suffixed(names, "_count")...)
	}
	for what, names := range map[string][]string{"prompt": w.PromptLength, "output": w.OutputLength} {
		out[partSum+what], out[partCount+what] = total("", suffixed(names, "_sum")...), total("", suffixed(names, "_count")...)
		buckets := suffixed(names, "_bucket")
		if len(buckets) == 0 {
			continue
		}
		out[partLengths+what] = "sum by (le) (" + firstOf(buckets, func(n string) string { return fmt.Sprintf("rate(%s%s)", selector(n, service), span) }) + ")"
		if span.Offset == 0 {
			out[partBuckets+what] = "count by (le) (" + firstOf(buckets, func(n string) string { return selector(n, service) }) + ")"
		}
	}
	return out
}

// phases returns the histograms of a request's seconds, by their names in parts.
func (w Work) phases() map[string][]string {
	out := map[string][]string{"token": w.Token}
	for phase, name := range map[string]string{"queue": w.Queue, "prefill": w.Prefill, "decode": w.Decode, "first": w.FirstToken, "whole": w.Whole} {
		if name != "" {
			out[phase] = []string{name}
		}
	}
	return out
}

func suffixed(names []string, suffix string) []string {
	var out []string
	for _, n := range names {
		out = append(out, n+suffix)
	}
	return out
}

// firstOf joins the expressions of names; the first that a replica has counts.
func firstOf(names []string, expr func(name string) string) string {
	var each []string
	for _, n := range names {
		if n != "" {
			each = append(each, expr(n))
		}
	}
	return strings.Join(each, " or ")
}

// sumOf adds them up over replicas; empty: there are no names.
func sumOf(names []string, expr func(name string) string) string {
	if e := firstOf(names, expr); e != "" {
		return "sum(" + e + ")"
	}
	return ""
}

// view reads the answer, of the first engine that has gauges.
func (a answered) view(all []Progress, at time.Time, spans []Span) View {
	out := View{Now: unmeasured(), Before: make([]Stretch, len(spans)-1), Busiest: math.NaN(), Copies: math.NaN()}
	for k := range out.Before {
		out.Before[k] = unmeasured()
	}
	if a.partial != "" {
		out.Why = mayBePartial + a.partial
		return out
	}
	var names []string
	for j, p := range all {
		part := func(name string) float64 {
			v, _ := a.one(key{-4, j, 0, name})
			return v
		}
		names = append(names, p.Running)
		newest := part(partAnswers)
		if math.IsNaN(newest) {
			continue
		}
		out.Newest = time.UnixMilli(int64(newest * 1000)).UTC()
		if out.Newest.Before(at.Add(-fresh)) {
			out.Why = fmt.Sprintf("the newest sample of %s is %s old", p.Running, at.Sub(out.Newest).Round(time.Second))
			return out
		}
		if most := part(partMost); most == part(partLeast) {
			out.Copies = most
		}
		if n := part(partRestarted); n > 0 {
			out.Restarted = int(n)
		}
		out.KV, out.Busiest = a.caches(j), part(partBusiest)
		out.Now = a.stretch(j, 0, spans[0].Window).over(out.Copies)
		for k := range out.Before {
			out.Before[k] = a.stretch(j, k+1, spans[k+1].Window).over(out.Copies)
		}
		for what, names := range map[string][]string{"prompt": p.Work.PromptLength, "output": p.Work.OutputLength} {
			if a.uneven(j, what) {
				out.Buckets = append(out.Buckets, names[0])
			}
		}
		slices.Sort(out.Buckets)
		return out
	}
	out.Why = "none of these series exists: " + strings.Join(names, ", ")
	return out
}

func unmeasured() Stretch {
	nan := math.NaN()
	none := Quantiles{nan, nan}
	return Stretch{nan, nan, nan, nan, nan, nan, nan, nan, none, none, nan, nan, nan, nan, nan, nan, nan, nan, false}
}

// stretch reads what one engine did over one span.
func (a answered) stretch(source, span int, window time.Duration) Stretch {
	part := func(name string) float64 {
		v, _ := a.one(key{-4, source, span, name})
		return v
	}
	rate := func(name string) float64 { return part(name) / window.Seconds() }
	ratio := func(of, by float64) float64 {
		if !(by > 0) {
			return math.NaN()
		}
		return of / by
	}
	mean := func(phase string) float64 { return ratio(part(partSum+phase), part(partCount+phase)) }
	// between returns the mean of a phase, or what lies between two others.
	between := func(phase, from, to string) float64 {
		if m := mean(phase); !math.IsNaN(m) {
			return m
		}
		if m := mean(to) - mean(from); m >= 0 {
			return m
		}
		return math.NaN() // of different requests, while the times change fast
	}
	prompt := mean("prompt")
	if math.IsNaN(prompt) {
		prompt = ratio(part(partPrompts), part(partEnded))
	}
	lengths := func(what string) Quantiles {
		if a.uneven(source, what) {
			return Quantiles{math.NaN(), math.NaN()}
		}
		buckets := a.parts[key{-4, source, span, partLengths + what}]
		return Quantiles{quantileOf(buckets, 0.5), quantileOf(buckets, 0.95)}
	}
	accepts := ratio(part(partAccepted), part(partDrafted))
	if gauge := part(partAccepts); math.IsNaN(accepts) && gauge > 0 {
		accepts = gauge // SGLang exports it without speculative decoding too, as 0
	}
	return Stretch{
		Ended: rate(partEnded), PromptTokens: rate(partPrompts), OutputTokens: rate(partGenerated), Failed: rate(partFails), Aborted: rate(partAborts), Refused: rate(partRefuses),
		HitRate:    ratio(part(partHits), part(partQueries)),
		PromptMean: prompt, Prompt: lengths("prompt"), Output: lengths("output"),
		QueueSeconds: mean("queue"), PrefillSecs: between("prefill", "queue", "first"), DecodeSeconds: between("decode", "first", "whole"), TokenSeconds: mean("token"),
		AcceptRate: accepts, Transfers: rate(partTransfers), Corrupted: rate(partCorrupted), Replicas: part(partServing), Derived: math.IsNaN(mean("prefill")),
	}
}

// uneven reports whether the replicas have different buckets: their sums are no
// distribution then.
func (a answered) uneven(source int, what string) bool {
	all := a.parts[key{-4, source, 0, partBuckets + what}]
	return slices.ContainsFunc(all, func(s Sample) bool { return s.Value != all[0].Value })
}

// quantileOf returns a quantile of a histogram, as histogram_quantile interpolates it. It
// is not known without events, and beyond the last bound.
func quantileOf(buckets []Sample, q float64) float64 {
	type bucket struct{ le, count float64 }
	var all []bucket
	for _, s := range buckets {
		if le, err := strconv.ParseFloat(s.Labels["le"], 64); err == nil {
			all = append(all, bucket{le, s.Value})
		}
	}
	slices.SortFunc(all, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
	if len(all) == 0 || !math.IsInf(all[len(all)-1].le, 1) || !(all[len(all)-1].count > 0) {
		return math.NaN()
	}
	rank, below := q*all[len(all)-1].count, bucket{}
	for _, b := range all[:len(all)-1] {
		if b.count >= rank {
			return below.le + (b.le-below.le)*(rank-below.count)/(b.count-below.count)
		}
		below = bucket{b.le, max(below.count, b.count)}
	}
	return math.NaN()
}

// over returns the stretch of replicas that are scraped so many times; the numbers
// of requests of unequal ones are not known.
func (s Stretch) over(copies float64) Stretch {
	for _, v := range []*float64{&s.Ended, &s.PromptTokens, &s.OutputTokens, &s.Failed, &s.Aborted, &s.Refused, &s.Transfers, &s.Corrupted} {
		*v /= copies
	}
	return s
}

// Over returns the load of replicas that are scraped so many times.
func (l Load) Over(copies float64) Load {
	for _, v := range []*float64{&l.Ended, &l.Rate, &l.Tokens, &l.Running, &l.Waiting, &l.Held, &l.Preempted} {
		*v /= copies
	}
	return l
}

// caches reads the configurations of the KV cache, that of most engines first.
func (a answered) caches(source int) []KV {
	var out []KV
	for _, s := range a.parts[key{-4, source, 0, partConfig}] {
		number := func(label string) float64 { return parsed(s.Labels[label]) }
		kv := KV{
			Engines: int(s.Value), Blocks: number("num_gpu_blocks"), BlockSize: number("block_size"), Tokens: number("kv_cache_size_tokens"),
			Utilization: number("gpu_memory_utilization"), Labels: s.Labels,
		}
		kv.Fixed = number("kv_cache_memory_bytes") > 0 || number("num_gpu_blocks_override") > 0
		if !(kv.Tokens > 0) {
			kv.Tokens = kv.Blocks * kv.BlockSize
		}
		out = append(out, kv)
	}
	for _, s := range a.parts[key{-4, source, 0, partCapacity}] {
		out = append(out, KV{Engines: int(s.Value), Blocks: math.NaN(), BlockSize: math.NaN(), Tokens: parsed(s.Labels["tokens"]), Utilization: math.NaN()})
	}
	slices.SortStableFunc(out, func(a, b KV) int { return b.Engines - a.Engines })
	return out
}

// parsed returns the positive number that a label holds, else NaN.
func parsed(label string) float64 {
	v, err := strconv.ParseFloat(label, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}
