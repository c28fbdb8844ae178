package rules

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const deployed = "../../../deploy/prometheus/"

// The shipped file is what the generator makes: responder slo rules --engine vllm
// --engine sglang.
func TestShippedEngineRules(t *testing.T) {
	var want []Group
	for _, name := range []string{"vllm", "sglang"} {
		g, err := EngineGroup(Service{Engine: name})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, g)
	}
	data, err := os.ReadFile(deployed + "inference-engine.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parseRules(t, data)
	var got struct{ Groups []Group }
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Groups); diff != "" {
		t.Errorf("make it anew with 'responder slo rules --engine vllm --engine sglang' (-generator +file):\n%s", diff)
	}
}

// unitTests is a file of tests for promtool.
type unitTests struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []struct {
		Name        string
		Interval    string
		InputSeries []struct{ Series, Values string } `yaml:"input_series"`
		Alerts      []struct {
			Alertname string
			EvalTime  model.Duration `yaml:"eval_time"`
			Exp       []struct {
				Labels      map[string]string `yaml:"exp_labels"`
				Annotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// The tests of the shipped rules, which promtool runs too, hold with the engine
// that is compiled in. Texts of annotations are promtool's to check.
func TestEngineAlerts(t *testing.T) {
	data, err := os.ReadFile(deployed + "inference-engine_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file unitTests
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(deployed + file.RuleFiles[0])
	if err != nil {
		t.Fatal(err)
	}
	const step = 30 * time.Second
	if file.EvaluationInterval != step.String() || len(file.Tests) < 5 {
		t.Fatalf("%d tests, evaluated every %s", len(file.Tests), file.EvaluationInterval)
	}
	for _, x := range file.Tests {
		t.Run(x.Name, func(t *testing.T) {
			p := newPrometheus(t)
			for _, s := range x.InputSeries {
				labels, values, err := parser.ParseSeriesDesc(s.Series + " " + s.Values)
				if err != nil {
					t.Fatal(err)
				}
				into := p.of(labels)
				for i, v := range values {
					if !v.Omitted {
						into.samples = append(into.samples, sample{start.Add(time.Duration(i) * step).UnixMilli(), v.Value})
					}
				}
			}
			groups := parseRules(t, rules)
			for at := time.Duration(0); at <= 30*time.Minute; at += step {
				firing := p.evaluate(groups, start.Add(at))
				for _, a := range x.Alerts {
					if time.Duration(a.EvalTime) != at {
						continue
					}
					var want, got []string
					for _, e := range a.Exp {
						want = append(want, text(e.Labels))
					}
					for _, l := range firing {
						if l["alertname"] == a.Alertname {
							delete(l, "alertname")
							got = append(got, text(l))
						}
					}
					slices.Sort(want)
					slices.Sort(got)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s at %s (-want +got):\n%s", a.Alertname, at, diff)
					}
				}
			}
		})
	}
}

func text(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, " ")
}

// The engine of a service of the catalog is alerted on with the service's labels,
// by its own series, and its replicas may load for as long as it says.
func TestEngineOfService(t *testing.T) {
	s := chat("sglang", SLO{})
	s.LoadTime, s.Kind, s.Runbook = 25*time.Minute, "StatefulSet", "https://runbooks.example/engine"
	g, err := EngineGroup(s)
	if err != nil {
		t.Fatal(err)
	}
	cold := g.Rules[len(g.Rules)-1]
	want := Rule{
		Alert: AlertColdStart, For: "1m", Expr: cold.Expr,
		Labels: map[string]string{"namespace": "serving", "service": "chat", "severity": "warning"},
		Annotations: map[string]string{
			"summary":     "{{ $labels.namespace }}/{{ $labels.service }}: replicas that are not ready after 25m: {{ $value }}; a cold start, or one that fails",
			"runbook_url": s.Runbook,
		},
	}
	if diff := cmp.Diff(want, cold); diff != "" {
		t.Errorf("cold start (-want +got):\n%s", diff)
	}
	p := newPrometheus(t)
	for pod, other := range map[string]string{"a": "chat", "b": "other"} {
		labels := `{namespace="serving",service="` + other + `",pod="` + pod + `"}`
		p.scrape("sglang:num_running_reqs"+labels, 20, func(int) float64 { return 3 })
		p.scrape("sglang:realtime_tokens_total"+labels, 20, func(int) float64 { return 700 })
	}
	var firing []map[string]string
	for m := range 20 {
		firing = p.evaluate(parsed(t, g), start.Add(time.Duration(m)*time.Minute))
	}
	if len(firing) != 1 || text(firing[0]) != "alertname=InferenceStalled namespace=serving service=chat severity=critical" {
		t.Errorf("fires: %v", firing)
	}
	if _, err := EngineGroup(Service{Name: "a", Source: "x.yaml:2"}); err == nil || !strings.Contains(err.Error(), "x.yaml:2: service a has no engine") {
		t.Errorf("without an engine: %v", err)
	}
}

// A pod after the other starts within its time, as in a rollout, and the last one
// does not. Pods of other workloads are not the service's.
func TestColdStart(t *testing.T) {
	coldStart := func(s Service) string {
		g, err := EngineGroup(s)
		if err != nil {
			t.Fatal(err)
		}
		return g.Rules[len(g.Rules)-1].Expr
	}
	s := chat("sglang", SLO{})
	s.LoadTime, s.Kind = 25*time.Minute, "StatefulSet"
	expr := coldStart(s)
	p := newPrometheus(t)
	for pod, readyAt := range map[string]int{"chat-0": 20, "chat-1": 40, "chat-2": 90, "chat-web-7d4b9-x2x8z": 90, "chatter-0": 90} {
		from := max(0, readyAt-20)
		if readyAt == 90 {
			from = 40
		}
		p.scrape(`kube_pod_status_ready{namespace="serving",pod="`+pod+`",condition="true"}`, 80, func(m int) float64 {
			switch {
			case m < from:
				return nan
			case m < readyAt:
				return 0
			default:
				return 1
			}
		})
	}
	for m, want := range map[int]int{30: 0, 60: 0, 70: 1} {
		v := p.query(expr, start.Add(time.Duration(m)*time.Minute))
		if len(v) != want || want > 0 && v[0].F != 1 {
			t.Errorf("not ready after %dm: %v, want %d\n%s", m, v, want, expr)
		}
	}
	p = newPrometheus(t)
	for _, pod := range []string{"chat-7d4b9c8f6-x2x8z", "chat-web-0", "chat-web-7d4b9c8f6-x2x8z"} {
		p.scrape(`kube_pod_status_ready{namespace="serving",pod="`+pod+`",condition="true"}`, 20, func(int) float64 { return 0 })
	}
	if v := p.query(coldStart(chat("vllm", SLO{})), start.Add(19*time.Minute)); len(v) != 1 || v[0].F != 1 {
		t.Errorf("not ready: %v, want the pod of the Deployment alone", v)
	}
}
