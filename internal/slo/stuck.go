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

// Progress is where replicas of one engine show that they work.
type Progress struct {
	Running, Waiting string   // gauges of requests
	Capacity         Part     // gauge of those that wait for capacity alone, where the engine has it
	Queues           []string // gauges of requests in further queues, which not every replica has
	Steps            []string // counters that grow with every step; the first that a replica has counts
	Finished         string   // counter of requests that ended
	Seconds          string   // sum of their durations; empty: what hangs is not looked for
	Prompts          string   // counter of the tokens of their prompts
	Cache            []string // gauges of the share of the KV cache in use; the first that a service has counts
	Preempted        []string // counters of requests that lost their place in it, likewise
	Work             Work
}

// Replica is one that stands still: it kept requests running while none of its
// counters of steps moved.
type Replica struct {
	Name     string  // its pod, else its instance
	InFlight float64 // requests that it runs and keeps waiting
}

// StuckAfter is how long a replica must run requests without a step to count as
// stuck. A long prompt takes seconds; two scrapes a minute must fit in.
const StuckAfter = 2 * time.Minute

// replicaLabels tell replicas apart, rankLabels the engines within one.
const (
	replicaLabels = "pod, instance"
	rankLabels    = "pod, instance, engine, dp_rank"
)

// The parts of the answer about progress; the objective of their keys is -1.
const (
	partStuck    = "stuck"    // in flight on replicas that stand still
	partFinished = "finished" // requests that ended, by replica
	partMoving   = "moving"   // engines that have a counter of steps, by replica
	partReplicas = "replicas" // replicas that have the gauge of running requests
)

// Still is which replicas stand still.
type Still struct {
	Stuck []Replica
	Told  map[string]bool // replicas of which it can be told, by name
	Note  string          // why it cannot be told of any; empty: it can
}

// StandStill returns the replicas that run requests and take no step. It cannot be told
// of a replica without two samples of a counter of steps within two minutes.
func StandStill(ctx context.Context, q Asker, service string, all []Progress, at time.Time) (Still, error) {
	v, err := ask(ctx, q, stuck(service, all), at)
	if err != nil {
		return Still{}, err
	}
	if p := v.partial(); p != "" {
		return Still{Note: mayBePartial + p}, nil
	}
	out := Still{Told: map[string]bool{}}
	out.Stuck, _, out.Note = unfinished(v)
	for _, s := range v.Samples {
		if k, ok := parseKey(s.Labels[askLabel]); ok && k.part == partMoving {
			out.Told[nameOf(s.Labels)] = true
		}
	}
	return out, nil
}

// stuck asks which replicas stand still. A replica must have been there for all
// of the time, so one that has just started is not judged.
func stuck(service string, all []Progress) string {
	by := func(labels, expr string) string { return "sum by (" + labels + ") (" + expr + ")" }
	window := Span{Window: StuckAfter}
	var terms []string
	for j, p := range all {
		ask := func(part, expr string) { terms = append(terms, key{-1, j, 0, part}.ask(expr)) }
		running, waiting := selector(p.Running, service), selector(p.Waiting, service)
		var steps []string
		for _, s := range p.Steps {
			steps = append(steps, by(rankLabels, fmt.Sprintf("increase(%s%s)", selector(s, service), window)))
		}
		moved := "(" + strings.Join(steps, " or ") + ")"
		inFlight := fmt.Sprintf("(%[1]s + %[2]s or %[1]s)", by(rankLabels, running), by(rankLabels, waiting))
		busy := by(rankLabels, fmt.Sprintf("min_over_time(%s%s)", running, window)) + " > 0"
		there := by(rankLabels, fmt.Sprintf("%s offset %dms", running, StuckAfter.Milliseconds()))
		ask(partStuck, by(replicaLabels, fmt.Sprintf("%s and (%s) and (%s == 0) and %s", inFlight, busy, moved, there)))
		ask(partFinished, by(replicaLabels, fmt.Sprintf("increase(%s%s)", selector(p.Finished, service), window)))
		ask(partMoving, fmt.Sprintf("count by (%s) (%s)", replicaLabels, moved))
		ask(partReplicas, fmt.Sprintf("count(%s)", by(rankLabels, running)))
	}
	return strings.Join(terms, " or ")
}

// unfinished reads the answer to stuck. Every stuck replica counts as many bad
// requests as it has in flight, at least as many as another replica finishes in
// the same time on average: clients that gave up are no longer in flight, and
// balancers send new ones. Of a partial answer they are the least that there are.
func unfinished(v Vector) (replicas []Replica, requests float64, note string) {
	values := map[string]map[string]float64{} // by part, then replica
	for _, s := range v.Samples {
		k, ok := parseKey(s.Labels[askLabel])
		if !ok || math.IsNaN(s.Value) {
			continue
		}
		name := nameOf(s.Labels)
		if values[k.part] == nil {
			values[k.part] = map[string]float64{}
		}
		values[k.part][name] += s.Value
	}
	for _, name := range slices.Sorted(maps.Keys(values[partStuck])) {
		replicas = append(replicas, Replica{Name: name, InFlight: values[partStuck][name]})
		delete(values[partFinished], name)
	}
	mean := 0.0
	for _, finished := range values[partFinished] {
		mean += finished / float64(len(values[partFinished]))
	}
	for _, r := range replicas {
		requests += max(r.InFlight, mean)
	}
	switch p := v.partial(); {
	case p != "":
		note = mayBePartial + p + ": there may be more requests that never finish"
	case len(values[partReplicas]) == 0:
		note = "no gauge of running requests: requests that never finish are not seen"
	case len(values[partMoving]) == 0:
		note = "no counter of steps: requests that never finish are not seen"
	}
	return replicas, requests, note
}
