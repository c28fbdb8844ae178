package slo

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Shown is what one replica showed. What was not measured is NaN; a replica whose
// counters began anew within the window has no rates.
type Shown struct {
	Name      string        // its pod, else its instance
	IsPod     bool          // its series have the label pod
	Age       time.Duration // of its newest sample
	Restarted bool          // its counters began anew within the window

	Running, Waiting        float64 // requests
	Steps                   float64 // within the window, also after a restart
	Cache                   float64 // share of the KV cache in use
	Preempted               float64 // requests per second
	PromptTokens, OutTokens float64 // per second
	Corrupted               float64 // requests per second whose logits were not numbers
	HitRate                 float64 // share of prompt tokens that the prefix cache had
}

// Fresh reports whether its numbers are of now.
func (s Shown) Fresh() bool { return s.Age < fresh }

// The parts of the answer about replicas; the objective of their keys is -5.
const (
	partAge   = "age" // time of the newest sample
	partSteps = "steps"
)

// Replicas measures every replica of a service over a window, with one query.
// copies is how many times each is scraped. note says why it is not known which
// replicas there are; empty: it is.
func Replicas(ctx context.Context, q Asker, service string, engines []Progress, at time.Time, window time.Duration, copies float64) (all []Shown, note string, err error) {
	span := Span{Window: window}
	var terms []string
	for j, p := range engines {
		ask := func(part, how, expr string) {
			if expr != "" {
				terms = append(terms, key{-5, j, 0, part}.ask(how+" by ("+replicaLabels+") ("+expr+")"))
			}
		}
		now := func(n string) string { return selector(n, service) }
		grown := func(n string) string { return fmt.Sprintf("increase(%s%s)", selector(n, service), span) }
		ask(partAge, "max", "timestamp("+now(p.Running)+")")
		ask(partRestarted, "max", p.resets(service, span))
		ask(partRunning, "sum", now(p.Running))
		waits := "sum by (" + replicaLabels + ") (" + now(p.Waiting) + ")"
		if c := p.Capacity; c.Name != "" {
			waits = "(sum by (" + replicaLabels + ") (" + selector(c.Name, c.Match, service) + ") or " + waits + ")"
		}
		terms = append(terms, key{-5, j, 0, partWaiting}.ask(waits))
		ask(partSteps, "sum", firstOf(p.Steps, grown))
		ask(partCache, "max", firstOf(p.Cache, now))
		ask(partPreempted, "sum", firstOf(p.Preempted, grown))
		ask(partPrompts, "sum", firstOf([]string{p.Prompts}, grown))
		ask(partGenerated, "sum", firstOf([]string{p.Work.Generated}, grown))
		ask(partCorrupted, "sum", firstOf([]string{p.Work.Corrupted}, grown))
		ask(partHits, "sum", firstOf(p.Work.PrefixHits, grown))
		ask(partQueries, "sum", firstOf(p.Work.PrefixQueries, grown))
	}
	v, err := ask(ctx, q, strings.Join(terms, " or "), at)
	if err != nil {
		return nil, "", err
	}
	if p := v.partial(); p != "" {
		return nil, mayBePartial + p, nil
	}
	values, pods := map[string]map[string]float64{}, map[string]bool{} // by replica, then part
	for _, s := range v.Samples {
		k, ok := parseKey(s.Labels[askLabel])
		if !ok {
			continue
		}
		name := nameOf(s.Labels)
		if values[name] == nil {
			values[name] = map[string]float64{}
		}
		pods[name] = s.Labels["pod"] != ""
		// A pod may have several targets, one for each of its engines.
		switch was, again := values[name][k.part]; {
		case !again:
			values[name][k.part] = s.Value
		case slices.Contains([]string{partAge, partRestarted, partCache}, k.part):
			values[name][k.part] = max(was, s.Value)
		default:
			values[name][k.part] += s.Value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := values[name][partAge]; ok {
			r := shown(name, values[name], at, window, copies)
			r.IsPod = pods[name]
			all = append(all, r)
		}
	}
	return all, "", nil
}

// nameOf returns the name of a replica.
func nameOf(labels map[string]string) string {
	if pod := labels["pod"]; pod != "" {
		return pod
	}
	return labels["instance"]
}

// shown reads one replica's numbers, by their parts.
func shown(name string, values map[string]float64, at time.Time, window time.Duration, copies float64) Shown {
	part := func(p string) float64 {
		v, ok := values[p]
		if !ok {
			return math.NaN()
		}
		return v
	}
	newest := time.UnixMilli(int64(part(partAge) * 1000))
	out := Shown{
		Name: name, Age: at.Sub(newest), Restarted: part(partRestarted) > 0, Steps: part(partSteps) / copies,
		Running: part(partRunning) / copies, Waiting: part(partWaiting) / copies, Cache: part(partCache), HitRate: math.NaN(),
	}
	rate := func(p string) float64 {
		if out.Restarted {
			return math.NaN()
		}
		return part(p) / copies / window.Seconds()
	}
	out.Preempted, out.PromptTokens, out.OutTokens = rate(partPreempted), rate(partPrompts), rate(partGenerated)
	out.Corrupted = rate(partCorrupted)
	if asked := part(partQueries); asked > 0 && !out.Restarted {
		out.HitRate = part(partHits) / asked
	}
	return out
}
