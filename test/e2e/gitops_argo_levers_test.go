//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// manual is an application that is synced by hand.
var manual = rig.ApplicationOptions{Manual: true}

const (
	argoSync     = "lever: argocd.sync"
	argoRollback = "lever: argocd.rollback"
	argoLastGood = "lever: argocd.rollback\n      with: {to: last_good}"
)

// projectRole is the token of deploy/argocd/project-role.yaml.
func projectRole(t testing.TB, app *rig.Application) (string, func()) { return app.Token(t) }

// readOnly is one that may look and not sync.
func readOnly(t testing.TB, app *rig.Application) (string, func()) { return app.ReadToken(t) }

// A person has pushed the repair and nobody has synced it; Argo CD has not even
// looked yet. There is nothing to roll back to, so what waits is synced.
func gitArgoSync(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{first: argoRollback, lever: argoSync, app: manual})
	repair := w.repaired(t)
	run := w.ends(t, machine.OutcomeResolved)
	w.wantCommits(t, 0)
	w.wantSeqs(t, "32")
	w.wantHistory(t, w.broken, repair)
	if why := run.Last(machine.PlanRefused); why.State != "first" || why.Reason != fault.NothingToDo || !strings.Contains(why.Message, "no earlier deployment") {
		t.Errorf("the rollback was refused for %s: %q; want that there is no earlier deployment", why.Reason, why.Message)
	}
	w.wantOnce(t, run, machine.Applied, machine.Settled, machine.Verified)
	shown := w.responder.Must(t, "runs", "show", run.ID, "--progress")
	for _, say := range []string{"from " + w.broken[:9] + " to " + repair[:9], `"Serve fewer" by Ada`, "in effect", "VERIFIED"} {
		if !strings.Contains(shown, say) {
			t.Errorf("the run does not say %q:\n%s", say, shown)
		}
	}
}

// What was synced does not help: the application goes back to where it was, and
// Git keeps what people pushed.
func gitArgoSyncDoesNotHelp(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoSync, app: manual, hopeless: true, token: projectRole})
	repair := w.repaired(t)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 0)
	w.wantOnce(t, run, machine.Applied, machine.Settled, machine.Undone, machine.Unwound)
	w.wantHistory(t, w.broken, repair, w.broken)
	w.wantOutOfSync(t, "128", repair)
}

// The cluster refuses what the sync brings: what of it was applied is taken back.
func gitArgoSyncFails(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoSync, app: manual})
	w.refuse(t, "--max-num-seqs=32", "32 is reserved", rig.Responder)
	repair := w.repaired(t)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 0)
	w.wantOnce(t, run, machine.Applied, machine.Undone, machine.Unwound)
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, "32 is reserved") {
		t.Errorf("it was given up for %s: %q; want what the API server said", why.Reason, why.Message)
	}
	w.wantHistory(t, w.broken, w.broken)
	w.wantOutOfSync(t, "128", repair)
}

// A hook of what is synced does not end, and a person cancels the run: the sync is
// stopped, and what of it was applied is taken back.
func gitArgoSyncHangs(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoSync, app: manual, token: projectRole})
	hook := strings.NewReplacer("name: chat\n", "name: hook\n  annotations: {argocd.argoproj.io/hook: PostSync}\n", "app: chat", "app: hook",
		"gpu: 1", "gpu: 99", "DeadlineSeconds: 10", "DeadlineSeconds: 600").Replace(manifest(64))
	repair := w.git.Commit(t, "Serve fewer, and check it", map[string]string{"serving/hook.yaml": hook, manifestPath: manifest(32)})
	w.alert(t)
	rig.Await(t, time.Minute, "what is synced runs", func(context.Context) (bool, string) {
		got := liveSeqs(t, w.cp, w.ns, "chat")
		return got == "--max-num-seqs=32", got
	})
	run := w.responder.AwaitRun(t, time.Minute, "the change is on record", func(r *rig.Run) bool { return r.Has(machine.Applied) == 1 })
	w.responder.Must(t, "runs", "cancel", run.ID, "--reason", "it hangs")
	run = w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeCanceled)
	w.wantCommits(t, 0)
	w.wantOnce(t, run, machine.Applied, machine.Undone, machine.Unwound)
	w.wantHistory(t, w.broken, w.broken)
	w.wantOutOfSync(t, "128", repair)
}

