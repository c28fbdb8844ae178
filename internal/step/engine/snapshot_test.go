package engine

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

func snapshotOf(t *testing.T, s *store) (snapshotOut, []string) {
	t.Helper()
	return find[snapshotOut](t, s, NewSnapshot, step.Input{})
}

// changed returns a replica that has done something else until twenty minutes ago.
func changed(change func(v *vllm)) vllm {
	was := usual()
	is := usual()
	is.was = &was
	change(&is)
	return is
}

// TestSnapshotBound: what limits the engine, by its series; what was so before keeps
// its meaning, and prefill is told only where it explains the time to the first token.
func TestSnapshotBound(t *testing.T) {
	for name, tt := range map[string]struct {
		v            vllm
		bound, cause string
		why          string
	}{
		"as usual":                  {usual(), "none", "none", "not saturated: 15 requests are computed"},
		"long prompts":              {changed(func(v *vllm) { v.prompt, v.prefill = 3000, 0.4 }), "prefill", "long_prompts", "it takes 0.4 s on average, the queue 0.001 s; before it took 0.1 s: prompts have 3000 tokens, they had 600"},
		"the prefix cache misses":   {changed(func(v *vllm) { v.hits, v.prefill = 0.02, 0.19 }), "prefill", "prefix_collapse", "the prefix cache has 2 % of their tokens, it had 50 %"},
		"a slower prefill":          {changed(func(v *vllm) { v.prefill = 0.3 }), "prefill", "slower", "are as they were"},
		"beyond the objective":      {vllm{running: 5, requests: 2, prompt: 20_000, output: 50, prefill: 0.8, token: 0.01}, "prefill", "none", "the objective allows 0.5 s in all"},
		"longer, and it is nothing": {changed(func(v *vllm) { v.was.prefill, v.prefill = 0.02, 0.05 }), "none", "none", ""},
		"waiting for an adapter":    {changed(func(v *vllm) { v.deferred = 40 }), "none", "none", "120 more wait for something else"},
		"preempted all the time":    {changed(func(v *vllm) { v.cache, v.preempted = 0.89, 1 }), "kv", "none", "requests lose their place in the KV cache again and again"},
		"preempted now and then":    {changed(func(v *vllm) { v.cache, v.preempted = 0.89, 0.01 }), "none", "none", ""},
		"too long for the engine":   {changed(func(v *vllm) { v.refused = 0.5 }), "none", "none", ""},
		"large batches":             {changed(func(v *vllm) { v.running, v.prefill, v.token = 20, 0.16, 0.03 }), "decode", "none", "large batches"},
		"a slow prefill in a batch": {changed(func(v *vllm) { v.running, v.prefill, v.token = 20, 0.6, 0.02 }), "decode", "none", "large batches"},
		"a slow prefill alone":      {changed(func(v *vllm) { v.running, v.prefill = 20, 0.6 }), "prefill", "slower", "as they were"},
		"no history":                {vllm{running: 20, requests: 2, prompt: 600, output: 200, prefill: 0.8, token: 0.03, was: &vllm{}}, "decode", "none", ""},
		"long prompts in a batch":   {changed(func(v *vllm) { v.running, v.prompt, v.prefill, v.token = 20, 3000, 0.5, 0.02 }), "prefill", "long_prompts", ""},
		"long prompts queue":        {changed(func(v *vllm) { v.waiting, v.prompt, v.prefill, v.queue = 9, 3000, 0.5, 3 }), "queue", "none", "requests queue"},
		"long prompts fill the KV":  {changed(func(v *vllm) { v.cache, v.preempted, v.prompt, v.prefill = 0.99, 0.2, 3000, 0.5 }), "kv", "none", "KV cache is full"},
	} {
		s := &store{}
		for i := range 3 {
			tt.v.add(s, podName(i), nil)
		}
		out, facts := snapshotOf(t, s)
		if out.Bound != tt.bound || out.PrefillCause != tt.cause || !strings.Contains(out.Why, tt.why) {
			t.Errorf("%s: %s, %s: %q", name, out.Bound, out.PrefillCause, facts)
		}
		// Requests that are refused are in no histogram and in no counter of the engine.
		if got := value(out.Refused); math.Abs(got-3*tt.v.refused) > 0.1 || slices.ContainsFunc(facts, func(f string) bool { return strings.Contains(f, "are refused") }) != (tt.v.refused > 0) {
			t.Errorf("%s: %v requests per second refused, %q", name, got, facts)
		}
		// Prompts beyond the last bucket have no p95.
		if slices.Contains(out.Missing, "prompt_tokens_p95") != (name == "beyond the objective") {
			t.Errorf("%s: missing %v", name, out.Missing)
		}
		if len(out.Missing) > 0 && name != "beyond the objective" && name != "no history" || len(out.Replicas) != 3 || s.queries != 3 {
			t.Errorf("%s: missing %v, %d replicas, %d queries", name, out.Missing, len(out.Replicas), s.queries)
		}
	}
}

