//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/test/e2e/rig"
)

const replayed = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: slow, title: Slow, runbook: docs}
spec:
  match: ['{alertname="Slow"}']
  start: triage
  states:
    triage:
      gather:
        slo: {check: slo.burn}
        spread: {check: engine.compare}
      next:
        - {when: slo.status == "met", to: fine, label: within SLO}
        - {when: slo.status == "breached" && spread.scope == "one_replica", to: one, label: one replica}
        - {when: slo.status == "breached" && spread.scope == "all", to: add, label: all replicas}
        - {to: escalated, label: evidence is missing}
    add:
      lever: kube.scale
      with: {by: 1}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      next: [{when: verified, to: fine}, {to: escalated}]
    one:
      lever: pod.evict
      with: {pod: '${spread.pod}'}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      next: [{when: verified, to: fine}, {to: escalated}]
    fine: {end: no-action}
    escalated: {end: escalated}
`

// A real Prometheus has three hours of two replicas, as an engine and
// kube-state-metrics told of them. In the second hour both are slow, then one of them.
// A replay finds what was so at each time, and that older alerts have no history.
func TestReplayAsksPrometheusAboutThePast(t *testing.T) {
	t.Parallel()
	began := time.Now().UTC().Truncate(time.Hour).Add(-6 * time.Hour)
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{History: threeHours(began)})
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("responder.yaml", fmt.Sprintf(`
auth: {insecure: true}
prometheus: {url: %s}
playbooks: {dir: slow.yaml, shipped: false}
services:
  - {name: serving/chat, namespace: serving, workload: {kind: Deployment, name: chat}, engine: vllm, model: chat, match: {service: chat},
     slos: [{name: ttft, objective: 0.99, window: 28d, threshold: 0.5}]}
`, prometheus.URL))
	write("slow.yaml", replayed)
	var bodies strings.Builder
	for _, at := range []time.Duration{-48 * time.Hour, 30 * time.Minute, 75 * time.Minute, 105 * time.Minute} {
		start := began.Add(at)
		fmt.Fprintln(&bodies, pastBody("firing", start, time.Time{}))
		fmt.Fprintln(&bodies, pastBody("resolved", start, start.Add(5*time.Minute)))
	}
	notifications := write("bodies.jsonl", bodies.String())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.BuildResponder(t, false), "replay", "--from", "7d", "--config", config, "--notifications", notifications, "-o", "json")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got api.Replay
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	var ends []string
	for _, r := range got.Runs {
		end := r.End
		if r.Lever != nil {
			end = fmt.Sprint(r.Lever.Step, r.Lever.With)
		}
		ends = append(ends, strings.Join(r.Path, ">")+" "+end)
	}
	want := "triage>escalated escalated\ntriage>fine no-action\ntriage>add kube.scalemap[by:1]\ntriage>one pod.evictmap[pod:chat-1-a]"
	if strings.Join(ends, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s\n%s", strings.Join(ends, "\n"), want, out)
	}
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "none of the series that 1 run asked for") {
		t.Errorf("the first alert is older than the history: %s", notes)
	}
}

func pastBody(status string, start, end time.Time) string {
	return fmt.Sprintf(`{"version":"4","status":%q,"groupKey":"g","receiver":"r","alerts":[{"status":%q,"fingerprint":"0a","labels":{"alertname":"Slow","service":"chat","namespace":"serving"},"startsAt":%q,"endsAt":%q}]}`,
		status, status, start.Format(time.RFC3339), end.Format(time.RFC3339))
}

// threeHours is the history in OpenMetrics: first tokens of two replicas, and their
// pods. From 60 to 90 minutes half of both are late, from 90 to 120 those of the first.
func threeHours(began time.Time) string {
	var out strings.Builder
	write := func(series string, value func(at time.Duration) int) {
		for at := time.Duration(0); at < 3*time.Hour; at += 15 * time.Second {
			fmt.Fprintf(&out, "%s %d %d\n", series, value(at), began.Add(at).Unix())
		}
	}
	all := func(at time.Duration) int { return 10 * int(at.Seconds()) }
	one := func(time.Duration) int { return 1 }
	fmt.Fprintln(&out, "# TYPE vllm:time_to_first_token_seconds histogram")
	for pod, until := range map[string]time.Duration{"chat-1-a": 2 * time.Hour, "chat-1-b": 90 * time.Minute} {
		intime := func(at time.Duration) int { return all(at) - all(min(max(at, time.Hour), until)-time.Hour)/2 }
		of := fmt.Sprintf(`namespace="serving",service="chat",model_name="chat",pod=%q,instance=%q`, pod, pod)
		write(`vllm:time_to_first_token_seconds_bucket{`+of+`,le="0.5"}`, intime)
		write(`vllm:time_to_first_token_seconds_bucket{`+of+`,le="+Inf"}`, all)
		write(`vllm:time_to_first_token_seconds_count{`+of+`}`, all)
	}
	for _, pod := range []string{"chat-1-a", "chat-1-b"} {
		for name, of := range map[string]string{
			"kube_pod_info":         fmt.Sprintf(`pod=%q,node="node-0",created_by_kind="ReplicaSet",created_by_name="chat-1"`, pod),
			"kube_pod_status_ready": fmt.Sprintf(`pod=%q,condition="true"`, pod),
			"kube_replicaset_owner": fmt.Sprintf(`replicaset="chat-1",owner_kind="Deployment",owner_name="chat",instance=%q`, pod),
		} {
			write(name+`{namespace="serving",`+of+`}`, one)
		}
	}
	return out.String() + "# EOF\n"
}
