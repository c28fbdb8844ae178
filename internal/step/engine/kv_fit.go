package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// KVFitKind declares engine.kv_fit.
func KVFitKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.kv_fit",
		Role: playbook.RoleCheck,
		Doc: `Compares the tokens of a sequence with those that the KV cache of one engine holds: how many sequences fit without preemption, whatever comes? A sequence
counts with the p95 of its prompt and the p95 of its output, in whole blocks, and without the blocks that it shares with others by a common prefix, so
more may fit in fact. The facts show the arithmetic. ` + "`status`" + ` is ` + "`fits`" + ` when no more sequences ran at once than fit, ` + "`over`" + ` when more did, and ` + "`unknown`" + ` when the
size of the KV cache or the lengths are not known, or fewer than 20 requests ended in the window.`,
		With: step.Fields[kvFitWith](),
		Out:  step.Fields[kvFitOut](),
	}
}

type kvFitWith struct {
	Window      step.Duration `json:"window" default:"15m" doc:"Whose requests have the lengths."`
	Sequences   int           `json:"sequences" min:"0" doc:"How many shall fit. Unset: as many as ran at once on one engine."`
	Utilization float64       `json:"gpu_memory_utilization" default:"0.95" min:"0" max:"1" doc:"Share of the GPU's memory whose effect is computed."`
}

type kvFitOut struct {
	Status   string   `json:"status" enum:"fits,over,unknown" doc:"Whether the sequences that ran at once fit."`
	Why      string   `json:"why" doc:"The same in a sentence with figures."`
	Sequence *float64 `json:"sequence_tokens,omitempty" unit:"tokens" doc:"Tokens of a sequence: p95 of prompts and p95 of outputs."`
	Tokens   *float64 `json:"kv_tokens,omitempty" unit:"tokens" doc:"Tokens that the KV cache of one engine holds; of the smallest where they differ."`
	Running  *float64 `json:"running,omitempty" unit:"requests" doc:"Most sequences that ran at once on one engine within the window."`
	Seqs     *int     `json:"max_num_seqs,omitempty" doc:"Sequences that fit in one engine: the cap of concurrency that prevents preemption; 0: not even one long sequence fits."`
	ModelLen *int     `json:"max_model_len,omitempty" unit:"tokens" doc:"Longest sequence of which as many as wanted fit. Longer requests are refused, so it is a change of the contract."`
	MoreSeqs *int     `json:"max_num_seqs_at_utilization,omitempty" doc:"Sequences that fit at least with the given share of the GPU's memory; absent where that is not more than now, or does not matter."`
	Utilized *float64 `json:"gpu_memory_utilization,omitempty" unit:"ratio" doc:"Share of the GPU's memory that the engine may use now; of SGLang the mem-fraction-static of its manifest, which leaves out what a batch needs."`

	SeqsFlag   string `json:"max_num_seqs_flag" doc:"The engine's flag for max_num_seqs; empty: not known, or it counts for several engines together (dp-size of SGLang)."`
	LengthFlag string `json:"max_model_len_flag" doc:"The engine's flag for max_model_len; empty: not known."`
	ShareFlag  string `json:"gpu_memory_utilization_flag" doc:"The engine's flag for gpu_memory_utilization; empty: not known."`
}

// Values of kvFitOut.Status.
const (
	kvFits    = "fits"
	kvOver    = "over"
	kvUnknown = "unknown"
)

// leastLengths is the number of requests from which on their p95 means something.
const leastLengths = 20

type kvFit struct {
	q step.Querier
	o step.Objects
}

// NewKVFit returns the check engine.kv_fit.
func NewKVFit(d step.Deps) step.Check { return kvFit{d.Querier, d.Objects} }

