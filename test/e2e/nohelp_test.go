//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The rollout is not the cause and neither is the load: going back does not
// help, more replicas do not help, so each is undone to the letter before the
// next is tried, and then a person takes over.
func TestChangeThatDoesNotHelpIsUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{settings: "guards: {cooldown: 1s}"})
	w.setImage(t, "vllm:v2")
	before := w.spec(t)

	w.fleet.SetProfile(slow)
	run := w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeEscalated)

	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant it as before the run\n%s", after, before)
	}
	w.wantWrites(t, w.patched(200), w.patched(200), w.patched(200), w.patched(200))
	for _, kind := range []machine.EventKind{machine.Applied, machine.VerifyEnded, machine.Undone, machine.Unwound} {
		if n := run.Has(kind); n != 2 {
			t.Errorf("%s happened %d times, want once a lever:\n%s", kind, n, run)
		}
	}
	if n := run.Has(machine.Verified); n != 0 {
		t.Errorf("a change that did not help was verified:\n%s", run)
	}
	wantIntact(t, w.responder)
}

// slow is an engine whose first tokens come late, whatever it runs.
func slow(*corev1.Pod) rig.Profile {
	p := rig.Healthy
	p.TTFT = 3
	return p
}
