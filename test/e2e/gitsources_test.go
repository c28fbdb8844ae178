//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Whatever Argo CD makes the manifests of, the one place that counts is changed,
// by one line: it is rolled out, and proven or reverted.
func sourceHelps(o gitOptions) func(*testing.T, *gitWorlds) {
	return func(t *testing.T, all *gitWorlds) {
		w := all.world(t, o)
		run := w.ends(t, machine.OutcomeResolved)
		sha := w.wantCommits(t, 1)[0]
		w.wantSeqs(t, "32")
		diff := w.git.Diff(t, sha)
		if !strings.Contains(diff, w.layout.flag(32)) || strings.Count(diff, "\n+") != 2 || strings.Count(diff, "\n-") != 2 {
			t.Errorf("the commit is\n%s\nwant one line", diff)
		}
		if o.app.Generated {
			if plan := run.Last(machine.PlanCompleted).Plan; plan == nil || !strings.Contains(strings.Join(plan.Notes, "\n"), "ApplicationSet "+w.ns) {
				t.Errorf("the plan does not say that an ApplicationSet makes the application: %+v", plan)
			}
		}
	}
}

func sourceDoesNotHelp(l layout) func(*testing.T, *gitWorlds) {
	return func(t *testing.T, all *gitWorlds) {
		w := all.world(t, gitOptions{layout: &l, hopeless: true})
		run := w.ends(t, machine.OutcomeEscalated)
		shas := w.wantCommits(t, 2)
		w.wantSeqs(t, "128")
		if got, want := w.git.File(t, shas[0], l.file), w.git.File(t, w.broken, l.file); got != want {
			t.Errorf("the revert leaves\n%s\nwant\n%s", got, want)
		}
		if run.Has(machine.Unwound) != 1 || run.Has(machine.Verified) != 0 {
			t.Errorf("want it undone and unwound once, and not verified:\n%s", run)
		}
	}
}
