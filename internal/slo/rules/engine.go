package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine"
)

// The alerts about an engine. Playbooks match these names.
const (
	AlertStalled    = "InferenceStalled"          // engines hold requests and make no progress
	AlertKVPressure = "InferenceKVPressure"       // requests wait while the KV cache is full
	AlertThrash     = "InferencePreemptionThrash" // requests lose their KV cache and are computed again
	AlertQueue      = "InferenceQueueGrowth"      // more requests arrive than end
	AlertColdStart  = "InferenceColdStart"        // replicas do not become ready
	AlertWrong      = "InferenceWrongOutput"      // an engine computed what is no number
	AlertRestarted  = "InferenceEngineRestarted"  // an engine ended and was started again in its pod
)

const (
	// defaultLoad is how long replicas may start where no load_time tells how long a
	// model takes to load.
	defaultLoad = 10 * time.Minute

	serviceLabels = "namespace, service"
	rankLabels    = "pod, instance, engine, dp_rank" // tell the engines of a service apart
)

// EngineGroup returns the alerts about the engine of a service that no objective
// covers. A service without a name stands for all services of its engine, told
// apart by the labels namespace and service of the series.
func EngineGroup(s Service) (Group, error) {
	e, err := s.engine()
	if err != nil {
		return Group{}, err
	}
	w := writer{Service: s}
	if s.Name == "" {
		w.labels, w.Labels = serviceLabels, map[string]string{"engine": s.Engine}
	}
	for _, x := range []struct {
		name, severity, wait string
		expr                 func(engine.Progress) string
		summary              string
	}{
		{AlertStalled, "critical", "2m", w.stalled, "engines that hold requests and make no progress: {{ $value }}"},
		{AlertKVPressure, "warning", "5m", w.pressure, "requests wait, and the KV cache is {{ $value | humanizePercentage }} full"},
		{AlertThrash, "warning", "5m", w.thrash, "{{ $value | humanize }} requests a second lose their KV cache and are computed again"},
		{AlertQueue, "warning", "5m", w.queue, "the queue grows; a new request waits {{ $value | humanizeDuration }}"},
		{AlertRestarted, "warning", "1m", w.restarted, "engines that ended and were started again within 30m: {{ $value }}"},
		{AlertWrong, "critical", "1m", w.corrupted, "requests whose logits were not numbers within 10m: {{ $value }}"},
	} {
		var exprs []string
		for _, p := range e.Progress() {
			if expr := x.expr(p); expr != "" {
				exprs = append(exprs, expr)
			}
		}
		if len(exprs) == 0 {
			continue // the engine does not tell
		}
		w.add(Rule{Alert: x.name, For: x.wait, Expr: strings.Join(exprs, "\nor\n")}, x.severity, x.summary)
	}
	load := window(cmp.Or(s.LoadTime, defaultLoad))
	w.add(Rule{Alert: AlertColdStart, For: "1m", Expr: w.notReady(e, load)}, "warning",
		"replicas that are not ready after "+load+": {{ $value }}; a cold start, or one that fails")
	return Group{Name: "inference-engine-" + cmp.Or(s.Name, s.Engine), Rules: w.rules}, nil
}

// writer writes alerts about one service, or about all services of an engine.
type writer struct {
	Service
	labels string // that tell services apart; empty: one service
	rules  []Rule
}

func (w *writer) add(r Rule, severity, summary string) {
	r.Labels = merged(w.Labels, map[string]string{"severity": severity})
	r.Annotations = map[string]string{"summary": "{{ $labels.namespace }}/{{ $labels.service }}: " + summary}
	if w.Runbook != "" {
		r.Annotations["runbook_url"] = w.Runbook
	}
	w.rules = append(w.rules, r)
}

// by aggregates for each service, and for each value of further labels.
func (w writer) by(operator, expr string, more ...string) string {
	if w.labels != "" {
		more = append([]string{w.labels}, more...)
	}
	if len(more) > 0 {
		operator += " by (" + strings.Join(more, ", ") + ") "
	}
	return operator + "(" + expr + ")"
}

// of returns the series of a service by a name that may hold matchers. If
// replicas may have one of several names, newest first, each counts once.
// function is one of a range, such as rate, or empty for a gauge.
func (w writer) of(function, span string, names ...string) string {
	var out []string
	for _, name := range names {
		name, match, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		series := selector(name, w.Selector, match)
		if function != "" {
			series = function + "(" + series + "[" + span + "])"
		}
		out = append(out, series)
	}
	return strings.Join(out, " or ")
}

