//go:build e2e

package rig

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// vLLM's own buckets. Its client library is Python's, which writes 1.0 where
// Go's writes 1; a query's le="1.0" depends on it.
var (
	ttftBuckets      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	perTokenBuckets  = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	iterationBuckets = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	finishedReasons  = []string{"stop", "length", "abort", "error", "repetition"}
)

const (
	promptTokens = 200 // of every request
	outputTokens = 100
)

// engine simulates one vLLM process: a queue before a server of fixed capacity.
type engine struct {
	profile Profile

	waiting, running, kvCache float64

	// What is owed to the counters, which take whole requests only.
	owed map[string]float64

	histograms map[string]*histogram
	counters   map[string]float64 // by name and extra labels
}

type histogram struct {
	bounds []float64
	counts []uint64 // one more than bounds, not cumulative
	sum    float64
}

func (h *histogram) observe(value float64, n uint64) {
	h.counts[sort.SearchFloat64s(h.bounds, value)] += n
	h.sum += value * float64(n)
}

func newEngine() *engine {
	e := &engine{owed: map[string]float64{}, histograms: map[string]*histogram{}, counters: map[string]float64{}}
	for name, bounds := range map[string][]float64{
		"vllm:time_to_first_token_seconds": ttftBuckets, "vllm:inter_token_latency_seconds": perTokenBuckets,
		"vllm:request_time_per_output_token_seconds": perTokenBuckets, "vllm:e2e_request_latency_seconds": requestBuckets,
		"vllm:request_queue_time_seconds": requestBuckets, "vllm:iteration_tokens_total": iterationBuckets,
	} {
		e.histograms[name] = &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
	}
	for _, name := range []string{"vllm:num_preemptions_total", "vllm:generation_tokens_total", "vllm:prompt_tokens_total"} {
		e.counters[name] = 0
	}
	for _, reason := range finishedReasons {
		e.counters[finished(reason)] = 0
	}
	return e
}

func finished(reason string) string {
	return fmt.Sprintf("vllm:request_success_total{finished_reason=%q}", reason)
}

// whole adds to what is owed under a name and takes the whole units out of it.
func (e *engine) whole(name string, more float64) uint64 {
	e.owed[name] += more
	n := math.Floor(e.owed[name])
	e.owed[name] -= n
	return uint64(n)
}

// advance lets dt seconds pass while rate requests a second arrive. The queue
// holds no more than two seconds of work, because callers give up: a fleet that
// gets its capacity back is soon well.
func (e *engine) advance(dt, rate, capacity float64) {
	if e.profile.Capacity > 0 {
		capacity = e.profile.Capacity
	}
	if e.profile.Hung {
		e.waiting += rate * dt
		return
	}
	load := rate / capacity
	served := min(e.waiting+rate*dt, capacity*dt)
	e.waiting += rate*dt - served
	if gaveUp := e.waiting - 2*capacity; gaveUp > 0 {
		e.waiting -= gaveUp
		e.counters[finished("abort")] += float64(e.whole("abort", gaveUp))
	}
	queued := e.waiting / capacity
	ttft := e.profile.TTFT + queued
	tpot := e.profile.TPOT * max(1, load*load)
	total := ttft + tpot*(outputTokens-1)
	e.running = served / dt * total
	e.kvCache = min(1, e.profile.KVCache*load)
	if e.kvCache >= 1 {
		e.counters["vllm:num_preemptions_total"] += float64(e.whole("preemptions", served))
	}

	n := e.whole("requests", served)
	failed := e.whole("errors", float64(n)*e.profile.ErrorRatio)
	e.counters[finished("error")] += float64(failed)
	e.counters[finished("stop")] += float64(n - failed)
	e.counters["vllm:generation_tokens_total"] += float64(n * outputTokens)
	e.counters["vllm:prompt_tokens_total"] += float64(n * promptTokens)
	e.histograms["vllm:time_to_first_token_seconds"].observe(ttft, n)
	e.histograms["vllm:request_time_per_output_token_seconds"].observe(tpot, n)
	e.histograms["vllm:inter_token_latency_seconds"].observe(tpot, n*(outputTokens-1))
	e.histograms["vllm:e2e_request_latency_seconds"].observe(total, n)
	e.histograms["vllm:request_queue_time_seconds"].observe(queued, n)
	if steps := e.whole("steps", dt/tpot); served > 0 {
		e.histograms["vllm:iteration_tokens_total"].observe(math.Round(served/dt*outputTokens*tpot), steps)
	}
}