// Run implements [step.Check].
func (c kvFit) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[kvFitWith](KVFitKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	ask, err := asked(c.q, KVFitKind().Name, in)
	if err != nil {
		return step.Finding{}, err
	}
	window := time.Duration(with.Window)
	v, err := slo.Views(ctx, step.Patient(c.q), ask.Service, ask.Progress, in.Now, window)
	if err != nil {
		return step.Finding{}, err
	}
	var manifest map[string]string
	var note string
	switch kv := smallest(v.KV); {
	case !(kv.Tokens > 0) && !(kv.Utilization > 0): // no engine is up to tell it
		if manifest, note = declared(ctx, c.o, in.Service, shareFlags...); note != "" {
			manifest = nil
		}
	case bare(kv):
		if manifest, note = declared(ctx, c.o, in.Service, "mem-fraction-static", "dp-size", "config"); note == "" && manifest != nil && manifest["config"] == "" {
			manifest["dp-size"] = cmp.Or(manifest["dp-size"], "1")
		}
	}
	out, facts := fit(v, window, with, manifest)
	if note != "" && out.Status != kvUnknown {
		facts = append(facts, note)
	}
	return step.Finding{Out: out, Facts: append([]string{out.Why}, facts...)}, nil
}

// shareFlags are the engines' flags for the share of the GPU's memory. A manifest has one.
var shareFlags = []string{"gpu-memory-utilization", "mem-fraction-static"}

// fit compares sequences with the KV cache, and returns the arithmetic. manifest holds
// flags that the engines do not export.
func fit(v slo.View, window time.Duration, with kvFitWith, manifest map[string]string) (out kvFitOut, facts []string) {
	kv, n := smallest(v.KV), v.Now
	flags, up := flagsOf(kv), kv.Tokens > 0 || kv.Utilization > 0
	for _, name := range shareFlags {
		if share, err := strconv.ParseFloat(manifest[name], 64); err == nil && share > 0 && share <= 1 {
			kv.Utilization, flags.share = share, name
		}
	}
	length := n.Prompt.P95 + n.Output.P95
	out = kvFitOut{Status: kvUnknown, Sequence: known(length), Tokens: known(kv.Tokens), Running: known(v.Busiest), Utilized: known(kv.Utilization)}
	ranks := manifest["dp-size"]
	if up {
		out.SeqsFlag, out.LengthFlag = flags.seqs, flags.length
	}
	if kv.Tokens > 0 || kv.Utilization > 0 {
		out.ShareFlag = flags.share
	}
	together := bare(kv) && ranks != "1" // or it is not known
	if together {
		out.SeqsFlag = ""
	}
	if out.Why = unfit(v, kv, window); out.Why != "" {
		out.Why = "how many sequences fit is not known: " + out.Why
		return out, nil
	}
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if together {
		add("--%s counts for all ranks of dp-size together: %s", flags.seqs, cmp.Or(ranks, "how many there are is not known"))
	}
	size, total := kv.BlockSize, math.Floor(kv.Tokens/kv.BlockSize)
	if !(size > 0) {
		size, total = 1, kv.Tokens
	}
	each := math.Ceil(length / size)
	seqs := int(total / each)
	out.Seqs = &seqs
	add("a sequence has %.0f prompt and %.0f output tokens (p95 of each), together %.0f: %.0f blocks of %.0f", n.Prompt.P95, n.Output.P95, length, each, size)
	if seqs > 0 {
		add("%.0f blocks / %.0f = %d sequences fit in the KV cache of one engine (--%s %d)", total, each, seqs, flags.seqs, seqs)
	} else {
		add("%.0f blocks / %.0f: not even one long sequence fits in the KV cache of one engine, so no --%s prevents preemption", total, each, flags.seqs)
	}
	sizes := map[float64]bool{}
	for _, kv := range v.KV {
		sizes[kv.Tokens] = true
	}
	if len(sizes) > 1 {
		add("the engines have KV caches of %d different sizes; this is the smallest", len(sizes))
	}
	running := value(out.Running)
	out.Status, out.Why = kvFits, fmt.Sprintf("%d sequences fit in the KV cache of one engine, at most %.0f ran at once", seqs, running)
	if running > float64(seqs) {
		out.Status = kvOver
		out.Why += fmt.Sprintf(": %.0f too many, if all are as long as the p95", running-float64(seqs))
	}
	wanted := running
	if with.Sequences > 0 {
		wanted = float64(with.Sequences)
	}
	if wanted >= 1 {
		most := int(math.Floor(total/wanted) * size)
		out.ModelLen = &most
		if float64(most) < length {
			add("%.0f blocks / %.0f sequences: all fit if none is longer than %d tokens (--%s %d); that refuses requests, since a sequence has %.0f at p95", total, wanted, most, flags.length, most, length)
		} else {
			add("%.0f blocks / %.0f sequences: all fit if none is longer than %d tokens (--%s %d); that refuses requests whose prompt and max_tokens are longer, and a sequence has %.0f at p95", total, wanted, most, flags.length, most, length)
		}
	}
	facts = append(facts, out.larger(kv, with.Utilization, total, each, flags))
	return out, facts
}

