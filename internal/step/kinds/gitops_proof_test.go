package kinds_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestProvenMeansInEffect: figures that are met prove nothing while what runs
// has another value, whatever Argo CD says of the application, or cannot be read.
func TestProvenMeansInEffect(t *testing.T) {
	const traffic = "sum(rate(reqs[2m]))"
	for name, tt := range map[string]struct {
		change  func(*gitWorld)
		verdict machine.Verdict
		reason  fault.Reason
		says    string
	}{
		"in effect": {func(*gitWorld) {}, machine.VerdictVerified, "", ""},
		"changed by hand, and not healed": {func(w *gitWorld) {
			w.App.Sync, w.Live = "OutOfSync", map[string]string{"--max-num-seqs": "64"}
		}, machine.VerdictInconclusive, fault.Overridden, "do not count yet: Deployment serving/chat has --max-num-seqs 64, not 192"},
		"out of sync for another reason": {func(w *gitWorld) { w.App.Sync = "OutOfSync" }, machine.VerdictVerified, "", ""},
		"the cluster does not answer": {func(w *gitWorld) {
			w.ClusterDown = errors.New("no route to the cluster")
		}, machine.VerdictInconclusive, fault.ServerError, "no route to the cluster"},
		"Argo CD does not answer": {func(w *gitWorld) { w.ArgoDown = errors.New("away") }, machine.VerdictVerified, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			plan, receipt := made(t, w)
			tt.change(w)
			e := proofOf(machine.Proof{HeldFrom: noon.Add(-2 * time.Minute), LastAt: noon.Add(-15 * time.Second)})
			e.Proof.Before, e.Proof.Spec.ErrorRatio = 9, ""
			e.Key, e.Run, e.State, e.Step = "r-1/cap#1/verify#1", "r-1", "cap", "gitops.set_flag"
			e.Service, e.Plan, e.Receipt, e.With = service("Deployment"), plan, receipt, seqs
			w.deps.Querier = prom{values: map[string][]float64{"slow": {0.001}, traffic: {9}}, age: 20 * time.Second}
			o := kinds.New(w.deps).Do(t.Context(), e)
			if o.Sample == nil || o.Sample.Verdict != tt.verdict || o.Sample.Reason != tt.reason || !strings.Contains(o.Sample.Message, tt.says) {
				t.Errorf("%s %s: %+v, want %s %s ...%s...", o.Status, o.Message, o.Sample, tt.verdict, tt.reason, tt.says)
			}
		})
	}
}
