package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/playbook"
)

// rule is one multi-window burn-rate alert.
type rule struct {
	alert     string
	slo       string
	what      string // for the summary
	metric    string
	older     string // metric of engines that lack it; empty: there are none
	requests  string // metric whose events are requests; empty: metric
	threshold string // le of the bucket that counts as good
	short     string
	long      string
	factor    string // burn rate, times the error budget of a 99 % objective
	share     string // of the budget that is gone in the long window
}

// rules are the paging alerts of an engine's default objectives in the sandbox, as
// 'responder slo rules' makes them: 2 % of a 28-day budget in an hour, 5 % in six. A
// test holds the two alike.
func rules(engine string) []rule {
	const (
		ttft = "vllm:time_to_first_token_seconds"
		tpot = "vllm:request_time_per_output_token_seconds"
		itl  = "vllm:inter_token_latency_seconds"
	)
	first, token := rule{slo: "inference-ttft", what: "TTFT", metric: ttft, threshold: "0.5"}, rule{slo: "inference-tpot", what: "TPOT", metric: tpot, older: itl, threshold: "0.05"}
	if engine == "sglang" {
		first.metric, first.threshold = "sglang:time_to_first_token_seconds", "0.6"
		token.metric, token.older, token.requests, token.threshold = "sglang:inter_token_latency_seconds", "", first.metric, "0.1"
	}
	var out []rule
	for _, r := range []rule{first, token} {
		fast, slow := r, r
		fast.alert, fast.short, fast.long, fast.factor, fast.share = "Inference"+r.what+"FastBurn", "5m", "1h", "13.44", "2%"
		slow.alert, slow.short, slow.long, slow.factor, slow.share = "Inference"+r.what+"SlowBurn", "30m", "6h", "5.6", "5%"
		out = append(out, fast, slow)
	}
	return out
}

// by are the labels that distinguish a rule's series, so that an alert names its
// target.
const by = "sum by (namespace, service, model_name) "

// expr returns the rule's PromQL.
func (r rule) expr() string {
	traffic := r
	if r.requests != "" {
		traffic.metric = r.requests
	}
	return fmt.Sprintf("%s and %s and %s(%s) > 0.1", r.over(r.short), r.over(r.long), by, traffic.rate("_count", "5m"))
}

// over returns the part of the expression for one window.
func (r rule) over(window string) string {
	return fmt.Sprintf("%s > (%s * 0.01)", r.ratio(window), r.factor)
}

// ratio returns the share of bad events over a window, per service.
func (r rule) ratio(window string) string {
	return fmt.Sprintf(`(1 - (%s(%s) / %s(%s)))`,
		by, r.rate(fmt.Sprintf(`_bucket{le="%s"}`, r.threshold), window), by, r.rate("_count", window))
}

// rate returns the rate of the metric or, for engines without it, of the older
// one.
func (r rule) rate(series, window string) string {
	out := fmt.Sprintf("rate(%s%s[%s])", r.metric, series, window)
	if r.older != "" {
		out += fmt.Sprintf(" or rate(%s%s[%s])", r.older, series, window)
	}
	return out
}

// summary returns the alert's annotation.
func (r rule) summary(labels map[string]string, ratio float64) string {
	return fmt.Sprintf("%s/%s: %.4g%% of requests over the %s target; at this rate %s of the 28-day budget is gone in %s",
		labels["namespace"], labels["service"], 100*ratio, r.what, r.share, r.long)
}

// evaluate is the interval of rule evaluation.
const evaluate = 30 * time.Second

// watched is how long before a world opens its rules are evaluated.
const watched = 30 * time.Minute

// watch is the alerting side of a world. It evaluates every rule at every multiple
// of [evaluate], in order, and remembers the state of each alert.
type watch struct {
	mu    sync.Mutex // guards what follows; taken before the world's
	world *World
	next  time.Time
	seen  map[model.Fingerprint]*playbook.Alert      // since it first fired
	since map[string]map[model.Fingerprint]time.Time // of each rule, when what is active became so
}

func (a *watch) init(w *World) {
	a.world, a.seen, a.since = w, map[model.Fingerprint]*playbook.Alert{}, map[string]map[model.Fingerprint]time.Time{}
	a.next = w.start.Add(-watched).Truncate(evaluate)
	if since := w.clock.Now().Add(-history); a.next.Before(since) {
		a.next = since.Truncate(evaluate) // resumed long after: there are no older samples
	}
}

