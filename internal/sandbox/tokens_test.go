package sandbox

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// A plan measures what its service generates, in PromQL that Prometheus
// answers; while replicas are ready that were not scraped for long enough, the
// sum would be too low and is not used.
func TestPlanMeasuresTokens(t *testing.T) {
	w, clock := open(t, "bad-rollout")
	svc, ref := chat(w)
	set := kinds.New(step.Deps{Querier: w, Workloads: w, Changer: w, Now: clock.Now})
	plan := func() *machine.Plan {
		t.Helper()
		o := set.Do(t.Context(), machine.Effect{
			Key: "r/s#1/plan#1", Run: "r", Action: machine.ActionPlan, Step: "kube.scale", Service: svc, With: map[string]any{"by": int64(-1)},
		})
		if o.Status != machine.StatusOK {
			t.Fatalf("plan: %s %s", o.Status, o.Message)
		}
		return o.Plan
	}
	p := plan()
	want := one(t, w, `sum(rate(vllm:generation_tokens_total{`+svc.Selector+`}[5m]))`, clock.Now())
	gone, known := p.Capacity.LostTokens()
	if !known || want < 100 || math.Abs(gone-want/float64(p.Capacity.ReadyNow)) > 1e-9 {
		t.Errorf("lost of %v tokens per second: %v %v, capacity %+v", want, gone, known, p.Capacity)
	}
	now := workload(t, w, ref)
	if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: now.Replicas + 1, Pre: pre(now)}); err != nil {
		t.Fatal(err)
	}
	for range 3600 {
		clock.Advance(time.Second)
		if workload(t, w, ref).Ready > now.Ready {
			break
		}
	}
	p = plan()
	if p.Capacity.TokensPerSecond != nil || !strings.Contains(strings.Join(p.Notes, "\n"), "4 of 5 ready replicas have fresh series") {
		t.Errorf("with a replica that is not measured yet: %+v %q", p.Capacity, p.Notes)
	}
	clock.Advance(time.Minute)
	if p = plan(); p.Capacity.TokensPerSecond == nil {
		t.Errorf("a minute later: %q", p.Notes)
	}
}
