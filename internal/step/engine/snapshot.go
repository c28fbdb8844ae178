package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
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
limits it: ` + "`kv`" + ` (the KV cache is full and requests wait or lose their place in it), ` + "`queue`" + ` (requests wait for their turn: as many as there are replicas, or any where
all places of a known ` + "`max-num-seqs`" + ` or ` + "`max-running-requests`" + ` are taken), ` + "`decode`" + ` (none wait,
and many are computed at once, so that each token takes longer), ` + "`prefill`" + ` (none wait, and the time to the first token is spent on the prompt, which
takes longer than before or than the objective of TTFT, else e2e, allows; not without one), ` + "`none`" + `, or ` + "`unknown`" + ` where the gauges of requests are missing or stale. Where many
are computed at once, ` + "`prefill`" + ` needs longer prompts or fewer prefix hits than before, or tokens that take no longer than before: a large batch makes
prefill slower too, and with it every token. ` + "`replicas_short`" + ` is how many replicas more that load calls for, at four fifths of what one replica
finishes now; at most as many as are ready. ` + "`proposals`" + ` are what people may change where no run may: quantisation, speculation, disaggregation, the
network between engines; each with the figures that speak for it.

A number that was not measured is absent, and ` + "`missing`" + ` names it. Phases and lengths are those of requests that ended in the window: requests that
still wait, and those whose clients left, are not in them. A quantile beyond the last bucket, or of replicas with different buckets, is not measured. The
number of queries does not depend on the number of replicas.`,
		With: step.Fields[snapshotWith](),
		Out:  step.Fields[snapshotOut](),
	}
}

type snapshotWith struct {
	Window step.Duration `json:"window" default:"2m" doc:"Over which rates are taken. It must hold two scrapes."`
	Before step.Duration `json:"before" doc:"How long ago the window ended that the times of prefill are compared with. Unset: 1h, and at least until 30m before the alert began."`
}

type snapshotOut struct {
	Bound         string `json:"bound" enum:"queue,kv,decode,prefill,none,unknown" doc:"What limits the engine."`
	Why           string `json:"why" doc:"The same in a sentence with figures."`
	PrefillCause  string `json:"prefill_cause" enum:"long_prompts,prefix_collapse,slower,unknown,none" doc:"Why prefill takes longer than before: prompts grew, the prefix cache has less of them, or neither; unknown without the figures of before; none unless prefill is the bound and takes longer."`
	ReplicasShort int    `json:"replicas_short" unit:"replicas" doc:"Replicas that the load calls for beyond those that are ready; 0 unless the engine is bound, and for prefill, whose prompts more replicas do not shorten."`
	Ready         int    `json:"ready" unit:"replicas" doc:"Replicas that are ready; 0: not known."`
	ReadyBefore   int    `json:"replicas_before" unit:"replicas" doc:"Replicas whose engines had samples before; 0: not known."`
	Restarted     int    `json:"restarted" unit:"replicas" doc:"Replicas whose counters began anew within the window: they are counted since then."`

	Age         *float64 `json:"age_seconds,omitempty" unit:"seconds" doc:"Age of the newest sample."`
	Running     *float64 `json:"running,omitempty" unit:"requests" doc:"Requests that are computed now."`
	Waiting     *float64 `json:"waiting,omitempty" unit:"requests" doc:"Requests that wait for capacity; in the queue, where the engine does not tell why they wait."`
	Rate        *float64 `json:"rate,omitempty" doc:"Requests per second that arrive, as far as the engine shows: a client that gave up in the queue is not seen."`
	KVUsage     *float64 `json:"kv_usage,omitempty" unit:"ratio" doc:"Share of the KV cache in use, of the replica that uses most."`
	Preemptions *float64 `json:"preemptions_per_second,omitempty" doc:"Requests per second that lost their place in the KV cache."`
	Failed      *float64 `json:"failed_per_second,omitempty" doc:"Requests per second that ended with an error of the engine."`
	Aborted     *float64 `json:"aborted_per_second,omitempty" doc:"Requests per second that their clients gave up."`
	Refused     *float64 `json:"refused_per_second,omitempty" doc:"Requests per second that the engine's server answered with 4xx, such as those too long for the engine: no latency and no error of the engine shows them."`

	PromptRate *float64 `json:"prompt_tokens_per_second,omitempty" unit:"tokens" doc:"Prompt tokens that are computed or found in the prefix cache."`
	OutputRate *float64 `json:"generation_tokens_per_second,omitempty" unit:"tokens" doc:"Tokens that are generated."`
	OutBefore  *float64 `json:"generation_tokens_per_second_before,omitempty" unit:"tokens" doc:"The same before."`
	HitRate    *float64 `json:"prefix_hit_rate,omitempty" unit:"ratio" doc:"Share of prompt tokens that the prefix cache had."`
	HitsBefore *float64 `json:"prefix_hit_rate_before,omitempty" unit:"ratio" doc:"The same before."`
	PromptMean *float64 `json:"prompt_tokens_mean,omitempty" unit:"tokens" doc:"Mean length of a prompt."`
	MeanBefore *float64 `json:"prompt_tokens_mean_before,omitempty" unit:"tokens" doc:"The same before."`
	PromptP50  *float64 `json:"prompt_tokens_p50,omitempty" unit:"tokens" doc:"Length that half of the prompts have at most."`
	PromptP95  *float64 `json:"prompt_tokens_p95,omitempty" unit:"tokens" doc:"Length that 95 % of the prompts have at most."`
	OutputP50  *float64 `json:"output_tokens_p50,omitempty" unit:"tokens" doc:"Length that half of the outputs have at most."`
	OutputP95  *float64 `json:"output_tokens_p95,omitempty" unit:"tokens" doc:"Length that 95 % of the outputs have at most."`

	QueueShare    *float64 `json:"queue_share,omitempty" unit:"ratio" doc:"Share of a request's time that it waits in the queue."`
	PrefillShare  *float64 `json:"prefill_share,omitempty" unit:"ratio" doc:"Share that goes into its prompt."`
	DecodeShare   *float64 `json:"decode_share,omitempty" unit:"ratio" doc:"Share that goes into its output."`
	Queue         *float64 `json:"queue_seconds,omitempty" unit:"seconds" doc:"Mean time of a request in the queue."`
	Prefill       *float64 `json:"prefill_seconds,omitempty" unit:"seconds" doc:"Mean time of its prefill."`
	PrefillBefore *float64 `json:"prefill_seconds_before,omitempty" unit:"seconds" doc:"The same before."`
	Token         *float64 `json:"token_seconds,omitempty" unit:"seconds" doc:"Mean time between two tokens."`
	TokenBefore   *float64 `json:"token_seconds_before,omitempty" unit:"seconds" doc:"The same before."`

	Blocks    *float64 `json:"kv_blocks,omitempty" doc:"Blocks of the KV cache of one engine; of the smallest where they differ."`
	BlockSize *float64 `json:"kv_block_size,omitempty" unit:"tokens" doc:"Tokens of one block."`
	KVTokens  *float64 `json:"kv_tokens,omitempty" unit:"tokens" doc:"Tokens that the KV cache of one engine holds."`

	AcceptRate *float64 `json:"draft_acceptance_rate,omitempty" unit:"ratio" doc:"Share of the tokens drafted by speculative decoding that were right; absent without it."`
	Corrupted  *float64 `json:"corrupted_per_second,omitempty" doc:"Requests per second whose logits were not numbers, so that what they generated is noise; absent where the engine does not look (VLLM_COMPUTE_NANS_IN_LOGITS of vLLM)."`
	Transfers  *float64 `json:"transfer_failures_per_second,omitempty" doc:"Transfers of KV blocks between engines that fail; absent without disaggregation."`

	Flags         map[string]string "json:\"flags\" doc:\"Flags in force: as the engines tell them by a series of their own (gpu-memory-utilization, block-size, kv-cache-dtype, enable-prefix-caching), else as the live manifest has them. Values that differ between engines are joined by ` or `, as while a change rolls out. A flag that is absent has the engine's default, or cannot be read.\""
	Proposals     []string          `json:"proposals" doc:"What people may change where no lever is safe, each with its figures."`
	CorruptedPods []string          `json:"corrupted_pods" doc:"Replicas with such requests, at most 20."`
	Missing       []string          `json:"missing" doc:"Fields that are absent, because nothing was measured."`
	Replicas      []shownOut        `json:"replicas" doc:"What each replica does, at most 20: those that are bound first, then those with most requests."`
}

// Values of snapshotOut.Bound.
const (
	boundQueue   = "queue"
	boundKV      = "kv"
	boundDecode  = "decode"
	boundPrefill = "prefill"
	boundNone    = "none"
	boundUnknown = "unknown"
)

const (
	cacheFull     = 0.95 // of the KV cache: new requests find no place
	manyAtOnce    = 8    // requests that one replica computes, from which on their number makes tokens late
	wantedUse     = 0.8  // of what a replica can do: beyond, a queue builds up with every bunch of requests
	queueDrained  = 5 * time.Minute
	leastStep     = 2                // replicas that are added at once, or as many as there are
	leastBefore   = time.Hour        // ago: what the engines did then is as usual
	noticedWithin = 30 * time.Minute // an alert begins after the trouble
)

type snapshot struct {
	q step.Querier
	w step.Workloads
	o step.Objects
}

// NewSnapshot returns the check engine.snapshot.
func NewSnapshot(d step.Deps) step.Check { return snapshot{d.Querier, d.Workloads, d.Objects} }

// Run implements [step.Check].
func (c snapshot) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[snapshotWith](SnapshotKind(), in.With)
	switch {
	case err != nil:
		return step.Finding{}, err
	case with.Before == 0:
		with.Before = max(step.Duration(beforeAlert(in)), with.Window)
	case with.Before < with.Window:
		return step.Finding{}, step.Invalid("engine.snapshot: before is %s, less than the window %s", time.Duration(with.Before), time.Duration(with.Window))
	}
	s, err := look(ctx, c.q, SnapshotKind().Name, in, time.Duration(with.Window), time.Duration(with.Before))
	if err != nil {
		return step.Finding{}, err
	}
	ready := 0
	if c.w != nil {
		if w, err := c.w.Workload(ctx, step.RefOf(in.Service)); err == nil {
			ready = w.Ready
		}
	}
	out := s.judge(ready, firstToken(in.Service))
	notes := out.inManifest(declared(ctx, c.o, in.Service))
	out.seated(s)
	out.propose(s, in.Service)
	return step.Finding{Out: out, Facts: slices.Concat(out.facts(s), notes, out.Proposals)}, nil
}

// beforeAlert returns how long ago the engines were as usual, if the alert did not come
// much later than the trouble.
func beforeAlert(in step.Input) time.Duration {
	if in.Alert.StartsAt.IsZero() {
		return leastBefore
	}
	return max(leastBefore, in.Now.Sub(in.Alert.StartsAt)+noticedWithin)
}

// sight is what the engines of a service show.
type sight struct {
	at       time.Time
	load     slo.Load
	view     slo.View
	replicas []slo.Shown
}

// asked returns what is asked of a service's engines; an error means that nothing
// can be asked.
func asked(q step.Querier, check string, in step.Input) (slo.Ask, error) {
	if q == nil {
		return slo.Ask{}, step.NotConfigured("Prometheus", "prometheus.url")
	}
	ask := step.Objectives(in.Service)
	if len(ask.Progress) == 0 {
		return slo.Ask{}, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("%s: the engine %s exports no gauges of requests", check, step.OrNone(in.Service.Engine))}
	}
	return ask, nil
}

// look reads what the engines of a service show, with three queries.
func look(ctx context.Context, q step.Querier, check string, in step.Input, window, before time.Duration) (sight, error) {
	ask, err := asked(q, check, in)
	if err != nil {
		return sight{}, err
	}
	q = step.Patient(q)
	view, err := slo.Views(ctx, q, ask.Service, ask.Progress, in.Now, window, before)
	if err != nil {
		return sight{}, err
	}
	loads, err := slo.Loads(ctx, q, ask.Service, ask.Progress, in.Now, slo.Span{Window: window})
	if err != nil {
		return sight{}, err
	}
	replicas, note, err := slo.Replicas(ctx, q, ask.Service, ask.Progress, in.Now, window, view.Copies)
	if err != nil {
		return sight{}, err
	}
	view.Why = cmp.Or(view.Why, note)
	return sight{in.Now, loads[0].Over(view.Copies), view, replicas}, nil
}

// firstToken returns the shortest threshold of the service's objectives of TTFT, else of
// e2e, in seconds; 0: it has none.
func firstToken(svc playbook.Service) float64 {
	return cmp.Or(shortest(svc, "ttft"), shortest(svc, "e2e"))
}

// shortest returns the shortest threshold of the service's objectives of an indicator,
// in seconds; 0: it has none.
func shortest(svc playbook.Service, indicator string) float64 {
	least := 0.0
	for _, o := range svc.SLOs {
		if o.Measures() == indicator && o.Threshold > 0 && (least == 0 || o.Threshold < least) {
			least = o.Threshold
		}
	}
	return least
}

// judge returns the evidence, with that many replicas ready; 0: not known.
func (s sight) judge(ready int, threshold float64) snapshotOut {
	out := judgeLoad(s.load, ready, s.answering())
	switch {
	case s.view.Why != "":
		out = snapshotOut{Bound: boundUnknown, PrefillCause: causeNone, Ready: ready, Why: "what the engine does is not known: " + s.view.Why}
	case math.IsNaN(s.view.Copies):
		out.Bound, out.ReplicasShort = boundUnknown, 0
		out.Why = "how many requests there are is not known: some replicas are scraped more often than others, by several jobs"
	case out.Bound == boundNone || out.Bound == boundDecode:
		out.slowPrefill(s, threshold)
	}
	out.fill(s)
	if answer := s.answering(); answer > 0 && out.ReadyBefore > answer {
		out.Why += fmt.Sprintf("; %d replicas answer, %d did before", answer, out.ReadyBefore)
	}
	return out
}

// answering returns how many replicas have a sample of the last two minutes.
func (s sight) answering() int {
	return len(s.replicas) - staleOf(s.replicas)
}

// judgeLoad returns the evidence of a load on that many replicas; if it is not known
// how many are ready (0), on those that answer.
func judgeLoad(l slo.Load, ready, answering int) snapshotOut {
	out := snapshotOut{Bound: bound(l, cmp.Or(ready, answering)), PrefillCause: causeNone, Ready: ready, Running: known(l.Running), Waiting: known(l.Waiting), Rate: known(l.Rate), KVUsage: known(l.Cache), Preemptions: known(l.Preempted)}
	switch out.Bound {
	case boundUnknown:
		out.Why = "what the engine does is not known: no gauges of requests that run and wait, or only a part of them was read"
		if standsStill(l) {
			out.Why = "requests wait and none is computed, so it is no lack of replicas: " + loadWords(l)
		}
		return out
	case boundNone:
		out.Why = "the engine is not saturated: " + loadWords(l)
		return out
	case boundKV:
		out.Why = "the KV cache is full: "
		if !(l.Cache >= cacheFull) {
			out.Why = "requests lose their place in the KV cache again and again: "
		}
		out.Why += loadWords(l)
	case boundQueue:
		out.Why = "saturated, requests queue: " + loadWords(l)
	case boundDecode:
		out.Why = "saturated in decoding, large batches: " + loadWords(l)
	}
	if ready > 0 {
		out.ReplicasShort = short(l, out.Bound, ready)
		out.Why += fmt.Sprintf("; %d replicas are ready, %d more are called for", ready, out.ReplicasShort)
	}
	return out
}

func loadWords(l slo.Load) string {
	out := fmt.Sprintf("%.0f requests are computed, %.0f wait, %.3g per second arrive", l.Running, l.Waiting, l.Rate)
	if other := l.Held - l.Running - l.Waiting; other >= 1 {
		out += fmt.Sprintf(", %.0f more wait for something else, such as an adapter or a transfer", other)
	}
	if !math.IsNaN(l.Cache) {
		out += fmt.Sprintf(", %s of the KV cache is in use", slo.Percent(l.Cache))
	}
	if l.Preempted > 0 {
		out += fmt.Sprintf(", %.2g per second lose their place in it", l.Preempted)
	}
	return out
}

// thrashing is the share of requests that lose their place in the KV cache from which on
// it limits the engine, however full it is at this moment: they come back, each with
// all that was computed before.
const thrashing = 0.05

// standsStill reports whether requests wait and none is computed: an engine with a
// queue computes some.
func standsStill(l slo.Load) bool { return l.Running == 0 && l.Waiting >= 1 }

// bound returns what limits an engine, as far as its load shows it.
func bound(l slo.Load, ready int) string {
	replicas := float64(max(ready, 1))
	switch {
	case math.IsNaN(l.Running) || math.IsNaN(l.Waiting), standsStill(l):
		return boundUnknown
	case l.Cache >= cacheFull && (l.Waiting >= 1 || l.Preempted > 0), l.Preempted >= thrashing*l.Rate && l.Preempted > 0:
		return boundKV
	case l.Waiting >= replicas:
		return boundQueue
	case l.Running >= manyAtOnce*replicas:
		return boundDecode
	}
	return boundNone
}

const (
	allSeats  = 0.95 // of the places for requests: beyond, who arrives waits
	longQueue = 0.1  // of a request's time: requests wait, though none may at this moment
)

// seated makes the queue the bound if requests wait for a place and all are taken, as
// where a flag allows few of them and the engine is not busy otherwise.
func (out *snapshotOut) seated(s sight) {
	seats := out.seats()
	waits := s.load.Waiting >= 1 || value(out.QueueShare) >= longQueue
	if out.Bound != boundNone || out.Ready == 0 || seats == 0 || !waits || !(s.load.Running >= allSeats*seats*float64(out.Ready)) {
		return
	}
	out.Bound, out.ReplicasShort = boundQueue, short(s.load, boundQueue, out.Ready)
	out.Why = fmt.Sprintf("saturated, all %.0f places for requests of each replica are taken: %s; %d replicas are ready, %d more are called for", seats, loadWords(s.load), out.Ready, out.ReplicasShort)
	if out.QueueShare != nil {
		out.Why += fmt.Sprintf("; a request waits for %s of its time", slo.Percent(*out.QueueShare))
	}
}

// seats returns how many requests a replica computes at most; 0: not known. vLLM's flag is
// of each data-parallel rank, SGLang's of all together.
func (out *snapshotOut) seats() float64 {
	if n, err := strconv.Atoi(out.Flags["max-running-requests"]); err == nil && n > 0 {
		return float64(n)
	}
	n, err := strconv.Atoi(out.Flags["max-num-seqs"])
	ranks, rankErr := strconv.Atoi(cmp.Or(out.Flags["data-parallel-size"], "1"))
	if err != nil || rankErr != nil || n <= 0 || ranks <= 0 {
		return 0
	}
	return float64(n * ranks)
}

// short returns how many replicas are short: by what arrives and has piled up
// against what one replica finishes, and by the KV cache.
func short(l slo.Load, bound string, ready int) int {
	n := float64(ready)
	// A queue that stands says nothing about the clients that gave up in it.
	needed := n + min(n, leastStep)
	switch known := l.Ended > 0 && !math.IsNaN(l.Rate); {
	case bound == boundDecode || !known:
		needed = max(needed, n+math.Ceil(n/4))
	default:
		needed = max(needed, math.Ceil((l.Rate+l.Waiting/queueDrained.Seconds())/(wantedUse*l.Ended/n)))
	}
	if l.Waiting >= l.Running && l.Running > 0 {
		needed = max(needed, 2*n) // as many again would compute what waits
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
