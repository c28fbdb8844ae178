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

// The API server cannot be reached for a minute from the moment that a rollback was
// written: the run waits for it, says so, writes nothing twice, and proves the fix.
func TestAPIServerAwayAfterTheWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{proxied: true})
	before := w.spec(t)
	w.setImage(t, "vllm:v2-bad")
	w.responder.AwaitRun(t, 2*time.Minute, "the write", func(r *rig.Run) bool { return r.Has(machine.Applied) > 0 })
	w.withoutAPIServer(t, time.Minute)
	w.responder.AwaitRun(t, time.Minute, "a run that waits and says why", func(r *rig.Run) bool {
		return r.Ending == nil && r.Has(machine.Settling) >= 3 && r.Last(machine.Settling).Reason == fault.Unreachable
	})
	w.apiServer.Open(t)
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant the one before the bad rollout\n%s", after, before)
	}
	w.wantWrites(t, w.patched(200))
	if n := run.Has(machine.Applied); n != 1 {
		t.Errorf("the change is on record %d times, want once:\n%s", n, run)
	}
	wantIntact(t, w.responder)
}

// It cannot be reached for a minute from before the alert: the run waits for it, and
// knows what to do once it is back.
func TestAPIServerAwayBeforeTheAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{proxied: true})
	before := w.spec(t)
	w.apiServer.Shut()
	w.setImage(t, "vllm:v2-bad")
	w.responder.AwaitRun(t, time.Minute, "a run", func(r *rig.Run) bool { return r.Has(machine.EffectStarted) > 0 })
	w.withoutAPIServer(t, time.Minute)
	w.apiServer.Open(t)
	w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant the one before the bad rollout\n%s", after, before)
	}
	w.wantWrites(t, w.patched(200))
	wantIntact(t, w.responder)
}

// It stays away: nothing is changed by what is not known, and people are told.
func TestAPIServerStaysAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{proxied: true})
	w.apiServer.Shut()
	w.setImage(t, "vllm:v2-bad")
	run := w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeEscalated)
	wantEnd(t, run, machine.OutcomeEscalated, "evidence is missing")
	w.wantWrites(t)
	if got := w.image(t); got != "vllm:v2-bad" {
		t.Errorf("the image is %s", got)
	}
	wantIntact(t, w.responder)
}

// withoutAPIServer takes the API server from the responder for a while, and leaves it
// away.
func (w *world) withoutAPIServer(t *testing.T, lasts time.Duration) {
	t.Helper()
	w.apiServer.Shut()
	since := time.Now()
	rig.Await(t, lasts+time.Minute, "time without the API server", func(context.Context) (bool, string) {
		return time.Since(since) >= lasts, ""
	})
}
