//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// concurrentPush has somebody else commit a file right after the responder's push.
func (w *gitWorld) concurrentPush(t *testing.T, name, content string) (pushed <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	w.git.AfterPush(func() {
		_, err := w.git.TryCommit(context.Background(), "Serve one more", map[string]string{name: content})
		done <- err
	})
	return done
}

const concurrentPath = "serving/neighbour.yaml"

// Somebody pushes a manifest that the cluster refuses next to ours: Argo CD's sync
// fails for both, so ours is not proven and is taken back. That this is not in
// effect either, as long as the other one is there, a person is told.
func gitRefusedConcurrent(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	neighbour := strings.NewReplacer("name: chat\n", "name: neighbour\n", "matchLabels: {app: chat}", "matchLabels: {app: neighbour}").Replace(manifest(64))
	pushed := w.concurrentPush(t, concurrentPath, neighbour)
	run := w.ends(t, machine.OutcomeEscalated)
	if err := <-pushed; err != nil {
		t.Fatal(err)
	}
	w.wantCommits(t, 2)
	const refusal = "`selector` does not match template `labels`"
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, refusal) {
		t.Errorf("it was given up for %s: %q; want what the API server said", why.Reason, why.Message)
	}
	if !strings.Contains(run.Ending.Message, "undone") || !strings.Contains(run.Ending.Message, refusal) {
		t.Errorf("the run ended with %q; want that it was undone and what keeps that from taking effect", run.Ending.Message)
	}
	if file := w.git.File(t, w.git.Branch, concurrentPath); file != neighbour {
		t.Errorf("the other's manifest is\n%s", file)
	}
	if file := w.git.File(t, w.git.Branch, manifestPath); file != w.git.File(t, w.broken, manifestPath) {
		t.Errorf("ours is\n%s\nwant what was there before", file)
	}
}

// Somebody pushes what Argo CD cannot read, or can never bring the cluster to,
// next to ours: nothing is taken for proven, the run says what it waits for, and
// goes on once that is repaired.
func gitWaitsForOthers(malformed func(string) string, says string) func(*testing.T, *gitWorlds) {
	return func(t *testing.T, all *gitWorlds) {
		w := all.world(t, gitOptions{})
		neighbour := strings.NewReplacer("name: chat\n", "name: neighbour\n", "app: chat", "app: neighbour").Replace(manifest(64))
		pushed := w.concurrentPush(t, concurrentPath, malformed(neighbour))
		w.alert(t)
		w.responder.AwaitRun(t, 2*time.Minute, "the run says "+says, func(r *rig.Run) bool {
			return strings.Contains(r.Last(machine.Settling).Message, says)
		})
		if err := <-pushed; err != nil {
			t.Fatal(err)
		}
		w.git.Commit(t, "Repair it", map[string]string{concurrentPath: neighbour})
		run := w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeResolved)
		w.wantCommits(t, 1)
		w.wantSeqs(t, "32")
		if n := run.Has(machine.Applied); n != 1 {
			t.Errorf("the change is on record %d times, want once:\n%s", n, run)
		}
	}
}

// Next to the service the application has a Deployment that never gets in sync and
// never gets healthy. That keeps nobody from repairing the service, and is neither
// taken for an effect of the repair nor hides what that is.
func gitNeverInSync(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	neighbour := strings.NewReplacer("name: chat\n", "name: neighbour\n", "app: chat", "app: neighbour", "gpu: 1", "gpu: 99").Replace(manifest(64))
	head := w.git.Commit(t, "Serve something else too", map[string]string{concurrentPath: unknownField(neighbour)})
	w.app.Refresh(t)
	w.app.Await(t, time.Minute, "the application is OutOfSync and Degraded for good", func(s rig.ApplicationStatus) bool {
		return s.Sync == "OutOfSync" && s.Revision == head && s.Health == "Degraded" && s.Phase == "Succeeded" && s.Synced == head && !s.Running
	})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=32" || !strings.Contains(w.git.File(t, w.git.Branch, manifestPath), got) {
		t.Errorf("the Deployment has %s and Git\n%s", got, w.git.File(t, w.git.Branch, manifestPath))
	}
	shown := w.responder.Must(t, "runs", "show", run.ID, "--progress")
	if want := fmt.Sprintf("apps/Deployment %s/neighbour OutOfSync and Degraded", w.ns); !strings.Contains(shown, want) {
		t.Errorf("the plan does not say that %s, and does not count:\n%s", want, shown)
	}
}

func noYAML(manifest string) string { return manifest + "status: [\n" }

func unknownField(manifest string) string {
	return strings.Replace(manifest, "replicas: 2 ", "replicaz: 2 ", 1)
}

// The token for Argo CD is taken away after the plan, while the commit is on its
// way, and the application is synced by hand: nothing can be rolled out, so the
// commit is reverted, and nobody else's right is borrowed.
func gitTokenRevokedLate(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{app: rig.ApplicationOptions{Manual: true}})
	w.git.BeforePush(func() bool { w.revoke(); return true })
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 2)
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Forbidden || !strings.Contains(why.Message, "token") {
		t.Errorf("it was given up for %s: %q; want forbidden, because of the token", why.Reason, why.Message)
	}
	if file := w.git.File(t, w.git.Branch, manifestPath); file != w.git.File(t, w.broken, manifestPath) {
		t.Errorf("Git has\n%s\nwant what was there before", file)
	}
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=128" {
		t.Errorf("the Deployment has %s; nobody may have synced it", got)
	}
	if strings.Contains(w.responder.Log()+run.String(), "eyJ") { // how every such token begins
		t.Error("the token is in the log or in the journal")
	}
}

// An application that is synced by hand is synced to our very commit, and to the
// revert of it.
func gitManual(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{app: rig.ApplicationOptions{Manual: true}, hopeless: true})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 2)
	w.wantSeqs(t, "128")
	if run.Has(machine.Settled) != 1 || run.Has(machine.Unwound) != 1 {
		t.Errorf("want it in effect once, and undone:\n%s", run)
	}
}

// A real Prometheus finds the burn by the rules of the service, a real Alertmanager
// delivers it, and hears of the end.
func gitRealAlert(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{alerts: true})
	run := w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
	if run.Start.Alert.Labels["alertname"] != "InferenceTTFTFastBurn" {
		t.Errorf("the run is of %v", run.Start.Alert.Labels)
	}
	rig.Await(t, time.Minute, "the alert is over", func(ctx context.Context) (bool, string) {
		state, err := w.prometheus.AlertState(ctx, "InferenceTTFTFastBurn")
		return err == nil && state == "inactive", state
	})
}

// watched adds to the world a Prometheus of its own, with the rules of the service, and
// an Alertmanager that sends to the responder.
func (w *gitWorld) watched(t *testing.T, addr string) {
	t.Helper()
	managers := rig.StartAlertmanager(t, 1, rig.WebhookConfig(rig.WebhookURL(addr), rig.IntakeToken))
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{Rules: rules(t, service(w.ns, w.layout.workload, "auto")), Targets: []string{w.fleet.Addr}, Alertmanagers: rig.Addrs(managers)})
	w.gitWorlds = &gitWorlds{cp: w.cp, argo: w.argo, prometheus: prometheus, engines: map[string]*rig.Fleet{}}
}