// An application that is synced by hand is rolled back by Argo CD, and its branch
// keeps what was rolled back. This one has two sources: a chart, and its values.
func gitArgoRollback(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoRollback, app: manual, layout: &values, before: true, token: projectRole})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantCommits(t, 0)
	w.wantOnce(t, run, machine.Applied, machine.Settled, machine.Verified)
	good := w.good(t)
	w.wantHistory(t, good, w.broken, good)
	w.wantOutOfSync(t, "64", w.broken)
	shown := w.responder.Must(t, "runs", "show", run.ID, "--progress")
	for _, say := range []string{", " + w.broken[:9] + " to ", ", " + good[:9] + ", deployed ", "the next sync by anybody brings it back"} {
		if !strings.Contains(shown, say) {
			t.Errorf("the run does not say %q:\n%s", say, shown)
		}
	}
}

// A rollback that does not help is rolled forward again, that of a chart in Git too.
func gitArgoRollbackDoesNotHelp(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoRollback, app: manual, layout: &stack, before: true, hopeless: true})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 0)
	w.wantOnce(t, run, machine.Applied, machine.Settled, machine.Undone, machine.Unwound)
	good := w.good(t)
	w.wantHistory(t, good, w.broken, good, w.broken)
	w.wantSeqs(t, "128")
}

// kill -9 while Argo CD rolls back: it is found again, and not begun a second time.
func gitArgoKilled(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoRollback, app: manual, before: true})
	w.alert(t)
	good := w.good(t)
	w.app.Await(t, time.Minute, "the rollback has begun", func(s rig.ApplicationStatus) bool { return s.Running || s.Synced == good })
	w.responder.Kill9()
	w.responder.Process = rig.Start(t, w.responder.Spec())
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	w.wantCommits(t, 0)
	w.wantOnce(t, run, machine.Applied, machine.Settled, machine.Verified)
	w.wantHistory(t, good, w.broken, good)
	w.wantOutOfSync(t, "64", w.broken)
}

// One that syncs by itself is rolled back in Git, where Argo CD would refuse.
func gitArgoRollbackInGit(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{first: argoSync, lever: argoRollback, before: true})
	run := w.ends(t, machine.OutcomeResolved)
	sha := w.wantCommits(t, 1)[0]
	w.wantSeqs(t, "64")
	if why := run.Last(machine.PlanRefused); why.State != "first" || why.Reason != fault.Owned || !strings.Contains(why.Message, "syncs by itself") {
		t.Errorf("the sync was refused for %s: %q; want that it syncs by itself", why.Reason, why.Message)
	}
	w.wantHistory(t, w.good(t), w.broken, sha)
	if got := w.git.File(t, sha, manifestPath); got != manifest(64) {
		t.Errorf("the revert leaves\n%s", got)
	}
}

// What was verified is gone back to, whatever was deployed since.
func gitArgoRollbackToLastGood(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{first: argoLastGood, app: manual, settings: "guards: {cooldown: 0s}\n"})
	first := w.ends(t, machine.OutcomeResolved)
	if why := first.Last(machine.PlanRefused); why.State != "first" || why.Reason != fault.NoData || !strings.Contains(why.Message, "ever verified") {
		t.Errorf("refused for %s: %q; want that nothing was ever verified", why.Reason, why.Message)
	}
	good := w.wantCommits(t, 1)[0]
	for _, n := range []string{"256", "128"} {
		w.git.Edit(t, "Serve "+n, manifestPath, liveSeqs(t, w.cp, w.ns, "chat"), "--max-num-seqs="+n)
		w.app.Refresh(t)
		w.rolledOut(t, gitOptions{app: manual})
	}
	w.burns(t)
	w.alert(t)
	second := w.awaitSecond(t, machine.OutcomeResolved)
	w.wantOnce(t, second, machine.Applied, machine.Settled, machine.Verified)
	if good2 := w.ours(t); len(good2) != 1 {
		t.Errorf("%d commits of the responder, want the one of the first run", len(good2))
	}
	if s, err := w.app.Status(t.Context()); err != nil || s.History[len(s.History)-1] != good {
		t.Errorf("%v %v: want it at %s", s, err, good)
	}
	w.wantOutOfSync(t, "32", w.git.Head(t))
}

