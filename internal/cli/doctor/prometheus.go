package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/series"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/rules"
	"github.com/inference-responder/responder/internal/step"
)

// measured is over which objectives are measured, as the short window of a fast burn.
const measured = 5 * time.Minute

const fixPrometheus = "see that prometheus.url is right and answers from here, and that its token is valid"

// prometheus checks what it has of each service: the series of objectives and of the
// engine, and the rules that alert on them.
func (e *exam) prometheus(ctx context.Context) []Finding {
	if e.prom == nil {
		e.bar("", "", "no Prometheus is configured, so that nothing can be proven")
		return []Finding{failed("server", "none is configured", "set prometheus.url: without it nothing can be measured or proven")}
	}
	if _, _, err := e.prom.Clock(ctx); err != nil {
		e.bar("", "", "Prometheus does not answer")
		return []Finding{failed("server", because(ctx, err), fixPrometheus)}
	}
	out := []Finding{ok("server", "it answers")}
	loaded, err := e.prom.Rules(ctx)
	if err != nil { // some that answer queries have no rules
		out = append(out, failed("rules", because(ctx, err), "see that whoever answers at prometheus.url also lists the rules (/api/v1/rules)"))
	}
	out = append(out, e.each(func(s playbook.Service) []Finding {
		if s.Engine == "" {
			return nil // said of the catalog
		}
		found := e.objectives(ctx, s)
		found = append(found, e.engineSeries(ctx, s)...)
		if err != nil {
			return found
		}
		return append(found, e.loaded(s, loaded))
	})...)
	out = append(out, e.alerts(loaded)...)
	return append(out, e.queries(ctx)...)
}

// objectives measures the service as a run does.
func (e *exam) objectives(ctx context.Context, s playbook.Service) []Finding {
	m, err := slo.Measure(ctx, e.prom, step.Objectives(s), e.now, slo.Span{Window: measured})
	if err != nil {
		e.bar(s.Name, "", "its objectives cannot be measured")
		return []Finding{failed(s.Name+": objectives", because(ctx, err), fixPrometheus)}
	}
	var out []Finding
	for _, x := range m.Measured {
		check := s.Name + ": " + x.Name()
		switch x.Reason {
		case "":
			f := ok(check, fmt.Sprintf("%s: %.0f requests in 5m", x.Series, x.Counts[0].Total))
			if native(x) {
				f.Result, f.Detail = Warning, x.Series+" is a native histogram: proofs measure it, and rules that 'responder slo rules' writes read buckets that it has not"
				f.Fix = "let Prometheus keep the classic buckets beside it (always_scrape_classic_histograms: true), or alert by rules of your own"
			}
			out = append(out, f)
			continue
		case fault.NotANumber:
			out = append(out, warning(check, x.Detail, "see that it is scraped at least every minute, and look again in five minutes"))
			continue
		}
		e.bar(s.Name, "", x.Name()+" cannot be measured: "+x.Detail)
		out = append(out, failed(check, x.Detail, fixSeries(x, s)))
	}
	return out
}

// native reports whether an objective is measured by a native histogram.
func native(x slo.Measured) bool {
	return slices.ContainsFunc(x.Objective.Sources, func(s slo.Source) bool { return s.Histogram != "" && s.Histogram == x.Series })
}

// fixSeries tells what helps where an objective cannot be measured.
func fixSeries(x slo.Measured, s playbook.Service) string {
	switch x.Reason {
	case fault.Stale:
		return "see that the replicas run and are scraped: their series have ended"
	case fault.Invalid:
		return "take a threshold that one of the buckets has for the objective, or configure the engine's buckets"
	}
	return fmt.Sprintf("see that the replicas are scraped, and that their series have the labels {%s}: set selector of the service to those that they have, or engine if it is another", s.Selector)
}

// role is something that an engine shows, by the names of its versions.
type role struct {
	what    string
	of      func(p slo.Progress) []string
	without string
	names   []string
}

