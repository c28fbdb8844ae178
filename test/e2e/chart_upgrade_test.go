//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// chartBefore is the chart of an earlier commit, the first that had one, by make fixture.
var chartBefore = filepath.Join(rig.Repository(), "test", "e2e", "testdata", "chart-before.tgz")

// upgradeValues are of an installation that asks people, one of whom has the token reader.
const upgradeValues = `
rbac: {read: [NAMESPACE], levers: {kube.scale: [NAMESPACE]}}
config:
  autonomy: suggest
  auth:
    tokens:
      - {name: alertmanager, file: /etc/responder-tokens/alertmanager, scopes: [intake]}
      - {name: 'user:oncall', file: /etc/responder-tokens/reader, groups: ['group:oncall'], scopes: [read, approve]}
    rights: [{to: [asked], may: [approve]}]
playbooks:
  inference-slo-breach.yaml: |
    apiVersion: responder/v1alpha1
    kind: Playbook
    metadata: {name: inference-slo-breach, title: A question, description: A question., runbook: none}
    spec:
      match: ['{alertname="InferenceTTFTFastBurn"}']
      autonomy: suggest
      start: look
      states:
        look: {check: kube.workload, on_error: escalated, next: [{when: out.ready >= 1, to: act}, {to: escalated}]}
        act:
          lever: kube.scale
          with: {by: 1}
          approve: {by: service.owners, within: 1h, on_expiry: escalate}
          verify: {within: 1m, hold: 1s, interval: 1s, until: [{query: 'RATE', op: '>', value: 0.1}], traffic: {query: 'RATE', min_rate: 0.1}}
          next: [{when: verified, to: resolved}, {to: escalated}]
        resolved: {end: resolved}
        escalated: {end: escalated}
`

// TestChartUpgrade upgrades an installation of an earlier chart to the present one while a
// question is open. Its journal, the journal's key, the tokens and the password, the
// certificate and the question outlive that; the question is answered afterwards. Nothing
// that only the earlier chart had is left.
func TestChartUpgrade(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns, _ := cp.Own(t, 1, 8)
	now := release{cp: cp, name: cp.Namespace(t), helm: rig.Helm(t)}
	before := now
	before.chart = chartBefore
	cp.Apply(t, ns, inference("chat", "vllm:v1", 1))
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	cp.Kubectl(t, "-n", ns, "annotate", "deployment/chat", "responder.dev/engine=vllm", "responder.dev/model=llama-70b")
	values := strings.NewReplacer("NAMESPACE", ns, "RATE", "sum(rate(vllm:request_success_total{${service.selector}}[1m]))").Replace(upgradeValues)
	journal := filepath.Join(t.TempDir(), "data")

	before.run(t, values, "install")
	address, process := before.serve(t, journal)
	if code, body := before.ask(t, http.MethodPost, address+"/api/v1/alertmanager", "alertmanager", string(alertBody(t, ns, "chat"))); code != http.StatusOK {
		t.Fatalf("the alert is answered %d: %s", code, body)
	}
	var asked api.Run
	rig.Await(t, time.Minute, "the question", func(context.Context) (bool, string) {
		code, body := before.ask(t, http.MethodGet, address+"/api/v1/runs", "reader", "")
		var list struct{ Runs []api.RunSummary }
		if json.Unmarshal([]byte(body), &list) != nil || code != http.StatusOK || len(list.Runs) != 1 {
			return false, body
		}
		asked = before.showRun(t, address, list.Runs[0].Run)
		return asked.Gate != nil, body
	})
	process.Stop()
	key, err := os.ReadFile(filepath.Join(journal, "journal.pub"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, certificate, claim := before.secret(t, "-tokens"), before.secret(t, "-tls"), before.claim(t)

	now.run(t, values, "upgrade")
	if diff := cmp.Diff(tokens, now.secret(t, "-tokens")); diff != "" {
		t.Errorf("the upgrade makes new tokens: Alertmanager and people are locked out")
	}
	if diff := cmp.Diff(certificate, now.secret(t, "-tls")); diff != "" {
		t.Errorf("the upgrade makes a new certificate: nobody trusts it")
	}
	if now.claim(t) != claim {
		t.Errorf("the upgrade makes a new claim: the journal is lost")
	}
	if diff := cmp.Diff(now.rendered(t), now.objects(t, ns)); diff != "" {
		t.Errorf("after the upgrade there is (-what the chart renders +what is there):\n%s", diff)
	}

	address, process = now.serve(t, journal)
	now.wantSignIn(t, address)
	if diff := cmp.Diff(asked.Gate, now.showRun(t, address, asked.Run).Gate); diff != "" {
		t.Errorf("the question has changed (-before +now):\n%s", diff)
	}
	if code, body := now.ask(t, http.MethodPost, address+"/api/v1/runs/"+asked.Run+"/deny", "reader", `{"reason":"not now"}`); code != http.StatusOK {
		t.Errorf("the denial is answered %d: %s", code, body)
	}
	rig.Await(t, time.Minute, "the run ends", func(context.Context) (bool, string) {
		run := now.showRun(t, address, asked.Run)
		return !run.Ended.IsZero() && run.Gate == nil && run.LeversApplied == 0, run.State
	})
	process.Stop()
	if kept, err := os.ReadFile(filepath.Join(journal, "journal.pub")); err != nil || string(kept) != string(key) {
		t.Errorf("the journal's key has changed: %v", err)
	}
	verified := exec.CommandContext(t.Context(), rig.BuildResponder(t, false), "audit", "verify", filepath.Join(journal, "journal.db"), "--key", filepath.Join(journal, "journal.pub"))
	if out, err := verified.CombinedOutput(); err != nil || !strings.Contains(string(out), "intact: ") {
		t.Errorf("audit verify: %v\n%s", err, out)
	}

	now.run(t, "", "uninstall", "chart")
	if left := now.objects(t, ns); !slices.Equal(left, []string{"persistentvolumeclaim/" + now.name}) {
		t.Errorf("after uninstall there are still %q", left)
	}
}

// showRun asks the service for a run.
func (r release) showRun(t *testing.T, address, id string) api.Run {
	t.Helper()
	var detail api.RunDetail
	code, body := r.ask(t, http.MethodGet, address+"/api/v1/runs/"+id, "reader", "")
	if err := json.Unmarshal([]byte(body), &detail); code != http.StatusOK || err != nil {
		t.Fatalf("the run is answered %d, %v: %s", code, err, body)
	}
	return detail.Run
}

// rendered returns the objects that Helm has installed, as [release.objects] does.
func (r release) rendered(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(r.run(t, "", "get", "manifest", "chart")), 0o600); err != nil {
		t.Fatal(err)
	}
	out := strings.Fields(r.cp.Kubectl(t, "get", "-o", "name", "-f", file))
	slices.Sort(out)
	return out
}
