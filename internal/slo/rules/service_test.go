package rules

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

const month = 28 * 24 * time.Hour

// chat returns a service of an engine with one objective.
func chat(engine string, o SLO) Service {
	if o.Name == "" {
		o.Name = o.Indicator
	}
	if o.Objective == 0 {
		o.Objective = 0.99
	}
	if o.Window == 0 {
		o.Window = month
	}
	return Service{
		Name: "serving/chat", Engine: engine, Selector: `namespace="serving",service="chat"`, Source: "responder.yaml:3", SLOs: []SLO{o},
		Labels: map[string]string{"namespace": "serving", "service": "chat"}, Kind: "Deployment", Workload: "chat",
	}
}

// one returns the only objective of a service.
func one(t *testing.T, s Service) Objective {
	t.Helper()
	all, _, err := s.Objectives()
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// row is how many events a minute the series of a replica count, by their names.
type row map[string]float64

// indicatorCases are series of engines and the share of bad events in them.
var indicatorCases = map[string]struct {
	engine string
	slo    SLO
	rows   row
	want   float64 // NaN: there are no series to tell it by
}{
	"vllm ttft":            {"vllm", SLO{Indicator: "ttft", Threshold: 0.5}, row{`vllm:time_to_first_token_seconds_bucket{le="0.5"}`: 90, `vllm:time_to_first_token_seconds_count`: 100}, 0.1},
	"le in Prometheus 3":   {"vllm", SLO{Indicator: "ttft", Threshold: 1}, row{`vllm:time_to_first_token_seconds_bucket{le="1.0"}`: 90, `vllm:time_to_first_token_seconds_count`: 100}, 0.1},
	"le in Prometheus 2":   {"vllm", SLO{Indicator: "ttft", Threshold: 1}, row{`vllm:time_to_first_token_seconds_bucket{le="1"}`: 90, `vllm:time_to_first_token_seconds_count`: 100}, 0.1},
	"vllm tpot":            {"vllm", SLO{Indicator: "tpot", Threshold: 0.05}, row{`vllm:request_time_per_output_token_seconds_bucket{le="0.05"}`: 60, `vllm:request_time_per_output_token_seconds_count`: 80, `vllm:inter_token_latency_seconds_bucket{le="0.05"}`: 9000, `vllm:inter_token_latency_seconds_count`: 9000}, 0.25},
	"vllm tpot before 11":  {"vllm", SLO{Indicator: "tpot", Threshold: 0.05}, row{`vllm:inter_token_latency_seconds_bucket{le="0.05"}`: 6000, `vllm:inter_token_latency_seconds_count`: 9000, `vllm:time_to_first_token_seconds_count`: 100}, 1. / 3},
	"vllm tpot before 10":  {"vllm", SLO{Indicator: "tpot", Threshold: 0.05}, row{`vllm:time_per_output_token_seconds_bucket{le="0.05"}`: 6000, `vllm:time_per_output_token_seconds_count`: 9000, `vllm:time_to_first_token_seconds_count`: 100}, 1. / 3},
	"vllm itl":             {"vllm", SLO{Indicator: "itl", Threshold: 0.05}, row{`vllm:inter_token_latency_seconds_bucket{le="0.05"}`: 6000, `vllm:inter_token_latency_seconds_count`: 8000, `vllm:time_to_first_token_seconds_count`: 100}, 0.25},
	"vllm e2e":             {"vllm", SLO{Indicator: "e2e", Threshold: 10}, row{`vllm:e2e_request_latency_seconds_bucket{le="10.0"}`: 75, `vllm:e2e_request_latency_seconds_count`: 100}, 0.25},
	"vllm errors":          {"vllm", SLO{Indicator: "errors"}, row{`vllm:request_success_total{finished_reason="error"}`: 5, `vllm:request_success_total{finished_reason="stop"}`: 95}, 0.05},
	"vllm without reason":  {"vllm", SLO{Indicator: "errors"}, row{`vllm:request_success_total`: 100, `http_requests_total{handler="/v1/completions",status="5xx"}`: 20, `http_requests_total{handler="/v1/completions",status="2xx"}`: 80}, 0.2},
	"no error was counted": {"vllm", SLO{Indicator: "errors"}, row{`http_requests_total{handler="/v1/completions",status="2xx"}`: 80}, 0},
	"health is no request": {"vllm", SLO{Indicator: "errors"}, row{`http_requests_total{handler="/health",status="5xx"}`: 80}, math.NaN()},
	"vllm goodput":         {"vllm", SLO{Indicator: "goodput", Threshold: 10}, row{`vllm:e2e_request_latency_seconds_bucket{le="10.0"}`: 90, `vllm:e2e_request_latency_seconds_count`: 100, `vllm:request_success_total{finished_reason="error"}`: 5}, 0.15},
	"goodput by status":    {"vllm", SLO{Indicator: "goodput", Threshold: 10}, row{`vllm:e2e_request_latency_seconds_bucket{le="10.0"}`: 90, `vllm:e2e_request_latency_seconds_count`: 100, `http_requests_total{handler="/v1/completions",status="2xx"}`: 90}, 0.1},
	"goodput of what":      {"vllm", SLO{Indicator: "goodput", Threshold: 10}, row{`vllm:e2e_request_latency_seconds_bucket{le="10.0"}`: 90, `vllm:e2e_request_latency_seconds_count`: 100}, math.NaN()},
	"of a route":           {"vllm", SLO{Indicator: "ttft", Threshold: 0.5, Route: "chat"}, row{`vllm:time_to_first_token_seconds_bucket{le="0.5",route="chat"}`: 90, `vllm:time_to_first_token_seconds_count{route="chat"}`: 100, `vllm:time_to_first_token_seconds_bucket{le="0.5",route="batch"}`: 0, `vllm:time_to_first_token_seconds_count{route="batch"}`: 100}, 0.1},
	"of a model":           {"vllm", SLO{Indicator: "ttft", Threshold: 0.5, Model: `a"b`}, row{`vllm:time_to_first_token_seconds_bucket{le="0.5",model_name="a\"b"}`: 90, `vllm:time_to_first_token_seconds_count{model_name="a\"b"}`: 100, `vllm:time_to_first_token_seconds_count{model_name="c"}`: 100}, 0.1},
	"sglang ttft":          {"sglang", SLO{Indicator: "ttft", Threshold: 0.4}, row{`sglang:time_to_first_token_seconds_bucket{le="0.4"}`: 90, `sglang:time_to_first_token_seconds_count`: 100}, 0.1},
	"sglang tpot":          {"sglang", SLO{Indicator: "tpot", Threshold: 0.04}, row{`sglang:inter_token_latency_seconds_bucket{le="0.04"}`: 4500, `sglang:inter_token_latency_seconds_count`: 5000, `sglang:time_to_first_token_seconds_count`: 100}, 0.1},
	"sglang e2e":           {"sglang", SLO{Indicator: "e2e", Threshold: 10}, row{`sglang:e2e_request_latency_seconds_bucket{le="10.0"}`: 90, `sglang:e2e_request_latency_seconds_count`: 100}, 0.1},
	"sglang errors":        {"sglang", SLO{Indicator: "errors"}, row{`sglang:http_responses_total{endpoint="/v1/completions",status_code="500"}`: 10, `sglang:http_responses_total{endpoint="/v1/completions",status_code="200"}`: 90}, 0.1},
	"sglang aborts":        {"sglang", SLO{Indicator: "errors"}, row{`sglang:num_requests_total`: 100, `sglang:num_aborted_requests_total`: 4}, 0.04},
	"dynamo ttft":          {"dynamo", SLO{Indicator: "ttft", Threshold: 0.47}, row{`dynamo_frontend_time_to_first_token_seconds_bucket{le="0.47"}`: 90, `dynamo_frontend_time_to_first_token_seconds_count`: 100, `vllm:time_to_first_token_seconds_count`: 50}, 0.1},
	"its workers alone":    {"dynamo", SLO{Indicator: "ttft", Threshold: 1}, row{`sglang:time_to_first_token_seconds_bucket{le="1.0"}`: 90, `sglang:time_to_first_token_seconds_count`: 100}, 0.1},
	"mistakes of clients":  {"dynamo", SLO{Indicator: "errors"}, row{`dynamo_frontend_requests_total{status="success"}`: 90, `dynamo_frontend_requests_total{status="error",error_type="validation"}`: 6, `dynamo_frontend_requests_total{status="error",error_type="internal"}`: 4}, 0.04},
	"kserve, milliseconds": {"kserve", SLO{Indicator: "e2e", Threshold: 10}, row{`revision_request_latencies_bucket{le="10000"}`: 90, `revision_request_latencies_count`: 100}, 0.1},
}

// scraped returns an hour of a replica's series.
func (r row) scraped(t *testing.T) *prometheus {
	p := newPrometheus(t)
	for series, rate := range r {
		name, more, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if more != "" {
			more = "," + more
		}
		p.scrape(name+`{namespace="serving",service="chat",pod="a"`+more+"}", 60, func(m int) float64 { return rate * float64(m) })
	}
	return p
}

// Every indicator of every engine is the share of bad events in the engine's own
// series, whichever version exports them.
func TestIndicators(t *testing.T) {
	at := start.Add(59 * time.Minute)
	for name, tt := range indicatorCases {
		t.Run(name, func(t *testing.T) {
			o := one(t, chat(tt.engine, tt.slo))
			g, _, err := o.Group()
			if err != nil {
				t.Fatal(err)
			}
			p := tt.rows.scraped(t)
			p.evaluate(parsed(t, g), at)
			got, has := recordings(p, "slo_id")["serving/chat-"+o.Name+" 5m"]
			if has == math.IsNaN(tt.want) || has && !cmp.Equal(tt.want, got, near()) {
				t.Errorf("share %v (there: %v), want %v\n%s", got, has, tt.want, o.Ratio)
			}
			if v := p.query(over(o.Requests, 5*time.Minute), at); has && len(v) != 1 {
				t.Errorf("requests: %v", v)
			}
		})
	}
}

// Instant answers a run's query.
func (p *prometheus) Instant(_ context.Context, expr string, at time.Time) (slo.Vector, error) {
	var out slo.Vector
	for _, s := range p.query(expr, at) {
		out.Samples = append(out.Samples, slo.Sample{Labels: s.Metric.Map(), Value: s.F, At: at})
	}
	return out, nil
}

// What alerts is what a run measures: it asks for the same series in the same
// order, so it does not call an alert unfounded that it would have raised itself.
func TestAlertsAgreeWithRuns(t *testing.T) {
	at := start.Add(59 * time.Minute)
	for name, tt := range indicatorCases {
		t.Run(name, func(t *testing.T) {
			o := chat(tt.engine, tt.slo).SLOs[0]
			ask := step.Objectives(playbook.Service{Engine: tt.engine, Selector: `namespace="serving",service="chat"`, SLOs: []playbook.SLO{{
				Name: o.Name, Indicator: o.Indicator, Objective: o.Objective, Window: o.Window, Threshold: o.Threshold, Model: o.Model, Route: o.Route,
			}}})
			got, err := slo.Measure(t.Context(), tt.rows.scraped(t), ask, at, slo.Span{Window: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			m := got.Measured[0]
			if known := m.Reason == ""; known == math.IsNaN(tt.want) || known && !cmp.Equal(tt.want, m.Counts[0].Ratio(), near()) {
				t.Errorf("a run measures %+v, the alert's share is %v", m, tt.want)
			}
		})
	}
}

// A fleet of two versions is judged whole: each replica by the series that it has.
func TestTwoVersions(t *testing.T) {
	p := newPrometheus(t)
	for pod, name := range map[string]string{"a": "request_time_per_output_token", "b": "inter_token_latency"} {
		labels := `{namespace="serving",service="chat",pod="` + pod + `"`
		p.scrape("vllm:"+name+"_seconds_count"+labels+"}", 60, func(m int) float64 { return 100 * float64(m) })
		p.scrape("vllm:"+name+"_seconds_bucket"+labels+`,le="0.05"}`, 60, func(m int) float64 { return map[string]float64{"a": 100, "b": 0}[pod] * float64(m) })
	}
	o := one(t, chat("vllm", SLO{Indicator: "tpot", Threshold: 0.05}))
	v := p.query(over(o.Ratio, 5*time.Minute), start.Add(59*time.Minute))
	if len(v) != 1 || math.Abs(v[0].F-0.5) > 1e-9 {
		t.Errorf("%v, want half", v)
	}
}

// What an engine cannot show is refused, with what it can.
func TestServicesRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		service Service
		want    string
	}{
		"no bucket":      {chat("vllm", SLO{Indicator: "ttft", Threshold: 0.6}), "responder.yaml:3: service serving/chat, slo ttft: no bucket of vllm:time_to_first_token_seconds ends at 0.6 s; the nearest are 0.5 s and 0.75 s"},
		"above them all": {chat("dynamo", SLO{Indicator: "itl", Threshold: 3}), "no bucket of dynamo_frontend_inter_token_latency_seconds ends at 3 s; the nearest are 2 s: take"},
		"no engine":      {chat("", SLO{Indicator: "ttft", Threshold: 0.5}), "responder.yaml:3: service serving/chat has no engine, so its series are not known: set engine to one of vllm, sglang, dynamo, kserve"},
		"no indicator":   {chat("vllm", SLO{Indicator: "ttfb"}), `vLLM exports no series for the indicator "ttfb"; it has ttft, tpot, itl, e2e, errors, goodput`},
		"no objectives":  {Service{Name: "a", Engine: "vllm", Source: "x.yaml:2"}, "x.yaml:2: service a has no objectives: declare slos, or slo.defaults"},
	} {
		_, _, err := tt.service.Objectives()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot:  %v\nwant: %s", name, err, tt.want)
		}
	}
	if o := one(t, chat("vllm", SLO{Indicator: "ttft", Threshold: 0.6, Custom: true})); !strings.Contains(o.Ratio, `le="0.6"`) {
		t.Errorf("with configured buckets: %s", o.Ratio)
	}
	if _, notes, err := chat("sglang", SLO{Indicator: "e2e", Threshold: 9}).Objectives(); err != nil || len(notes) != 1 {
		t.Errorf("buckets that are not known: %v, %v", notes, err)
	}
}

