//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The rollout is not the cause: going back does not help, so it is undone to
// the letter and a person takes over.
func TestChangeThatDoesNotHelpIsUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.setImage(t, "vllm:v2")
	before := w.spec(t)

	w.fleet.SetProfile(func(*corev1.Pod) rig.Profile { p := rig.Healthy; p.TTFT = 3; return p })
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeEscalated)

	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant it as before the run\n%s", after, before)
	}
	w.wantWrites(t, w.patched(200), w.patched(200))
	for _, kind := range []machine.EventKind{machine.Applied, machine.VerifyEnded, machine.Undone, machine.Unwound} {
		if n := run.Has(kind); n != 1 {
			t.Errorf("%s happened %d times, want once:\n%s", kind, n, run)
		}
	}
	if n := run.Has(machine.Verified); n != 0 {
		t.Errorf("a change that did not help was verified:\n%s", run)
	}
	w.wantIntact(t)
}
