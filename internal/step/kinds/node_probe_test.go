package kinds_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// diagnosis is a Prometheus that answers a probe.
type diagnosis struct {
	values   []float64
	age      time.Duration
	warnings []string
	err      error
}

func (d diagnosis) Instant(_ context.Context, expr string, at time.Time) (slo.Vector, error) {
	v := slo.Vector{Warnings: d.warnings}
	for _, x := range d.values {
		if strings.Contains(expr, "timestamp(") {
			x = float64(at.Add(-d.age).Unix())
		}
		v.Samples = append(v.Samples, slo.Sample{Value: x, At: at})
	}
	return v, d.err
}

func (diagnosis) Range(context.Context, string, time.Time, time.Time, time.Duration) (slo.Matrix, error) {
	return slo.Matrix{}, errors.New("a probe asks for now")
}

// TestUncordonProbe: a test that others ran has to have passed. Whatever cannot be
// said of it is no pass, and it is asked only about a node that seems well.
func TestUncordonProbe(t *testing.T) {
	for name, c := range map[string]struct {
		q    step.Querier
		with map[string]any
		gpus agentOf
		why  fault.Reason // of the refusal; empty: the node comes back
		says string
	}{
		"it passed":                 {q: diagnosis{values: []float64{1}}, says: "the probe (diag) is 1, wanted == 1"},
		"each of them did":          {q: diagnosis{values: []float64{3, 5}}, with: map[string]any{"probe_op": ">=", "probe_value": 3.0}, says: "the probe (diag) is 3, wanted >= 3"},
		"without words":             {q: diagnosis{values: []float64{1}}, with: map[string]any{"probe_asks": ""}, says: "the probe diag_passed is 1, wanted == 1"},
		"it did not":                {q: diagnosis{values: []float64{0}}, why: fault.NotMet, says: "node node-0 is not proven healthy: the probe (diag) is 0, wanted == 1"},
		"one of them did not":       {q: diagnosis{values: []float64{1, 0}}, why: fault.NotMet, says: "the probe (diag) is 0"},
		"nobody ran it":             {q: diagnosis{}, why: fault.NotMet, says: "the probe (diag): no series answers (missing is not zero)"},
		"no number":                 {q: diagnosis{values: []float64{math.NaN()}}, why: fault.NotMet, says: "the probe (diag): not a finite number"},
		"not scraped lately":        {q: diagnosis{values: []float64{1}, age: 3 * time.Minute}, why: fault.NotMet, says: "the probe (diag): the newest sample is 3m0s old"},
		"half an answer":            {q: diagnosis{values: []float64{1}, warnings: []string{"one store did not answer"}}, why: fault.NotMet, says: "may be partial"},
		"Prometheus is down":        {q: diagnosis{err: &fault.Error{Reason: fault.Unreachable, Message: "down"}}, why: fault.NotMet, says: "the probe (diag): down"},
		"there is none":             {why: fault.Invalid, says: "prometheus.url"},
		"a comparison that is none": {q: diagnosis{values: []float64{1}}, with: map[string]any{"probe_op": "=~"}, why: fault.Invalid, says: "probe_op"},
		"and it is not well":        {q: diagnosis{values: []float64{1}}, gpus: xid(95), why: fault.NotMet, says: "its GPUs: failing"},
	} {
		for _, kind := range []string{"node.uncordon", "node.untaint"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				x := newNodeTrial(t, kind, map[string]any{"probe": "diag_passed", "probe_asks": "diag"})
				for k, v := range c.with {
					x.with[k] = v
				}
				if kind == "node.untaint" {
					ourTaint(x.Server)
				} else {
					ourCordon(x.Server)
				}
				x.deps.Querier, x.deps.GPUs = c.q, agentOf(func(*gpu.GPU) {})
				if c.gpus != nil {
					x.deps.GPUs = c.gpus
				}
				o := x.do(t, machine.ActionPlan, nil, "")
				switch {
				case c.why == "" && (o.Status != machine.StatusOK || !strings.Contains(strings.Join(o.Plan.Notes, "; "), c.says)):
					t.Errorf("plan: %s %s %+v, want the proof %q", o.Status, o.Message, o.Plan, c.says)
				case c.why != "" && (o.Reason != c.why || !strings.Contains(o.Message, c.says)):
					t.Errorf("plan: %s %s %s, want %s %q", o.Status, o.Reason, o.Message, c.why, c.says)
				}
			})
		}
	}
}