// roles are what alerts, checks and proofs read of an engine. What is missing for good
// or until a first request ends cannot be told apart.
func roles() []role {
	work := func(of func(w slo.Work) []string) func(slo.Progress) []string {
		return func(p slo.Progress) []string { return of(p.Work) }
	}
	return []role{
		{what: "running requests", of: func(p slo.Progress) []string { return []string{p.Running} }, without: "nothing is known of the engine"},
		{what: "waiting requests", of: func(p slo.Progress) []string { return []string{p.Waiting} }, without: "queues are not seen (InferenceQueueGrowth, InferenceKVPressure)"},
		{what: "steps", of: func(p slo.Progress) []string { return p.Steps }, without: "an engine that stands still is not seen (InferenceStalled)"},
		{what: "requests that end", of: func(p slo.Progress) []string { return []string{p.Finished} }, without: "hanging requests and the growth of queues are not seen (InferenceQueueGrowth)"},
		{what: "usage of the KV cache", of: func(p slo.Progress) []string { return p.Cache }, without: "a full KV cache is not seen (InferenceKVPressure)"},
		{what: "preemptions", of: func(p slo.Progress) []string { return p.Preempted }, without: "preemptions are not seen (InferencePreemptionThrash)"},
		{what: "output tokens", of: work(func(w slo.Work) []string { return []string{w.Generated} }), without: "its throughput is not known (engine.snapshot)"},
		{what: "prompt lengths", of: work(func(w slo.Work) []string { return histograms(w.PromptLength...) }), without: "longer prompts are not seen (engine.snapshot, traffic.shape, engine.kv_fit)"},
		{what: "output lengths", of: work(func(w slo.Work) []string { return histograms(w.OutputLength...) }), without: "how many sequences fit the KV cache is not known (engine.kv_fit)"},
		{what: "time in the queue", of: work(func(w slo.Work) []string { return histograms(w.Queue) }), without: "what bounds it is told by its queue alone (engine.snapshot)"},
		{what: "time of prefill", of: work(func(w slo.Work) []string { return histograms(w.Prefill) }), without: "prefill is not told from decode by time (engine.snapshot)"},
		{what: "time of decode", of: work(func(w slo.Work) []string { return histograms(w.Decode) }), without: "prefill is not told from decode by time (engine.snapshot)"},
		{what: "hits of the prefix cache", of: work(func(w slo.Work) []string { return w.PrefixHits }), without: "hits that collapse are not seen (engine.snapshot)"},
		{what: "size of the KV cache", of: work(func(w slo.Work) []string { return []string{w.Config, w.Capacity} }), without: "how many sequences fit the KV cache is not known (engine.kv_fit)"},
		{what: "requests whose logits are not numbers", of: work(func(w slo.Work) []string { return []string{w.Corrupted} }), without: "wrong answers fire no alert (InferenceWrongOutput): vLLM counts them with VLLM_COMPUTE_NANS_IN_LOGITS=1"},
		{what: "answers by status", of: work(func(w slo.Work) []string { return []string{w.Refused.Total} }), without: "refused requests are not seen (engine.refused_per_second)"},
	}
}

// histograms returns the names by which histograms are found: classic, then native.
func histograms(names ...string) []string {
	var out []string
	for _, n := range names {
		if n != "" {
			out = append(out, n+"_count", n)
		}
	}
	return out
}

