//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// Argo CD refuses connections for two minutes from the push on: the run waits
// for it, says so, and asks for nothing twice. It is a test of its own, and the
// first of those that run in parallel, because it takes that long.
func TestArgoAwayForTwoMinutes(t *testing.T) {
	t.Parallel()
	w := newGitWorlds(t).world(t, gitOptions{})
	away := make(chan time.Time, 1)
	w.git.AfterPush(func() { w.proxy.Shut(); away <- time.Now() })
	w.alert(t)
	var since time.Time
	select {
	case since = <-away:
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was pushed")
	}
	rig.Await(t, 3*time.Minute, "two minutes without Argo CD", func(context.Context) (bool, string) {
		return time.Since(since) >= 2*time.Minute, ""
	})
	w.responder.AwaitRun(t, time.Minute, "a run that waits and says why", func(r *rig.Run) bool {
		return r.Ending == nil && r.Has(machine.Settling) >= 3 && r.Last(machine.Settling).Reason == fault.Unreachable
	})
	w.proxy.Open(t)
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	w.wantCommits(t, 1)
	w.wantSeqs(t, "32")
	if n := run.Has(machine.Applied); n != 1 {
		t.Errorf("the change is on record %d times, want once:\n%s", n, run)
	}
}
