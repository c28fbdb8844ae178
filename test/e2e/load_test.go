//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/test/e2e/rig"
)

const (
	mib = 1 << 20
	// mostOwn is how much may be resident beside files, in MiB: 150 is the aim, and two
	// thousand runs opened within seconds come to 148 to 167, as their connections come at once.
	mostOwn = 180
)

// A whole fleet's alerts at once, from a real Alertmanager, against a responder
// that watches a real cluster. In the first case every alert is of a service in
// the catalog and starts a run. The test runs alone, because it measures.
func TestWebhookLoad(t *testing.T) {
	for _, load := range []struct {
		webhooks int
		services int
	}{
		{2_000, 2_000},
		{10_000, 1},
	} {
		t.Run(fmt.Sprint(load.webhooks), func(t *testing.T) {
			if testing.Short() && load.webhooks > 2_000 {
				t.Skip("the larger case is left out with -short")
			}
			s := loadService(t, load.services)
			// The group interval is Alertmanager's deadline for a notification.
			config := strings.Replace(rig.WebhookConfig(s.Webhook, rig.IntakeToken), "group_interval: 1s, repeat_interval: 30s", "group_interval: 1m, repeat_interval: 1h", 1)
			manager := rig.StartAlertmanager(t, 1, config)[0]
			took, mean, failed := sendAlerts(t, manager, load.webhooks)
			// On a slow machine, connections of the burst wait long enough to be cut for others;
			// it sends those again.
			if failed > float64(load.webhooks)/5 {
				t.Errorf("%v requests failed, want most answered with 2xx at once", failed)
			}
			// What failed is sent again.
			rig.Await(t, 2*time.Minute, "every notification admitted", func(ctx context.Context) (bool, string) {
				admitted, err := s.TryMetric(ctx, `responder_notifications_total{result="accepted"}`)
				return admitted >= float64(load.webhooks), fmt.Sprint(admitted, err)
			})
			decided := awaitDecided(t, s, load.webhooks)
			if load.services == load.webhooks {
				awaitEnds(t, s, load.webhooks/10)
			}
			memory := s.Memory(t)
			t.Logf("%d webhooks acknowledged in %v, on average in %v, decided %v later; resident %d MiB (%d of files), at most %d MiB",
				load.webhooks, took.Round(time.Millisecond), mean.Round(time.Millisecond), decided.Round(time.Millisecond), memory.Resident/mib, memory.Files/mib, memory.Peak/mib)
			if own := memory.Peak - memory.Files; own > mostOwn*mib {
				t.Errorf("%d MiB of its own were resident, want at most %d", own/mib, mostOwn)
			}
		})
	}
}

// awaitDecided waits until the responder has decided about n alerts.
func awaitDecided(t *testing.T, s *rig.Service, n int) time.Duration {
	t.Helper()
	start := time.Now()
	rig.Await(t, 2*time.Minute, "every alert decided", func(ctx context.Context) (bool, string) {
		matched, err1 := s.TryMetric(ctx, `responder_alerts_total{decision="matched"}`)
		none, err2 := s.TryMetric(ctx, `responder_alerts_total{decision="no-service"}`)
		return matched+none >= float64(n), fmt.Sprint(matched, none, err1, err2)
	})
	return time.Since(start)
}

// awaitEnds waits until n runs have ended: none finds its workload, so they call
// a person.
func awaitEnds(t *testing.T, s *rig.Service, n int) {
	t.Helper()
	// Prometheus is what takes the time: dozens of queries for each run.
	rig.Await(t, 5*time.Minute, fmt.Sprintf("end of %d runs", n), func(ctx context.Context) (bool, string) {
		ended, err := s.TryMetric(ctx, `responder_runs_total{outcome="escalated",playbook="inference-slo-breach"}`)
		return ended >= float64(n), fmt.Sprint(ended, err)
	})
}

