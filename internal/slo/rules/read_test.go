package rules

import (
	"os"
	"strings"
	"testing"
)

const slothHead = "version: prometheus/v1\nservice: chat\nslos:\n"

// slothOf returns a document of one objective.
func slothOf(query string) string {
	return slothHead + `  - name: x
    objective: 99
    sli: {events: {error_query: '` + query + `', total_query: 'sum(rate(a_total[{{.window}}]))'}}
    alerting: {name: X}
`
}

// openOf returns an SLO with the given parts of its spec and objective.
func openOf(spec, objective, ratio string) string {
	return `apiVersion: openslo/v1
kind: SLO
metadata: {name: x}
spec:
  service: chat
  budgetingMethod: Occurrences
` + spec + `  indicator:
    metadata: {name: x}
    spec:
      ratioMetric: {` + ratio + `}
  objectives:
    - {` + objective + `}
`
}

func metric(query string) string {
	return "{metricSource: {type: Prometheus, spec: {query: '" + query + "'}}}"
}

const good = "good: {metricSource: {type: Prometheus, spec: {query: a_total}}}, total: {metricSource: {type: Prometheus, spec: {query: b_total}}}, counter: true"

// What cannot be expressed is refused with its place and what to do.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"empty":            {"", "x.yaml: no documents (write an OpenSLO v1 SLO, or a Sloth prometheus/v1 document)"},
		"neither":          {"kind: SLO\n", "x.yaml:1:1: neither apiVersion nor version (an OpenSLO document begins with apiVersion: openslo/v1"},
		"no SLO":           {"apiVersion: openslo/v1\nkind: Service\nmetadata: {name: chat}\nspec: {}\n", "x.yaml: no objectives (a file of rules needs a document of kind SLO)"},
		"version of Sloth": {"version: prometheus/v2\nservice: a\nslos: []\n", `x.yaml:1:10: version: unsupported value "prometheus/v2" (this version reads prometheus/v1)`},
		"unknown field":    {slothHead + "  - {nam: x}\n", `x.yaml:4:6: slos[0]: unknown field "nam" (did you mean "name"?`},
		"no SLOs":          {"version: prometheus/v1\nservice: chat\nslos: []\n", "x.yaml:3:7: slos: empty (one or more objectives)"},
		"no objective":     {slothHead + "  - {name: x, sli: {raw: {error_ratio_query: 'a'}}, alerting: {name: X}}\n", "x.yaml:4:5: slos[0]: missing field objective (a percentage, like 99.9)"},
		"share as percent": {strings.Replace(slothOf("a"), "99", "0.99", 1), "x.yaml:5:16: slos[0].objective: 0.99 is a percentage here (write 99 if you mean the share)"},
		"all good":         {strings.Replace(slothOf("a"), "99", "100", 1), "x.yaml:5:16: slos[0].objective: 100 is not between 0 and 100 (a percentage, like 99.9)"},
		"objective text":   {strings.Replace(slothOf("a"), "99", "high", 1), `x.yaml:5:16: slos[0].objective: want a number, got the text "high"`},
		"plugin":           {slothHead + "  - {name: x, objective: 99, sli: {plugin: {id: a}}, alerting: {name: X}}\n", "x.yaml:4:44: slos[0].sli.plugin: plugins of Sloth are programs that only Sloth runs"},
		"both forms":       {slothHead + "  - {name: x, objective: 99, sli: {raw: {}, events: {}}, alerting: {name: X}}\n", "slos[0].sli.raw: both events and raw (keep one)"},
		"no alert name":    {slothHead + "  - {name: x, objective: 99, sli: {raw: {error_ratio_query: 'a_ratio{w=\"{{.window}}\"}'}}, alerting: {}}\n", "slos[0].alerting: missing field name (the name of the alerts; or disable page_alert and ticket_alert)"},
		"label":            {strings.Replace(slothOf("sum(rate(a_total[{{.window}}]))"), "alerting", "labels: {cost-centre: a}\n    alerting", 1), "x.yaml:7:14: slos[0].labels.cost-centre: not the name of a Prometheus label (letters, digits and _)"},
		"label of ours":    {strings.Replace(slothOf("sum(rate(a_total[{{.window}}]))"), "alerting", "labels: {slo_id: a}\n    alerting", 1), "slos[0].labels.slo_id: the rules set this label themselves (remove it)"},
		"indicator":        {strings.Replace(slothOf("sum(rate(a_total[{{.window}}]))"), "alerting", "labels: {indicator: tpto}\n    alerting", 1), `unknown indicator "tpto" (did you mean`},

		"template": {strings.Replace(slothOf("sum(rate(a_total[{{.window}}]))"), "{name: X}", "{name: X, annotations: {summary: 'of {{ $lables.service }}'}}", 1), `x.yaml:7:48: slos[0].alerting.annotations.summary: not a template: undefined variable "$lables" (Prometheus fills in`},
		"function": {strings.Replace(slothOf("sum(rate(a_total[{{.window}}]))"), "{name: X}", "{name: X, page_alert: {labels: {a: '{{ humanise $value }}'}}}", 1), `page_alert.labels.a: not a template: function "humanise" not defined`},
		"comment":  {slothOf("sum(rate(a_total[{{.window}}])) # ]"), ""},

		"syntax":             {slothOf("sum(rate(a_total[{{.window}}])"), "not PromQL: "},
		"place after window": {slothOf("sum(rate(a_total[{{.window}}])) / !"), "x.yaml:6:68: slos[0].sli.events.error_query: not PromQL: unexpected character"},
		"no window":          {slothOf("sum(rate(a_total[5m]))"), "x.yaml:6:33: slos[0].sli.events.error_query: the query does not depend on the window (write {{.window}} for the range"},
		"other template":     {slothOf("sum(rate(a_total[{{.range}}]))"), "x.yaml:6:51: slos[0].sli.events.error_query: a template other than {{.window}} (write it out)"},
		"range vector":       {slothOf("a_total[{{.window}}]"), "the query returns a matrix, not an instant vector"},
		"series of V0":       {slothOf("sum(rate(vllm:num_preemptions[{{.window}}]))"), "x.yaml:6:43: slos[0].sli.events.error_query: no engine exports a series vllm:num_preemptions (did you mean vllm:num_preemptions_total?)"},
		"bucket":             {slothOf(`sum(rate(sglang:time_to_first_token_seconds_bucket{le="0.5"}[{{.window}}]))`), "no bucket of sglang:time_to_first_token_seconds ends at 0.5 s; the nearest are 0.4 s and 0.6 s (take one of them, or"},
		"spelling of one":    {slothOf(`sum(rate(vllm:time_to_first_token_seconds_bucket{le="1"}[{{.window}}]))`), `le="1" finds the bucket in some versions of Prometheus only: they write 1 and 1.0 (write le=~"1(\\.0)?")`},

		"version":        {"apiVersion: openslo/v2alpha\nkind: SLO\nmetadata: {name: x}\nspec: {}\n", `x.yaml:1:13: apiVersion: unsupported value "openslo/v2alpha" (this version reads openslo/v1)`},
		"resource":       {"apiVersion: sloth.slok.dev/v1\nkind: PrometheusServiceLevel\n", "x.yaml:1:13: apiVersion: Sloth's Kubernetes resources are not read (write its spec as"},
		"kind":           {"apiVersion: openslo/v1\nkind: Slo\nmetadata: {name: x}\nspec: {}\n", `x.yaml:2:7: kind: unknown kind "Slo" (did you mean "SLO"?`},
		"alert policy":   {"apiVersion: openslo/v1\nkind: AlertPolicy\nmetadata: {name: x}\nspec: {}\n", "x.yaml:2:7: kind: AlertPolicy is not supported (remove the document"},
		"field":          {openOf("  timeWindows: []\n", "target: 0.99", good), `x.yaml:7:3: spec: unknown field "timeWindows" (did you mean "timeWindow"?`},
		"time slices":    {strings.Replace(openOf("", "target: 0.99", good), "Occurrences", "Timeslices", 1), `x.yaml:6:20: spec.budgetingMethod: "Timeslices" is not supported: the budget is counted in events (write Occurrences)`},
		"calendar":       {openOf("  timeWindow: [{duration: 1M, calendar: {}}]\n", "target: 0.99", good), "x.yaml:7:16: spec.timeWindow[0]: windows of the calendar are not supported"},
		"month":          {openOf("  timeWindow: [{duration: 1M, isRolling: true}]\n", "target: 0.99", good), `x.yaml:7:27: spec.timeWindow[0].duration: "1M" has no fixed length (write it in days, like 28d or 30d)`},
		"policies":       {openOf("  alertPolicies: [{alertPolicyRef: a}]\n", "target: 0.99", good), "x.yaml:7:18: spec.alertPolicies: alert policies are not supported"},
		"no target":      {openOf("", "displayName: a", good), "x.yaml:12:7: spec.objectives[0]: missing field target (the share of good events, like 0.99; or targetPercent: 99)"},
		"target":         {openOf("", "target: 99", good), "x.yaml:12:16: spec.objectives[0].target: 99 is not between 0 and 1 (0.99 means 99 %; or write targetPercent)"},
		"target 1":       {openOf("", "target: 1.0", good), "spec.objectives[0].target: 1 is not between 0 and 1"},
		"both targets":   {openOf("", "target: 0.9, targetPercent: 90", good), "spec.objectives[0].targetPercent: both target and targetPercent (keep one)"},
		"op of a ratio":  {openOf("", "target: 0.9, op: lte, value: 1", good), "spec.objectives[0].op: only of use for a thresholdMetric (remove it)"},
		"composite":      {openOf("", "target: 0.9, compositeWeight: 1", good), "spec.objectives[0].compositeWeight: not supported"},
		"source":         {openOf("", "target: 0.9", "counter: true, good: {metricSource: {type: Datadog, spec: {query: a}}}, total: "+metric("b")), `a source of type "Datadog" (rules of Prometheus can only ask Prometheus)`},
		"unknown source": {openOf("", "target: 0.9", "counter: true, good: {metricSource: {metricSourceRef: a, spec: {query: a}}}, total: "+metric("b")), `no DataSource is named "a" in the files (add its file with -f, or write type: Prometheus)`},
		"no query":       {openOf("", "target: 0.9", "counter: true, good: {metricSource: {type: Prometheus, spec: {}}}, total: "+metric("b")), "metricSource.spec: missing field query (a PromQL query)"},
		"no numerator":   {openOf("", "target: 0.9", "counter: true, total: "+metric("b")), "spec.indicator.spec.ratioMetric: neither good nor bad nor raw"},
		"gauge":          {openOf("", "target: 0.9", "counter: false, good: "+metric("a")+", total: "+metric("b")), "spec.indicator.spec.ratioMetric.good.metricSource.spec.query: the query does not depend on the window (write {{.window}}"},
		"fixed window":   {openOf("", "target: 0.9", "counter: true, good: "+metric("sum(rate(a[5m]))")+", total: "+metric("b")), "more than a sum of counters, so what it is over a window is not known (write {{.window}}"},
		"raw of what":    {openOf("", "target: 0.9", "raw: "+metric("a{w=\"{{.window}}\"}")+", rawType: bad"), `ratioMetric.rawType: unknown type "bad" (success or failure)`},
		"no SLI":         {strings.Replace(openOf("", "target: 0.9", good), "  indicator:\n    metadata: {name: x}\n    spec:\n      ratioMetric: {"+good+"}\n", "  indicatorRef: y\n", 1), `spec.indicatorRef: no SLI is named "y" in the files (add its file with -f)`},
		"twice":          {openOf("", "target: 0.9", good) + "---\n" + openOf("", "target: 0.9", good), `x.yaml:25:7: spec.objectives[0]: a second objective "chat-x", also at x.yaml:12:7 (give one of them another name or service)`},
		"list of labels": {strings.Replace(openOf("", "target: 0.9", good), "{name: x}", "{name: x, labels: {team: [a, [b]]}}", 1), "x.yaml:3:36: metadata.labels.team: a list: a label of Prometheus has one value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Read([]Document{{"x.yaml", []byte(tt.file)}}, Options{})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got:  %v\nwant: %s", err, tt.want)
			}
		})
	}
}

