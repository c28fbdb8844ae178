//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// What runs has to have what Git says. An application may decide it in Git's
// place, and is Synced and Healthy all the same.

// A patch of the application has the value that Git has, so that nothing tells
// before the commit. After the sync what runs has it still, and the commit is
// reverted, whatever the figures say.
func gitPatchDecides(t *testing.T, all *gitWorlds) {
	l := kustomized
	l.source = `kustomize: {patches: [{target: {kind: Deployment}, patch: '[{"op": "replace", "path": "/spec/template/spec/containers/0/args/2", "value": "--max-num-seqs=128"}]'}]}, `
	w := all.world(t, gitOptions{layout: &l})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 2)
	w.wantSeqs(t, "128")
	const say = "but Deployment "
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Overridden || !strings.Contains(why.Message, say+w.ns+"/chat has --max-num-seqs 128, not 32") ||
		!strings.Contains(why.Message, "spec.source.kustomize.patches") {
		t.Errorf("it was given up for %s: %q; want that the patch decides it", why.Reason, why.Message)
	}
	if run.Has(machine.Settled) != 0 || run.Has(machine.Unwound) != 1 {
		t.Errorf("want it never in effect, and unwound:\n%s", run)
	}
	if good := w.responder.Must(t, "gitops", "last-good", "--service", w.ns+"/chat"); strings.Contains(good, "--max-num-seqs") {
		t.Errorf("what had no effect is last good:\n%s", good)
	}
}

// A parameter of the application decides a value of the chart: nothing is
// committed.
func gitParameterDecides(t *testing.T, all *gitWorlds) {
	l := stack
	l.source = `helm: {releaseName: serve, valueFiles: [values.yaml], parameters: [{name: "servingEngineSpec.modelSpec[0].vllmConfig.maxNumSeqs", value: "128"}]}, `
	w := all.world(t, gitOptions{layout: &l})
	w.wantRefused(t, fault.Overridden, "is set by spec.source.helm.parameters[servingEngineSpec.modelSpec[0].vllmConfig.maxNumSeqs] of the application")
}

// The API server would refuse the manifest: nothing is committed.
func gitRefusedBefore(t *testing.T, all *gitWorlds) {
	w := all.world(t, gitOptions{})
	w.refuse(t, "--max-num-seqs=32", "32 is reserved", "")
	w.wantRefused(t, fault.Invalid, "32 is reserved")
}

// wantRefused fails unless a run ends with a plan that was refused, and nothing
// in Git or in the cluster is other than before.
func (w *gitWorld) wantRefused(t *testing.T, reason fault.Reason, text string) {
	t.Helper()
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantCommits(t, 0)
	w.wantSeqs(t, "128")
	if why := run.Last(machine.PlanRefused); why.Reason != reason || !strings.Contains(why.Message, text) {
		t.Errorf("refused for %s: %q; want %s, and %q", why.Reason, why.Message, reason, text)
	}
}
