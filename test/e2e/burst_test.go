//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// More traffic than two replicas can serve: the responder proposes two more,
// changes nothing until a person says yes, and then proves that it helped.
func TestBurstIsScaledAfterApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{autonomy: "suggest"})

	w.fleet.SetTraffic(600) // two pods serve 500
	run := w.responder.AwaitRun(t, time.Minute, "a question to people", func(r *rig.Run) bool { return r.Has(machine.GateOpened) == 1 })
	if n := w.replicas(t); n != 2 {
		t.Errorf("%d replicas before the approval, want 2", n)
	}
	w.wantWrites(t)
	shown := w.responder.Must(t, "runs", "show", run.ID)
	for _, want := range []string{"group:oncall", "spec.replicas", "responder approve " + run.ID} {
		if !strings.Contains(shown, want) {
			t.Errorf("runs show does not say %q:\n%s", want, shown)
		}
	}

	w.responder.Must(t, "approve", run.ID, "--yes")
	run = w.responder.AwaitEnd(t, 90*time.Second, machine.OutcomeResolved)
	if n := w.replicas(t); n != 4 {
		t.Errorf("%d replicas after the run, want 4", n)
	}
	decided := run.Last(machine.GateDecided).Decision
	if decided == nil || !decided.Approve || decided.By != "user:oncall" {
		t.Errorf("the decision is %+v, want an approval by user:oncall", decided)
	}
	w.wantWrites(t, w.scaled(200))
	w.awaitHealthy(t)
	wantIntact(t, w.responder)
}