// unfit returns why nothing can be computed; empty: it can.
func unfit(v slo.View, kv slo.KV, window time.Duration) string {
	ended := v.Now.Ended * window.Seconds()
	switch {
	case v.Why != "":
		return v.Why
	case !(kv.Tokens > 0):
		return "no engine tells the size of its KV cache (num_gpu_blocks and block_size of vllm:cache_config_info, or sglang:max_total_num_tokens), or not every one does"
	case len(v.Buckets) > 0:
		return fmt.Sprintf("%s has not the same buckets on all replicas", v.Buckets[0])
	case math.IsNaN(v.Copies):
		return "some replicas are scraped more often than others, so requests cannot be counted"
	case math.IsNaN(ended):
		return "no counter of requests that ended"
	case ended < leastLengths:
		return fmt.Sprintf("%.0f requests ended within %s, %d are needed", ended, step.DurationText(window), leastLengths)
	case !(v.Now.Prompt.P95 > 0) || !(v.Now.Output.P95 > 0):
		return "no histogram of the lengths of prompts and outputs"
	case !step.IsFinite(v.Busiest):
		return "no gauge of running requests"
	}
	return ""
}

// larger computes the effect of a larger share of the GPU's memory. What the engine
// uses beside the KV cache stays as large, so that the cache grows by more than the
// share does.
func (out *kvFitOut) larger(kv slo.KV, share, total, each float64, flags kvFlags) string {
	switch {
	case kv.Fixed:
		return fmt.Sprintf("--%s has no effect: the size of the KV cache is set directly", flags.share)
	case !(kv.Utilization > 0):
		return fmt.Sprintf("what a larger --%s would give is not known: the engine does not tell its share of the GPU's memory", flags.share)
	case bare(kv):
		return fmt.Sprintf("--%s is %g; how far it can grow is not known, since batches need what it leaves", flags.share, kv.Utilization)
	case !(share > kv.Utilization):
		return fmt.Sprintf("--%s is %g already", flags.share, kv.Utilization)
	}
	more := math.Floor(total * share / kv.Utilization)
	seqs := int(more / each)
	fact := fmt.Sprintf("--%s %g instead of %g: at least %.0f blocks * %g / %g = %.0f", flags.share, share, kv.Utilization, total, share, kv.Utilization, more)
	if seqs <= *out.Seqs {
		return fact + ", which may not hold one sequence more"
	}
	out.MoreSeqs = &seqs
	return fact + fmt.Sprintf(", so at least %d sequences; too high a share ends in CUDA out of memory", seqs)
}

// kvFlags are the flags that a KV cache depends on, by their names.
type kvFlags struct{ seqs, length, share string }

// bare reports whether an engine exports the tokens of its KV cache alone, as SGLang.
func bare(kv slo.KV) bool {
	return kv.Tokens > 0 && math.IsNaN(kv.Blocks) && math.IsNaN(kv.BlockSize)
}

// flagsOf returns those of the engine that exports such a configuration.
func flagsOf(kv slo.KV) kvFlags {
	if bare(kv) {
		return kvFlags{"max-running-requests", "context-length", "mem-fraction-static"}
	}
	return kvFlags{"max-num-seqs", "max-model-len", "gpu-memory-utilization"}
}
