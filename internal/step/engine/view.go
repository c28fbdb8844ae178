package engine

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// Values of snapshotOut.PrefillCause.
const (
	causePrompts = "long_prompts"
	causePrefix  = "prefix_collapse"
	causeSlower  = "slower"
	causeUnknown = "unknown"
	causeNone    = "none"
)

const (
	grown        = 1.5 // times the time before: prefill takes longer
	matters      = 0.2 // of the threshold of TTFT, else e2e, that the mean prefill must take to explain a miss
	growsClearly = 1.2 // times: a part of the growth that explains it
)

// slowPrefill makes prefill the bound if the time to the first token is spent on
// the prompt, and that is more than before or than the objective allows. Without an
// objective (threshold 0) nobody misses what prefill takes.
func (out *snapshotOut) slowPrefill(s sight, threshold float64) {
	now, before := s.view.Now, s.view.Before[0]
	longer := now.PrefillSecs / before.PrefillSecs
	slow := threshold > 0 && now.PrefillSecs >= threshold
	grew := threshold > 0 && longer >= grown && now.PrefillSecs >= matters*threshold
	if !(now.PrefillSecs > now.QueueSeconds) || !slow && !grew {
		return
	}
	code, cause := prefillCause(now, before, grew)
	// Large batches make prefill slower too, and with it every token. They do not
	// explain longer prompts, nor tokens that take as long as before.
	token := now.TokenSeconds / before.TokenSeconds
	prompts := code == causePrompts || code == causePrefix
	if now.Derived && !prompts {
		return // answers that do not stream have their first tokens in it, too
	}
	if out.Bound == boundDecode && !(prompts && longer > token || grew && token < growsClearly) {
		return
	}
	out.Bound, out.ReplicasShort, out.PrefillCause = boundPrefill, 0, code
	out.Why = fmt.Sprintf("the first token waits for prefill: it takes %s on average, the queue %s", seconds(now.PrefillSecs), seconds(now.QueueSeconds))
	if slow {
		out.Why += fmt.Sprintf(", the objective allows %s in all", seconds(threshold))
	}
	if step.IsFinite(longer) {
		out.Why += fmt.Sprintf("; before it took %s", seconds(before.PrefillSecs))
	}
	if cause != "" {
		out.Why += ": " + cause
	}
	out.Why += "; " + loadWords(s.load)
}

// prefillCause returns why prefill takes longer: a prompt costs by the tokens that
// the prefix cache does not have.
func prefillCause(now, before slo.Stretch, grew bool) (cause, words string) {
	longer := now.PrefillSecs / before.PrefillSecs
	prompts, computed := now.PromptMean/before.PromptMean, (1-now.HitRate)/(1-before.HitRate)
	switch {
	case math.IsNaN(longer):
		return causeUnknown, "what it took before is not known"
	case !grew:
		return causeNone, ""
	case prompts >= growsClearly && !(computed > prompts):
		return causePrompts, fmt.Sprintf("prompts have %.0f tokens, they had %.0f", now.PromptMean, before.PromptMean)
	case computed >= growsClearly:
		return causePrefix, fmt.Sprintf("the prefix cache has %s of their tokens, it had %s", slo.Percent(now.HitRate), slo.Percent(before.HitRate))
	case math.IsNaN(prompts) || math.IsNaN(computed):
		return causeUnknown, "the lengths of prompts or the hits of the prefix cache are not known"
	}
	return causeSlower, "prompts and hits of the prefix cache are as they were"
}