// TestOpenSLOLabels: a label of OpenSLO may have several values, one of Prometheus has one.
func TestOpenSLOLabels(t *testing.T) {
	file := strings.Replace(openOf("", "target: 0.9", good), "{name: x}", "{name: x, labels: {team: [identity, rbac], tier: [one]}}", 1)
	all, _, err := Read([]Document{{"x.yaml", []byte(file)}}, Options{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	g, _, err := all[0].Group()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range g.Rules {
		if r.Record != "" && (r.Labels["team"] != "identity,rbac" || r.Labels["tier"] != "one") {
			t.Errorf("a rule has the labels %v", r.Labels)
		}
	}
}

// TestBareCounters: counters that a document does not add up are, or the label le of a
// bucket would keep it from having a share of anything.
func TestBareCounters(t *testing.T) {
	file := openOf("", "target: 0.9", "counter: true, good: "+metric(`h_bucket{le="0.5"}`)+", total: "+metric(`sum by (pod) (h_count) + other`))
	all, _, err := Read([]Document{{"x.yaml", []byte(file)}}, Options{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	for _, want := range []string{`sum(rate(h_bucket{le="0.5"}[` + Window + `]))`, `sum by (pod) (rate(h_count[` + Window + `])) + sum(rate(other[` + Window + `]))`} {
		if !strings.Contains(all[0].Ratio, want) {
			t.Errorf("%s does not hold %s", all[0].Ratio, want)
		}
	}
}

// FuzzRead holds that no document breaks the reader, and that what it takes is
// rules that Prometheus reads.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"sloth.yaml", "openslo.yaml"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(openOf("", "target: 0.9", good)))
	f.Add([]byte(slothOf("sum(rate(a_total[{{.window}}])) # a comment")))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := Read([]Document{{"x.yaml", data}}, Options{})
		if err != nil {
			return
		}
		for _, o := range all {
			if g, _, err := o.Group(); err == nil {
				parsed(t, g)
			}
		}
	})
}