// TestSnapshotObjectives: prefill that grew is the bound only where it matters to an
// objective of the service.
func TestSnapshotObjectives(t *testing.T) {
	s := &store{}
	changed(func(v *vllm) { v.was.prefill, v.prefill, v.queue = 0.01, 0.016, 0.001 }).add(s, "a", nil)
	for name, tt := range map[string]struct {
		slo   playbook.SLO
		bound string
	}{
		"none for it":   {playbook.SLO{Name: "errors", Objective: 0.99}, "none"},
		"between words": {playbook.SLO{Name: "itl", Objective: 0.99, Threshold: 0.02}, "none"},
		"lax e2e":       {playbook.SLO{Name: "e2e", Objective: 0.99, Threshold: 10}, "none"},
		"tight e2e":     {playbook.SLO{Name: "e2e", Objective: 0.99, Threshold: 0.06}, "prefill"},
		"tight ttft":    {playbook.SLO{Name: "first", Indicator: "ttft", Objective: 0.99, Threshold: 0.05}, "prefill"},
	} {
		svc := chat()
		svc.SLOs = []playbook.SLO{tt.slo}
		if out, facts := find[snapshotOut](t, s, NewSnapshot, step.Input{Service: svc}); out.Bound != tt.bound {
			t.Errorf("%s: %s %q", name, out.Bound, facts)
		}
	}
}

// TestSnapshotBefore: in a long breach prefill is compared with the time before it.
func TestSnapshotBefore(t *testing.T) {
	s := &store{} // prompts grew 20 minutes before the end; look at it 65 minutes later
	v := changed(func(v *vllm) { v.prompt, v.prefill = 3000, 0.4 })
	for _, ago := range []time.Duration{75 * time.Minute, 0} {
		s.ago = ago
		if ago == 0 {
			v.was = nil
		}
		v.add(s, "a", nil)
	}
	for name, tt := range map[string]struct {
		starts time.Duration // ago
		with   map[string]any
		cause  string
	}{
		"by the alert":    {85 * time.Minute, nil, causePrompts},
		"a younger alert": {20 * time.Minute, nil, causeNone},
		"as told":         {20 * time.Minute, map[string]any{"before": "2h"}, causePrompts},
	} {
		out, facts := find[snapshotOut](t, s, NewSnapshot, step.Input{With: tt.with, Alert: playbook.Alert{StartsAt: end.Add(-tt.starts)}})
		if out.PrefillCause != tt.cause {
			t.Errorf("%s: %s %q", name, out.PrefillCause, facts)
		}
	}
}

