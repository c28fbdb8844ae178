package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// A dry run against a live cluster walks up to the lever and sends no request
// that could change anything: the API server sees reads and server-side
// dry-runs, and refuses everything else.
func TestDryRunChangesNothing(t *testing.T) {
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	api := kubetest.New(t)
	api.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
	var mu sync.Mutex // guards requests
	var requests []string
	api.Fail(func(r *http.Request) kubetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, r.Method+" "+r.URL.Path+" "+r.URL.RawQuery)
		return kubetest.Fault{}
	})
	for _, level := range []string{"observe", "suggest", "auto"} {
		t.Run(level, func(t *testing.T) {
			mu.Lock()
			requests = nil
			mu.Unlock()
			config := clusterConfig(t, api, fakePrometheus(t), level)
			report, err := Run(t.Context(), emptyProcess(), Options{
				Config: config, Timeout: time.Minute, Playbook: rollbackPlaybook,
				Source: Source{Labels: map[string]string{"alertname": "TestBreach", "namespace": "serving", "service": "chat"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if report.Verdict != verdictWouldAct || report.ExitCode != command.ExitWouldAct {
				text, _ := json.MarshalIndent(report, "", " ")
				t.Fatalf("the dry run did not come to the lever: %s\n%s", report.Verdict, text)
			}
			l := report.Runs[0].Levers[0]
			if l.Plan == nil || len(l.Plan.Diff) == 0 || len(l.Guards) == 0 || len(l.Then) == 0 {
				t.Errorf("the report lacks the plan, the guards or what follows: %+v", l)
			}
			if asks := level == "suggest"; l.Approval.Needed != asks {
				t.Errorf("at autonomy %s approval needed is %v", level, l.Approval.Needed)
			}
			mu.Lock()
			defer mu.Unlock()
			dryRuns := 0
			for _, r := range requests {
				switch {
				case strings.HasPrefix(r, "GET "), strings.HasPrefix(r, "HEAD "):
				case strings.Contains(r, "dryRun=All"):
					dryRuns++
				default:
					t.Errorf("a request that writes: %s", r)
				}
			}
			if dryRuns == 0 {
				t.Error("the API server was never asked to validate the change")
			}
			if w := api.Writes(); len(w) > 0 {
				t.Errorf("stored: %v", w)
			}
		})
	}
}

// What the configuration sets in place of the playbook's level is what a dry run
// tells; levels of playbooks that it does not look at are left out.
func TestDryRunTellsConfiguredAutonomy(t *testing.T) {
	api := kubetest.New(t)
	api.Workload(t, kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
	config := clusterConfig(t, api, fakePrometheus(t), "auto")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "playbooks: {autonomy: {test-rollback/rollback: suggest, gpu-fault: observe}}\n"...)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, playbooks := range map[string]string{"a file": rollbackPlaybook, "a directory": filepath.Dir(rollbackPlaybook)} {
		t.Run(what, func(t *testing.T) {
			report, err := Run(t.Context(), emptyProcess(), Options{
				Config: config, Timeout: time.Minute, Playbook: playbooks,
				Source: Source{Labels: map[string]string{"alertname": "TestBreach", "namespace": "serving", "service": "chat"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			a := report.Runs[0].Levers[0].Approval
			if a.Autonomy != "suggest" || !a.Needed || a.Why != "playbooks.autonomy of "+config {
				t.Errorf("autonomy %s by %s, approval needed %v", a.Autonomy, a.Why, a.Needed)
			}
		})
	}
}

// fakePrometheus answers every query with 1.
func fakePrometheus(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"1"]}]}}`, time.Now().Unix())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// clusterConfig writes a configuration that names the servers.
func clusterConfig(t *testing.T, api *kubetest.Server, prometheus, level string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"kubeconfig": "apiVersion: v1\nkind: Config\ncurrent-context: test\n" +
			"contexts: [{name: test, context: {cluster: test, user: test}}]\nusers: [{name: test, user: {}}]\n" +
			"clusters: [{name: test, cluster: {server: '" + api.URL + "'}}]\n",
		"responder.yaml": "auth: {insecure: true}\nprometheus: {url: '" + prometheus + "'}\nkubernetes: {kubeconfig: kubeconfig}\n" +
			"autonomy: " + level + "\nservices: [{namespace: serving, workload: {name: chat}, owners: ['user:ada'], autonomy: auto}]\n",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "responder.yaml")
}

// Should the program ever try to change something in a dry run, it is stopped
// before it reaches the world.
func TestReadOnlyDepsRefuseChanges(t *testing.T) {
	changer := &recordingChanger{}
	deps := readOnly(step.Deps{Changer: changer})
	for _, dry := range []bool{true, false} {
		_, scale := deps.Changer.Scale(t.Context(), kube.ScaleChange{DryRun: dry})
		_, undo := deps.Changer.Undo(t.Context(), kube.UndoChange{DryRun: dry})
		_, hold := deps.Changer.Hold(t.Context(), kube.HoldChange{DryRun: dry})
		if (scale == nil) != dry || (undo == nil) != dry || (hold == nil) != dry {
			t.Errorf("dryRun %v: scale %v, undo %v, hold %v", dry, scale, undo, hold)
		}
	}
	if changer.writes != 0 || changer.dryRuns != 3 {
		t.Errorf("%d writes and %d dry-runs got through", changer.writes, changer.dryRuns)
	}
	if err := deps.Notifier.Notify(t.Context(), step.Notice{}); err != nil {
		t.Error(err)
	}
}

// repairDesk counts the requests that reach those who repair hardware.
type repairDesk struct {
	step.Repairs
	asked int
}

func (r *repairDesk) Ask(context.Context, step.RepairRequest) (string, error) {
	r.asked++
	return "OPS-1", nil
}

// A dry run asks nobody for a repair.
func TestReadOnlyRepairs(t *testing.T) {
	desk := &repairDesk{}
	_, err := readOnly(step.Deps{Repairs: desk}).Repairs.Ask(t.Context(), step.RepairRequest{Key: "k", Node: "gpu-17"})
	if err == nil || !strings.Contains(err.Error(), "dry run") || desk.asked != 0 {
		t.Errorf("%v, asked %d times", err, desk.asked)
	}
}

// TestReadOnlyRefresh: Argo CD may be asked to look where that syncs nothing.
func TestReadOnlyRefresh(t *testing.T) {
	h := &refreshedApplications{}
	apps := readOnly(step.Deps{Applications: h}).Applications
	if err := apps.Refresh(t.Context(), "argocd/chat"); err != nil || h.refreshed != 1 {
		t.Errorf("synced by hand: %v, refreshed %d times", err, h.refreshed)
	}
	h.app.Automated = true
	if err := apps.Refresh(t.Context(), "argocd/chat"); err == nil || h.refreshed != 1 {
		t.Errorf("synced by itself: %v, refreshed %d times", err, h.refreshed)
	}
}

// refreshedApplications counts how often Argo CD was told to look again.
type refreshedApplications struct {
	step.Applications
	app       gitops.Application
	refreshed int
}

func (r *refreshedApplications) Application(context.Context, string) (gitops.Application, error) {
	return r.app, nil
}

func (r *refreshedApplications) Refresh(context.Context, string) error {
	r.refreshed++
	return nil
}

func emptyProcess() *command.Process {
	return &command.Process{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }, Temp: &command.Temporary{}}
}

type recordingChanger struct{ writes, dryRuns int }

func (r *recordingChanger) note(dry bool) {
	if dry {
		r.dryRuns++
	} else {
		r.writes++
	}
}

func (r *recordingChanger) Scale(_ context.Context, c kube.ScaleChange) (kube.Applied, error) {
	r.note(c.DryRun)
	return kube.Applied{}, nil
}

func (r *recordingChanger) Undo(_ context.Context, c kube.UndoChange) (kube.Applied, error) {
	r.note(c.DryRun)
	return kube.Applied{}, nil
}

func (r *recordingChanger) Restart(_ context.Context, c kube.RestartChange) (kube.Applied, error) {
	r.note(c.DryRun)
	return kube.Applied{}, nil
}

func (r *recordingChanger) Hold(_ context.Context, c kube.HoldChange) (kube.Applied, error) {
	r.note(c.DryRun)
	return kube.Applied{}, nil
}

// The exit code is what scripts go by.
func TestDryRunVerdicts(t *testing.T) {
	report := func(alerts []api.DryRunAlert, state machine.State, levers ...api.DryRunLever) Report {
		return Report{DryRun: api.DryRun{Alerts: alerts, Runs: []api.DryRunRun{{Levers: levers}}}, walked: []walked{{state: state}}}
	}
	ended := func(o machine.RunOutcome) machine.State { return machine.State{Ending: &machine.Ending{Outcome: o}} }
	two := func(a, b Report) Report {
		a.Runs, a.walked = append(a.Runs, b.Runs...), append(a.walked, b.walked...)
		return a
	}
	firing := []api.DryRunAlert{{Alert: api.Alert{Status: string(playbook.Firing)}}}
	for name, c := range map[string]struct {
		report Report
		want   int
	}{
		"would apply":            {report(firing, machine.State{}, api.DryRunLever{Would: true}), command.ExitWouldAct},
		"refused":                {report(firing, machine.State{}, api.DryRunLever{Refused: "guards"}), command.ExitRefused},
		"refused, then would":    {two(report(firing, machine.State{}, api.DryRunLever{Refused: "x"}), report(firing, machine.State{}, api.DryRunLever{Would: true})), command.ExitWouldAct},
		"would ask at a gate":    {report(firing, ended(machine.OutcomeObserved)), command.ExitWouldAct},
		"checked, nothing to do": {report(firing, ended(machine.OutcomeNoAction)), command.ExitOK},
		"no playbook":            {Report{DryRun: api.DryRun{Alerts: firing}}, command.ExitNoMatch},
		"nothing fires any more": {Report{DryRun: api.DryRun{Alerts: []api.DryRunAlert{{}}}}, command.ExitOK},
	} {
		if _, got := c.report.judge(); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}

// Alerts that somebody silenced, or that another inhibits, are not asked for.
func TestFetchAlerts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/am/api/v2/alerts" || q.Get("active") != "true" || q.Get("silenced") != "false" || q.Get("inhibited") != "false" {
			http.Error(w, "unexpected "+r.URL.String(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `[{"fingerprint":"0027d97db9c1f474","labels":{"alertname":"X"},"annotations":{"summary":"s"},"startsAt":"2026-03-01T12:00:00Z","generatorURL":"http://p","status":{"state":"active"}}]`)
	}))
	defer server.Close()
	bodies, err := Source{FromAlertmanager: server.URL + "/am/"}.bodies(t.Context(), emptyProcess(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	n, err := playbook.DecodeNotification(bodies[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Alerts) != 1 || n.Alerts[0].Fingerprint != "0027d97db9c1f474" || n.Alerts[0].Status != playbook.Firing || n.Version != "4" {
		t.Errorf("got %+v", n)
	}
	if _, err := fetchAlerts(t.Context(), server.URL+"/elsewhere"); err == nil || !strings.Contains(err.Error(), "400 Bad Request: unexpected") {
		t.Errorf("an answer that is none: %v", err)
	}
	withUser := strings.Replace(server.URL, "http://", "http://ada:hunter2@", 1)
	if _, err := fetchAlerts(t.Context(), withUser); err == nil || !strings.HasPrefix(err.Error(), server.URL) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("with a password in the URL: %v", err)
	}
}
