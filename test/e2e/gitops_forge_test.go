//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

const forgeToken = "forge-token-of-no-worth"

// awaitPull waits until the forge has n pull requests, and returns the last one.
func (w *gitWorld) awaitPull(t *testing.T, n int) gittest.Pull {
	t.Helper()
	var last gittest.Pull
	rig.Await(t, time.Minute, fmt.Sprintf("%d pull requests", n), func(context.Context) (bool, string) {
		pulls := w.forge.Pulls()
		if len(pulls) == n {
			last = pulls[n-1]
		}
		return len(pulls) == n, fmt.Sprintf("%+v", pulls)
	})
	return last
}

// The branch is protected: the plan is the text of a merge request, nothing is
// rolled out before a person merges it, and Argo CD rolls the merge out.
func gitMergedByPeople(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{forge: "gitlab", merge: "people"})
	w.alert(t)
	pull := w.awaitPull(t, 1)
	for _, want := range []string{"set --max-num-seqs from 128 to 32", manifestPath, "InferenceTTFTFastBurn"} {
		if !strings.Contains(pull.Text, want) {
			t.Errorf("the merge request does not say %q:\n%s", want, pull.Text)
		}
	}
	w.responder.AwaitRun(t, time.Minute, "the run waits for the merge", func(r *rig.Run) bool {
		return strings.Contains(r.String(), "waits for the merge of")
	})
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=128" || w.git.Head(t) != w.broken {
		t.Errorf("before the merge the Deployment has %s and the branch is at %s", got, w.git.Head(t))
	}
	merged := w.forge.MergeAs(t, "grace", pull.Number, "merge")
	run := w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeResolved)
	if head := w.git.Head(t); head != merged {
		t.Errorf("the branch is at %s, want the merge %s:\n%s", head, merged, run)
	}
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
}

// Responder merges where that is its to do, and takes back what did not help by
// a pull request of its own.
func gitMergedByResponder(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{forge: "github", merge: "responder", hopeless: true})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 2)
	w.wantSeqs(t, "128")
	pulls := w.forge.Pulls()
	if len(pulls) != 2 || pulls[0].State != "merged" || pulls[1].State != "merged" {
		t.Errorf("the pull requests are %+v, want two that are merged:\n%s", pulls, run)
	}
	if run.Has(machine.Unwound) != 1 || run.Has(machine.Verified) != 0 {
		t.Errorf("want it undone and unwound once, and not verified:\n%s", run)
	}
}
