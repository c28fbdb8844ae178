package step

import (
	"context"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// Objectives returns what is to be measured of a service: its objectives, each
// with the series of its engine in the order in which they are tried.
func Objectives(svc playbook.Service) slo.Ask {
	e, _ := engine.Named(svc.Engine)
	ask := slo.Ask{Service: svc.Selector}
	for _, o := range svc.SLOs {
		x := slo.Objective{
			Name: o.Name, Indicator: o.Measures(), Objective: o.Objective, Threshold: o.Threshold, Period: o.Window, Model: o.Model, By: o.By,
		}
		if o.Route != "" {
			x.Match = "route=" + strconv.Quote(o.Route)
		}
		for _, s := range e.Series(x.Indicator) {
			x.Sources = append(x.Sources, source(s))
		}
		ask.Objectives = append(ask.Objectives, x)
	}
	for _, p := range e.Progress() {
		from := slo.Progress{Running: p.Running, Waiting: p.Waiting, Capacity: slo.Part{Name: p.Capacity.Name, Match: p.Capacity.Match}, Queues: p.Queues, Finished: p.Finished, Seconds: p.Seconds, Prompts: p.Prompts, Cache: p.Cache, Preempted: p.Preempted}
		for _, s := range p.Steps {
			from.Steps = append(from.Steps, s.Name)
		}
		from.Work = work(p.Work)
		ask.Progress = append(ask.Progress, from)
	}
	return ask
}

func work(w engine.Work) slo.Work {
	return slo.Work{
		Generated: w.Generated, PrefixHits: w.PrefixHits, PrefixQueries: w.PrefixQueries, PromptLength: w.PromptLength, OutputLength: w.OutputLength,
		Queue: w.Queue, Prefill: w.Prefill, Decode: w.Decode, FirstToken: w.FirstToken, Whole: w.Whole, Token: w.Token, Failed: slo.Part(w.Failed), Aborted: slo.Part(w.Aborted), Refused: slo.Part(w.Refused), Corrupted: w.Corrupted,
		Config: w.Config, Capacity: w.Capacity, Drafted: w.Drafted, Accepted: w.Accepted, AcceptRate: w.AcceptRate, TransfersFailed: w.TransfersFailed,
	}
}

func source(s engine.Series) slo.Source {
	out := slo.Source{
		Histogram: s.Histogram, Requests: s.Requests, Model: s.Model,
		Failed: s.Failed.Name, FailedMatch: s.Failed.Match, FailedLazy: s.Failed.Lazy,
		Total: s.Total.Name, TotalMatch: s.Total.Match,
	}
	if s.Millis {
		out.Unit = time.Millisecond.Seconds()
	}
	return out
}

// AlertFactor returns the burn factor at which an alert fires, by its label long
// and the window of an objective; 0: unknown. The shipped rules and Pyrra's set
// that label.
func AlertFactor(a playbook.Alert, window time.Duration) float64 {
	long, err := playbook.ParseDuration(a.Labels["long"])
	if err != nil {
		return 0
	}
	return slo.AlertFactor(long, window)
}

// Missed returns the objective that burns most of those that the first span of a
// measurement misses, and the factor of its alert; false: none is missed.
func Missed(m slo.Measurement, a playbook.Alert) (worst slo.Measured, factor float64, ok bool) {
	most := 0.0
	for _, x := range m.Measured {
		if x.Reason != "" {
			continue
		}
		f := AlertFactor(a, x.Objective.Period)
		stands, d := slo.Test{Objective: x.Objective.Objective, Factor: f, Now: x.Counts[0]}.Stands()
		if stands == slo.Breached && (!ok || d.Burn > most) {
			worst, factor, most, ok = x, f, d.Burn, true
		}
	}
	return worst, factor, ok
}

// BadWord returns what a bad request is by an indicator, in one word or a few.
func BadWord(indicator string) string {
	switch indicator {
	case engine.Errors:
		return "failed"
	case engine.Goodput:
		return "slow or failed"
	}
	return "slow"
}

// IsErrors reports whether a bad request of an indicator is one that failed.
func IsErrors(indicator string) bool { return indicator == engine.Errors }

// HoldsPrefill reports whether the time of a request's prefill is part of an indicator.
func HoldsPrefill(indicator string) bool {
	return indicator == engine.TTFT || indicator == engine.E2E || indicator == engine.Goodput
}

// Patient returns a Querier that asks again while Prometheus is away, for as long
// as the context lasts. A query that is refused for what it is fails at once.
func Patient(q Querier) Querier { return patient{q} }

type patient struct{ Querier }

// patience is the longest pause between two attempts.
const patience = 10 * time.Second

// Instant implements [Querier].
func (p patient) Instant(ctx context.Context, expr string, at time.Time) (v slo.Vector, err error) {
	err = again(ctx, func() error {
		v, err = p.Querier.Instant(ctx, expr, at)
		return err
	})
	return v, err
}

// Range implements [Querier].
func (p patient) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (m slo.Matrix, err error) {
	err = again(ctx, func() error {
		m, err = p.Querier.Range(ctx, expr, from, to, step)
		return err
	})
	return m, err
}

// again repeats what failed for a reason that may pass, until the context's
// deadline is nearer than the next attempt. Without a deadline nothing is
// repeated.
func again(ctx context.Context, try func() error) error {
	for pause := time.Second; ; pause = min(2*pause, patience) {
		err := try()
		deadline, bounded := ctx.Deadline()
		if err == nil || !bounded || !AsError(err).Reason.Retryable() || time.Until(deadline) <= pause {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