// fill adds the numbers, and names what is missing.
func (out *snapshotOut) fill(s sight) {
	now, before := s.view.Now, s.view.Before[0]
	if !s.view.Newest.IsZero() {
		out.Age = known(s.at.Sub(s.view.Newest).Seconds())
	}
	kv := smallest(s.view.KV)
	phases := now.QueueSeconds + now.PrefillSecs + now.DecodeSeconds
	out.Missing = []string{}
	for _, f := range []struct {
		name  string
		to    **float64
		value float64
	}{
		{"failed_per_second", &out.Failed, now.Failed},
		{"aborted_per_second", &out.Aborted, now.Aborted},
		{"refused_per_second", &out.Refused, now.Refused},
		{"prompt_tokens_per_second", &out.PromptRate, now.PromptTokens},
		{"generation_tokens_per_second", &out.OutputRate, now.OutputTokens},
		{"generation_tokens_per_second_before", &out.OutBefore, before.OutputTokens},
		{"prefix_hit_rate", &out.HitRate, now.HitRate},
		{"prefix_hit_rate_before", &out.HitsBefore, before.HitRate},
		{"prompt_tokens_mean", &out.PromptMean, now.PromptMean},
		{"prompt_tokens_mean_before", &out.MeanBefore, before.PromptMean},
		{"prompt_tokens_p50", &out.PromptP50, now.Prompt.P50},
		{"prompt_tokens_p95", &out.PromptP95, now.Prompt.P95},
		{"output_tokens_p50", &out.OutputP50, now.Output.P50},
		{"output_tokens_p95", &out.OutputP95, now.Output.P95},
		{"queue_share", &out.QueueShare, now.QueueSeconds / phases},
		{"prefill_share", &out.PrefillShare, now.PrefillSecs / phases},
		{"decode_share", &out.DecodeShare, now.DecodeSeconds / phases},
		{"queue_seconds", &out.Queue, now.QueueSeconds},
		{"prefill_seconds", &out.Prefill, now.PrefillSecs},
		{"prefill_seconds_before", &out.PrefillBefore, before.PrefillSecs},
		{"token_seconds", &out.Token, now.TokenSeconds},
		{"token_seconds_before", &out.TokenBefore, before.TokenSeconds},
		{"kv_blocks", &out.Blocks, kv.Blocks},
		{"kv_block_size", &out.BlockSize, kv.BlockSize},
		{"kv_tokens", &out.KVTokens, kv.Tokens},
		// What was filled in by the load.
		{"running", &out.Running, value(out.Running)},
		{"waiting", &out.Waiting, value(out.Waiting)},
		{"rate", &out.Rate, value(out.Rate)},
		{"kv_usage", &out.KVUsage, value(out.KVUsage)},
		{"preemptions_per_second", &out.Preemptions, value(out.Preemptions)},
		{"age_seconds", &out.Age, value(out.Age)},
	} {
		if *f.to = known(f.value); *f.to == nil {
			out.Missing = append(out.Missing, f.name)
		}
	}
	out.AcceptRate, out.Transfers, out.Corrupted = known(now.AcceptRate), known(now.Transfers), known(now.Corrupted) // most services have none of them, and lack nothing
	out.CorruptedPods = corruptedPods(s.replicas)
	if before.Replicas > 0 {
		out.ReadyBefore = int(before.Replicas)
	}
	out.Restarted, out.Flags = s.view.Restarted, flagsInForce(s.view.KV)
	slices.Sort(out.Missing)
	out.Replicas = shownReplicas(s.replicas)
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// smallest returns the KV cache with the fewest tokens; one that is not known comes
// before all.
func smallest(all []slo.KV) slo.KV {
	nan := math.NaN()
	if len(all) == 0 {
		return slo.KV{Blocks: nan, BlockSize: nan, Tokens: nan, Utilization: nan}
	}
	return slices.MinFunc(all, func(a, b slo.KV) int { return cmp.Compare(a.Tokens, b.Tokens) })
}

// flagsInForce returns the flags that the engines tell, the value of most engines
// first.
func flagsInForce(all []slo.KV) map[string]string {
	out := map[string]string{}
	for flag, label := range map[string]string{
		"gpu-memory-utilization": "gpu_memory_utilization", "block-size": "block_size", "kv-cache-dtype": "cache_dtype", "enable-prefix-caching": "enable_prefix_caching",
	} {
		var values []string
		for _, kv := range all {
			if v := kv.Labels[label]; v != "" && v != "None" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			out[flag] = strings.Join(values, " or ")
		}
	}
	return out
}

// facts returns the lines for people.
func (out snapshotOut) facts(s sight) []string {
	facts := []string{out.Why}
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if out.QueueShare != nil {
		add("a request spends %s in the queue, %s in prefill, %s in decode", slo.Percent(*out.QueueShare), slo.Percent(*out.PrefillShare), slo.Percent(*out.DecodeShare))
	}
	if out.Prefill != nil && out.Token != nil {
		add("prefill takes %s on average, before %s; a token %s, before %s", seconds(*out.Prefill), seconds(value(out.PrefillBefore)), seconds(*out.Token), seconds(value(out.TokenBefore)))
	}
	if out.PromptP95 != nil && out.OutputP95 != nil {
		add("tokens of a request: prompt p50 %.0f, p95 %.0f; output p50 %.0f, p95 %.0f", *out.PromptP50, *out.PromptP95, *out.OutputP50, *out.OutputP95)
	}
	if out.OutputRate != nil {
		add("%.4g tokens per second are generated, before %s", *out.OutputRate, perSecond(out.OutBefore))
	}
	if out.AcceptRate != nil {
		add("%s of the drafted tokens are accepted", slo.Percent(*out.AcceptRate))
	}
	if out.HitRate != nil {
		add("the prefix cache has %s of the prompt tokens", slo.Percent(*out.HitRate))
	}
	if out.Failed != nil && *out.Failed > 0 || out.Aborted != nil && *out.Aborted > 0 {
		add("%.2g requests per second fail, %.2g are given up by their clients", value(out.Failed), value(out.Aborted))
	}
	if len(out.CorruptedPods) > 0 {
		add("the logits of %.2g requests per second are not numbers, on %s", value(out.Corrupted), strings.Join(out.CorruptedPods, ", "))
	}
	if out.Refused != nil && *out.Refused > 0 {
		add("%.2g requests per second are refused (4xx)", *out.Refused)
	}
	for _, flag := range slices.Sorted(maps.Keys(out.Flags)) {
		if strings.Contains(out.Flags[flag], " or ") {
			add("the engines do not run with the same --%s: %s", flag, out.Flags[flag])
		}
	}
	if s.view.Copies > 1 {
		add("every replica is scraped %.0f times; its requests are counted once", s.view.Copies)
	}
	if out.Restarted > 0 {
		add("%d replicas restarted within the window and are counted since then", out.Restarted)
	}
	for _, name := range s.view.Buckets {
		add("%s has not the same buckets on all replicas, so it has no quantiles", name)
	}
	if n := staleOf(s.replicas); n > 0 {
		add("%d of %d replicas have no sample of the last two minutes", n, len(s.replicas))
	}
	if len(out.Missing) > 0 && s.view.Why == "" {
		why := "their series do not exist, or have fewer than two samples in the window"
		if s.view.Now.Ended == 0 {
			why = "no request ended in the window"
		}
		add("not measured: %s (%s)", strings.Join(out.Missing, ", "), why)
	}
	return facts
}

func staleOf(all []slo.Shown) int {
	n := 0
	for _, r := range all {
		if !r.Fresh() {
			n++
		}
	}
	return n
}

// shownOut is one replica.
type shownOut struct {
	Name        string   `json:"name" doc:"Pod, else instance."`
	Bound       string   `json:"bound" enum:"queue,kv,decode,none,unknown" doc:"What limits it, by its requests and its KV cache; unknown without a sample of the last two minutes."`
	Restarted   bool     `json:"restarted" doc:"Its counters began anew within the window: it has no rates."`
	Age         float64  `json:"age_seconds" unit:"seconds" doc:"Age of its newest sample."`
	Running     *float64 `json:"running,omitempty" unit:"requests" doc:"Requests that it computes."`
	Waiting     *float64 `json:"waiting,omitempty" unit:"requests" doc:"Requests in its queue."`
	KVUsage     *float64 `json:"kv_usage,omitempty" unit:"ratio" doc:"Share of its KV cache in use."`
	Preemptions *float64 `json:"preemptions_per_second,omitempty" doc:"Requests per second that lose their place in it."`
	PromptRate  *float64 `json:"prompt_tokens_per_second,omitempty" unit:"tokens" doc:"Prompt tokens."`
	OutputRate  *float64 `json:"generation_tokens_per_second,omitempty" unit:"tokens" doc:"Generated tokens."`
	HitRate     *float64 `json:"prefix_hit_rate,omitempty" unit:"ratio" doc:"Share of prompt tokens that its prefix cache had."`
}

// corruptedPods returns the replicas that had requests whose logits were not numbers.
func corruptedPods(all []slo.Shown) []string {
	out := []string{}
	for _, r := range all {
		if r.Corrupted > 0 {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxReplicas)]
}

// shownReplicas returns the replicas in short, worst first.
func shownReplicas(all []slo.Shown) []shownOut {
	out := make([]shownOut, 0, len(all))
	for _, r := range all {
		o := shownOut{Name: r.Name, Bound: boundUnknown, Restarted: r.Restarted, Age: r.Age.Round(time.Millisecond).Seconds()}
		if r.Fresh() {
			o.Bound = boundOf(r)
			o.Running, o.Waiting, o.KVUsage, o.Preemptions = known(r.Running), known(r.Waiting), known(r.Cache), known(r.Preempted)
			o.PromptRate, o.OutputRate, o.HitRate = known(r.PromptTokens), known(r.OutTokens), known(r.HitRate)
		}
		out = append(out, o)
	}
	rank := []string{boundKV, boundQueue, boundUnknown, boundDecode, boundNone}
	slices.SortStableFunc(out, func(a, b shownOut) int {
		return cmp.Or(
			cmp.Compare(slices.Index(rank, a.Bound), slices.Index(rank, b.Bound)),
			-cmp.Compare(value(a.Waiting), value(b.Waiting)), -cmp.Compare(value(a.Running), value(b.Running)), strings.Compare(a.Name, b.Name),
		)
	})
	return out[:min(len(out), maxReplicas)]
}

// boundOf returns what limits one replica.
func boundOf(r slo.Shown) string {
	return bound(slo.Load{Running: r.Running, Waiting: r.Waiting, Rate: math.NaN(), Cache: r.Cache, Preempted: r.Preempted}, 1)
}

func perSecond(v *float64) string {
	if v == nil {
		return "an unknown number"
	}
	return fmt.Sprintf("%.4g", *v)
}

// seconds writes a duration that was measured.
func seconds(v float64) string {
	if !step.IsFinite(v) {
		return "an unknown time"
	}
	return fmt.Sprintf("%.3g s", v)
}