// TestSnapshotNumbers: the numbers are those that the replicas did, and of one replica
// scraped once.
func TestSnapshotNumbers(t *testing.T) {
	once := &store{}
	twice := &store{}
	v := usual()
	v.failed, v.waiting = 0.1, 1
	for i := range 4 {
		v.corrupted = float64(i/3) * 0.2 // of the last one
		v.add(once, podName(i), nil)
		v.add(twice, podName(i), nil)
		v.labels = map[string]string{"job": "pods"}
		v.add(twice, podName(i), nil)
		v.labels = nil
	}
	for name, s := range map[string]*store{"once": once, "twice": twice} {
		out, facts := snapshotOf(t, s)
		for _, n := range []struct {
			name      string
			got       *float64
			want, off float64
		}{
			{"running", out.Running, 20, 0},
			{"waiting", out.Waiting, 4, 0},
			{"rate", out.Rate, 8, 0.01},
			{"failed", out.Failed, 0.4, 0.01},
			{"aborted", out.Aborted, 0, 0},
			{"corrupted", out.Corrupted, 0.2, 0.01},
			{"prompt tokens", out.PromptRate, 4800, 1},
			{"output tokens", out.OutputRate, 1600, 1},
			{"hits", out.HitRate, 0.5, 0.001},
			{"p50", out.PromptP50, 600, 1},
			{"p95", out.PromptP95, 1700, 1},
			{"output p50", out.OutputP50, 200, 1},
			{"output p95", out.OutputP95, 470, 1},
			{"prefill", out.Prefill, 0.1, 0.001},
			{"prefill share", out.PrefillShare, 0.1 / 2.501, 0.001},
			{"decode share", out.DecodeShare, 2.4 / 2.501, 0.001},
			{"blocks", out.Blocks, 2200, 0},
			{"block size", out.BlockSize, 16, 0},
			{"KV tokens", out.KVTokens, 35_200, 0},
			{"age", out.Age, 0, 0},
			{"one replica", out.Replicas[0].Running, 5, 0},
			{"its tokens", out.Replicas[3].PromptRate, 1200, 1},
			{"its hits", out.Replicas[3].HitRate, 0.5, 0.001},
		} {
			if n.got == nil || math.Abs(*n.got-n.want) > n.off {
				t.Errorf("%s: %s is %v, want %v", name, n.name, value(n.got), n.want)
			}
		}
		if !slices.Equal(out.CorruptedPods, []string{podName(3)}) {
			t.Errorf("%s: the logits are not numbers on %v", name, out.CorruptedPods)
		}
		if said := strings.Contains(strings.Join(facts, "\n"), "every replica is scraped 2 times"); said != (name == "twice") {
			t.Errorf("%s: %q", name, facts)
		}
	}
}

