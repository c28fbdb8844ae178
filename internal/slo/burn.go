package slo

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// sinceIntervals is the shortest window asked for since a fix, in intervals of
// the proof: one minute at the usual 15 s. A rate needs two scrapes to be
// anything at all; a window that reaches back before the fix only makes the
// burn look worse, never better.
const sinceIntervals = 4

// BurnRate is how fast errorRatio spends the budget of objective: 1 spends
// exactly all of it over the SLO's window. NaN when either is not a ratio.
func BurnRate(errorRatio, objective float64) float64 {
	if !(objective > 0 && objective < 1) {
		return math.NaN()
	}
	return errorRatio / (1 - objective)
}

// Since replaces ${since} in expr by the whole seconds from fixed to now, at
// least four intervals of the proof, as a PromQL duration.
func Since(expr string, fixed, now time.Time, interval time.Duration) string {
	window := max(now.Sub(fixed), sinceIntervals*interval, time.Second)
	return strings.ReplaceAll(expr, "${since}", strconv.FormatInt(int64(window/time.Second), 10)+"s")
}

// budgets are the shares of an error budget that the usual alerts let go within
// their long window: the two pages and two tickets of the SRE workbook.
var budgets = map[time.Duration]float64{
	time.Hour: 0.02, 6 * time.Hour: 0.05, 24 * time.Hour: 0.1, 72 * time.Hour: 0.1, 96 * time.Hour: 0.1,
}

// AlertFactor returns the burn factor of the usual alert with a long window, for
// an SLO over a period: 14.4 for 1h of 30 days. It returns 0 for another window.
func AlertFactor(long, period time.Duration) float64 {
	if long <= 0 || period <= 0 {
		return 0
	}
	return budgets[long] * float64(period) / float64(long)
}
