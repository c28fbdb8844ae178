package playbook

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

const unsafeDoc = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: sample, runbook: docs/sample.md}
spec:
  match: '{alertname="Sample"}'
  autonomy: suggest
  start: look
  let:
    named: alert.labels.node
  states:
    look:
      check: gpu.health
      with: {node: '${alert.labels.node}'}
      next: [{when: 'out.node != ""', to: act}, {to: people}]
    act:
      lever: node.cordon
      with: {node: 'NODE'}
      approve: {by: node.owners, within: 15m}
      verify:
        within: 10m
        hold: 2m
        until: {query: 'PROOF', op: <, value: 1}
        traffic: {query: 'TRAFFIC', min_rate: 1}
      next: [{when: verified, to: done}, {to: people}]
    done: {end: resolved}
    people: {end: escalated}
`

// A playbook cannot act on a node that only an alert names, nor prove a change by a
// constant or by another service's series. A run that began with such a playbook, before
// that was refused, can be read, and does not run the lever.
func TestUnsafeLevers(t *testing.T) {
	text := Type{Name: String}
	kinds := append(testKinds(),
		Kind{Name: "gpu.health", Role: RoleCheck, With: []Field{{Name: "node", Type: text}}, Out: []Field{{Name: "node", Type: text}, {Name: "nodes", Type: Type{Name: List, Elem: &text}}}},
		Kind{Name: "node.cordon", Role: RoleLever, Class: ClassHardware, With: []Field{{Name: "node", Type: text, Required: true}}})
	const node, proof, traffic = "${look.node}", "bad{${service.selector}}", "sum(rate(requests_total{${service.selector}}[1m]))"
	for _, tt := range []struct {
		name, node, proof, traffic, want string
	}{
		{"from evidence", node, proof, traffic, ""},
		{"from a list of evidence", "${look.nodes[0]}", proof, traffic, ""},
		{"an alert's label", "${alert.labels.node}", proof, traffic, "must be read from the evidence of a check, not from alert"},
		{"a label by another name", "${named}", proof, traffic, "not from alert"},
		{"a label where there is no evidence", `${look.node != "" ? look.node : alert.labels.node}`, proof, traffic, "not from alert"},
		{"the service's name", "${service.name}", proof, traffic, "not from service"},
		{"a constant", "gpu-17", proof, traffic, "not from a constant"},
		{"a constant expression", `${"gpu-17"}`, proof, traffic, "not from a constant"},
		{"a text around evidence", "gpu-${look.node}", proof, traffic, "not from a text around it"},
		{"one that is picked of evidence", `${look.nodes.filter(n, n != "gpu-1")[0]}`, proof, traffic, ""},
		{"one of two of evidence", `${look.node != "" ? look.node : look.nodes[0]}`, proof, traffic, ""},
		{"a constant proof", node, "vector(0)", traffic, "reads no series"},
		{"a proof by all services", node, "bad", traffic, "reads bad of every service"},
		{"a proof by another service", node, `bad{service="idle"}`, traffic, "reads bad of every service"},
		{"a proof that adds another one's", node, `bad{${service.selector}} * on() group_left up{job="x"}`, traffic, "reads up of every service"},
		{"a proof by a label of the selector's name", node, `bad{service_selector!=""}`, traffic, "reads bad of every service"},
		{"a proof by the selector's sample", node, "bad{service_selector=\"\u2026\"}", traffic, "reads bad of every service"},
		{"a proof by a label filled in", node, `bad{service_selector="${alert.labels.x}"}`, traffic, "reads bad of every service"},
		{"a constant without data", node, proof + " or vector(0)", traffic, "is a constant where the service has no series"},
		{"a constant first", node, "((vector(0) > 1) or " + proof + ")", traffic, "is a constant where the service has no series"},
		{"none of several", node, proof + " or " + proof + " or vector(0)", traffic, "is a constant where the service has no series"},
		{"a constant in a sum", node, "sum(" + proof + " or vector(0))", traffic, "is a constant where the service has no series"},
		{"a constant in a function", node, "sort(clamp_max(" + proof + " or vector(0), 1))", traffic, "is a constant where the service has no series"},
		{"a constant in a subquery", node, "max_over_time((" + proof + " or vector(0))[5m:1m])", traffic, "is a constant where the service has no series"},
		{"a constant unless there is data", node, "vector(0) unless " + proof, traffic, "is a constant where the service has no series"},
		{"absence", node, "absent(" + proof + ") * 0", traffic, "is a constant where the service has no series"},
		{"a sum of it and a constant", node, "(" + proof + " or vector(0)) + 0", traffic, "is a constant where the service has no series"},
		{"a zero of a ratio", node, "(" + proof + " or vector(0)) / " + proof, traffic, ""},
		{"two names of one metric", node, proof + " or good{${service.selector}}", traffic, ""},
		{"times nothing", node, "0 * " + proof, traffic, "is a constant"},
		{"times nothing, behind", node, "sum(" + proof + " * 0)", traffic, "is a constant"},
		{"times a difference", node, proof + " * (2 - 1 - 1)", traffic, "is a constant"},
		{"times a vector", node, proof + " * on() group_left vector(0)", traffic, "is a constant"},
		{"nothing to divide", node, "0 / " + proof, traffic, "is a constant"},
		{"to the power of nothing", node, proof + " ^ 0", traffic, "is a constant"},
		{"itself less itself", node, proof + " - (" + proof + ")", traffic, "is a constant"},
		{"itself of itself", node, "rate(" + proof + "[5m]) / rate(" + proof + "[5m])", traffic, "is a constant"},
		{"bounded above", node, "clamp_max(" + proof + ", 0)", traffic, "holds the result within bounds"},
		{"bounded", node, "clamp(" + proof + ", 0, 0)", traffic, "holds the result within bounds"},
		{"its sign", node, "sgn(" + proof + ")", traffic, "holds the result within bounds"},
		{"compared", node, proof + " < bool 0", traffic, "compares with bool"},
		{"compared and scaled", node, "(" + proof + " < bool 0) * 5", traffic, "compares with bool"},
		{"a fixed time", node, proof + " @ 0", traffic, "reads a fixed time"},
		{"the end", node, proof + " @ end()", traffic, "reads a fixed time"},
		{"a fixed time of a subquery", node, "max_over_time(" + proof + "[5m:1m] @ 1)", traffic, "reads a fixed time"},
		{"long ago", node, proof + " offset 2h", traffic, "reads what was 2h ago"},
		{"long ago, a subquery", node, "max_over_time(" + proof + "[5m:1m] offset 2h)", traffic, "reads what was 2h ago"},
		{"a little ago", node, proof + " offset 5m", traffic, ""},
		{"the lowest of four weeks", node, "min_over_time(" + proof + "[4w])", traffic, "reads the last 4w, at most 1h is allowed in a proof"},
		{"a long subquery", node, "min_over_time((" + proof + " * 2)[1d:1m])", traffic, "reads the last 1d, at most 1h"},
		{"ranges around a range", node, "max_over_time(rate(" + proof + "[40m])[40m:])", traffic, "reads the last 1h20m, at most 1h"},
		{"offsets around an offset", node, "max_over_time((" + proof + " offset 40m)[5m:1m] offset 40m)", traffic, "reads what was 1h20m ago"},
		{"traffic of four weeks", node, proof, "sum(rate(requests_total{${service.selector}}[4w]))", "reads the last 4w"},
		{"an hour", node, "rate(" + proof + "[1h])", traffic, ""},
		{"a deviation of one series", node, "stddev(" + proof + ")", traffic, "is 0 for one series"},
		{"a variance of one series", node, "stdvar(sum(" + proof + "))", traffic, "is 0 for one series"},
		{"a deviation by label", node, "stddev by (engine) (" + proof + ")", traffic, ""},
		{"itself, turned", node, `bad{a="1",${service.selector}} - bad{${service.selector},a="1"}`, traffic, "is a constant"},
		{"of itself, turned", node, `sum(bad{a="1",${service.selector}}) / (sum(bad{${service.selector},a="1"}))`, traffic, "is a constant"},
		{"a part less its whole", node, `sum(rate(bad{${service.selector},a="1"}[5m])) - sum(rate(bad{${service.selector}}[5m]))`, traffic, "has always the same sign"},
		{"a whole less its part", node, `sum(bad{${service.selector}}) - sum(bad{${service.selector},a="1"})`, traffic, ""},
		{"the share of what is not good", node, `(sum(rate(bad{${service.selector}}[5m])) - sum(rate(bad{${service.selector},code="200"}[5m]))) / sum(rate(bad{${service.selector}}[5m]))`, traffic, ""},
		{"of one at least", node, "sum(" + proof + ") / clamp_min(sum(rate(requests_total{${service.selector}}[5m])), 1)", traffic, ""},
		{"how many are down", node, "sum(up{${service.selector}} == bool 0)", traffic, ""},
		{"the share above a bound", node, "sum(" + proof + " > bool 100) / count(" + proof + ")", traffic, ""},
		{"how many pods", node, "count(group by (pod) (" + proof + "))", traffic, ""},
		{"the rest of one", node, "1 - sum(" + proof + ")", traffic, ""},
		{"more than five minutes ago", node, "sum(" + proof + ") / sum(" + proof + " offset 5m) - 1", traffic, ""},
		{"itself less once itself", node, "sum(" + proof + ") - 1 * sum(" + proof + ")", traffic, "is a constant"},
		{"itself added to its negative", node, "-sum(" + proof + ") + sum(" + proof + ")", traffic, "proves nothing"},
		{"its negative added to itself", node, "sum(" + proof + ") + -sum(" + proof + ")", traffic, "is a constant"},
		{"a sum of sums less the sum", node, "sum(sum by (pod) (" + proof + ")) - sum(" + proof + ")", traffic, "is a constant"},
		{"times a vector of zero", node, "sum(" + proof + ") * on() group_left() sum(vector(0))", traffic, "is a constant"},
		{"negative", node, "-sum(" + proof + ")", traffic, "leave out the sign"},
		{"from zero", node, "0 - sum(" + proof + ")", traffic, "leave out the sign"},
		{"a sum of negatives", node, "sum(-" + proof + ")", traffic, "leave out the sign"},
		{"times less than zero", node, "min(timestamp(" + proof + ")) * -1", traffic, "leave out the sign"},
		{"the age", node, "max(timestamp(" + proof + ") - time())", traffic, "is the time of a sample"},
		{"or the same otherwise", node, "sum(" + proof + ") < 1 or sum(" + proof + ") * 2", traffic, "another answer of the same series"},
		{"or another metric", node, "sum(" + proof + ") or sum(worse{${service.selector}})", traffic, ""},
		{"of itself a moment ago", node, "sum(" + proof + ") / sum(" + proof + " offset 1ms) - 1", traffic, "is a constant"},
		{"bounded in a sum", node, "sum(clamp_max(" + proof + ", 0)) * 2", traffic, "holds the result within bounds"},
		{"the highest of a group", node, "max(group by (pod) (" + proof + "))", traffic, "is 1 for every series"},
		{"two parts", node, `sum(bad{${service.selector},a="1"}) - sum(bad{${service.selector},a="2"})`, traffic, ""},
		{"two means", node, `avg(bad{${service.selector},a="1"}) - avg(bad{${service.selector}})`, traffic, ""},
		{"the share of a part", node, `sum(bad{${service.selector},a="1"}) / sum(bad{${service.selector}})`, traffic, ""},
		{"infinite", node, proof + " * -Inf", traffic, "infinite"},
		{"no quantile", node, "histogram_quantile(-1, " + proof + ")", traffic, "a quantile is from 0 to 1"},
		{"grouped", node, "group(" + proof + ")", traffic, "is 1 for every series"},
		{"a constant factor", node, "100 * " + proof, traffic, ""},
		{"a ratio", node, "histogram_quantile(0.99, " + proof + ") / rate(" + proof + "[5m])", traffic, ""},
		{"scaled away", node, proof + " * 1e-9", traffic, "holds for every value that the series may have: of series from 0 to 1e+06 the result is from 0 to 0.001, always < 1"},
		{"moved away", node, proof + " - 1e9", traffic, "holds for every value"},
		{"traffic that is always there", node, proof, "1 + " + traffic, "holds for every value"},
		{"traffic that is no more", node, proof, "sum(rate(requests_total{${service.selector}}[1m] @ 0))", "reads a fixed time"},
		{"traffic of all services", node, proof, "sum(rate(requests_total[1m]))", "reads requests_total of every service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := []byte(strings.NewReplacer("NODE", tt.node, "PROOF", tt.proof, "TRAFFIC", tt.traffic).Replace(unsafeDoc))
			if tt.want == "" || !strings.Contains(tt.name, "by another name") {
				doc = []byte(strings.Replace(string(doc), "  let:\n    named: alert.labels.node\n", "", 1)) // else it is unused
			}
			_, err := Parse("sample.yaml", doc, kinds)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error: %v, want %q", err, tt.want)
			}
			all, err := ParseRecorded("journal", doc, kinds)
			if err != nil {
				t.Fatalf("a recorded playbook cannot be read: %v", err)
			}
			if why := all[0].State("act").Unsafe; (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) {
				t.Errorf("unsafe: %q, want %q", why, tt.want)
			}
		})
	}
}

// TestHoldsAnyway: a comparison is no proof if every value that the series may have passes it.
func TestHoldsAnyway(t *testing.T) {
	const x, y = `x{a="b"}`, `y{a="b"}`
	for proof, holds := range map[string]bool{
		x + " * 1e-9 < 0.5": true, "sum(" + x + ") * 1e-9 < 0.5": true, x + " / 1e12 < 1": true, x + " - 1e9 < 0": true, "min(" + x + ") > -1": true, x + " >= 0": true,
		"clamp_max(" + x + ", 0.1) < 1": true, "sum(clamp(" + x + ", 0, 0.1) * 2) / 1e9 < 1": true, "vector(0) and on() " + x + " < 1": true, "0.5 - " + x + " < 1": true,
		x + " % 1 <= 1": true, "count(count(" + x + ")) == 1": true, "count(sum(" + x + ")) < 2": true, "abs(" + x + ") >= 0": true, "stddev(sum(" + x + ")) < 1": true,
		"1 + rate(" + x + "[5m]) > 0.5": true, "sum(" + x + ") > bool 100 <= 1": true, "log10(" + x + " + 1) < 7": true, "exp(-1 * " + x + ") <= 1": false, "max_over_time(" + x + "[5m]) > -0.1": true,
		"rate(" + x + "[5m]) / 1e9 / 1e3 < 0.01": true, "(" + x + " / " + y + ") * 1e-9 < 0.5": true, "1 - " + x + "*0 < 2": true, "time() > 5": false,

		`sum(x{a="b",code="500"}) / sum(` + x + `) <= 1`: true, `sum(rate(x{a="b",code="500"}[5m])) / sum(rate(` + x + `[5m])) < 1.5`: true, `sum(x{a="b",code="500"}) / sum(` + x + `) < 1`: false,
		`sum(x{a="b",code="500"}) / sum(` + x + `) >= 0`: true, "hour(" + x + ") < 24": true, "day_of_week(" + x + ") <= 6": true, "cos(" + x + ") <= 1": true, "tanh(sum(" + x + ")) < 2": true,
		`DCGM_FI_PROF_NVLINK_TX_BYTES{a="b"} < 2e10`: false, "hour(" + x + ") < 23": false,

		x + " < 0.5": false, "sum(" + x + ") * 100 < 5": false, "sum(" + x + ") / sum(" + y + ") < 0.01": false, "1 - sum(" + x + ") / sum(" + y + ") < 0.01": false,
		`memory_bytes{a="b"} / 1e9 < 20`: false, `sum(memory_bytes{a="b"}) / 1073741824 < 70`: false, `rate(wait_nanoseconds_total{a="b"}[5m]) * 1e-9 < 0.5`: false,
		"histogram_quantile(0.99, sum by (le) (rate(" + x + "[5m]))) < 2": false, "sum(rate(" + x + "[5m])) > 0.1": false, "count(" + x + ") == 3": false, "count(" + x + ") < 2": false,
		x + " - " + y + " < 0": false, x + " * 1000 < 500": false, "min(" + x + ") == 1": false, "avg(" + x + ") > 0": false, "delta(" + x + "[5m]) < 0": false, x + " < 1e5": false,
		"max(" + x + ") - min(" + x + ") < 0.1": false, "deriv(" + x + "[5m]) <= 0": false, "log10(" + x + " + 1) < 2": false, "stddev by (pod) (" + x + ") < 1": false,
	} {
		i := strings.LastIndexAny(proof, "<>=")
		query, limit := strings.TrimSpace(strings.TrimRight(proof[:i], "<>= ")), strings.TrimSpace(proof[i+1:])
		op := strings.TrimSpace(proof[len(query) : i+1])
		value, err := strconv.ParseFloat(limit, 64)
		if err != nil {
			t.Fatal(err)
		}
		if why := HoldsAnyway(query, op, value); (why != "") != holds {
			t.Errorf("%q: %q, want one: %t", proof, why, holds)
		}
	}
}

// TestFilledProofs: what only a run knows makes no proof of nothing, and ${since} may be
// as long as the proof takes.
func TestFilledProofs(t *testing.T) {
	env, _ := bench(t)
	for query, want := range map[string]string{
		`rate(x{${service.selector}}[${duration("672h")}])`:                     "at most 1h is allowed in a proof",
		`rate(x{${service.selector}}[${since}]) + rate(x[${duration("672h")}])`: "at most 1h is allowed in a proof",
		`x * ${1 - 1}`:                           "is a constant",
		`rate(x{${service.selector}}[${since}])`: "",
	} {
		for _, proof := range []bool{true, false} {
			v, errs := value(env, query, Field{Type: Type{Name: Query}}, true)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			v.proof = proof
			for _, since := range []time.Duration{0, 3 * time.Hour} {
				s := sampleScope()
				s.Since = since
				_, err := v.Text(s)
				if (err == nil) != (want == "" || !proof) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, a proof: %t, since %s: %v, want %q", query, proof, since, err, want)
				}
			}
		}
	}
}
