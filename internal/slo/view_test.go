package slo

import (
	"math"
	"testing"
)

// TestQuantileOf: quantiles are those of histogram_quantile, except that nothing is
// told beyond the last bound.
func TestQuantileOf(t *testing.T) {
	buckets := func(counts map[string]float64) []Sample {
		var out []Sample
		for le, n := range counts {
			out = append(out, Sample{Labels: map[string]string{"le": le}, Value: n})
		}
		return out
	}
	nan := math.NaN()
	for name, tt := range map[string]struct {
		counts map[string]float64
		q      float64
		want   float64
	}{
		"within a bucket":      {map[string]float64{"100": 2, "200": 8, "+Inf": 8}, 0.5, 100 + 100*2.0/6},
		"in the first one":     {map[string]float64{"100.0": 8, "200.0": 8, "+Inf": 8}, 0.5, 50},
		"at a bound":           {map[string]float64{"100": 4, "200": 8, "+Inf": 8}, 0.5, 100},
		"an empty bucket":      {map[string]float64{"100": 0, "200": 0, "500": 8, "+Inf": 8}, 0.5, 350},
		"beyond the last":      {map[string]float64{"100": 2, "200": 4, "+Inf": 8}, 0.95, nan},
		"counts that fall":     {map[string]float64{"100": 4, "200": 3.99, "500": 8, "+Inf": 8}, 0.75, 200 + 300*2.0/4},
		"no events":            {map[string]float64{"100": 0, "+Inf": 0}, 0.5, nan},
		"not a number":         {map[string]float64{"100": nan, "+Inf": nan}, 0.5, nan},
		"no bucket of all":     {map[string]float64{"100": 4}, 0.5, nan},
		"a bound in words":     {map[string]float64{"many": 4, "100": 8, "+Inf": 8}, 0.5, 50},
		"no buckets whatever":  {nil, 0.5, nan},
		"counted by fractions": {map[string]float64{"100": 0.002, "200": 0.008, "+Inf": 0.008}, 0.95, 100 + 100*0.0056/0.006},
	} {
		got := quantileOf(buckets(tt.counts), tt.q)
		if math.IsNaN(got) != math.IsNaN(tt.want) || math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
