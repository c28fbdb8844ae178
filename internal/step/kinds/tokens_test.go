package kinds_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// generating is a Prometheus that knows how many replicas have fresh series,
// and what they generate.
type generating struct {
	fresh, rate []float64
	warns       string
	err         error
	asked       *[]string
}

func (g generating) Instant(_ context.Context, expr string, at time.Time) (slo.Vector, error) {
	if g.asked != nil {
		*g.asked = append(*g.asked, expr)
	}
	if g.err != nil {
		return slo.Vector{}, g.err
	}
	values := g.rate
	if strings.HasPrefix(expr, "count(") {
		values = g.fresh
	}
	var v slo.Vector
	for _, x := range values {
		v.Samples = append(v.Samples, slo.Sample{Value: x, At: at})
	}
	if g.warns != "" {
		v.Warnings = []string{g.warns}
	}
	return v, nil
}

func (generating) Range(context.Context, string, time.Time, time.Time, time.Duration) (slo.Matrix, error) {
	return slo.Matrix{}, errors.New("not asked")
}

// What a lever costs in tokens per second is measured or unknown, never less
// than it is: a part of the replicas, old samples and NaN bound nothing.
func TestTokensPerSecond(t *testing.T) {
	good := generating{fresh: []float64{2}, rate: []float64{3000}}
	vllm := func(*playbook.Service) {}
	for name, tt := range map[string]struct {
		q    step.Querier
		edit func(*playbook.Service)
		want string // tokens per second in words, else why they are unknown
	}{
		"measured":           {good, vllm, "about 1,500 of 3,000 tokens/s lost while it is in progress"},
		"SGLang":             {good, func(s *playbook.Service) { s.Engine = "sglang" }, "about 1,500 of 3,000 tokens/s lost while it is in progress"},
		"idle":               {generating{fresh: []float64{2}, rate: []float64{0}}, vllm, "about 0 of 0 tokens/s lost while it is in progress"},
		"other engine":       {good, func(s *playbook.Service) { s.Engine = "dynamo" }, "no metric of the engine dynamo counts them"},
		"no engine":          {good, func(s *playbook.Service) { s.Engine = "" }, "the service names no engine"},
		"no selector":        {good, func(s *playbook.Service) { s.Selector = "" }, "the service has no selector"},
		"no Prometheus":      {nil, vllm, "no Prometheus is configured"},
		"not scraped":        {generating{}, vllm, "no fresh series answers count("},
		"half of them fresh": {generating{fresh: []float64{1}, rate: []float64{3000}}, vllm, "1 of 2 ready replicas have fresh series of vllm:generation_tokens_total"},
		"NaN":                {generating{fresh: []float64{2}, rate: []float64{math.NaN()}}, vllm, "not a finite number"},
		"no rate":            {generating{fresh: []float64{2}}, vllm, "no fresh series answers sum("},
		"a store missing":    {generating{fresh: []float64{2}, rate: []float64{3000}, warns: "store b: unavailable"}, vllm, "the answer may be partial: store b: unavailable"},
		"Prometheus is down": {generating{err: errors.New("connection refused")}, vllm, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := service("Deployment")
			svc.Engine, svc.Selector = "vllm", `namespace="serving",service="chat"`
			tt.edit(&svc)
			o := do(t, step.Deps{Querier: tt.q, Workloads: fleet{}, Changer: fleet{}}, machine.Effect{
				Action: machine.ActionPlan, Step: "kube.scale", Service: svc, With: map[string]any{"replicas": int64(1)},
			})
			if o.Status != machine.StatusOK {
				t.Fatalf("a plan does without the figure: %s %s", o.Status, o.Message)
			}
			got := o.Plan.Capacity.TokensText() + strings.Join(o.Plan.Notes, "\n")
			if !strings.Contains(got, tt.want) {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
			if gone, known := o.Plan.Capacity.LostTokens(); known != strings.HasPrefix(tt.want, "about") {
				t.Errorf("lost %v, known %v", gone, known)
			}
		})
	}
}

// The figure moves by itself: it voids no approval, and only the service's own
// series are asked.
func TestTokensAreTheServicesOwn(t *testing.T) {
	svc := service("Deployment")
	svc.Engine, svc.Selector = "sglang", `namespace="serving",service="chat"`
	var digests, asked []string
	for _, rate := range []float64{3000, 4000} {
		o := do(t, step.Deps{Querier: generating{fresh: []float64{2}, rate: []float64{rate}, asked: &asked}, Workloads: fleet{}, Changer: fleet{}}, machine.Effect{
			Action: machine.ActionPlan, Step: "kube.scale", Service: svc, With: map[string]any{"by": int64(1)},
		})
		digests = append(digests, o.Plan.Digest())
		if len(o.Plan.Notes) != 1 {
			t.Errorf("a lever that costs no replica says %q", o.Plan.Notes)
		}
	}
	if digests[0] != digests[1] {
		t.Error("another figure is another plan")
	}
	for _, q := range asked {
		if strings.Count(q, "sglang:generation_tokens_total") != strings.Count(q, "{"+svc.Selector+"}") {
			t.Errorf("asked of more than the service: %s", q)
		}
	}
}
