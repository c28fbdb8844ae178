package step

import (
	"context"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// tokensTimeout bounds the queries for tokens: a slow Prometheus costs a plan
// this figure only.
const tokensTimeout = 5 * time.Second

// measure adds the tokens per second that the service generates now to a plan.
// If the figure is unknown and the lever costs replicas, the plan says why:
// policy rules on the figure then refuse.
func (s *Set) measure(ctx context.Context, in Input, plan *machine.Plan) {
	c := &plan.Capacity
	if c.Unknown || c.ReadyNow <= 0 {
		return // no replica to divide by
	}
	ctx, cancel := context.WithTimeout(ctx, tokensTimeout)
	defer cancel()
	tokens, why := s.tokens(ctx, in.Service, c.ReadyNow, in.Now)
	switch {
	case why == "":
		c.TokensPerSecond = &tokens
	case c.Lost() > 0:
		plan.Notes = append(plan.Notes, "tokens per second are unknown: "+why)
	}
}

// measureOthers does the same for the other services of the plan that are in
// the catalog, within one timeout for all of them.
func (s *Set) measureOthers(ctx context.Context, in Input, plan *machine.Plan) {
	if len(plan.Others) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tokensTimeout)
	defer cancel()
	byName := map[string]playbook.Service{}
	if s.deps.Services != nil {
		for _, svc := range s.deps.Services() {
			byName[svc.Name] = svc
		}
	}
	for i := range plan.Others {
		o := &plan.Others[i]
		if svc, known := byName[o.Service]; known && o.Capacity.ReadyNow > 0 {
			if tokens, why := s.tokens(ctx, svc, o.Capacity.ReadyNow, in.Now); why == "" {
				o.Capacity.TokensPerSecond = &tokens
			}
		}
		if lost := o.Capacity.Lost(); lost > 0 {
			text := fmt.Sprintf("%s loses %d of its %d ready replicas while it is under way", o.Service, lost, o.Capacity.ReadyNow)
			if t := o.Capacity.TokensText(); t != "" {
				text += ", " + t
			}
			plan.Notes = append(plan.Notes, text)
		}
	}
}

// tokens returns the mean rate of the last five minutes over all replicas, or
// why it is unknown. Each ready replica must have a fresh series: the sum of
// some replicas is too low to bound a loss by.
func (s *Set) tokens(ctx context.Context, svc playbook.Service, ready int, now time.Time) (rate float64, why string) {
	counter := generatedTokens(svc.Engine)
	switch {
	case svc.Engine == "":
		return 0, "the service names no engine"
	case counter == "":
		return 0, "no metric of the engine " + svc.Engine + " counts them"
	case svc.Selector == "":
		return 0, "the service has no selector" // and all services' tokens are not its own
	case s.deps.Querier == nil:
		return 0, "no Prometheus is configured"
	}
	series := counter + "{" + svc.Selector + "}"
	fresh := fmt.Sprintf("count(count by (instance, pod) (rate(%s[5m]) and (time() - timestamp(%s) <= %d)))", series, series, int(freshness.Seconds()))
	measured, why := s.one(ctx, fresh, now)
	switch {
	case why != "":
		return 0, why
	case measured < float64(ready):
		return 0, fmt.Sprintf("%.0f of %d ready replicas have fresh series of %s", measured, ready, counter)
	}
	return s.one(ctx, fmt.Sprintf("sum(rate(%s[5m]))", series), now)
}

// generatedTokens returns the name of an engine's counter of generated tokens;
// empty: none is known.
func generatedTokens(engine string) string {
	switch engine {
	case "vllm", "sglang":
		return engine + ":generation_tokens_total"
	default:
		return ""
	}
}

// one queries a single number >= 0, or returns why there is none.
func (s *Set) one(ctx context.Context, expr string, now time.Time) (number float64, why string) {
	v, err := s.deps.Querier.Instant(ctx, expr, now)
	switch {
	case err != nil:
		return 0, AsError(err).Error()
	case Warnings(v.Warnings) != "":
		return 0, "the answer may be partial: " + Warnings(v.Warnings)
	case len(v.Samples) != 1:
		return 0, "no fresh series answers " + Shorten(expr)
	case !IsFinite(v.Samples[0].Value) || v.Samples[0].Value < 0:
		return 0, "not a finite number: " + Shorten(expr)
	}
	return v.Samples[0].Value, ""
}
