package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/command"
)

// asksSeries is a playbook whose queries are wrong in every way that only a
// Prometheus can tell.
const asksSeries = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: asks, runbook: docs/x.md}
spec:
  match: '{alertname="X"}'
  autonomy: suggest
  start: look
  states:
    look:
      gather:
        load:
          check: prometheus.query
          with:
            queries:
              preempted: sum(rate(vllm:num_preemptions{${service.selector}}[5m]))
              kv: max(vllm:kv_cache_usage_perc{${service.selector}, nopod="a"})
              slow: |
                1 - sum(rate(vllm:time_to_first_token_seconds_bucket{le="0.7", ${service.selector}}[5m]))
                  / sum(rate(vllm:time_to_first_token_seconds_bucket{le="1"}[5m]))
              fine: sum(app_requests_total{code!~"5..", le="", pod="${alert.labels.pod}"}) / sum(app_requests_total{cod="200"})
              other: sum(app_latency_bucket{le="${alert.labels.le}"}) + sum({job="x"})
      next: escalated
    escalated: {end: escalated}
`

// fakePrometheus answers the API of labels from a table; a metric maps to its
// labels and to the buckets it has.
func fakePrometheus(t *testing.T, token string) *httptest.Server {
	t.Helper()
	labels := map[string][]string{
		"vllm:time_to_first_token_seconds_bucket": {"__name__", "le", "model_name", "namespace", "pod"},
		"app_requests_total":                      {"__name__", "code", "pod"},
		"app_latency_bucket":                      {"__name__", "le"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who is there?", http.StatusUnauthorized)
			return
		}
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		metric := strings.TrimSuffix(strings.TrimPrefix(r.Form.Get("match[]"), `{__name__="`), `"}`)
		var data []string
		switch r.URL.Path {
		case "/api/v1/label/__name__/values":
			for name := range labels {
				data = append(data, name)
			}
		case "/api/v1/label/le/values":
			data = []string{"+Inf", "0.25", "0.5", "0.75", "1.0"}
		case "/api/v1/labels":
			data = labels[metric]
		default:
			t.Errorf("unexpected request %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data})
	}))
	t.Cleanup(s.Close)
	return s
}

func lint(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"playbook", "lint"}, args...), &command.Process{Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }})
	return code, out.String(), errs.String()
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLintSeries: with a Prometheus, lint names each series, label and bucket
// that a query would find nothing of, at its place.
func TestLintSeries(t *testing.T) {
	file := writeFile(t, "asks.yaml", asksSeries)
	server := fakePrometheus(t, "")
	code, got, _ := lint(t, file, "--prometheus", server.URL)
	want := `asks.yaml:15:35: spec.states.look.gather.load.with.queries.preempted: warning: no adapter of an engine or of GPUs knows the series vllm:num_preemptions, and Prometheus had none in the last 1d (nearest: vllm:num_preemptions_total)
asks.yaml:18:70: spec.states.look.gather.load.with.queries.slow: warning: le="0.7" selects no bucket of vllm:time_to_first_token_seconds_bucket (nearest: 0.5, 0.75)
asks.yaml:19:70: spec.states.look.gather.load.with.queries.slow: warning: le="1" selects no bucket of vllm:time_to_first_token_seconds_bucket (nearest: 1.0, as it is written there)
asks.yaml:20:117: spec.states.look.gather.load.with.queries.fine: warning: no series of app_requests_total has the label cod (nearest: code, pod)
not in Prometheus now, so labels and buckets were not compared: vllm:kv_cache_usage_perc
1 playbook, 0 problems, 4 warnings
`
	if diff := cmp.Diff(want, strings.ReplaceAll(got, filepath.Dir(file)+"/", "")); code != command.ExitOK || diff != "" {
		t.Errorf("exit code %d (-want +got):\n%s", code, diff)
	}
	_, got, _ = lint(t, file, "--prometheus", server.URL, "-o", "json")
	var report api.PlaybookLint
	if err := json.Unmarshal([]byte(got), &report); err != nil || len(report.Warnings) != 4 || report.Warnings[1].Line != 18 || len(report.Unchecked) != 1 {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestLintSeriesWithoutPrometheus: without a Prometheus, only names are compared
// with those that the adapters know.
func TestLintSeriesWithoutPrometheus(t *testing.T) {
	code, got, _ := lint(t, writeFile(t, "asks.yaml", asksSeries))
	for _, name := range []string{"vllm:num_preemptions (nearest", "app_requests_total (nearest: http_requests_total", "app_latency_bucket (--prometheus URL looks it up"} {
		if !strings.Contains(got, name) {
			t.Errorf("%s is not warned of:\n%s", name, got)
		}
	}
	if code != command.ExitOK || strings.Contains(got, "label") || strings.Contains(got, "not in Prometheus") {
		t.Errorf("exit code %d:\n%s", code, got)
	}
}

// TestLintPrometheusAway: what could not be asked is not called fine.
func TestLintPrometheusAway(t *testing.T) {
	file := writeFile(t, "asks.yaml", asksSeries)
	guarded := fakePrometheus(t, "secret")
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	token := writeFile(t, "token", "secret\n")
	wrong := writeFile(t, "wrong.yaml", strings.Replace(asksSeries, "start: ", "start: not-", 1))
	if _, stdout, _ := lint(t, file, "--prometheus", away.URL); !strings.Contains(stdout, "knows the series vllm:num_preemptions (nearest: vllm:num_preemptions_total)") || !strings.HasSuffix(stdout, "1 playbook, 4 warnings; their series were not looked up\n") {
		t.Errorf("what needs no Prometheus is not told:\n%s", stdout)
	}
	if code, stdout, stderr := lint(t, wrong, "--prometheus", away.URL); code != command.ExitError || !strings.Contains(stdout, "spec.start") || !strings.Contains(stderr, "cannot be reached") {
		t.Errorf("a file that is wrong, and Prometheus away: exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, c := range []struct {
		name, want string
		args       []string
		code       int
	}{
		{"away", "cannot be reached; check the address", []string{"--prometheus", away.URL}, command.ExitError},
		{"refused", "refused; check the token", []string{"--prometheus", guarded.URL}, command.ExitError},
		{"token", "", []string{"--prometheus", guarded.URL, "--prometheus-token-file", token}, command.ExitOK},
		{"token in the clear", "could read the token", []string{"--prometheus", "http://prometheus.example", "--prometheus-token-file", token}, command.ExitError},
		{"token for nothing", "need --prometheus URL", []string{"--prometheus-token-file", token}, command.ExitError},
		{"not a URL", "want http://host:port", []string{"--prometheus", "prometheus:9090"}, command.ExitError},
		{"no configuration", "no configuration at nowhere.yaml", []string{"--config", "nowhere.yaml"}, command.ExitError},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := lint(t, append([]string{file}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.want) || c.code != command.ExitOK && strings.Contains(stdout, "0 problems") {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}
