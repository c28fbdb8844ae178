//go:build e2e

package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// PrometheusOptions say what a Prometheus does. The zero value scrapes nothing.
type PrometheusOptions struct {
	Rules         string   // a rules file's content; [BurnRateRules] makes one
	Targets       []string // host:port, scraped at /metrics every second; labels of the series win
	Discovery     string   // URL that lists targets with their labels, as http_sd_configs reads it
	Alertmanagers []string // host:port
	Replica       string   // external label "replica", of one of a pair
	History       string   // OpenMetrics with timestamps, which it has in its blocks when it starts
}

// Prometheus is a real Prometheus that scrapes and evaluates every second.
type Prometheus struct {
	*Process
	URL  string
	Addr string // host:port

	options PrometheusOptions
}

// StartPrometheus starts a Prometheus and waits until it is ready.
func StartPrometheus(t testing.TB, options PrometheusOptions) *Prometheus {
	t.Helper()
	addr := FreeAddr(t)
	dir := runDir(t, "prometheus")
	p := &Prometheus{URL: "http://" + addr, Addr: addr, options: options}
	if err := p.writeConfig(dir); err != nil {
		t.Fatal(err)
	}
	if options.History != "" {
		if err := backfill(dir, options.History); err != nil {
			t.Fatal(err)
		}
	}
	p.Process = Start(t, Spec{
		Name: "prometheus",
		Path: "prometheus",
		Args: []string{
			"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + addr, "--web.enable-lifecycle", "--log.level=warn",
			// Alertmanager is told again every minute by default: too slow for one that restarts in a test.
			"--rules.alert.resend-delay=2s",
		},
		Dir:   dir,
		Ready: p.URL + "/-/ready",
	})
	return p
}

// backfill writes blocks with the history, by the tool that comes with Prometheus.
func backfill(dir, history string) error {
	file := filepath.Join(dir, "history.om")
	if err := os.WriteFile(file, []byte(history), 0o600); err != nil {
		return err
	}
	out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", file, filepath.Join(dir, "data")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool: %w: %s", err, out)
	}
	return nil
}

func (p *Prometheus) writeConfig(dir string) error {
	list := func(hosts []string) string {
		data, err := json.Marshal(append([]string{}, hosts...)) // JSON is YAML
		if err != nil {
			panic(err) // unreachable unless strings stop being marshalled
		}
		return string(data)
	}
	external := "{}"
	if p.options.Replica != "" {
		external = "{replica: " + p.options.Replica + "}"
	}
	config := `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s, external_labels: ` + external + `}
rule_files: [rules.yml]
alerting:
  alert_relabel_configs: [{regex: replica, action: labeldrop}]
  alertmanagers:
    - static_configs: [{targets: ` + list(p.options.Alertmanagers) + `}]
scrape_configs:
  - job_name: engines
    honor_labels: true
    static_configs: [{targets: ` + list(p.options.Targets) + `}]
`
	if p.options.Discovery != "" {
		config += "  - {job_name: discovered, honor_labels: true, http_sd_configs: [{url: '" + p.options.Discovery + "', refresh_interval: 5s}]}\n"
	}
	rules := p.options.Rules
	if rules == "" {
		rules = "groups: []\n"
	}
	for name, data := range map[string]string{"prometheus.yml": config, "rules.yml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// SetRules replaces the rules file and reloads it.
func (p *Prometheus) SetRules(t testing.TB, rules string) {
	t.Helper()
	p.options.Rules = rules
	if err := p.writeConfig(p.spec.Dir); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/-/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := probe.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body) // only for the message
		t.Fatalf("reload rules: %s: %s", resp.Status, body)
	}
}

// Sample is one series of an instant query's answer.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query answers an instant query now.
func (p *Prometheus) Query(ctx context.Context, promql string) ([]Sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/query?query="+url.QueryEscape(promql), nil)
	if err != nil {
		return nil, err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("query %q: %s: %w", promql, resp.Status, err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("query %q: %s", promql, answer.Error)
	}
	var samples []Sample
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string) // anything else fails to parse
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("query %q: %w", promql, err)
		}
		samples = append(samples, Sample{r.Metric, value})
	}
	return samples, nil
}

// AwaitQuery waits until a query returns one series whose value holds.
func (p *Prometheus) AwaitQuery(t testing.TB, limit time.Duration, promql string, holds func(float64) bool) {
	t.Helper()
	Await(t, limit, promql, func(ctx context.Context) (bool, string) {
		samples, err := p.Query(ctx, promql)
		if err != nil {
			return false, err.Error()
		}
		return len(samples) == 1 && holds(samples[0].Value), fmt.Sprint(samples)
	})
}

// AlertState returns "inactive", "pending" or "firing" for the alert of that
// name, the worst of its series.
func (p *Prometheus) AlertState(ctx context.Context, alertname string) (string, error) {
	samples, err := p.Query(ctx, fmt.Sprintf("ALERTS{alertname=%q}", alertname))
	if err != nil {
		return "", err
	}
	state := "inactive"
	for _, s := range samples {
		if s.Labels["alertstate"] == "firing" || state == "inactive" {
			state = s.Labels["alertstate"]
		}
	}
	return state, nil
}

// BurnRate describes one pair of multi-window burn-rate alerts, with windows
// short enough for a test: 10s and 40s stand for 5m and 1h.
type BurnRate struct {
	Namespace string
	Service   string
	Labels    map[string]string // more labels of the alerts

	Objective   float64       // default 0.99
	Short, Long time.Duration // default 10s, 40s
	Factor      float64       // default 14.4
}

// BurnRateRules returns a rules file with InferenceTTFTFastBurn and
// InferenceTPOTFastBurn of one service: the share of requests slower than 0.5 s
// to the first token, or than 0.05 s per token, over both windows.
func BurnRateRules(b BurnRate) string {
	if b.Objective == 0 {
		b.Objective = 0.99
	}
	if b.Short == 0 {
		b.Short, b.Long = 10*time.Second, 40*time.Second
	}
	if b.Factor == 0 {
		b.Factor = 14.4
	}
	var out strings.Builder
	out.WriteString("groups:\n- name: slo\n  rules:\n")
	for _, slo := range []struct{ alert, metric, le string }{
		{"InferenceTTFTFastBurn", "vllm:time_to_first_token_seconds", "0.5"},
		{"InferenceTPOTFastBurn", "vllm:request_time_per_output_token_seconds", "0.05"},
	} {
		ratio := func(window time.Duration) string {
			sel := fmt.Sprintf("namespace=%q,service=%q", b.Namespace, b.Service)
			return fmt.Sprintf(`(1 - sum(rate(%[1]s_bucket{%[2]s,le="%[3]s"}[%[4]s])) / sum(rate(%[1]s_count{%[2]s}[%[4]s]))) > %[5]g`,
				slo.metric, sel, slo.le, window, b.Factor*(1-b.Objective))
		}
		fmt.Fprintf(&out, "  - alert: %s\n    expr: %s and %s\n    for: 1s\n    labels:\n", slo.alert, ratio(b.Short), ratio(b.Long))
		fmt.Fprintf(&out, "      severity: critical\n      namespace: %q\n      service: %q\n", b.Namespace, b.Service)
		for name, value := range b.Labels {
			fmt.Fprintf(&out, "      %s: %q\n", name, value)
		}
	}
	return out.String()
}
