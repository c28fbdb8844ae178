package kinds_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// gone is a Prometheus that lost every series: only constants answer.
type gone struct{ prom }

// Instant implements step.Querier.
func (g gone) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if strings.HasPrefix(expr, "label_replace(max(timestamp") {
		return slo.Vector{}, nil
	}
	return g.prom.Instant(ctx, expr, at)
}

// "or vector(0)" stands for a counter that does not exist yet. With every
// series gone it is no measurement, and proves nothing.
func TestConstantWithoutSeriesProvesNothing(t *testing.T) {
	e := proofOf(machine.Proof{HeldFrom: noon.Add(-2 * time.Minute), LastAt: noon.Add(-15 * time.Second)})
	e.Proof.Spec.ErrorRatio = ""
	e.Proof.Spec.Until[0].Query = "sum(slow) or vector(0)"
	q := gone{prom{values: map[string][]float64{"sum(slow) or vector(0)": {0}, "sum(rate(reqs[2m]))": {9}}}}
	o := do(t, step.Deps{Querier: q, Workloads: fleet{}}, e)
	if o.Sample == nil || o.Sample.Verdict != machine.VerdictInconclusive || o.Sample.Reason != fault.NoData {
		t.Errorf("%s: %+v, want inconclusive for lack of data", o.Status, o.Sample)
	}
}

// A look that cannot be taken says nothing about the change: "failed" would say
// that it did not happen, and the run would walk on over it.
func TestLookThatCannotBeTakenIsUnknown(t *testing.T) {
	for name, e := range map[string]machine.Effect{
		"a step this release does not know": {Action: machine.ActionApply, Observe: true, Step: "gone.lever", Plan: &machine.Plan{}},
		"a plan that is lost":               {Action: machine.ActionUndo, Observe: true, Step: "kube.scale"},
		"a plan that cannot be read":        {Action: machine.ActionApply, Observe: true, Step: "kube.scale", Plan: &machine.Plan{Payload: []byte(`{"from":"?"}`)}},
	} {
		if o := do(t, step.Deps{Workloads: fleet{}, Changer: fleet{}}, e); o.Status != machine.StatusUnknown {
			t.Errorf("%s: %s %s, want unknown", name, o.Status, o.Message)
		}
	}
}

// A query over several stores that could not read one of them is no evidence,
// however healthy the rest looks.
func TestPartialAnswerIsNotOK(t *testing.T) {
	q := prom{values: map[string][]float64{"up": {1}}, warnings: []string{"store a is unreachable"}}
	set := kinds.New(step.Deps{Querier: q})
	o := set.Do(t.Context(), machine.Effect{Action: machine.ActionCheck, Step: "prometheus.query", With: map[string]any{"query": "up"}, At: noon})
	if o.Status != machine.StatusOK || !strings.Contains(string(o.Data), `"status":"partial"`) || strings.Contains(string(o.Data), `"value":1,"series"`) {
		t.Errorf("a partial answer is %s %s, want status partial and no value", o.Status, o.Data)
	}
}