// Every indicator of every engine gives rules that Prometheus reads.
func TestEveryEngine(t *testing.T) {
	seen := 0
	for _, name := range engine.Names() {
		e, _ := engine.Named(name)
		var all []Group
		for _, i := range engine.Indicators() {
			o := SLO{Indicator: i, By: "model_name", Route: `a"b\c`, Model: "llama"}
			if engine.Timed(i) {
				o.Threshold = 10
				if b := e.Bounds(i); len(b) > 0 {
					o.Threshold = b[len(b)/2]
				}
			}
			g, _, err := one(t, chat(name, o)).Group()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, g)
		}
		for _, s := range []Service{chat(name, SLO{}), {Engine: name}} {
			g, err := EngineGroup(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, g)
		}
		for _, g := range parsed(t, all...).Groups {
			seen += len(g.Rules)
		}
	}
	if seen < 4*(6*12+2*5) {
		t.Errorf("only %d rules", seen)
	}
}

// Alerts that could not fire, or would while the objective is met, are left out
// and said so; without any there are no rules.
func TestUselessAlerts(t *testing.T) {
	for name, tt := range map[string]struct {
		target float64
		period time.Duration
		alerts int
		words  string
	}{
		"28 days":    {0.99, month, 4, ""},
		"30 days":    {0.99, 30 * 24 * time.Hour, 4, ""},
		"90 days":    {0.999, 90 * 24 * time.Hour, 4, ""},
		"loose":      {0.93, 30 * 24 * time.Hour, 3, "no alert for 5m and 1h: at a burn rate of 14.4 it would need more than all events to be bad (14.4 x 0.07)"},
		"a week":     {0.99, 7 * 24 * time.Hour, 2, "no alert for 2h and 1d: with a period of 7d its burn rate is 0.7, at which the objective is met"},
		"impossible": {0.01, month, 1, "no alert for 5m and 1h"},
	} {
		o := one(t, chat("vllm", SLO{Indicator: "errors", Objective: tt.target, Window: tt.period}))
		g, notes, err := o.Group()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		alerts := 0
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts++
			}
		}
		if alerts != tt.alerts || len(notes) != 4-tt.alerts || !strings.Contains(strings.Join(notes, "\n"), tt.words) {
			t.Errorf("%s: %d alerts, want %d; notes %q", name, alerts, tt.alerts, notes)
		}
	}
	o := one(t, chat("vllm", SLO{Indicator: "errors", Objective: 0.01, Window: 24 * time.Hour}))
	if _, _, err := o.Group(); err == nil || !strings.Contains(err.Error(), "no alert can be made of it") {
		t.Errorf("of a day: %v", err)
	}
}