// sendAlerts posts that many groups to Alertmanager at once. It returns the time
// from its first notification to the last acknowledgement, the mean of one, and
// how many requests failed.
func sendAlerts(t *testing.T, manager *rig.Alertmanager, n int) (took, mean time.Duration, failed float64) {
	t.Helper()
	labels := make([]map[string]string, n)
	for i := range labels {
		labels[i] = map[string]string{
			"alertname": "InferenceTTFTFastBurn", "severity": "critical", "slo": "inference-ttft", "short": "5m", "long": "1h",
			"namespace": "serving", "service": fmt.Sprintf("chat-%d", i), "model_name": "llama-70b",
		}
	}
	// Sent in one piece, so that every group waits from the same moment.
	manager.Post(t, labels)
	read := func(ctx context.Context, name string) (float64, error) {
		return manager.Metric(ctx, "alertmanager_notification_"+name+`{integration="webhook"}`)
	}
	var first, looked time.Time
	rig.Await(t, 2*time.Minute, fmt.Sprintf("%d acknowledged notifications", n), func(ctx context.Context) (bool, string) {
		before := time.Now()
		answered, err := read(ctx, "latency_seconds_count")
		if answered > 0 && first.IsZero() {
			first = looked // it began after the look before
		}
		looked = before
		return answered >= float64(n), fmt.Sprint(answered, err)
	})
	took = time.Since(first)
	failed, err := read(t.Context(), "requests_failed_total")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := read(t.Context(), "latency_seconds_sum")
	if err != nil {
		t.Fatal(err)
	}
	return took, time.Duration(sum / float64(n) * float64(time.Second)), failed
}

// loadService is a responder on a real cluster and a real Prometheus with n
// services in its catalog, none of which exists there.
func loadService(t *testing.T, n int) *rig.Service {
	t.Helper()
	cp := rig.Shared(t)
	cp.Deploy(t)
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{})
	services := []string{"services:"}
	for i := range n {
		services = append(services, fmt.Sprintf("\n  - {namespace: serving, workload: {name: chat-%d}, owners: ['group:oncall'], autonomy: auto, max_scale: 6}", i))
	}
	return rig.StartService(t, rig.ServiceOptions{
		Prometheus: prometheus.URL, Playbook: playbook(t), Kubeconfig: cp.Kubeconfig(t, rig.Responder),
		Services: strings.Join(services, ""), Settings: "autonomy: auto",
	})
}

// One group of ten thousand alerts is one body of ten megabytes.
func TestOneBodyOfTenThousandAlerts(t *testing.T) {
	s := loadService(t, 1)
	idle := s.Memory(t)
	body := largeBody(t, 10_000)

	start := time.Now()
	status, err := deliver(t.Context(), s, body)
	took := time.Since(start)
	if err != nil || status != http.StatusOK {
		t.Fatalf("answered %d, %v; want 200", status, err)
	}
	decided := awaitDecided(t, s, 10_000)
	memory := s.Memory(t)
	t.Logf("a body of %.1f MiB with 10,000 alerts acknowledged in %v, decided %v later; resident %d MiB idle, %d MiB after, at most %d MiB",
		float64(len(body))/mib, took.Round(time.Millisecond), decided.Round(time.Millisecond), idle.Resident/mib, memory.Resident/mib, memory.Peak/mib)
	if own := memory.Peak - memory.Files; own > mostOwn*mib {
		t.Errorf("%d MiB of its own were resident, want at most %d", own/mib, mostOwn)
	}
}

// deliver sends a notification as Alertmanager does and returns the status.
func deliver(ctx context.Context, s *rig.Service, body []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Webhook, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+rig.IntakeToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// largeBody is a notification of n alerts, a kilobyte each.
func largeBody(t *testing.T, n int) []byte {
	t.Helper()
	type object = map[string]any
	alerts := make([]object, n)
	started := time.Now().Add(-time.Minute).UTC()
	for i := range alerts {
		alerts[i] = object{
			"status": "firing", "startsAt": started, "endsAt": time.Time{}, "fingerprint": fmt.Sprintf("%016x", i),
			"labels": object{
				"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": fmt.Sprintf("chat-%d", i), "severity": "critical",
				"model_name": "meta-llama/Llama-3.3-70B-Instruct", "cluster": "eu-north-1-gpu-production", "team": "ml-platform", "slo": "inference-ttft",
			},
			"annotations": object{
				"summary":     fmt.Sprintf("serving/chat-%d: 14%% of requests over the TTFT target; at this rate 2%% of the 28-day budget is gone in 1h", i),
				"description": strings.Repeat("More than the objective allows of this service's first tokens come late. ", 4),
				"runbook":     "docs/runbooks/inference-slo-breach.md",
			},
			"generatorURL": "http://prometheus.monitoring:9090/graph?g0.expr=slo%3Ainference_ttft_error%3Aratio_rate5m+%3E+%2813.44+%2A+0.01%29&g0.tab=1",
		}
	}
	body, err := json.Marshal(object{
		"version": "4", "status": "firing", "receiver": "responder", "groupKey": `{}:{alertname="InferenceTTFTFastBurn"}`, "truncatedAlerts": 0,
		"groupLabels": object{"alertname": "InferenceTTFTFastBurn"}, "commonLabels": object{"alertname": "InferenceTTFTFastBurn"},
		"commonAnnotations": object{}, "externalURL": "http://alertmanager.monitoring:9093", "alerts": alerts,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