// waiting returns the requests that wait for capacity, or what function makes of
// them. Of an engine that does not tell why requests wait, such as an older one
// beside newer ones, it is all that wait.
func (w writer) waiting(p engine.Progress, function, span string) string {
	all := w.of(function, span, p.Waiting)
	if c := p.Capacity; c.Name != "" {
		all = "\n  " + w.by("sum", w.of(function, span, selector(c.Name, c.Match)), rankLabels) + "\n  or " + w.by("sum", all, rankLabels) + "\n"
	}
	return w.by("sum", all)
}

// stalled counts the engines that ran requests for two minutes without a step. An
// engine must have been there before, so one that has just started is not judged.
func (w writer) stalled(p engine.Progress) string {
	var steps []string
	for _, c := range p.Steps {
		steps = append(steps, w.by("sum", w.of("increase", "2m", selector(c.Name, c.Match)), rankLabels))
	}
	return w.by("count", fmt.Sprintf("\n  %s > 0\n  and %s\n  and (%s) == 0\n",
		w.by("sum", w.of("min_over_time", "2m", p.Running), rankLabels),
		w.by("sum", w.of("", "", p.Running)+" offset 2m", rankLabels),
		strings.Join(steps, " or ")))
}

// pressure returns the fullest KV cache, where requests wait for one.
func (w writer) pressure(p engine.Progress) string {
	return fmt.Sprintf("%s > 0.95\nand %s > 0", w.by("max", w.of("avg_over_time", "5m", p.Cache...)), w.waiting(p, "", ""))
}

// thrash returns the rate of preemptions, where one of ten requests or more loses
// its place. A few are how an engine makes full use of its memory.
func (w writer) thrash(p engine.Progress) string {
	lost := w.by("sum", w.of("rate", "5m", p.Preempted...))
	return fmt.Sprintf("%s > 0.05\nand %s > 0.1 * %s", lost, lost, w.by("sum", w.of("rate", "5m", p.Finished)))
}

// queue returns how many seconds the queue takes at the rate at which requests
// end, where it grows and takes half a minute or more.
func (w writer) queue(p engine.Progress) string {
	now := w.waiting(p, "", "")
	return fmt.Sprintf("%s / %s > 30\nand %s > 5\nand %s > 0", now, w.by("sum", w.of("rate", "5m", p.Finished)), now, w.waiting(p, "deriv", "10m"))
}

// restarted counts the engines whose counters began anew. A pod that is replaced has
// series of its own, so these ended in their pods.
func (w writer) restarted(p engine.Progress) string {
	var names []string
	for _, c := range p.Steps {
		names = append(names, selector(c.Name, c.Match))
	}
	return w.by("count", w.by("sum", w.of("resets", "30m", names...), rankLabels)+" > 0")
}

// corrupted counts the requests whose logits were not numbers. vLLM looks for them
// only with VLLM_COMPUTE_NANS_IN_LOGITS, and otherwise has no such series.
func (w writer) corrupted(p engine.Progress) string {
	if p.Work.Corrupted == "" {
		return ""
	}
	return w.by("sum", w.of("increase", "10m", p.Work.Corrupted)) + " > 0"
}

// notReady counts the replicas that have not been ready for as long as one may take
// to load: pods of a workload by kube-state-metrics, else targets that are down
// beside others of an engine's service. Each counts by itself, so that a rollout,
// which replaces one after the other, may take longer.
func (w writer) notReady(e engine.Engine, load string) string {
	if w.Workload == "" {
		var known []string
		for _, p := range e.Progress() {
			known = append(known, w.by("group", w.of("last_over_time", "1h", p.Running)))
		}
		return fmt.Sprintf("%s\nand (%s)", w.by("count", never("up", load)), strings.Join(known, " or "))
	}
	pods := "-[a-z0-9]+-[a-z0-9]{5}"
	if w.Kind == "StatefulSet" {
		pods = "-[0-9]+"
	}
	of := fmt.Sprintf("namespace=%s,pod=~%s", strconv.Quote(w.Labels["namespace"]), strconv.Quote(regexp.QuoteMeta(w.Workload)+pods))
	// Pods that were evicted stay for a while, and are none that load.
	over := fmt.Sprintf("  unless on (namespace, pod) kube_pod_status_phase{%s,phase=~\"Failed|Succeeded\"} == 1\n", of)
	return w.by("count", never(fmt.Sprintf(`kube_pod_status_ready{%s,condition="true"}`, of), load)+over)
}

// never returns the series of a selector that have been 0 all the time.
func never(series, span string) string {
	return fmt.Sprintf("\n  max_over_time(%[1]s[%[2]s]) == 0\n  and %[1]s\n  and %[1]s offset %[2]s\n", series, span)
}