// TestSnapshotBadInput: what cannot be measured is absent and named, whatever the
// reason; a limit is never guessed from the rest.
func TestSnapshotBadInput(t *testing.T) {
	const window = 8 // scrapes
	nan := math.NaN()
	last := func(n float64) func(i float64) bool { return func(i float64) bool { return i >= scrapeCount-n } }
	inWindow, before := last(window+1), last(13)
	for name, tt := range map[string]struct {
		change  func(pod int, name string, i, v float64) float64
		more    func(s *store)
		bound   string
		missing string // one of them
		fact    string
	}{
		"stale": {change: func(_ int, _ string, i, v float64) float64 {
			if before(i) {
				return nan
			}
			return v
		}, bound: "unknown", missing: "running", fact: "the newest sample of vllm:num_requests_running is 3m15s old"},
		"one replica is stale": {change: func(pod int, _ string, i, v float64) float64 {
			if pod == 0 && before(i) {
				return nan
			}
			return v
		}, bound: "none", fact: "1 of 3 replicas have no sample of the last two minutes"},
		"a gap in the counters": {change: func(_ int, name string, i, v float64) float64 {
			if strings.HasSuffix(name, "_total") && inWindow(i) {
				return nan
			}
			return v
		}, bound: "none", missing: "prefix_hit_rate", fact: "fewer than two samples in the window"},
		"no gauges": {change: func(_ int, name string, _, v float64) float64 {
			if strings.HasPrefix(name, "vllm:num_requests_") {
				return nan
			}
			return v
		}, bound: "unknown", missing: "running", fact: "none of these series exists: vllm:num_requests_running"},
		"gauges that are no numbers": {change: func(_ int, name string, _, v float64) float64 {
			if name == "vllm:num_requests_waiting" {
				return math.Inf(1) - math.Inf(1)
			}
			return v
		}, bound: "unknown", missing: "waiting", fact: "not known"},
		"no configuration": {change: func(_ int, name string, _, v float64) float64 {
			if name == "vllm:cache_config_info" {
				return nan
			}
			return v
		}, bound: "none", missing: "kv_blocks", fact: "not measured: kv_block_size, kv_blocks, kv_tokens"},
		"no traffic": {change: func(_ int, name string, _, v float64) float64 {
			if strings.HasPrefix(name, "vllm:num_") || strings.HasPrefix(name, "vllm:kv_") || strings.HasPrefix(name, "vllm:cache_") {
				return v
			}
			return 1000
		}, bound: "none", missing: "prefix_hit_rate", fact: "no request ended in the window"},
		"a restart": {change: func(pod int, name string, i, v float64) float64 {
			if pod == 0 && last(4)(i) && strings.HasSuffix(name, "_count") {
				return v / 100
			}
			return v
		}, bound: "none", fact: "1 replicas restarted within the window"},
		"other buckets on one replica": {change: func(pod int, name string, _, v float64) float64 {
			return v
		}, more: func(s *store) {
			s.add("vllm:request_prompt_tokens_bucket", map[string]string{"service": "chat", "pod": podName(0), "instance": podName(0) + ":8000", "le": "40000.0"}, counted(2, 2))
		}, bound: "none", missing: "prompt_tokens_p95", fact: "has not the same buckets on all replicas"},
		"some scraped twice": {change: func(_ int, _ string, _, v float64) float64 { return v }, more: func(s *store) {
			v := usual()
			v.labels = map[string]string{"job": "pods"}
			v.add(s, podName(0), nil)
		}, bound: "unknown", missing: "running", fact: "some replicas are scraped more often than others"},
	} {
		s := &store{}
		for i := range 3 {
			usual().add(s, podName(i), func(name string, at, v float64) float64 { return tt.change(i, name, at, v) })
		}
		if tt.more != nil {
			tt.more(s)
		}
		out, facts := snapshotOf(t, s)
		if out.Bound != tt.bound || !strings.Contains(strings.Join(facts, "\n"), tt.fact) || tt.missing != "" && !slices.Contains(out.Missing, tt.missing) {
			t.Errorf("%s: %s, missing %v, %q", name, out.Bound, out.Missing, facts)
		}
		if name == "a restart" && (out.Restarted != 1 || out.Replicas[0].PromptRate != nil || !out.Replicas[0].Restarted) {
			t.Errorf("%s: %+v", name, out.Replicas)
		}
	}
	if _, err := NewSnapshot(step.Deps{}).Run(t.Context(), step.Input{Service: chat()}); err == nil {
		t.Error("no Prometheus is configured, and it answers")
	}
}

// TestSnapshotFlags: flags are those that engines run with, and a change that reached
// only some of them shows.
func TestSnapshotFlags(t *testing.T) {
	s := &store{}
	for i := range 2 {
		usual().add(s, podName(i), nil)
	}
	if out, facts := snapshotOf(t, s); out.Flags["gpu-memory-utilization"] != "0.9" || out.Flags["block-size"] != "16" || strings.Contains(strings.Join(facts, "\n"), "the same") {
		t.Errorf("%v %q", out.Flags, facts)
	}
	config("2400", "gpu_memory_utilization", "0.94")(s)
	out, facts := snapshotOf(t, s)
	if out.Flags["gpu-memory-utilization"] != "0.9 or 0.94" || out.Flags["block-size"] != "16" || !strings.Contains(strings.Join(facts, "\n"), "do not run with the same --gpu-memory-utilization: 0.9 or 0.94") {
		t.Errorf("%v %q", out.Flags, facts)
	}
}

