package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// SnapshotKind declares engine.snapshot.
func SnapshotKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.snapshot",
		Role: playbook.RoleCheck,
		Doc: `Reads what the service's engine does now, by the engine's own series: vLLM's or SGLang's, which the workers of Dynamo pass on. ` + "`bound`" + ` is what
limits it: ` + "`kv`" + ` (the KV cache is full and requests wait or lose their place in it), ` + "`queue`" + ` (requests wait for their turn), ` + "`decode`" + ` (none wait,
and many are computed at once, so that each token takes longer), ` + "`none`" + `, or ` + "`unknown`" + ` where a series is missing. ` + "`replicas_short`" + ` is how many
replicas more that load calls for, at four fifths of what one replica finishes now; at most as many as are ready.`,
		With: step.Fields[snapshotWith](),
		Out:  step.Fields[snapshotOut](),
	}
}

type snapshotWith struct {
	Window step.Duration `json:"window" default:"2m" doc:"Over which rates are taken. It must hold two scrapes."`
}

type snapshotOut struct {
	Bound         string   `json:"bound" enum:"queue,kv,decode,none,unknown" doc:"What limits the engine."`
	Why           string   `json:"why" doc:"The same in a sentence with figures."`
	ReplicasShort int      `json:"replicas_short" unit:"replicas" doc:"Replicas that the load calls for beyond those that are ready; 0 unless the engine is bound."`
	Ready         int      `json:"ready" unit:"replicas" doc:"Replicas that are ready; 0: not known."`
	Running       *float64 `json:"running,omitempty" unit:"requests" doc:"Requests that are computed now."`
	Waiting       *float64 `json:"waiting,omitempty" unit:"requests" doc:"Requests in the queue."`
	Rate          *float64 `json:"rate,omitempty" doc:"Requests per second that arrive, as far as the engine shows: a client that gave up in the queue is not seen."`
	KVUsage       *float64 `json:"kv_usage,omitempty" unit:"ratio" doc:"Share of the KV cache in use, of the replica that uses most."`
	Preemptions   *float64 `json:"preemptions_per_second,omitempty" doc:"Requests per second that lost their place in the KV cache."`
}

// Values of snapshotOut.Bound.
const (
	boundQueue   = "queue"
	boundKV      = "kv"
	boundDecode  = "decode"
	boundNone    = "none"
	boundUnknown = "unknown"
)

const (
	cacheFull    = 0.95 // of the KV cache: new requests find no place
	manyAtOnce   = 8    // requests that one replica computes, from which on their number makes tokens late
	wantedUse    = 0.8  // of what a replica can do: beyond, a queue builds up with every bunch of requests
	queueDrained = 5 * time.Minute
	leastStep    = 2 // replicas that are added at once, or as many as there are
)

type snapshot struct {
	q step.Querier
	w step.Workloads
}

// NewSnapshot returns the check engine.snapshot.
func NewSnapshot(d step.Deps) step.Check { return snapshot{d.Querier, d.Workloads} }

// Run implements [step.Check].
func (c snapshot) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[snapshotWith](SnapshotKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.q == nil {
		return step.Finding{}, step.NotConfigured("Prometheus", "prometheus.url")
	}
	ask := step.Objectives(in.Service)
	if len(ask.Progress) == 0 {
		return step.Finding{}, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("engine.snapshot: the engine %s exports no gauges of requests", step.OrNone(in.Service.Engine))}
	}
	loads, err := slo.Loads(ctx, step.Patient(c.q), ask.Service, ask.Progress, in.Now, slo.Span{Window: time.Duration(with.Window)})
	if err != nil {
		return step.Finding{}, err
	}
	ready := 0
	if c.w != nil {
		if w, err := c.w.Workload(ctx, step.RefOf(in.Service)); err == nil {
			ready = w.Ready
		}
	}
	out := judgeLoad(loads[0], ready)
	return step.Finding{Out: out, Facts: []string{out.Why}}, nil
}

// judgeLoad returns the evidence of a load on that many replicas; 0: not known.
func judgeLoad(l slo.Load, ready int) snapshotOut {
	out := snapshotOut{Bound: bound(l, ready), Ready: ready, Running: known(l.Running), Waiting: known(l.Waiting), Rate: known(l.Rate), KVUsage: known(l.Cache), Preemptions: known(l.Preempted)}
	figures := fmt.Sprintf("%.0f requests are computed, %.0f wait, %.3g per second arrive", l.Running, l.Waiting, l.Rate)
	if !math.IsNaN(l.Cache) {
		figures += fmt.Sprintf(", %s of the KV cache is in use", slo.Percent(l.Cache))
	}
	if l.Preempted > 0 {
		figures += fmt.Sprintf(", %.2g per second lose their place in it", l.Preempted)
	}
	switch out.Bound {
	case boundUnknown:
		out.Why = "what the engine does is not known: no gauges of requests that run and wait"
		return out
	case boundNone:
		out.Why = "the engine is not saturated: " + figures
		return out
	case boundKV:
		out.Why = "the KV cache is full: " + figures
	case boundQueue:
		out.Why = "saturated, requests queue: " + figures
	case boundDecode:
		out.Why = "saturated in decoding, large batches: " + figures
	}
	if ready > 0 {
		out.ReplicasShort = short(l, out.Bound, ready)
		out.Why += fmt.Sprintf("; %d replicas are ready, %d more are called for", ready, out.ReplicasShort)
	}
	return out
}

// bound returns what limits an engine.
func bound(l slo.Load, ready int) string {
	replicas := float64(max(ready, 1))
	switch {
	case math.IsNaN(l.Running) || math.IsNaN(l.Waiting):
		return boundUnknown
	case l.Cache >= cacheFull && (l.Waiting >= 1 || l.Preempted > 0):
		return boundKV
	case l.Waiting >= replicas:
		return boundQueue
	case l.Running >= manyAtOnce*replicas:
		return boundDecode
	}
	return boundNone
}

// short returns how many replicas are short: by what arrives and has piled up
// against what one replica finishes, and by the KV cache.
func short(l slo.Load, bound string, ready int) int {
	n := float64(ready)
	// A queue that stands says nothing about the clients that gave up in it.
	needed := n + max(min(n, leastStep), math.Ceil(n/4))
	if bound != boundDecode && l.Ended > 0 && !math.IsNaN(l.Rate) {
		needed = max(needed, math.Ceil((l.Rate+l.Waiting/queueDrained.Seconds())/(wantedUse*l.Ended/n)))
	}
	if bound == boundKV {
		needed = max(needed, math.Ceil(n*l.Cache/wantedUse))
	}
	return int(min(needed-n, max(n, 2)))
}

// known returns a pointer to a number that was measured, else nil.
func known(v float64) *float64 {
	if !step.IsFinite(v) {
		return nil
	}
	return &v
}
