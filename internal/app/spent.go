package app

import (
	"context"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// mostSpans bounds the stretches of a run that Prometheus is asked about.
const mostSpans = 32

// spent returns what each part of a run's time spent of the error budgets of its service.
func (b *budgets) spent(ctx context.Context, run machine.State, events []machine.Event) api.RunBudget {
	out := api.RunBudget{Spent: []api.IncidentSpending{}}
	svc, spans := run.Start.Service, runview.SpansOf(run, events)
	why := ""
	switch {
	case b.q == nil:
		why = "no Prometheus is configured, prometheus.url names one"
	case len(spans) == 0:
		why = "the run has no part that is over"
	case len(spans) > mostSpans:
		why = "the run went back and forth too often to ask about each part"
	}
	measured := step.Objectives(svc)
	for i, o := range svc.SLOs {
		if why != "" {
			out.Spent = append(out.Spent, api.IncidentSpending{Objective: o.Name, Why: why, Parts: []api.IncidentSpendingPart{}})
			continue
		}
		out.Spent = append(out.Spent, b.spentOf(ctx, measured.Service, o, measured.Objectives[i], spans)...)
	}
	return out
}

// spentOf asks about one objective. One that is not answered is unknown.
func (b *budgets) spentOf(ctx context.Context, service string, o playbook.SLO, measured slo.Objective, spans []runview.PhaseSpan) []api.IncidentSpending {
	end := spans[len(spans)-1].To
	var asked []slo.Span
	for _, s := range spans {
		asked = append(asked, slo.Span{Window: s.To.Sub(s.From).Round(time.Millisecond), Offset: end.Sub(s.To)})
	}
	found, err := slo.Spent(ctx, b.q, service, measured, end, asked...)
	if err != nil {
		b.log.Info("no error budget for the report of a run", "err", err)
		return []api.IncidentSpending{{Objective: o.Name, Why: "no answer from Prometheus, the service's log shows why", Parts: []api.IncidentSpendingPart{}}}
	}
	var out []api.IncidentSpending
	for _, x := range found {
		out = append(out, api.IncidentSpending{Objective: o.Name, Value: x.Value, Why: x.Why, Parts: partsOf(spans, x)})
	}
	return out
}

// partsOf adds up the stretches of each part. A part of which one is unknown is unknown.
func partsOf(spans []runview.PhaseSpan, x slo.Spending) []api.IncidentSpendingPart {
	parts := []api.IncidentSpendingPart{}
	for _, name := range runview.PhaseNames() {
		var requests, bad, share float64
		there := false
		for i, s := range spans {
			if s.Name == name {
				there = true
				requests, bad, share = requests+x.Counts[i].Total, bad+x.Counts[i].Bad, share+x.Shares[i]
			}
		}
		if there {
			parts = append(parts, api.IncidentSpendingPart{Name: name, Requests: known(requests), Bad: known(bad), Share: known(share)})
		}
	}
	return parts
}

// known returns nil for what is no number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
