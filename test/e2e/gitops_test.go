//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// A service that Git owns is repaired in Git, and what goes wrong on the way to
// Git and to Argo CD neither doubles a change nor loses one. Everything is real
// but the engines.
func TestGitOps(t *testing.T) {
	t.Parallel()
	all := newGitWorlds(t)
	for name, scenario := range map[string]func(*testing.T, *gitWorlds){
		"flag helps":                          gitFlagHelps,
		"flag does not help":                  gitFlagDoesNotHelp,
		"rollback becomes a revert":           gitRollback,
		"a release goes back":                 gitRelease,
		"an old commit pushed today":          gitOldCommit,
		"somebody pushes in between":          gitSomebodyPushes,
		"somebody changes the same line":      gitSameLine,
		"the sync fails":                      gitSyncFails,
		"a patch decides":                     gitPatchDecides,
		"a parameter decides":                 gitParameterDecides,
		"refused before the commit":           gitRefusedBefore,
		"never healthy":                       gitNeverHealthy,
		"sync window is closed":               gitWindowClosed,
		"sync window closes meanwhile":        gitWindowClosesMeanwhile,
		"live lever is refused":               gitLiveLever,
		"token is revoked":                    gitTokenRevoked,
		"repository away for the push":        gitPushAway,
		"answer of the push is lost":          gitAnswerLost,
		"killed before the push":              gitKilledBeforePush,
		"killed while the push is taken":      gitKilledAtPush,
		"killed after the push":               gitKilledAfterPush,
		"killed during the sync":              gitKilledDuringSync,
		"kustomize":                           sourceHelps(gitOptions{layout: &kustomized}),
		"kustomize does not help":             sourceDoesNotHelp(kustomized),
		"Helm":                                sourceHelps(gitOptions{layout: &stack}),
		"Helm does not help":                  sourceDoesNotHelp(stack),
		"several sources":                     sourceHelps(gitOptions{layout: &values}),
		"several sources do not help":         sourceDoesNotHelp(values),
		"ApplicationSet":                      sourceHelps(gitOptions{app: rig.ApplicationOptions{Generated: true}}),
		"synced by hand":                      gitManual,
		"merged by people":                    gitMergedByPeople,
		"merged by Responder":                 gitMergedByResponder,
		"a refused manifest of somebody else": gitRefusedConcurrent,
		"malformed YAML of somebody else":     gitWaitsForOthers(noYAML, "ComparisonError"),
		"unknown field of somebody else":      gitWaitsForOthers(unknownField, "OutOfSync at"),
		"never in sync of somebody else":      gitNeverInSync,
		"token is revoked after the plan":     gitTokenRevokedLate,
		"Alertmanager sends the alert":        gitRealAlert,
		"sync":                                gitArgoSync,
		"sync does not help":                  gitArgoSyncDoesNotHelp,
		"sync of what is refused":             gitArgoSyncFails,
		"sync does not end":                   gitArgoSyncHangs,
		"Argo CD rolls back":                  gitArgoRollback,
		"rollback does not help":              gitArgoRollbackDoesNotHelp,
		"killed during the rollback":          gitArgoKilled,
		"rollback in Git":                     gitArgoRollbackInGit,
		"rollback to last good":               gitArgoRollbackToLastGood,
		"window closed for both":              gitArgoWindow,
		"no right to sync":                    gitArgoNoRight,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, all)
		})
	}
}

func gitFlagHelps(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	pushed, synced := w.syncedAt(t)
	run := w.ends(t, machine.OutcomeResolved)
	in, done, knew := <-pushed, <-synced, run.Last(machine.Settled).At
	t.Logf("from the alert to the push %.2fs, from there to synced and healthy %.2fs, from there until the responder knew %.2fs",
		in.Sub(run.Events[0].At).Seconds(), done.Sub(in).Seconds(), knew.Sub(done).Seconds())
	sha := w.wantCommits(t, 1)[0]
	w.wantSeqs(t, "32")
	diff := w.git.Diff(t, sha)
	if !strings.Contains(diff, "\n-            - --max-num-seqs=128\n+            - --max-num-seqs=32\n") || strings.Count(diff, "\n+") != 2 {
		t.Errorf("the commit is\n%s\nwant one line", diff)
	}
	body := strings.Join(w.git.Log(t, "%H %B"), "\n")
	for _, want := range []string{"Responder-Run: " + run.ID, "Responder-State: act", "Responder-Plan: ", "Responder-Effect: ", "InferenceTTFTFastBurn"} {
		if !strings.Contains(body, want) {
			t.Errorf("the commit does not say %q:\n%s", want, body)
		}
	}
	for _, kind := range []machine.EventKind{machine.Applied, machine.Settled, machine.Verified} {
		if n := run.Has(kind); n != 1 {
			t.Errorf("%s happened %d times, want once:\n%s", kind, n, run)
		}
	}
	good := w.responder.Must(t, "gitops", "last-good", "--service", w.ns+"/chat")
	for _, want := range []string{"--max-num-seqs", "32", sha[:7]} {
		if !strings.Contains(good, want) {
			t.Errorf("last-good does not say %q:\n%s", want, good)
		}
	}
}

