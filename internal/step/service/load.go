package service

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// What explains a breach better than a release does, in multiples of the load before.
const (
	moreTraffic    = 1.5 // if requests wait as well
	muchMore       = 3   // also where none wait: prompts that are computed at once make first tokens late without a queue
	muchMoreTokens = 2   // the same, where prompts are longPrompts times as long
	longPrompts    = 1.5
	growing        = 1.2 // at the beginning of the breach, where the load now explains it: a slow growth
)

// growth is how a load compares with an earlier one.
type growth struct {
	times   float64 // requests or prompt tokens that arrive, in multiples of before; NaN: not known
	waiting float64 // requests in the queue; NaN: not known
	prompts float64 // length of prompts in multiples of before, where twice their tokens arrive or more; 0: not, or not known
	past    bool    // it is the load of an earlier time
}

var unknownGrowth = growth{times: math.NaN(), waiting: math.NaN()}

// explains reports whether the load explains a breach: there is more to do than before
// and requests wait, or there is much more.
func (g growth) explains() bool {
	return g.times >= moreTraffic && g.waiting >= 1 || g.times >= muchMore || g.prompts >= longPrompts
}

// text describes the load, compared with the one before something.
func (g growth) text(something string) string {
	is, wait, are, when := "is", "wait", "are", ""
	if g.past {
		is, wait, are, when = "was", "waited", "were", " when it began"
	}
	out := fmt.Sprintf("traffic, in requests or prompt tokens, %s %.1f times that before%s%s", is, g.times, something, when)
	switch {
	case g.times >= moreTraffic && g.waiting >= 1:
		out += fmt.Sprintf(" and %.0f requests %s", g.waiting, wait)
	case g.times < muchMore && g.prompts >= longPrompts:
		out += fmt.Sprintf(" and prompts %s %.1f times as long", are, g.prompts)
	}
	return out
}

// weighLoad compares the load when the breach began, and the one now, with that before the
// breach and before the change. The load now explains the breach only if it had grown
// when the breach began.
func (b *breach) weighLoad(ctx context.Context, q step.Querier, in step.Input, changed time.Time) error {
	ask := step.Objectives(in.Service)
	if len(ask.Progress) == 0 {
		return nil
	}
	spans := []slo.Span{{Window: nowSpan}, {Window: nowSpan}}
	if !b.since.IsZero() {
		spans[1].Offset = max(in.Now.Sub(b.since)-nowSpan, 0)
	}
	for _, at := range []time.Time{b.since, changed} {
		if !at.IsZero() {
			spans = append(spans, slo.Span{Window: beforeSpan, Offset: max(in.Now.Sub(at), nowSpan) + rampSpan})
		}
	}
	loads, err := slo.Loads(ctx, q, ask.Service, ask.Progress, in.Now, spans...)
	if err != nil {
		return err
	}
	b.now, b.load = grown(loads[0], loads[2:]), grown(loads[1], loads[2:])
	b.load = mayExplain(b.now, b.load)
	return nil
}

// mayExplain returns the load that is weighed against a change: the one now, or the one
// when the breach began where the load had not begun to grow then.
func mayExplain(now, began growth) growth {
	if now.explains() && !began.explains() && began.times < growing {
		began.past = true
		return began
	}
	return now
}

// grown compares a load with the smallest of earlier ones.
func grown(l slo.Load, earlier []slo.Load) growth {
	out := growth{times: math.NaN(), waiting: l.Waiting}
	for _, before := range earlier {
		if times := l.Times(before); !(times <= out.times) && !math.IsNaN(times) {
			out.times = times
		}
		if tokens := l.Tokens / before.Tokens; tokens >= muchMoreTokens && !math.IsInf(tokens, 0) {
			out.prompts = max(out.prompts, tokens*before.Rate/l.Rate)
		}
	}
	return out
}
