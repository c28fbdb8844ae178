package approvals

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	stepkinds "github.com/inference-responder/responder/internal/step/kinds"
)

// budgetSource answers for the ratio over a month and over an hour.
type budgetSource struct {
	month, hour float64
	stale       time.Duration // age of the samples
	history     time.Duration // how far back they go
	warn        string
	none        bool
	began       time.Time
}

// Instant implements [Querier].
func (s budgetSource) Instant(_ context.Context, expr string, at time.Time) (slo.Vector, error) {
	one := func(v float64) (slo.Vector, error) {
		out := slo.Vector{Samples: []slo.Sample{{Value: v, At: at}}}
		if s.warn != "" {
			out.Warnings = []string{s.warn}
		}
		return out, nil
	}
	switch {
	case s.none:
		return slo.Vector{}, nil
	case strings.Contains(expr, "timestamp("):
		if s.began.Sub(at) > s.history {
			return slo.Vector{}, nil
		}
		return one(float64(at.Add(-s.stale).Unix()))
	case strings.Contains(expr, "[2419200s]"): // 28 days
		return one(s.month)
	case strings.Contains(expr, "[3600s]"):
		return one(s.hour)
	default:
		return slo.Vector{}, &fault.Error{Message: "not asked for: " + expr}
	}
}

// What is left of an error budget, and when it is gone. What is not known for
// certain is not said.
func TestErrorBudget(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "playbooks", "inference-slo-breach.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := playbook.Parse("p.yaml", doc, stepkinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const month = 28 * 24 * time.Hour
	slos := []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: month}, {Name: "errors", Objective: 0.999, Window: time.Hour}}
	good := budgetSource{month: 0.0075, hour: 0.2, history: 2 * month, began: now}
	for name, c := range map[string]struct {
		source budgetSource
		slos   []playbook.SLO
		want   *slack.Budget
	}{
		"a quarter is left, and is gone soon": {good, slos, &slack.Budget{Left: 0.25, Burn: 20, RunsOut: now.Add(month / 80)}},
		"it lasts":                            {budgetSource{month: 0.0075, hour: 0.001, history: 2 * month, began: now}, slos, &slack.Budget{Left: 0.25, Burn: 0.1}},
		"nothing burns":                       {budgetSource{history: 2 * month, began: now}, slos, &slack.Budget{Left: 1}},
		"overspent":                           {budgetSource{month: 0.02, hour: 0.1, history: 2 * month, began: now}, slos, &slack.Budget{Left: -1, Burn: 10}},
		"not a number":                        {budgetSource{month: math.NaN(), hour: 0.2, history: 2 * month, began: now}, slos, nil},
		"no series":                           {budgetSource{none: true}, slos, nil},
		"old samples":                         {budgetSource{month: 0.01, hour: 0.1, history: 2 * month, stale: 10 * time.Minute, began: now}, slos, nil},
		"half of the window":                  {budgetSource{month: 0.01, hour: 0.1, history: month / 2, began: now}, slos, nil},
		"a partial answer":                    {budgetSource{month: 0.01, hour: 0.1, history: 2 * month, warn: "a store is down", began: now}, slos, nil},
		"no objective of that value":          {good, slos[1:], nil},
		"two windows":                         {good, append(slos[:1:1], playbook.SLO{Objective: 0.99, Window: time.Hour}), nil},
	} {
		st := machine.State{
			Start: machine.Start{Service: playbook.Service{Name: "chat", Selector: `namespace="serving"`, SLOs: c.slos}}, Playbook: all[0], Current: "rollback",
		}
		got := ErrorBudget{Querier: c.source, Now: func() time.Time { return now }}.Of(t.Context(), st)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateApproxTime(time.Second)); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
	if got := (ErrorBudget{Querier: good, Now: func() time.Time { return now }}).Of(t.Context(), machine.State{}); got != nil {
		t.Errorf("without a proof: %+v", got)
	}
}