// TestSnapshotSeats: requests that wait while every place is taken are bound by the queue,
// however few they are. A place that is free, or whose number is not known, is no bound.
func TestSnapshotSeats(t *testing.T) {
	busy := slo.Load{Running: 24, Waiting: 2, Rate: 7, Ended: 7, Cache: 0.009}
	half, tenth := 0.19, 0.02
	for name, tt := range map[string]struct {
		load  slo.Load
		share *float64
		flags map[string]string
		want  string
	}{
		"all taken":                    {busy, nil, map[string]string{"max-num-seqs": "4"}, "queue"},
		"SGLang":                       {busy, nil, map[string]string{"max-running-requests": "4"}, "queue"},
		"two ranks each":               {busy, nil, map[string]string{"max-num-seqs": "2", "data-parallel-size": "2"}, "queue"},
		"none waits at this moment":    {slo.Load{Running: 24, Rate: 7, Ended: 7}, &half, map[string]string{"max-num-seqs": "4"}, "queue"},
		"none waits":                   {slo.Load{Running: 24, Rate: 7, Ended: 7}, &tenth, map[string]string{"max-num-seqs": "4"}, "none"},
		"places are free":              {busy, nil, map[string]string{"max-num-seqs": "8"}, "none"},
		"not known":                    {busy, nil, nil, "none"},
		"while a change rolls out":     {busy, nil, map[string]string{"max-num-seqs": "4 or 8"}, "none"},
		"how many run is not measured": {slo.Load{Running: math.NaN(), Waiting: 2}, nil, map[string]string{"max-num-seqs": "4"}, "unknown"},
	} {
		out := judgeLoad(tt.load, 6, 6)
		out.Flags, out.QueueShare = tt.flags, tt.share
		out.seated(sight{load: tt.load})
		if out.Bound != tt.want || (out.ReplicasShort > 0) != (tt.want == "queue") {
			t.Errorf("%s: %s, %d short: %s", name, out.Bound, out.ReplicasShort, out.Why)
		}
	}
}

// TestSnapshotOldNames: replicas of an old version beside those of a new one count too.
func TestSnapshotOldNames(t *testing.T) {
	s := &store{}
	usual().add(s, podName(0), nil)
	old := usual()
	old.cache, old.hits = 0.8, 0.1
	was := &store{}
	old.add(was, podName(1), nil)
	for name, all := range was.Store {
		if renamed, ok := map[string]string{
			"vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc", "vllm:prefix_cache_hits_total": "vllm:gpu_prefix_cache_hits_total",
			"vllm:prefix_cache_queries_total": "vllm:gpu_prefix_cache_queries_total",
		}[name]; ok {
			s.add(renamed, all[0].Labels().Map(), map[string]func(float64) float64{
				"vllm:gpu_cache_usage_perc":           func(float64) float64 { return 0.8 },
				"vllm:gpu_prefix_cache_hits_total":    counted(120, 120),
				"vllm:gpu_prefix_cache_queries_total": counted(1200, 1200),
			}[renamed])
			continue
		}
		s.Store[name] = append(s.Store[name], all...)
	}
	out, _ := snapshotOf(t, s)
	if value(out.KVUsage) != 0.8 || math.Abs(value(out.HitRate)-0.3) > 0.01 || len(out.Missing) > 0 {
		t.Errorf("KV %v, hits %v, missing %v", value(out.KVUsage), value(out.HitRate), out.Missing)
	}
}

// TestSnapshotManyReplicas: ten thousand series take as many queries as ten, and the
// replica that matters is in the evidence.
func TestSnapshotManyReplicas(t *testing.T) {
	s := &store{}
	for i := range 200 {
		v := usual()
		if i == 137 {
			v.cache, v.preempted, v.waiting = 1, 0.5, 3
		}
		v.add(s, podName(i), nil)
	}
	n := 0
	for _, all := range s.Store {
		n += len(all)
	}
	out, _ := snapshotOf(t, s)
	if n < 10_000 || len(out.Replicas) != maxReplicas || out.Replicas[0].Name != podName(137) || out.Replicas[0].Bound != "kv" || s.queries != 3 {
		t.Errorf("%d series, %d queries: %+v", n, s.queries, out.Replicas[:1])
	}
	if value(out.Running) != 1000 || out.Bound != "kv" {
		t.Errorf("%s: %v run", out.Bound, value(out.Running))
	}
}
