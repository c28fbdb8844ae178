package slo

import (
	"fmt"
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

// Window is one row of a multiwindow, multi-burn-rate alert: it fires when the
// burn over Long and over Short both exceed the factor.
type Window struct {
	Severity string        // page or ticket
	Budget   float64       // share of the period's budget spent within Long when it fires, e.g. 0.02
	Long     time.Duration // how much has been lost
	Short    time.Duration // is it still going on; a twelfth of Long
}

// Windows are the rows this project alerts on.
//
// Source: Google's SRE Workbook, chapter 5 "Alerting on SLOs": 2 % in 1 h and
// 5 % in 6 h page, 10 % in 3 d files a ticket, each with a short window of a
// twelfth. The 1 d row with 10 % is in Sloth (v0.16.0, plugins of the default
// window catalogue).
func Windows() []Window {
	return []Window{
		{Severity: "page", Budget: 0.02, Long: time.Hour, Short: 5 * time.Minute},
		{Severity: "page", Budget: 0.05, Long: 6 * time.Hour, Short: 30 * time.Minute},
		{Severity: "ticket", Budget: 0.10, Long: 24 * time.Hour, Short: 2 * time.Hour},
		{Severity: "ticket", Budget: 0.10, Long: 72 * time.Hour, Short: 6 * time.Hour},
	}
}

// Factor is the burn rate above which w fires for an SLO over period:
// budget x period / long window (the Workbook's formula). 2 % in 1 h is 14.4
// for 30 days and 13.44 for 28 days: factors of one period are wrong for another.
func (w Window) Factor(period time.Duration) float64 {
	return w.Budget * float64(period) / float64(w.Long)
}

// Check refuses a row that can never fire: an error ratio cannot exceed 1, so
// factor x (1 - objective) must stay below 1.
func (w Window) Check(objective float64, period time.Duration) error {
	if !(objective > 0 && objective < 1) {
		return fmt.Errorf("objective %v: must lie between 0 and 1, e.g. 0.99", objective)
	}
	if period < w.Long {
		return fmt.Errorf("SLO window %s is shorter than the alert's long window %s: use a longer one, e.g. 28d", period, w.Long)
	}
	if need := w.Factor(period) * (1 - objective); need >= 1 {
		return fmt.Errorf("burn factor %.4g over %s needs an error ratio of %.3g to fire, which cannot be: raise the objective above %.4g or drop this row",
			w.Factor(period), w.Long, need, 1-1/w.Factor(period))
	}
	return nil
}
