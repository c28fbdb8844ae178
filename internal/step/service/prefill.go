package service

import (
	"context"
	"fmt"
	"math"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// The growth of the mean prefill that more load does not explain. A larger load makes
// prefill longer where it makes batches larger, and with them every token, or where
// prompts get longer or the prefix cache has less of them: at most with the square of
// the tokens, as attention does. Waiting for a place is not in it.
const (
	muchSlower    = 3  // times what prefill took, beyond what that explains
	leastRequests = 20 // that ended, so that a mean tells something
)

// prefill is what the prompts of requests take; 0: not known, or load explains it.
type prefill struct{ now, before float64 } // seconds

// text describes a prefill that takes longer.
func (p prefill) text() string {
	return fmt.Sprintf("prefill takes %.2g s since then, it took %.2g s before: more than longer prompts, fewer hits of the prefix cache and slower tokens explain",
		p.now, p.before)
}

// slowed measures whether prefill takes much longer than before the change, for a reason
// that is not more load. It asks only where the load would acquit a change that can
// have made it longer.
func (c changes) slowed(ctx context.Context, in step.Input, f *found, b *breach) (prefill, error) {
	ask := step.Objectives(in.Service)
	if !b.known || !step.HoldsPrefill(b.worst.Objective.Indicator) || len(ask.Progress) == 0 || f.first.IsZero() {
		return prefill{}, nil
	}
	view, err := slo.Views(ctx, step.Patient(c.q), ask.Service, ask.Progress, in.Now, nowSpan, max(in.Now.Sub(f.first), nowSpan))
	if err != nil || view.Why != "" {
		return prefill{}, err
	}
	return slowedBy(view.Now, view.Before[0]), nil
}

// slowedBy returns the prefill that load does not explain. What is not measured (NaN)
// proves nothing.
func slowedBy(now, before slo.Stretch) prefill {
	enough := min(now.Ended, before.Ended)*nowSpan.Seconds() >= leastRequests
	prompts, computed := now.PromptMean/before.PromptMean, (1-now.HitRate)/(1-before.HitRate)
	if math.IsNaN(now.HitRate) && math.IsNaN(before.HitRate) {
		computed = 1 // without a prefix cache
	}
	longer, tokens := now.PrefillSecs/before.PrefillSecs, max(now.TokenSeconds/before.TokenSeconds, 1)
	work := max(prompts*computed, prompts, 1) // NaN if one is not known
	if enough && !now.Derived && !before.Derived && longer >= muchSlower*tokens*work*work && !math.IsInf(longer, 0) {
		return prefill{now.PrefillSecs, before.PrefillSecs}
	}
	return prefill{}
}