// rolesOf returns what the programs of an engine show.
func rolesOf(all []slo.Progress) []role {
	out := roles()
	for i, r := range out {
		for _, p := range all {
			for _, n := range r.of(p) {
				if n, _, _ = strings.Cut(n, "{"); n != "" && !slices.Contains(out[i].names, n) {
					out[i].names = append(out[i].names, n)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(r role) bool { return len(r.names) == 0 })
}

// engineSeries checks that the engine of a service shows what alerts and checks read,
// that all its targets are up, and that its series lead back to the service.
func (e *exam) engineSeries(ctx context.Context, s playbook.Service) []Finding {
	check := s.Name + ": engine"
	roles := rolesOf(step.Objectives(s).Progress)
	var names []string
	for _, r := range roles {
		for _, n := range r.names {
			names = append(names, regexp.QuoteMeta(n))
		}
	}
	query := fmt.Sprintf("count by (__name__, namespace, service) ({__name__=~%q,%s})", strings.Join(names, "|"), s.Selector)
	v, err := e.prom.Instant(ctx, query, e.now)
	if err != nil {
		return []Finding{failed(check, because(ctx, err), fixPrometheus)}
	}
	there := map[string]bool{}
	places := map[string]map[string]string{}
	for _, x := range v.Samples {
		there[x.Labels["__name__"]] = true
		at := map[string]string{"namespace": x.Labels["namespace"], "service": x.Labels["service"]}
		maps.DeleteFunc(at, func(_, value string) bool { return value == "" })
		places[fmt.Sprint(at)] = at
	}
	if !slices.ContainsFunc(names, func(n string) bool { return there[n] && strings.Contains(n, ":") }) { // other programs answer HTTP requests, too
		e.bar(s.Name, "engine.", "none of the engine's series exists")
		return []Finding{failed(check, fmt.Sprintf("none of the series of %s exists with {%s}", s.Engine, s.Selector), "see that the replicas are scraped, and that engine and selector of the service are right")}
	}
	var out []Finding
	var shown []string
	for _, r := range roles {
		if slices.ContainsFunc(r.names, func(n string) bool { return there[n] }) {
			shown = append(shown, r.what)
			continue
		}
		out = append(out, warning(check, fmt.Sprintf("no %s (%s): %s", r.what, strings.Join(r.names, ", "), r.without),
			"see that the engine's version and flags are such that it exports them, that no relabelling drops them, and that a request has ended"))
	}
	if len(out) == 0 {
		out = append(out, ok(check, "what alerts, checks and proofs read of it is there: "+strings.Join(shown, ", ")))
	}
	out = append(out, e.up(ctx, s)...)
	for _, key := range slices.Sorted(maps.Keys(places)) {
		if why := e.astray(s, places[key]); why != "" {
			out = append(out, warning(s.Name+": labels", fmt.Sprintf("its series have %s: %s", labelText(places[key]), why),
				"set match of the service to these labels, or see that scraping sets namespace and service; else alerts about all services of an engine do not find it"))
		}
	}
	return out
}

// up looks for targets of the service that cannot be scraped. Not every scrape gives
// the series up the labels of the service.
func (e *exam) up(ctx context.Context, s playbook.Service) []Finding {
	v, err := e.prom.Instant(ctx, fmt.Sprintf("up{%s} == 0", s.Selector), e.now)
	if err != nil || len(v.Samples) == 0 {
		return nil // a failure is the server's, which other queries show
	}
	var down []string
	for _, x := range v.Samples {
		down = append(down, cmp.Or(x.Labels["pod"], x.Labels["instance"], "a target"))
	}
	slices.Sort(down)
	return []Finding{warning(s.Name+": targets", some(down, 5)+" cannot be scraped", "see why on the page /targets of Prometheus: what is not scraped is not measured")}
}

// astray returns why labels do not lead to exactly this service; empty: they do.
func (e *exam) astray(s playbook.Service, labels map[string]string) string {
	found, why, err := e.world.Resolve(playbook.Alert{Labels: maps.Clone(labels)})
	switch {
	case err != nil:
		return err.Error()
	case len(found) == 1 && found[0].Name == s.Name:
		return ""
	case len(found) == 0:
		return cmp.Or(why, "they belong to no service")
	}
	return "they belong to " + strings.Join(names(found), ", ")
}

func labelText(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// wanted returns the rules that `slo rules` writes for a service.
func (e *exam) wanted(s playbook.Service) (out []rules.Rule, err error) {
	r, err := cluster.RuleService(e.world.Resolve, s, "service "+s.Name)
	if err != nil {
		return nil, err
	}
	objectives, _, err := r.Objectives()
	if err != nil {
		return nil, err
	}
	for _, o := range objectives {
		g, _, err := o.Group()
		if err != nil {
			return nil, err
		}
		out = append(out, g.Rules...)
	}
	g, err := rules.EngineGroup(r)
	return append(out, g.Rules...), err
}

const fixRules = "write them with 'responder slo rules' and load them into Prometheus"

// loaded compares the rules of a service with those that Prometheus has.
func (e *exam) loaded(s playbook.Service, loaded []slo.Rule) Finding {
	check := s.Name + ": rules"
	wanted, err := e.wanted(s)
	if err != nil {
		return failed(check, err.Error(), "correct the service in the catalog: no rule can alert on it")
	}
	var absent, others []string
	for _, r := range wanted {
		if slices.ContainsFunc(loaded, func(l slo.Rule) bool { return same(r, l) }) || generic(r, loaded) {
			continue
		}
		name := cmp.Or(r.Alert, r.Record)
		if slices.ContainsFunc(loaded, func(l slo.Rule) bool { return l.Name == name }) {
			others = append(others, name)
		} else {
			absent = append(absent, name)
		}
	}
	switch absent, others = slices.Compact(absent), slices.Compact(others); {
	case len(absent) > 0:
		return failed(check, "not loaded: "+some(absent, 6), fixRules+": nothing alerts on the service otherwise")
	case len(others) > 0:
		return warning(check, "others of that name are loaded, but not as the catalog has them now: "+some(others, 6), fixRules+" anew, unless they are meant to differ")
	}
	return ok(check, runview.Count(len(wanted), "rule")+", as the catalog has them")
}

// same reports whether Prometheus has loaded a rule.
func same(r rules.Rule, l slo.Rule) bool {
	if l.Name != cmp.Or(r.Alert, r.Record) || l.Alerts != (r.Alert != "") {
		return false
	}
	for name, value := range r.Labels {
		if l.Labels[name] != value {
			return false
		}
	}
	return plain(l.Expr) == plain(r.Expr)
}

// generic reports whether an alert about the engine is loaded for all services of it.
func generic(r rules.Rule, loaded []slo.Rule) bool {
	_, ofObjective := r.Labels["slo_id"]
	return !ofObjective && r.Alert != "" && slices.ContainsFunc(loaded, func(l slo.Rule) bool {
		return l.Alerts && l.Name == r.Alert && l.Labels["namespace"] == "" && l.Labels["service"] == ""
	})
}

// plain returns an expression as the parser writes it, which Prometheus's versions do
// with different spaces.
func plain(expr string) string {
	if e, err := parser.ParseExpr(expr); err == nil {
		expr = e.String()
	}
	return strings.Join(strings.Fields(expr), "")
}

// alerts checks the rules that playbooks are for: whether they can be evaluated, and
// whether what fires now finds its service.
func (e *exam) alerts(loaded []slo.Rule) []Finding {
	var out []Finding
	active, astray := 0, 0
	for _, r := range loaded {
		labels := maps.Clone(r.Labels)
		labels["alertname"] = r.Name
		alert := playbook.Alert{Status: playbook.Firing, Labels: labels}
		ours := r.Labels["slo_id"] != "" || r.Alerts && len(e.playbooks.Match(alert)) > 0
		if ours && r.LastError != "" {
			out = append(out, failed("rule "+r.Name, r.LastError, "correct the rule: it alerts on nothing"))
		}
		for _, labels := range r.Active {
			alert.Labels = maps.Clone(labels)
			if len(e.playbooks.Match(alert)) == 0 {
				continue
			}
			active++
			found, why, err := e.world.Resolve(alert)
			if err != nil {
				why = err.Error()
			}
			if len(found) == 0 {
				astray++
				out = append(out, failed("alert "+r.Name, fmt.Sprintf("%s belongs to no service: %s", labelText(labels), why),
					"set match of a service to its labels, or let the rule keep namespace and service"))
			}
		}
	}
	if active > 0 && astray == 0 {
		out = append(out, ok("alerts", fmt.Sprintf("%s pending or firing, and each finds its service", runview.Count(active, "alert"))))
	}
	return out
}

// queries looks up what the queries of playbooks read.
func (e *exam) queries(ctx context.Context) []Finding {
	problems, _, err := series.Lint(ctx, e.playbooks.All(), e.prom, e.now)
	if err != nil {
		return []Finding{failed("queries of playbooks", because(ctx, err), fixPrometheus)}
	}
	if len(problems) == 0 {
		return []Finding{ok("queries of playbooks", "what they read is known")}
	}
	var out []Finding
	for _, p := range problems {
		out = append(out, warning("queries of playbooks", fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message), cmp.Or(p.Hint, "correct the query")))
	}
	return out
}
