//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// The generated rules and the shipped playbooks as they are, no window shortened: a node fails
// under a replica, the service breaches its objective, and the run tells people
// which node it is instead of adding replicas or taking a release back.
func TestShippedPlaybooksAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{unscaled: true})
	w.cp.Kubectl(t, "annotate", "node", w.nodes[0], "rig.responder/node-ready=false")
	awaitField(t, w.cp, w.ns, "node/"+w.nodes[0], `{.status.conditions[?(@.type=="Ready")].status}`, "False")

	w.fleet.SetProfile(slow)
	run := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeEscalated)
	if run.Start.Playbook != "inference-slo-breach" {
		t.Errorf("the run is of %s", run.Start.Playbook)
	}
	wantEnd(t, run, machine.OutcomeEscalated, "node at fault", w.ns+"/chat breaches its SLO and 1 of its nodes are at fault")
	if n := run.Has(machine.PlanCompleted); n != 0 {
		t.Errorf("%d levers were planned, want none:\n%s", n, run)
	}
	w.wantWrites(t)
	wantIntact(t, w.responder)
}
