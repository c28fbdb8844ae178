//go:build e2e

package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Alertmanager is one replica of a real Alertmanager.
type Alertmanager struct {
	*Process
	URL  string
	Addr string // host:port
}

// StartAlertmanager starts n replicas with one configuration; two or more form
// a cluster, and a notification that one is slow to get acknowledged is sent by
// the next one too. [WebhookConfig] makes a configuration.
func StartAlertmanager(t testing.TB, n int, config string) []*Alertmanager {
	t.Helper()
	var replicas []*Alertmanager
	peer := ""
	for i := range n {
		addr := FreeAddr(t)
		dir := runDir(t, fmt.Sprintf("alertmanager-%d", i))
		file := filepath.Join(dir, "alertmanager.yml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"--config.file=" + file, "--storage.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr}
		if n == 1 {
			args = append(args, "--cluster.listen-address=")
		} else {
			gossip := FreeAddr(t)
			args = append(args, "--cluster.listen-address="+gossip, "--cluster.advertise-address="+gossip,
				"--cluster.gossip-interval=100ms", "--cluster.settle-timeout=2s", "--cluster.peer-timeout=2s")
			if peer != "" {
				args = append(args, "--cluster.peer="+peer)
			}
			peer = gossip
		}
		am := &Alertmanager{URL: "http://" + addr, Addr: addr}
		am.Process = Start(t, Spec{Name: fmt.Sprintf("alertmanager-%d", i), Path: "prometheus-alertmanager", Args: args, Dir: dir, Ready: am.URL + "/-/ready"})
		replicas = append(replicas, am)
	}
	return replicas
}

// Addrs returns the replicas' addresses, for [PrometheusOptions].
func Addrs(replicas []*Alertmanager) []string {
	var addrs []string
	for _, am := range replicas {
		addrs = append(addrs, am.Addr)
	}
	return addrs
}

// WebhookConfig returns an Alertmanager configuration that sends everything, by
// service and alert, to one webhook, with a bearer token unless it is empty.
// Groups are sent after a second, changes after another, and repeats every 30.
func WebhookConfig(url, token string) string {
	config := `
route: {receiver: webhook, group_by: [alertname, namespace, service], group_wait: 1s, group_interval: 1s, repeat_interval: 30s}
receivers:
  - name: webhook
    webhook_configs:
      - url: ` + url + `
        send_resolved: true
`
	if token != "" {
		config += "        http_config: {authorization: {credentials: " + token + "}}\n"
	}
	return config
}

// Webhook receives notifications in the responder's place.
type Webhook struct {
	URL string

	mu       sync.Mutex // guards received
	received []Notification
}

// Notification is the part of Alertmanager's webhook message that tests need.
type Notification struct {
	Status string `json:"status"`
	Alerts []struct {
		Status      string            `json:"status"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt"`
		Fingerprint string            `json:"fingerprint"`
	} `json:"alerts"`
}

// StartWebhook starts a webhook that says 200 to everything it can read.
func StartWebhook(t testing.TB) *Webhook {
	t.Helper()
	w := &Webhook{}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

func (w *Webhook) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var n Notification
	if err := json.NewDecoder(req.Body).Decode(&n); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = append(w.received, n)
}

// Notifications returns what has arrived so far.
func (w *Webhook) Notifications() []Notification {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Notification(nil), w.received...)
}

// Has reports whether an alert of that name and status has arrived.
func (w *Webhook) Has(alertname, status string) bool {
	for _, n := range w.Notifications() {
		for _, alert := range n.Alerts {
			if alert.Labels["alertname"] == alertname && alert.Status == status {
				return true
			}
		}
	}
	return false
}

// Alerts returns the names of the alerts the replica has active.
func (am *Alertmanager) Alerts(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, am.URL+"/api/v2/alerts?active=true", nil)
	if err != nil {
		return nil, err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer []struct{ Labels map[string]string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("alerts: %s: %w", resp.Status, err)
	}
	var names []string
	for _, alert := range answer {
		names = append(names, alert.Labels["alertname"])
	}
	return names, nil
}

// Post sends the replica alerts as Prometheus does. All of them fire from now
// on, until they are not posted for five minutes.
func (am *Alertmanager) Post(t testing.TB, labels []map[string]string) {
	t.Helper()
	type alert struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	alerts := make([]alert, len(labels))
	for i := range labels {
		alerts[i] = alert{labels[i], map[string]string{
			"summary": "14% of requests over the TTFT target; at this rate 2% of the 28-day budget is gone in 1h",
			"runbook": "docs/runbooks/inference-slo-breach.md",
		}}
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, am.URL+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("post alerts: %s", resp.Status)
	}
}

// ExpireSilence ends a silence as a person does, with amtool.
func (am *Alertmanager) ExpireSilence(t testing.TB, id string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "amtool", "--alertmanager.url="+am.URL, "silence", "expire", id).CombinedOutput()
	if err != nil {
		t.Fatalf("amtool: %v: %s", err, out)
	}
}