func gitFlagDoesNotHelp(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{hopeless: true})
	run := w.ends(t, machine.OutcomeEscalated)
	shas := w.wantCommits(t, 2)
	w.wantSeqs(t, "128")
	if got, want := w.git.File(t, shas[0], manifestPath), w.git.File(t, w.broken, manifestPath); got != want {
		t.Errorf("the revert leaves\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(strings.Join(w.git.Log(t, "%B"), "\n"), "This reverts commit "+shas[1]) {
		t.Errorf("the revert does not name the commit %s", shas[1])
	}
	if run.Has(machine.Undone) != 1 || run.Has(machine.Unwound) != 1 || run.Has(machine.Verified) != 0 {
		t.Errorf("want it undone and unwound once, and not verified:\n%s", run)
	}
}

// A rollback of a live object that Git owns is made in Git.
func gitRollback(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: "lever: service.rollback"})
	w.ends(t, machine.OutcomeResolved)
	sha := w.wantCommits(t, 1)[0]
	w.wantSeqs(t, "64")
	if got := w.git.File(t, sha, manifestPath); got != manifest(64) {
		t.Errorf("the revert leaves\n%s", got)
	}
}

// Image and flag of a release go back together, in one commit, and the replicas
// that were scaled since stay.
func gitRelease(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: "lever: service.rollback\n      with: {window: 10m}", release: true})
	run := w.ends(t, machine.OutcomeResolved)
	sha := w.wantCommits(t, 1)[0]
	w.wantSeqs(t, "64")
	if got, want := w.git.File(t, sha, manifestPath), strings.Replace(manifest(64), "replicas: 2 ", "replicas: 3 ", 1); got != want {
		t.Errorf("the revert leaves\n%s\nwant\n%s", got, want)
	}
	if plan := run.Last(machine.PlanCompleted); plan.Plan == nil || !strings.HasPrefix(plan.Plan.Why, "takes back 2 fields of 2 commits: ") {
		t.Errorf("planned %+v, want 2 fields of 2 commits", plan.Plan)
	}
}

// A commit that was made a week ago and rolled out just now is in the burn window.
func gitOldCommit(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{lever: "lever: gitops.revert\n      with: {window: 10m}", old: true})
	w.ends(t, machine.OutcomeResolved)
	sha := w.wantCommits(t, 1)[0]
	w.wantSeqs(t, "64")
	if got := w.git.File(t, sha, manifestPath); got != manifest(64) {
		t.Errorf("the revert leaves\n%s", got)
	}
}

// Another change of another line comes in under the push: the plan is made
// anew on top of it, and both stay.
func gitSomebodyPushes(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	pushed := make(chan error, 1)
	w.git.BeforePush(func() bool {
		_, err := w.git.TryCommit(context.Background(), "Say more", map[string]string{"README.md": "# What is served, and why\n"})
		pushed <- err
		return true
	})
	w.ends(t, machine.OutcomeResolved)
	if err := <-pushed; err != nil {
		t.Fatal(err)
	}
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
	if log := w.git.Log(t, "%s"); log[1] != "Say more" {
		t.Errorf("the branch has %q, want ours on top of the other", log)
	}
}

// A person changes the very line: the run stops, and what the person did stays.
func gitSameLine(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	changed := strings.Replace(w.git.File(t, w.broken, manifestPath), "--max-num-seqs=128", "--max-num-seqs=96", 1)
	w.git.BeforePush(func() bool {
		_, _ = w.git.TryCommit(context.Background(), "Serve fewer", map[string]string{manifestPath: changed}) // the log below tells
		return true
	})
	w.ends(t, machine.OutcomeHandedOver)
	w.wantCommits(t, 0)
	if log := w.git.Log(t, "%s"); log[0] != "Serve fewer" {
		t.Errorf("the branch has %q, want the person's commit on top", log)
	}
	if file := w.git.File(t, w.git.Branch, manifestPath); file != changed {
		t.Errorf("Git has\n%s\nwant what the person wrote", file)
	}
}
