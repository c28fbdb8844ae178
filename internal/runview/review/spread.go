package review

import (
	"math"
	"slices"
)

// spread holds values of which the median and the 90th percentile are asked.
type spread []float64

// median returns the middle value, of an even number the mean of the middle two; false:
// there is no value.
func (s spread) median() (float64, bool) {
	n := len(s)
	if n == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(s))
	if n%2 == 1 {
		return sorted[n/2], true
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2, true
}

// p90 returns the smallest value that at least nine of ten do not exceed; false: there is
// no value.
func (s spread) p90() (float64, bool) {
	if len(s) == 0 {
		return 0, false
	}
	rank := int(math.Ceil(0.9 * float64(len(s))))
	return slices.Sorted(slices.Values(s))[rank-1], true
}
