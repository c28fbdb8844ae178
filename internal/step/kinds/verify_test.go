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
)

// past answers with other values for one moment of the past.
type past struct {
	prom
	at     time.Time
	values map[string][]float64
}

func (p past) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if at.Equal(p.at) {
		return prom{values: p.values}.Instant(ctx, expr, at)
	}
	return p.prom.Instant(ctx, expr, at)
}

func (p past) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (slo.Matrix, error) {
	if to.Equal(p.at) {
		return prom{values: p.values}.Range(ctx, expr, from, to, step)
	}
	return p.prom.Range(ctx, expr, from, to, step)
}

// TestVerifyAfterAPersonsWord: nobody read the traffic when the change was
// made, because only a person could tell that it was. Prometheus still knows.
func TestVerifyAfterAPersonsWord(t *testing.T) {
	const traffic = "sum(rate(reqs[2m]))"
	planned := noon.Add(-20 * time.Minute)
	for _, tt := range []struct {
		name    string
		planned time.Time
		then    []float64
		want    machine.Verdict
	}{
		{"the traffic is still there", planned, []float64{18}, machine.VerdictVerified},
		{"most of it is gone", planned, []float64{30}, machine.VerdictInconclusive},
		{"nothing is left of then", planned, nil, machine.VerdictInconclusive},
		{"it is not known when the change was planned", time.Time{}, []float64{18}, machine.VerdictInconclusive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := proofOf(machine.Proof{HeldFrom: noon.Add(-2 * time.Minute), LastAt: noon.Add(-15 * time.Second), Planned: tt.planned})
			e.Proof.Before, e.Proof.Spec.ErrorRatio = -1, ""
			now := prom{values: map[string][]float64{"slow": {0.001}, traffic: {9}}, age: 20 * time.Second}
			o := do(t, step.Deps{Querier: past{now, planned, map[string][]float64{traffic: tt.then}}, Workloads: fleet{}}, e)
			if o.Sample == nil || o.Sample.Verdict != tt.want {
				t.Errorf("%s: %+v", o.Message, o.Sample)
			}
		})
	}
}

// outage is Prometheus in a scrape outage: it has no series now, and had some.
type outage struct {
	prom
	was slo.Matrix
	err error
}

func (g outage) Range(context.Context, string, time.Time, time.Time, time.Duration) (slo.Matrix, error) {
	return g.was, g.err
}

// TestTrafficOfSeriesThatAreGone: a scrape that fails just before a change does
// not lower what the proof asks for.
func TestTrafficOfSeriesThatAreGone(t *testing.T) {
	at := func(m int, v float64) slo.Point {
		return slo.Point{At: noon.Add(time.Duration(m) * time.Minute), Value: v}
	}
	was := slo.Matrix{Series: []slo.Series{{Points: []slo.Point{at(-9, 30), at(-4, 12)}}, {Points: []slo.Point{at(-4, 8)}}}}
	for _, tt := range []struct {
		name   string
		q      outage
		status machine.Status
		before float64
		says   string
	}{
		{"there was some", outage{was: was}, machine.StatusOK, 20, "what they were at 11:56:00Z: 20 requests/s"},
		{"there never was any", outage{}, machine.StatusOK, 0, "no traffic series in the last 10m0s"},
		{"the past cannot be read", outage{err: &fault.Error{Reason: fault.Unreachable}}, machine.StatusFailed, -1, "nothing was changed"},
		{"the past is partial", outage{was: slo.Matrix{Warnings: []string{"a store is away"}}}, machine.StatusFailed, -1, "may be partial"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := proofOf(machine.Proof{})
			e.Action = machine.ActionApply
			e.Plan = &machine.Plan{Step: "kube.scale", Payload: []byte(`{"from":3,"to":5}`)}
			c := &counting{}
			o := do(t, step.Deps{Querier: tt.q, Workloads: fleet{}, Changer: c}, e)
			if o.Status != tt.status || !strings.Contains(o.Message, tt.says) || (c.n == 1) != (tt.status == machine.StatusOK) {
				t.Errorf("%s after %d writes: %s", o.Status, c.n, o.Message)
			}
			if tt.before >= 0 && (o.Before == nil || *o.Before != tt.before) {
				t.Errorf("before %v, want %v", o.Before, tt.before)
			}
		})
	}
}
