package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

const (
	mostSpans     = 32               // stretches of a run that Prometheus is asked about
	spentAtOnce   = 2                // runs that it is asked about at the same time
	spentWithin   = time.Minute      // an answer is kept, also if its caller waited no longer
	spentFresh    = 24 * time.Hour   // what was spent in the past stays as it is
	scrapesArrive = 10 * time.Minute // by then Prometheus has all samples of a time
)

// errBusy is for people: Prometheus was not asked.
var errBusy = fmt.Errorf("other reports kept Prometheus busy for %s: read this one again", spentWithin)

// spendings asks Prometheus what runs spent of error budgets. However often somebody asks,
// each run costs it one answer for every part that is over.
type spendings struct {
	q     step.Querier // nil: none is configured
	now   func() time.Time
	log   *slog.Logger
	kept  *answers[api.RunBudget]
	turns chan struct{} // one is held while Prometheus is asked
}

func newSpendings(q step.Querier, now func() time.Time, log *slog.Logger) *spendings {
	kept := newAnswers[api.RunBudget](now, spentFresh)
	kept.within = spentWithin
	return &spendings{q: q, now: now, log: log, kept: kept, turns: make(chan struct{}, spentAtOnce)}
}

// of returns what each part of a run's time spent of the error budgets of its service.
func (b *spendings) of(ctx context.Context, run machine.State, events []machine.Event) api.RunBudget {
	svc, spans := run.Start.Service, runview.SpansOf(run, events)
	switch {
	case b.q == nil:
		return unknownSpending(svc, noPrometheus)
	case len(spans) == 0:
		return unknownSpending(svc, "the run has no part that is over")
	case len(spans) > mostSpans:
		return unknownSpending(svc, "the run went back and forth too often to ask about each part")
	}
	var asked int64 // 0: for good
	if b.now().Sub(spans[len(spans)-1].To) <= scrapesArrive {
		asked = b.now().Unix() / 60 // its last samples come still
	}
	out, err := b.kept.get(ctx, fmt.Sprintf("%s %d %d", run.Start.Run, len(events), asked), func(ctx context.Context) (api.RunBudget, error) {
		select {
		case b.turns <- struct{}{}:
			defer func() { <-b.turns }()
		case <-ctx.Done():
			return unknownSpending(svc, errBusy.Error()), errBusy
		}
		return b.ask(ctx, svc, spans)
	})
	if err != nil && out.Spent == nil {
		return unknownSpending(svc, err.Error())
	}
	return out
}

// ask asks about all objectives, one after the other. One that is not answered is unknown;
// then there is an error, too.
func (b *spendings) ask(ctx context.Context, svc playbook.Service, spans []runview.PhaseSpan) (api.RunBudget, error) {
	out, measured := unknownSpending(playbook.Service{}, ""), step.Objectives(svc)
	var failed error
	for i, o := range svc.SLOs {
		found, err := b.askOne(ctx, measured.Service, o, measured.Objectives[i], spans)
		if err != nil {
			b.log.Info("no error budget for the report of a run", "err", err)
			failed = err
			found = unknownSpending(playbook.Service{SLOs: svc.SLOs[i : i+1]}, unanswered).Spent
		}
		out.Spent = append(out.Spent, found...)
	}
	return out, failed
}

func unknownSpending(svc playbook.Service, why string) api.RunBudget {
	out := api.RunBudget{Spent: []api.IncidentSpending{}}
	for _, o := range svc.SLOs {
		out.Spent = append(out.Spent, api.IncidentSpending{Objective: o.Name, Why: why, Parts: []api.IncidentSpendingPart{}})
	}
	return out
}

// askOne asks about one objective.
func (b *spendings) askOne(ctx context.Context, service string, o playbook.SLO, measured slo.Objective, spans []runview.PhaseSpan) ([]api.IncidentSpending, error) {
	end := spans[len(spans)-1].To
	var asked []slo.Span
	for _, s := range spans {
		window := max(s.To.Sub(s.From).Round(time.Millisecond), time.Millisecond) // PromQL knows no shorter one
		asked = append(asked, slo.Span{Window: window, Offset: end.Sub(s.To)})
	}
	found, err := slo.Spent(ctx, b.q, service, measured, end, asked...)
	if err != nil {
		return nil, err
	}
	var out []api.IncidentSpending
	for _, x := range found {
		out = append(out, api.IncidentSpending{Objective: o.Name, Value: x.Value, Why: x.Why, Parts: partsOf(spans, x)})
	}
	return out, nil
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
