package service

import (
	"math"
	"testing"

	"github.com/inference-responder/responder/internal/slo"
)

// TestMayExplain: a load that grew after the breach began does not excuse a release; one
// that grew slowly, and one whose beginning is not known, do.
func TestMayExplain(t *testing.T) {
	nan := math.NaN()
	for name, tt := range map[string]struct {
		now, began growth
		explains   bool
	}{
		"a burst that lasts":             {growth{times: 2.5, waiting: 30}, growth{times: 2.3, waiting: 20}, true},
		"a burst that came later":        {growth{times: 2.5, waiting: 30}, growth{times: 1.0}, false},
		"three times, and it came later": {growth{times: 3.2}, growth{times: 1.1}, false},
		"a slow growth":                  {growth{times: 1.8, waiting: 30}, growth{times: 1.25}, true},
		"a burst that is over":           {growth{times: 1.0}, growth{times: 2.3, waiting: 20}, false},
		"the beginning is not known":     {growth{times: 2.5, waiting: 30}, growth{times: nan, waiting: nan}, true},
		"nothing is known":               {unknownGrowth, unknownGrowth, false},
	} {
		if got := mayExplain(tt.now, tt.began); got.explains() != tt.explains {
			t.Errorf("%s: %+v, explains %t", name, got, got.explains())
		}
	}
}

// TestGrown: twice the tokens are much more only where prompts are longer.
func TestGrown(t *testing.T) {
	for name, tt := range map[string]struct {
		now, before slo.Load
		explains    bool
	}{
		"longer prompts":            {slo.Load{Rate: 5.7, Tokens: 13000}, slo.Load{Rate: 5.7, Tokens: 5000}, true},
		"more requests of the same": {slo.Load{Rate: 13, Tokens: 11000}, slo.Load{Rate: 6, Tokens: 5000}, false},
		"a little longer":           {slo.Load{Rate: 6, Tokens: 8500}, slo.Load{Rate: 6, Tokens: 5000}, false},
		"no tokens counted before":  {slo.Load{Rate: 6, Tokens: 8500}, slo.Load{Rate: 6, Tokens: 0}, false},
		"nothing before":            {slo.Load{Rate: 6, Tokens: 8500}, slo.Load{Rate: math.NaN(), Tokens: math.NaN()}, false},
	} {
		if got := grown(tt.now, []slo.Load{tt.before}); got.explains() != tt.explains {
			t.Errorf("%s: %+v, explains %t", name, got, got.explains())
		}
	}
}

// TestSlowedBy: only a prefill that got longer for no reason of the load is held against
// a release. What is not measured is not.
func TestSlowedBy(t *testing.T) {
	nan := math.NaN()
	usual := slo.Stretch{Ended: 6, PromptMean: 890, HitRate: 0.3, PrefillSecs: 0.054, TokenSeconds: 0.0184}
	slow := slo.Stretch{Ended: 14, PromptMean: 900, HitRate: 0.31, PrefillSecs: 0.93, TokenSeconds: 0.0179}
	for name, tt := range map[string]struct {
		change func(now, before *slo.Stretch)
		want   bool
	}{
		"slower":                     {func(_, _ *slo.Stretch) {}, true},
		"no prefix cache":            {func(now, before *slo.Stretch) { now.HitRate, before.HitRate = nan, nan }, true},
		"longer prompts":             {func(now, _ *slo.Stretch) { now.PromptMean = 2300 }, false},
		"more than longer prompts":   {func(now, _ *slo.Stretch) { now.PromptMean, now.PrefillSecs = 2270, 2.96 }, true},
		"more than fewer hits":       {func(now, _ *slo.Stretch) { now.HitRate = 0.02 }, true},
		"far fewer hits":             {func(now, before *slo.Stretch) { now.HitRate, before.HitRate = 0.02, 0.9 }, false},
		"prompts not known any more": {func(now, _ *slo.Stretch) { now.PromptMean = nan }, false},
		"hits not known any more":    {func(now, _ *slo.Stretch) { now.HitRate = nan }, false},
		"large batches":              {func(now, _ *slo.Stretch) { now.TokenSeconds = 0.2 }, false},
		"a burst":                    {func(now, _ *slo.Stretch) { now.PrefillSecs = 0.14 }, false},
		"tokens are not measured":    {func(now, _ *slo.Stretch) { now.TokenSeconds = nan }, false},
		"nothing before":             {func(_, before *slo.Stretch) { *before = slo.Stretch{PrefillSecs: nan, PromptMean: nan, HitRate: nan} }, false},
		"a few requests":             {func(_, before *slo.Stretch) { before.Ended = 0.05 }, false},
		"first tokens, not prefill":  {func(now, before *slo.Stretch) { now.Derived, before.Derived = true, true }, false},
	} {
		now, before := slow, usual
		tt.change(&now, &before)
		if got := slowedBy(now, before); (got != prefill{}) != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
