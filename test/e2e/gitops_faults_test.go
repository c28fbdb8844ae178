//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The cluster's rules refuse the new manifest, so that the sync fails: exactly
// the commit is reverted.
func gitSyncFails(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	w.refuse(t, "--max-num-seqs=32", "32 is reserved", rig.Responder)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 2)
	w.wantSeqs(t, "128")
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, "32 is reserved") {
		t.Errorf("it was given up for %s: %q; want what the API server said", why.Reason, why.Message)
	}
}

// refuse has the API server refuse Deployments of the namespace with an argument
// to everybody but one.
func (w *gitWorld) refuse(t *testing.T, arg, why, but string) {
	t.Helper()
	refuseFlag(t, w.cp, w.ns, arg, why, but)
}

// refuseFlag is that for any namespace.
func refuseFlag(t *testing.T, cp *rig.ControlPlane, ns, arg, why, but string) {
	t.Helper()
	name := "refuse-" + ns
	cp.Apply(t, ns, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  matchConditions: [{name: not-excepted, expression: 'request.userInfo.username != %[5]q'}]
  validations:
    - expression: '!object.spec.template.spec.containers.exists(c, has(c.args) && %[2]q in c.args)'
      message: %[3]q
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}}
`, name, arg, why, ns, but))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, kind := range []string{"validatingadmissionpolicybinding", "validatingadmissionpolicy"} {
			if _, err := cp.TryKubectl(ctx, "delete", kind, name); err != nil {
				t.Error(err)
			}
		}
	})
	// The API server takes a moment to compile it.
	manifest := strings.Replace(manifest(32), "name: chat\n", "name: probe\n", 1)
	file := filepath.Join(t.TempDir(), "probe.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	rig.Await(t, 30*time.Second, "the API server refuses "+arg, func(ctx context.Context) (bool, string) {
		out, err := cp.TryKubectl(ctx, "-n", ns, "create", "--dry-run=server", "-f", file)
		return err != nil && strings.Contains(err.Error(), why), fmt.Sprint(out, err)
	})
}

// The new value lets no engine start: the application is never Healthy, and
// exactly the commit is reverted.
func gitNeverHealthy(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: setFlag(2048)})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 2)
	w.wantSeqs(t, "128")
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, "degraded") {
		t.Errorf("it was given up for %s: %q; want that the application is Degraded", why.Reason, why.Message)
	}
	shown := w.responder.Must(t, "runs", "show", run.ID, "--progress")
	if want := fmt.Sprintf("health Progressing: apps/Deployment %s/chat: Waiting for rollout to finish", w.ns); !strings.Contains(shown, want) {
		t.Errorf("on the way people did not see %q:\n%s", want, shown)
	}
}

// A closed sync window is respected before anything is committed.
func gitWindowClosed(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	w.cp.Kubectl(t, "-n", "argocd", "patch", "appproject", w.app.Name, "--type=merge", "-p", closedWindow)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 0)
	if why := run.Last(machine.PlanRefused); !strings.Contains(why.Message, "window") {
		t.Errorf("the plan was refused for %s: %q; want the sync window named", why.Reason, why.Message)
	}
}

// One that closes while a pull request waits for its check is respected as well:
// it is not merged before the window opens.
func gitWindowClosesMeanwhile(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{forge: "github", merge: "responder"})
	windows := func(patch string) {
		w.cp.Kubectl(t, "-n", "argocd", "patch", "appproject", w.app.Name, "--type=merge", "-p", patch)
	}
	w.forge.Check("ci/build", "pending")
	w.alert(t)
	w.awaitPull(t, 1)
	windows(closedWindow)
	w.forge.Check("ci/build", "success")
	w.responder.AwaitRun(t, time.Minute, "a run that waits for the window", func(r *rig.Run) bool {
		last := r.Last(machine.Settling)
		return last.Waits != "" && strings.Contains(last.Message, "sync window the deny window")
	})
	if pull := w.awaitPull(t, 1); pull.State != "open" || w.git.Head(t) != w.broken {
		t.Errorf("in a closed window the pull request is %s and the branch at %s", pull.State, w.git.Head(t))
	}
	windows(`{"spec": {"syncWindows": []}}`)
	w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
}

// Argo CD heals what is changed past Git, so a live lever is refused where the
// service does not say where Git has it.
func gitLiveLever(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: "lever: kube.scale\n      with: {by: 1}", noGitOps: true})
	run := w.ends(t, machine.OutcomeEscalated)
	wantOwned(t, run, "Argo CD", w.app.Name)
	w.wantCommits(t, 0)
	if replicas := w.cp.Kubectl(t, "-n", w.ns, "get", "deployment/chat", "-o", "jsonpath={.spec.replicas}"); replicas != "2" {
		t.Errorf("%s replicas, want the 2 of Git", replicas)
	}
}

// Without the right to see the application nothing is committed, and the
// reason says so without the token.
func gitTokenRevoked(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	w.revoke()
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 0)
	if why := run.Last(machine.PlanRefused); why.Reason != fault.Forbidden || !strings.Contains(why.Message, "token") {
		t.Errorf("the plan was refused for %s: %q; want forbidden, because of the token", why.Reason, why.Message)
	}
	if strings.Contains(w.responder.Log()+run.String(), "eyJ") { // how every such token begins
		t.Error("the token is in the log or in the journal")
	}
}

// The repository can be read, and goes away with the push: nothing is on the
// branch, and a later attempt makes exactly one commit.
func gitPushAway(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	w.git.SetPushable(false)
	w.alert(t)
	w.responder.AwaitRun(t, 2*time.Minute, "an attempt that failed", func(r *rig.Run) bool {
		failed := r.Last(machine.EffectFailed)
		return failed.Action == machine.ActionApply && failed.Reason == fault.Unreachable
	})
	if n := len(w.ours(t)); n != 0 {
		t.Errorf("%d commits of the responder are on the branch", n)
	}
	w.git.SetPushable(true)
	w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
}

// The push is taken in and its answer is lost: the commit is found again.
func gitAnswerLost(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	w.git.CutPushes(1)
	run := w.ends(t, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
	if n := run.Has(machine.Applied); n != 1 {
		t.Errorf("the change is on record %d times, want once:\n%s", n, run)
	}
}

// kill -9 between the commit and the push: it is committed again, once.
func gitKilledBeforePush(t *testing.T, all *gitWorlds) {
	killed(t, all, func(w *gitWorld, kill func()) {
		w.git.BeforePush(func() bool { kill(); return false })
	})
}

// kill -9 while the push is on its way, which then gets through.
func gitKilledAtPush(t *testing.T, all *gitWorlds) {
	killed(t, all, func(w *gitWorld, kill func()) {
		w.git.BeforePush(func() bool { kill(); return true })
	})
}

// kill -9 after the push and before its answer.
func gitKilledAfterPush(t *testing.T, all *gitWorlds) {
	killed(t, all, func(w *gitWorld, kill func()) { w.git.AfterPush(kill) })
}

// kill -9 after the change is on record, before it is in effect.
func gitKilledDuringSync(t *testing.T, all *gitWorlds) {
	killed(t, all, func(w *gitWorld, kill func()) {
		w.git.AfterPush(w.proxy.Shut) // so that it cannot be in effect yet
		go func() {
			defer kill()
			for ctx := t.Context(); ctx.Err() == nil; {
				run, err := onlyRun(ctx, w.responder)
				if err == nil && run.Has(machine.Applied) == 1 {
					return
				}
			}
		}()
	})
}

// killed kills the responder at a place of its run, starts it again, and wants
// the run to end as if nothing had been.
func killed(t *testing.T, all *gitWorlds, at func(w *gitWorld, kill func())) {
	t.Helper()
	w := all.world(t, gitOptions{})
	dead := make(chan struct{})
	at(w, func() { w.responder.Kill9(); close(dead) })
	w.alert(t)
	select {
	case <-dead:
	case <-time.After(2 * time.Minute):
		t.Fatal("the run never came to the place where it was to be killed")
	}
	w.proxy.Shut()
	w.proxy.Open(t)
	w.responder.Process = rig.Start(t, w.responder.Spec())
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
	if n := run.Has(machine.Applied); n != 1 {
		t.Errorf("the change is on record %d times, want once:\n%s", n, run)
	}
}