// In a closed sync window neither lever is planned.
func gitArgoWindow(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{first: argoRollback, lever: argoSync, app: manual, before: true})
	w.cp.Kubectl(t, "-n", "argocd", "patch", "appproject", w.app.Name, "--type=merge", "-p", closedWindow)
	w.repaired(t)
	run := w.ends(t, machine.OutcomeEscalated)
	refused := 0
	for _, e := range run.Events {
		if e.Kind == machine.PlanRefused {
			refused++
			if e.Reason != fault.Throttled || !strings.Contains(e.Message, "sync window the deny window") {
				t.Errorf("%s was refused for %s: %q; want the sync window named", e.State, e.Reason, e.Message)
			}
		}
	}
	if refused != 2 {
		t.Errorf("%d plans were refused, want both:\n%s", refused, run)
	}
	w.wantUntouched(t)
}

// What the token may not sync nobody is asked about, and the reason names the right.
func gitArgoNoRight(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: argoRollback, app: manual, before: true, token: readOnly})
	run := w.ends(t, machine.OutcomeEscalated)
	why := run.Last(machine.GuardsRefused).Message
	if want := fmt.Sprintf("rights: the token for Argo CD lacks the right to sync application argocd/%[1]s (a policy line: p, SUBJECT, applications, sync, %[1]s/%[1]s, allow)", w.app.Name); !strings.Contains(why, want) {
		t.Errorf("refused: %q; want %q", why, want)
	}
	if strings.Contains(w.responder.Log()+run.String(), "eyJ") { // how every such token begins
		t.Error("the token is in the log or in the journal")
	}
	w.wantUntouched(t)
}

// repaired is what a person pushes who does not sync it, nor tells Argo CD of it.
func (w *gitWorld) repaired(t *testing.T) string {
	t.Helper()
	return w.git.Edit(t, "Serve fewer", w.layout.file, w.layout.flag(128), w.layout.flag(32))
}

// good is the commit before the one that burns.
func (w *gitWorld) good(t *testing.T) string {
	t.Helper()
	log := w.git.Log(t, "%H")
	return log[len(log)-1]
}

// wantOnce fails unless each of these happened once.
func (w *gitWorld) wantOnce(t *testing.T, run *rig.Run, kinds ...machine.EventKind) {
	t.Helper()
	for _, kind := range kinds {
		if n := run.Has(kind); n != 1 {
			t.Errorf("%s happened %d times, want once:\n%s", kind, n, run)
		}
	}
}

// wantHistory fails unless Argo CD deployed just that.
func (w *gitWorld) wantHistory(t *testing.T, want ...string) {
	t.Helper()
	if s, err := w.app.Status(t.Context()); err != nil || !slices.Equal(s.History, want) {
		t.Errorf("the history is %v, want %v: %v", s.History, want, err)
	}
}

// wantOutOfSync fails unless the Deployment has that value and is healthy, and
// the branch has something else, of which Argo CD knows.
func (w *gitWorld) wantOutOfSync(t *testing.T, seqs, head string) {
	t.Helper()
	if got := w.git.Head(t); got != head {
		t.Errorf("the branch is at %s, want %s", got, head)
	}
	w.app.Await(t, time.Minute, "healthy, and unlike its branch", func(s rig.ApplicationStatus) bool {
		return s.Sync == "OutOfSync" && s.Revision == head && s.Health == "Healthy" && !s.Running
	})
	if got := liveSeqs(t, w.cp, w.ns, w.layout.workload); got != "--max-num-seqs="+seqs {
		t.Errorf("the Deployment has %s, want %s", got, seqs)
	}
}

// wantUntouched fails unless everything is as the person left it.
func (w *gitWorld) wantUntouched(t *testing.T) {
	t.Helper()
	w.wantCommits(t, 0)
	w.wantHistory(t, w.good(t), w.broken)
	if got := liveSeqs(t, w.cp, w.ns, w.layout.workload); got != "--max-num-seqs=128" {
		t.Errorf("the Deployment has %s; nobody may have synced it", got)
	}
}

// awaitSecond waits until a second run has ended in that way.
func (w *gitWorld) awaitSecond(t *testing.T, outcome machine.RunOutcome) *rig.Run {
	t.Helper()
	var second *rig.Run
	rig.Await(t, 3*time.Minute, "end of the second run", func(ctx context.Context) (bool, string) {
		entries, err := w.responder.Entries(ctx)
		if err != nil {
			return false, err.Error()
		}
		runs, err := rig.RunsOf(entries)
		if err != nil || len(runs) < 2 {
			return false, "no second run"
		}
		second = runs[1]
		return second.Ending != nil, second.String()
	})
	if second.Ending.Outcome != outcome {
		t.Fatalf("the run ended %s; want %s\n%s", second.Ending.Outcome, outcome, second)
	}
	return second
}
