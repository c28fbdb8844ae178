package kinds_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/step"
)

// What a check found is said in the playbook's words with its unit; without
// words the expression has to say it.
func TestQueryInWords(t *testing.T) {
	words := map[string]any{"asks": "slow requests", "unit": "ratio of requests"}
	for _, tt := range []struct {
		name   string
		values []float64
		age    time.Duration
		with   map[string]any
		want   []string
	}{
		{"a value", []float64{0.96834}, 0, words, []string{"slow requests: 96.83% of requests"}},
		{"no words", []float64{0.96834}, 0, nil, []string{"up is 0.9683"}},
		{"a unit alone", []float64{3}, 0, map[string]any{"unit": "s"}, []string{"up is 3 s"}},
		{"several", []float64{0.5, 0}, 0, words, []string{"a: 50% of requests", "a: 0% of requests", "asked: slow requests"}},
		{"several without words", []float64{0.5, 0}, 0, nil, []string{`{pod="a"} is 0.5`, `{pod="a"} is 0`, "asked: up"}},
		{"nothing", nil, 0, words, []string{"slow requests: no series answers (missing is not zero)"}},
		{"stale", []float64{1}, 5 * time.Minute, words, []string{"slow requests: stale, the newest sample is 5m0s old, allowed 2m"}},
		{"a range", []float64{0.1, 0.3}, 0, map[string]any{"range": "10m", "asks": "slow requests", "unit": "ratio"}, []string{"slow requests over 10m: min 10%, avg 20%, max 30%"}},
	} {
		with := map[string]any{"query": "up"}
		for k, v := range tt.with {
			with[k] = v
		}
		q := prom{values: map[string][]float64{"up": tt.values}, age: tt.age}
		o := do(t, step.Deps{Querier: q}, machine.Effect{Action: machine.ActionCheck, Step: "prometheus.query", With: with})
		if diff := cmp.Diff(tt.want, o.Facts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A sample of the proof is named and measured as the playbook says.
func TestProofInWords(t *testing.T) {
	e := proofOf(machine.Proof{})
	e.Proof.Spec.Until[0].Name, e.Proof.Spec.Until[0].Unit = "slow TTFT", "ratio"
	q := prom{values: map[string][]float64{"slow": {0.5}, "bad[300s]": {0.5}, "sum(rate(reqs[2m]))": {9}}}
	o := do(t, step.Deps{Querier: q, Workloads: fleet{}, Changer: fleet{}}, e)
	if o.Sample == nil || !strings.Contains(o.Sample.Message, "slow TTFT is 50%, wanted < 1%") {
		t.Fatalf("%+v", o)
	}
	v := o.Sample.Values
	if len(v) != 3 || v[0].Name != "slow TTFT" || v[0].Unit != "ratio" || v[1].Name != "burn" || v[1].Unit != "" || v[2].Unit != "" {
		t.Errorf("%+v", v)
	}
	lines := e.Proof.Spec.Lines()
	if lines[0] != (machine.ProofLine{Text: "slow TTFT < 1%", Query: "slow"}) || lines[1].Query != "" {
		t.Errorf("%+v", lines)
	}
	e.Proof.Spec.Until[0].Name = ""
	if got := e.Proof.Spec.Lines()[0]; got != (machine.ProofLine{Text: "slow < 1%"}) {
		t.Errorf("%+v", got)
	}
}