// labelled is an engine's series under one set of labels.
type labelled struct {
	labels string
	engine *engine
	pod    *corev1.Pod
}

// writeExposition writes the text format as Python's client does.
func writeExposition(w http.ResponseWriter, all []labelled) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }() // a scraper that hangs up has no use for the error
	gauge := func(name string, value func(labelled) float64) {
		fmt.Fprintf(out, "# TYPE %s gauge\n", name)
		for _, l := range all {
			fmt.Fprintf(out, "%s{%s} %s\n", name, l.labels, float(value(l)))
		}
	}
	gauge("vllm:num_requests_running", func(l labelled) float64 { return math.Ceil(l.engine.running) })
	gauge("vllm:num_requests_waiting", func(l labelled) float64 { return math.Floor(l.engine.waiting) })
	gauge("vllm:kv_cache_usage_perc", func(l labelled) float64 { return l.engine.kvCache })
	fmt.Fprintln(out, "# TYPE vllm:cache_config_info gauge")
	for _, l := range all {
		fmt.Fprintf(out, "vllm:cache_config_info{%s,block_size=\"16\",num_gpu_blocks=\"4096\",gpu_memory_utilization=%q,enable_prefix_caching=\"True\"} 1.0\n",
			l.labels, flagValue(l.pod, "--gpu-memory-utilization", "0.9"))
	}
	model := newEngine() // has the names of them all
	for _, name := range sortedKeys(model.counters) {
		writeCounter(out, name, all)
	}
	for _, name := range sortedKeys(model.histograms) {
		fmt.Fprintf(out, "# TYPE %s histogram\n", name)
		for _, l := range all {
			l.engine.histograms[name].write(out, name, l.labels)
		}
	}
}

func writeCounter(out io.Writer, key string, all []labelled) {
	name, extra, _ := strings.Cut(strings.TrimSuffix(key, "}"), "{")
	if extra == "" || strings.Contains(extra, finishedReasons[2]) { // once per family: "abort" sorts first
		fmt.Fprintf(out, "# TYPE %s counter\n", name)
	}
	for _, l := range all {
		labels := l.labels
		if extra != "" {
			labels += "," + extra
		}
		fmt.Fprintf(out, "%s{%s} %s\n", name, labels, float(l.engine.counters[key]))
	}
}

func (h *histogram) write(out io.Writer, name, labels string) {
	var total uint64
	for i, bound := range h.bounds {
		total += h.counts[i]
		fmt.Fprintf(out, "%s_bucket{%s,le=%q} %s\n", name, labels, float(bound), float(float64(total)))
	}
	total += h.counts[len(h.bounds)]
	fmt.Fprintf(out, "%s_bucket{%s,le=\"+Inf\"} %s\n", name, labels, float(float64(total)))
	fmt.Fprintf(out, "%s_count{%s} %s\n%s_sum{%s} %s\n", name, labels, float(float64(total)), name, labels, float(h.sum))
}

// float writes a number as Python does: whole ones end in .0.
func float(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// flagValue returns a flag's value on a pod's command line, in either form.
func flagValue(pod *corev1.Pod, flag, otherwise string) string {
	for _, c := range pod.Spec.Containers {
		words := append(append([]string(nil), c.Command...), c.Args...)
		for i, word := range words {
			if value, ok := strings.CutPrefix(word, flag+"="); ok {
				return value
			}
			if word == flag && i+1 < len(words) {
				return words[i+1]
			}
		}
	}
	return otherwise
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
