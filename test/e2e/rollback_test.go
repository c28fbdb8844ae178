//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// The whole way, with nothing simulated but the accelerators: a bad rollout
// breaks the SLO, Prometheus evaluates the burn rate, Alertmanager posts, and
// the responder, which found the service in the cluster, rolls the Deployment
// back under exactly the deployed role.
func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{discover: true})
	before := w.spec(t)

	broken := time.Now()
	w.setImage(t, "vllm:v2-bad")
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	t.Logf("from the bad rollout to the proven fix: %v", time.Since(broken).Round(100*time.Millisecond))

	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant the one before the bad rollout\n%s", after, before)
	}
	w.awaitHealthy(t)
	w.wantWrites(t, w.patched(200))
	for _, kind := range []machine.EventKind{machine.Applied, machine.Settled, machine.Verified} {
		if n := run.Has(kind); n != 1 {
			t.Errorf("%s happened %d times, want once:\n%s", kind, n, run)
		}
	}
	shown := w.responder.Must(t, "runs", "show", run.ID)
	for _, want := range []string{run.ID, "resolved", "vllm:v2-bad", "vllm:v1", w.ns + "/chat"} {
		if !strings.Contains(shown, want) {
			t.Errorf("runs show does not say %q:\n%s", want, shown)
		}
	}
	if list := w.responder.Must(t, "runs", "list"); !strings.Contains(list, "resolved") {
		t.Errorf("runs list does not say resolved:\n%s", list)
	}
	wantIntact(t, w.responder)
}
