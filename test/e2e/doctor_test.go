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

	"github.com/inference-responder/responder/internal/notify/alertmanager/routing"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// finding is what the doctor found, as it prints it.
type finding struct{ Subject, Check, Result, Detail, Fix string }

// doctorSays runs the doctor beside the service that runs.
func (w *world) doctorSays(t *testing.T, args ...string) ([]finding, int) {
	t.Helper()
	r, err := w.responder.CLI(t.Context(), append([]string{"doctor", "--config", w.responder.Config, "-o", "json", "--receiver", "webhook"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Stderr)
	}
	var report struct{ Findings []finding }
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	return report.Findings, r.Code
}

func find(all []finding, subject, check string) finding {
	for _, f := range all {
		if f.Subject == subject && f.Check == check {
			return f
		}
	}
	return finding{}
}

// A real Prometheus, Alertmanager and API server are found to be as an incident
// needs them, beside the service that runs; each fault that is made is named.
func TestDoctor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{unscaled: true})
	w.cp.BindNodes(t)
	w.prometheus.SetRules(t, w.responder.Must(t, "slo", "rules", "--config", w.responder.Config))
	rig.Await(t, 30*time.Second, "Prometheus finds its Alertmanagers again", func(context.Context) (bool, string) {
		all, _ := w.doctorSays(t, "--only", "alertmanager")
		return find(all, "alertmanager", "addresses").Result == "", fmt.Sprint(all)
	})

	all, code := w.doctorSays(t)
	for _, f := range all {
		if f.Result == "failed" {
			t.Errorf("%+v", f)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	service := w.ns + "/chat"
	for _, want := range [][2]string{
		{"prometheus", service + ": ttft"},
		{"prometheus", service + ": tpot"},
		{"prometheus", service + ": rules"},
		{"alertmanager", service + ": routes"},
		{"kubernetes", service + ": workload"},
		{"kubernetes", "rights to read"},
		{"kubernetes", service + ": rights of levers"},
		{"clocks", "prometheus"},
		{"clocks", "API server"},
		{"journal", "file"},
	} {
		if f := find(all, want[0], want[1]); f.Result != "ok" {
			t.Errorf("%s: %s is %+v, want ok", want[0], want[1], f)
		}
	}

	w.prometheus.SetRules(t, "groups: []\n")
	w.cp.Kubectl(t, "-n", w.ns, "delete", "rolebinding", "responder-lever-scale", "responder-lever-rollout-undo")
	elsewhere := rig.StartAlertmanager(t, 1, "route: {receiver: people}\nreceivers: [{name: people}]\n")
	all, code = w.doctorSays(t, "--alertmanager", elsewhere[0].URL)
	if code != 1 {
		t.Errorf("exit code %d of a broken installation", code)
	}
	for _, want := range []finding{
		{"prometheus", service + ": rules", "failed", "not loaded: slo:sli_error:ratio_rate5m", "responder slo rules"},
		{"kubernetes", "rights of kube.replace_pod, kube.scale", "failed", "it may not patch deployments.apps/scale in " + w.ns, "responder-lever-scale"},
		{"alertmanager", "receiver", "failed", "none posts here", "deploy/alertmanager/receiver.yaml"},
	} {
		f := find(all, want.Subject, want.Check)
		if f.Result != want.Result || !strings.Contains(f.Detail, want.Detail) || !strings.Contains(f.Fix, want.Fix) {
			t.Errorf("%s: %s is %+v, want %+v", want.Subject, want.Check, f, want)
		}
	}
	wantIntact(t, w.responder)
}

// Where alerts go is what Alertmanager's own tool says.
func TestDoctorRoutesAsAlertmanagerDoes(t *testing.T) {
	t.Parallel()
	const config = `
route:
  receiver: people
  group_by: [cluster]
  routes:
    - {receiver: responder, matchers: ['alertname=~"Inference.*|GPU.*"'], continue: true}
    - receiver: gpu
      match_re: {alertname: GPU.*}
      routes:
        - {receiver: night, match: {severity: critical}}
        - {receiver: day, matchers: ['severity!="critical"', 'team=""']}
    - {receiver: tickets, matchers: ['{severity="warning",team!="ml"}', namespace="serving"]}
    - {receiver: serving, matchers: ['namespace=~serving|edge'], routes: [{matchers: ['x!~"y.*"'], continue: true}, {receiver: night, matchers: [x="z"]}]}
receivers: [{name: people}, {name: responder}, {name: gpu}, {name: night}, {name: day}, {name: tickets}, {name: serving}]
`
	file := filepath.Join(t.TempDir(), "alertmanager.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := routing.Parse(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, labels := range []string{
		"alertname=InferenceTTFTFastBurn", "alertname=InferenceTTFTFastBurn severity=warning namespace=serving", "alertname=GPUFault severity=critical",
		"alertname=GPUFault severity=warning", "alertname=GPUFault severity=warning team=ml", "alertname=GPU", "alertname=XGPU namespace=edge x=z",
		"namespace=serving severity=warning team=ml", "namespace=serving severity=warning", "namespace=serving x=yes", "namespace=serving2", "alertname=Disk",
	} {
		alert := map[string]string{}
		for _, f := range strings.Fields(labels) {
			name, value, _ := strings.Cut(f, "=")
			alert[name] = value
		}
		var got []string
		for _, d := range c.Deliveries(alert) {
			got = append(got, d.Receiver)
		}
		out, err := exec.CommandContext(t.Context(), "amtool", append([]string{"config", "routes", "test", "--config.file=" + file}, strings.Fields(labels)...)...).Output()
		if err != nil {
			t.Fatalf("amtool: %v\n%s", err, out)
		}
		if want := strings.TrimSpace(string(out)); strings.Join(got, ",") != want {
			t.Errorf("%s goes to %s, by amtool to %s", labels, strings.Join(got, ","), want)
		}
	}
}