// Firing returns the alerts that fire at now, by name. now must not be in the
// clock's future.
func (w *World) Firing(ctx context.Context, now time.Time) ([]playbook.Alert, error) {
	alerts, err := w.watch.alerts(ctx, now)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(alerts, func(a playbook.Alert) bool { return a.Status != playbook.Firing }), nil
}

// alerts returns every alert that fired since the world opened, in its state at
// now.
func (a *watch) alerts(ctx context.Context, now time.Time) ([]playbook.Alert, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ; !a.next.After(now); a.next = a.next.Add(evaluate) {
		if err := a.evaluateAll(ctx, a.world.scenario.alerting(), a.next); err != nil {
			return nil, err
		}
		for _, r := range append(engineRules(a.world.scenario), a.world.scenario.extra...) {
			if err := a.evaluatePlain(ctx, r, a.next); err != nil {
				return nil, fmt.Errorf("evaluate rule %s: %w", r.Alert, err)
			}
		}
	}
	a.nodeAlerts(ctx, now)
	out := make([]playbook.Alert, 0, len(a.seen))
	for _, al := range a.seen {
		c := *al
		c.Labels, c.Annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y playbook.Alert) int {
		if x.Labels["alertname"] != y.Labels["alertname"] {
			if x.Labels["alertname"] < y.Labels["alertname"] {
				return -1
			}
			return 1
		}
		if c := x.StartsAt.Compare(y.StartsAt); c != 0 {
			return c
		}
		return strings.Compare(x.Fingerprint, y.Fingerprint)
	})
	return out, nil
}

// evaluateAll evaluates rules at one moment. Two engines have rules of one name, whose
// alerts are brought up to date together.
func (a *watch) evaluateAll(ctx context.Context, rules []rule, at time.Time) error {
	active := map[string][]playbook.Alert{}
	for _, r := range rules {
		found, err := a.evaluate(ctx, r, at)
		if err != nil {
			return fmt.Errorf("evaluate rule %s: %w", r.alert, err)
		}
		active[r.alert] = append(active[r.alert], found...)
	}
	for _, name := range slices.Sorted(maps.Keys(active)) {
		a.update(name, 0, active[name], at)
	}
	return nil
}

// evaluate returns the alerts of one rule at one moment.
func (a *watch) evaluate(ctx context.Context, r rule, at time.Time) ([]playbook.Alert, error) {
	// The rule is a conjunction: if its cheap half is false, so is the rule.
	v, err := a.world.instant(ctx, r.over(r.short), at)
	if err == nil && len(v.Samples) > 0 {
		v, err = a.world.instant(ctx, r.expr(), at)
	}
	if err != nil {
		return nil, err
	}
	var active []playbook.Alert
	for _, s := range v.Samples {
		labels := maps.Clone(s.Labels)
		maps.Copy(labels, map[string]string{"alertname": r.alert, "severity": "critical", "slo": r.slo, "short": r.short, "long": r.long})
		active = append(active, playbook.Alert{Labels: labels, Annotations: map[string]string{
			"runbook": "runbook-inference-slo-breach: inference SLO breach (RB-6)",
			"summary": r.summary(labels, s.Value),
		}})
	}
	return active, nil
}

// update brings the alerts of one rule up to date: those that were active for long
// enough fire, those that are not active have resolved.
func (a *watch) update(name string, wait time.Duration, active []playbook.Alert, at time.Time) {
	before, since := a.since[name], map[model.Fingerprint]time.Time{}
	for _, x := range active {
		fp := fingerprint(x.Labels)
		since[fp] = at
		if was, ok := before[fp]; ok {
			since[fp] = was
		}
		if at.Sub(since[fp]) < wait {
			continue
		}
		al := a.seen[fp]
		if al == nil || al.Status != playbook.Firing {
			// No generatorURL: there is no page to link to.
			al = &playbook.Alert{Fingerprint: fp.String(), Status: playbook.Firing, Labels: x.Labels, StartsAt: at.UTC()}
			a.seen[fp] = al
		}
		al.Annotations = x.Annotations
	}
	a.since[name] = since
	for fp, al := range a.seen {
		if _, ok := since[fp]; al.Labels["alertname"] == name && al.Status == playbook.Firing && !ok {
			al.Status, al.EndsAt = playbook.Resolved, at.UTC()
		}
	}
}

// fingerprint is Alertmanager's: over all labels.
func fingerprint(labels map[string]string) model.Fingerprint {
	set := make(model.LabelSet, len(labels))
	for k, v := range labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return set.Fingerprint()
}
