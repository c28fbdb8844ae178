package service

import (
	"math"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// TestWeigh: a change is a suspect only if the breach began after it and nothing
// explains the breach better, and the sentence says so with figures.
func TestWeigh(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	release := func(change func(*weight)) weight {
		w := weight{
			changed: true, matters: true, subject: "revision 7", former: "revision 6", moved: []string{"image"},
			at: noon.Add(-20 * time.Minute), since: noon.Add(-17 * time.Minute), window: time.Hour,
			objective: 0.99, factor: 14.4, bad: "slow", now: slo.Counts{Bad: 900, Total: 2000}, before: slo.Counts{Bad: 6, Total: 4000},
			load: growth{times: 1.02},
		}
		change(&w)
		if w.first.IsZero() {
			w.first, w.serves = w.at, w.subject
		}
		return w
	}
	tests := []struct {
		name    string
		w       weight
		suspect bool
		why     string
	}{
		{
			"a release, then the breach", release(func(*weight) {}), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before",
		},
		{"nothing changed", release(func(w *weight) { w.changed = false }), false, "no release within 1h"},
		{"a rollback of it did not help", release(func(w *weight) {
			w.acquitted, w.later, w.target = "revision 7 was taken back, which did not help, and was put back 7m ago", "revision 8", 6
			w.newPods, w.oldPods = slo.Counts{Bad: 410, Total: 1000}, slo.Counts{Bad: 3, Total: 1000}
		}), false, "revision 7 was taken back, which did not help, and was put back 7m ago: it is not what is to be taken back"},
		{"our own rollback", release(func(w *weight) { w.ours = true }), false, "revision 7 is a repair by Responder"},
		{"traffic is 2.4 times normal, and a log level moved", release(func(w *weight) {
			w.load.times, w.load.waiting, w.matters, w.moved = 2.4, 31, false, []string{"--log-level"}
		}), false, "traffic, in requests or prompt tokens, is 2.4 times that before the breach and 31 requests wait: the load explains it better than revision 7, which changed --log-level only"},
		{
			"traffic is 2.4 times normal, and an image moved", release(func(w *weight) { w.load.times, w.load.waiting = 2.4, 31 }), false,
			"traffic, in requests or prompt tokens, is 2.4 times that before the breach and 31 requests wait: the load explains it better than revision 7, which changed image",
		},
		{
			"more traffic, and nobody waits", release(func(w *weight) { w.load.times = 2.4 }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 2.4 times that before",
		},
		{
			"three times the traffic, and nobody waits", release(func(w *weight) { w.load.times = 3.2 }), false,
			"traffic, in requests or prompt tokens, is 3.2 times that before the breach: the load explains it better than revision 7, which changed image",
		},
		{
			"twice the prompt tokens in longer prompts, and nobody waits", release(func(w *weight) { w.load, w.prompt = growth{times: 2.6, prompts: 2.6}, true }), false,
			"traffic, in requests or prompt tokens, is 2.6 times that before the breach and prompts are 2.6 times as long: the load explains it better than revision 7, which changed image",
		},
		{
			"tokens are late, which longer prompts do not explain", release(func(w *weight) { w.load = growth{times: 2.6, prompts: 2.6} }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 2.6 times that before and prompts are 2.6 times as long",
		},
		{
			"requests fail, which a short queue does not explain", release(func(w *weight) { w.load, w.fails = growth{times: 2.4, waiting: 1}, true }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 2.4 times that before and 1 requests wait",
		},
		{
			"requests fail under much more load, and wait", release(func(w *weight) { w.load, w.fails = growth{times: 3.4, waiting: 60}, true }), false,
			"traffic, in requests or prompt tokens, is 3.4 times that before the breach and 60 requests wait: the load explains it better than revision 7, which changed image",
		},
		{
			"the traffic grew after the breach began", release(func(w *weight) {
				w.load = mayExplain(growth{times: 2.5, waiting: 40}, growth{times: 1.04})
			}), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, was 1.0 times that before when it began",
		},
		{
			"traffic is 2.4 times normal, and prefill is slower than load makes it", release(func(w *weight) {
				w.load, w.slower = growth{times: 2.4, waiting: 31}, prefill{0.93, 0.054}
			}), true,
			"revision 7 changed image, and prefill takes 0.93 s since then, it took 0.054 s before: " +
				"more than longer prompts, fewer hits of the prefix cache and slower tokens explain",
		},
		{
			"as bad before it, and prefill is slower since", release(func(w *weight) {
				w.before, w.since, w.slower = slo.Counts{Bad: 2700, Total: 4000}, w.first.Add(-4*time.Minute), prefill{0.93, 0.054}
			}), true,
			"revision 7 changed image, and prefill takes 0.93 s since then, it took 0.054 s before: " +
				"more than longer prompts, fewer hits of the prefix cache and slower tokens explain",
		},
		{
			"prefill is slower, and one pod is the cause", release(func(w *weight) {
				w.load, w.slower = growth{times: 2.4, waiting: 31}, prefill{0.93, 0.054}
				w.odd = odd{pod: "chat-2", own: slo.Counts{Bad: 450, Total: 500}, others: slo.Counts{Bad: 1, Total: 1500}, rest: 3}
			}), false, "90 % of requests are slow on pod chat-2, 0.0667 % on the 3 other pods of revision 7: it is that pod, not what revision 7 changed: image",
		},
		{
			"a queue without more traffic is the release's", release(func(w *weight) { w.load.times, w.load.waiting = 1.1, 80 }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.1 times that before",
		},
		{
			"a log level alone", release(func(w *weight) { w.matters, w.moved = false, []string{"--uvicorn-log-level", "annotations[team]"} }), false,
			"revision 7 changed --uvicorn-log-level, annotations[team] only, which cannot change how requests are served",
		},
		{
			"well with it for hours", release(func(w *weight) { w.at = noon.Add(-5 * time.Hour) }), false,
			"revision 7 had served for 4h43m before the breach began: it is not what began it",
		},
		{
			"its pods do not serve yet, and those left drown", release(func(w *weight) { w.oldPods = slo.Counts{Bad: 600, Total: 2000} }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before",
		},
		{
			"as bad before it", release(func(w *weight) { w.before, w.since = slo.Counts{Bad: 1600, Total: 4000}, w.first.Add(-time.Minute) }), false,
			"40 % of requests were slow before revision 7 took effect, and 45 % are now: it is not what began the breach",
		},
		{
			"an earlier breach, which was over", release(func(w *weight) { w.before = slo.Counts{Bad: 1600, Total: 4000} }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before",
		},
		{
			"as bad before it, and side by side the new one is bad and the old one well", release(func(w *weight) {
				w.before, w.since = slo.Counts{Bad: 1600, Total: 4000}, w.first.Add(-time.Minute)
				w.newPods, w.oldPods = slo.Counts{Bad: 410, Total: 1000}, slo.Counts{Bad: 3, Total: 1000}
			}), true, "41 % of requests are slow on pods of revision 7, 0.3 % on pods of revision 6, side by side; it changed image",
		},
		{
			"bad before it, and much worse since", release(func(w *weight) { w.before = slo.Counts{Bad: 400, Total: 4000} }), true,
			"the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before",
		},
		{"it came after the breach began", release(func(w *weight) {
			w.before, w.at, w.since = slo.Counts{}, noon.Add(-5*time.Minute), noon.Add(-17*time.Minute)
		}), false, "the breach began 12m before revision 7 took effect"},
		{
			"the minute of the release", release(func(w *weight) { w.before, w.since = slo.Counts{}, w.at.Add(-time.Minute) }), true,
			"the breach began 0s after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before",
		},
		{"side by side, the new one is bad", release(func(w *weight) {
			w.load.times, w.load.waiting = 2.4, 31
			w.newPods, w.oldPods = slo.Counts{Bad: 410, Total: 1000}, slo.Counts{Bad: 3, Total: 1000}
		}), true, "41 % of requests are slow on pods of revision 7, 0.3 % on pods of revision 6, side by side; it changed image"},
		{"side by side, both are bad", release(func(w *weight) {
			w.newPods, w.oldPods = slo.Counts{Bad: 300, Total: 1000}, slo.Counts{Bad: 330, Total: 1000}
		}), false, "30 % of requests are slow on pods of revision 7, 33 % on pods of revision 6: both revisions suffer alike"},
		{"no pod of it is ready, and all that served before do", release(func(w *weight) {
			w.oldPods, w.unserved = slo.Counts{Bad: 600, Total: 2000}, true
		}), false, "no pod of revision 7 is ready, and as many of revision 6 serve as are wanted: it is not what is slow"},
		{"too few requests to compare", release(func(w *weight) {
			w.newPods, w.oldPods = slo.Counts{Bad: 2, Total: 3}, slo.Counts{Bad: 0, Total: 2}
		}), true, "the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before"},
		{"one pod is bad, and the others have the same revision", release(func(w *weight) {
			w.odd = odd{pod: "chat-2", own: slo.Counts{Bad: 450, Total: 500}, others: slo.Counts{Bad: 1, Total: 1500}, rest: 3}
		}), false, "90 % of requests are slow on pod chat-2, 0.0667 % on the 3 other pods of revision 7: it is that pod, not what revision 7 changed: image"},
		{"a bad one, and a log level on top of it", release(func(w *weight) {
			w.first, w.serves, w.later, w.target = w.at, "revisions 7 and 8", "revision 8", 6
		}), true, "the breach began 3m after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before" +
			"; revision 8, which came later, would go back with it; revision 6 was current before"},
		{"two that are not told apart", release(func(w *weight) {
			w.subject, w.serves, w.moved, w.first, w.target = "revisions 7 and 8", "revisions 7 and 8", []string{"image", "--max-num-seqs"}, w.at.Add(-4*time.Minute), 6
		}), true, "the breach began 3m after revisions 7 and 8 took effect, which changed image, --max-num-seqs; traffic, in requests or prompt tokens, is 1.0 times that before; revision 6 was current before"},
		{"a log level, and an image after the breach began", release(func(w *weight) {
			w.first, w.serves, w.later, w.target, w.matters, w.moved = w.at, "revisions 7 and 8", "revision 8", 6, false, []string{"--log-level"}
		}), false, "revision 7 changed --log-level only, which cannot change how requests are served; revision 8 came later"},
		{"what was there before is there again", release(func(w *weight) {
			w.first, w.serves, w.later, w.gone, w.former = w.at, "revisions 7 and 8", "revision 8", true, "revision 8"
		}), false, "revision 8 is there again, as before revision 7: there is nothing left to take back"},
		{"side by side with what came later", release(func(w *weight) {
			w.first, w.serves, w.later, w.target = w.at, "revisions 7 and 8", "revision 8", 6
			w.newPods, w.oldPods = slo.Counts{Bad: 410, Total: 1000}, slo.Counts{Bad: 3, Total: 1000}
		}), true, "41 % of requests are slow on pods of revisions 7 and 8, 0.3 % on pods of revision 6, side by side; it changed image" +
			"; revision 8, which came later, would go back with it; revision 6 was current before"},
		{"the load is not known", release(func(w *weight) {
			w.load.times, w.load.waiting, w.unknown = math.NaN(), math.NaN(), "the load could not be read: no answer in time"
		}), true, "the breach began 3m after revision 7 took effect, which changed image; the load could not be read: no answer in time"},
		{
			"nothing is known but the change",
			weight{changed: true, matters: true, subject: "commit 0123abcd9", load: unknownGrowth},
			true,
			"commit 0123abcd9 changed nothing that is shown",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if suspect, why := tt.w.weigh(); suspect != tt.suspect || why != tt.why {
				t.Errorf("suspect %t: %q\nwant    %t: %q", suspect, why, tt.suspect, tt.why)
			}
		})
	}
}

// TestWorse: the newest revision is known to be worse only by its own pods, beside
// those of the former revision that are well.
func TestWorse(t *testing.T) {
	bad, well := slo.Counts{Bad: 410, Total: 1000}, slo.Counts{Bad: 3, Total: 1000}
	for name, tt := range map[string]struct {
		own, old slo.Counts
		want     bool
	}{
		"bad beside a good one":    {bad, well, true},
		"bad beside a bad one":     {bad, bad, false},
		"well, and the others bad": {well, bad, false}, // a repair
		"bad, and no others":       {bad, slo.Counts{}, false},
		"no pods yet":              {slo.Counts{}, well, false}, // those of an earlier suspect may be the bad ones
	} {
		w := weight{changed: true, matters: true, objective: 0.99, factor: 14.4, newPods: bad, own: tt.own, oldPods: tt.old}
		if got := w.worse(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTouchMatters: what a commit moved is taken for harmless only where it is.
func TestTouchMatters(t *testing.T) {
	const template = "Deployment chat: spec.template."
	for name, tt := range map[string]struct {
		touch gitops.Touch
		want  bool
	}{
		"an image":                 {gitops.Touch{Variable: "image", Path: template + "spec.containers[vllm].image"}, true},
		"a flag":                   {gitops.Touch{Variable: "--max-num-seqs", Path: template + "spec.containers[vllm].args[--max-num-seqs]"}, true},
		"a log level":              {gitops.Touch{Variable: "--uvicorn-log-level", Path: template + "spec.containers[vllm].args[--uvicorn-log-level]"}, false},
		"a variable for logs":      {gitops.Touch{Variable: "VLLM_LOGGING_LEVEL", Path: template + "spec.containers[vllm].env[VLLM_LOGGING_LEVEL].value"}, false},
		"a variable of the engine": {gitops.Touch{Variable: "VLLM_USE_V1", Path: template + "spec.containers[vllm].env[VLLM_USE_V1].value"}, true},
		"metrics away":             {gitops.Touch{Variable: "--disable-log-stats", Path: template + "spec.containers[vllm].args[--disable-log-stats]"}, true},
		"an annotation":            {gitops.Touch{Variable: "metadata.annotations.team", Path: template + "metadata.annotations.team"}, false},
		"a configuration":          {gitops.Touch{Variable: "metadata.annotations[checksum/config]", Path: template + "metadata.annotations[checksum/config]"}, true},
		"more replicas":            {gitops.Touch{Variable: "replicas", From: "4", To: "6"}, false},
		"fewer replicas":           {gitops.Touch{Variable: "replicas", From: "6", To: "4"}, true},
		"no replicas any more":     {gitops.Touch{Variable: "replicas", From: "6"}, true},
		"a value of a chart":       {gitops.Touch{Variable: "engine.logLevel", Path: "engine.logLevel"}, true},
	} {
		if got := touchMatters(tt.touch); got != tt.want {
			t.Errorf("%s: matters %t, want %t", name, got, tt.want)
		}
	}
}

// TestMeans: who scales, restarts or wants more logs is at it, though none of it can be
// the cause.
func TestMeans(t *testing.T) {
	for touch, want := range map[gitops.Touch]bool{
		{Variable: replicas, From: "4", To: "6"}: true,
		{Variable: "restartedAt", Path: "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"}: true,
		{Variable: "--max-num-seqs", Path: "spec.template.spec.containers[vllm].args[--max-num-seqs]"}:           true,
		{Variable: "--log-level", Path: "spec.template.spec.containers[vllm].args[--log-level]"}:                 true,
		{Variable: "metadata.annotations[example.com/build]", Path: "metadata.annotations[example.com/build]"}:   false,
	} {
		if got := means(step.Arrival{Touched: gitops.Touched{Touches: []gitops.Touch{touch}}}); got != want {
			t.Errorf("%+v: %t", touch, got)
		}
	}
}

// TestOddOne: one pod is told from the others only where every other one is known to
// be well.
func TestOddOne(t *testing.T) {
	slow, well, few := slo.Counts{Bad: 400, Total: 500}, slo.Counts{Bad: 1, Total: 500}, slo.Counts{Bad: 0, Total: 3}
	for name, tt := range map[string]struct {
		pods map[string]slo.Counts
		want string
	}{
		"one of three":                  {map[string]slo.Counts{"a": well, "b": slow, "c": well}, "b"},
		"one of two":                    {map[string]slo.Counts{"a": well, "b": slow}, "b"},
		"two of three":                  {map[string]slo.Counts{"a": slow, "b": slow, "c": well}, ""},
		"none":                          {map[string]slo.Counts{"a": well, "b": well}, ""},
		"the only one":                  {map[string]slo.Counts{"a": slow}, ""},
		"too little is known of others": {map[string]slo.Counts{"a": slow, "b": few, "c": well}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := oddOne(tt.pods, slo.Test{Objective: 0.99, Factor: 14.4}); got.pod != tt.want {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}
