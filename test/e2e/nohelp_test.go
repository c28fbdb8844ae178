//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The rollout is not the cause and neither is the load: going back has no effect,
// so people are asked and it is undone to the letter; more replicas have none
// either, in two steps up to the most allowed, and stay on loan; then a person takes over.
func TestChangesThatDoNotHelp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{settings: "guards: {cooldown: 1s}"})
	w.setImage(t, "vllm:v2")
	before := w.spec(t)

	w.fleet.SetProfile(slow)
	run := w.responder.AwaitRun(t, 2*time.Minute, "the question whether the rollback goes back", func(r *rig.Run) bool { return r.Has(machine.GateOpened) == 1 })
	if g := run.Last(machine.GateOpened).Gate; !g.Undo || g.Unanswered != machine.Keep {
		t.Errorf("the question is %+v, want whether to take the rollback back, and keep it without an answer", g)
	}
	w.responder.Must(t, "approve", run.ID, "--yes")
	w.responder.AwaitRun(t, time.Minute, "the rollback undone", func(r *rig.Run) bool { return r.Has(machine.Undone) == 1 })
	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant it as before the run\n%s", after, before)
	}
	run = w.responder.AwaitEnd(t, 3*time.Minute, machine.OutcomeEscalated)
	w.wantWrites(t, w.patched(200), w.patched(200), w.scaled(200), w.scaled(200))
	for kind, want := range map[machine.EventKind]int{
		machine.Applied: 3, machine.VerifyEnded: 3, machine.Undone: 1, machine.Unwound: 1, machine.Kept: 2,
	} {
		if n := run.Has(kind); n != want {
			t.Errorf("%s happened %d times, want %d:\n%s", kind, n, want, run)
		}
	}
	if l := run.Last(machine.Kept).Loan; l == nil || w.replicas(t) != 6 {
		t.Errorf("%d replicas and the loan %+v, want the added ones on loan", w.replicas(t), l)
	}
	rig.Await(t, 30*time.Second, "the loan waits for recovery", func(context.Context) (bool, string) {
		owed := w.responder.Must(t, "loans", "list")
		return strings.Contains(owed, "waits for recovery"), owed
	})
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
