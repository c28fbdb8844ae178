package slo

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// What hangs is seen by Little's law: in a steady state as many requests are in
// flight on average as arrive a second, times how long one takes. Requests that
// finish account for the sum of their durations a second; what is in flight beyond
// that never finishes, or its client left. How many clients leave is a habit of a
// service, so only what exceeds an earlier share of it counts.
const (
	hungWindow = 3 * time.Minute

	// hungShare is the share of the requests in flight that must not be accounted
	// for, beyond the earlier one. A change of the load moves it by less.
	hungShare = 1.0 / 3
	// hungLongest is the longest mean duration for which the window is long enough.
	hungLongest = time.Minute
	// hungChance is how many standard deviations of the durations' sum it must exceed.
	hungChance = 4
)

// hungBefore is how long ago the habit of the service is looked up. The later
// moment may lie in the incident.
var hungBefore = []time.Duration{time.Hour, 6 * time.Hour}

// The parts of the answer about what hangs; the objective of their keys is -3, and
// their span the position of the moment: 0 is now.
const (
	partFlight = "flight" // mean number of requests in flight
	partBusy   = "busy"   // seconds of finished requests a second
	partDone   = "done"   // finished requests a second
)

// hung asks what is in flight, and what finished.
func hung(service string, all []Progress) string {
	var terms []string
	for j, p := range all {
		if p.Seconds == "" {
			continue
		}
		for k, ago := range append([]time.Duration{0}, hungBefore...) {
			window := Span{Window: hungWindow, Offset: ago}.String()
			ask := func(part, expr string) { terms = append(terms, key{-3, j, k, part}.ask(expr)) }
			sum := func(name string) string {
				return fmt.Sprintf("sum(sum_over_time(%s%s))", selector(name, service), window)
			}
			// Replicas that were there for a part of the window count for that part.
			looks := fmt.Sprintf("max(count_over_time(%s%s))", selector(p.Running, service), window)
			ask(partFlight, fmt.Sprintf("(%s + %s or %s) / %s", sum(p.Running), sum(p.Waiting), sum(p.Running), looks))
			ask(partBusy, fmt.Sprintf("sum(rate(%s%s))", selector(p.Seconds, service), window))
			ask(partDone, fmt.Sprintf("sum(rate(%s%s))", selector(p.Finished, service), window))
		}
	}
	return strings.Join(terms, " or ")
}

// hanging returns how many requests in flight never finish, and whether that can be
// told: not of a partial answer, without an hour of history, or where one takes longer
// than hungLongest.
func (a answered) hanging(sources int) (requests float64, known bool) {
	if a.partial != "" {
		return 0, false
	}
	for j := range sources {
		flight, lost, mean := a.lost(j, 0)
		if math.IsNaN(lost) {
			continue
		}
		habit := math.NaN()
		for k := range hungBefore {
			if was, gone, _ := a.lost(j, k+1); !math.IsNaN(gone) && !(gone/was > habit) {
				habit = gone / was
			}
		}
		if math.IsNaN(habit) || mean > hungLongest.Seconds() {
			continue
		}
		known = true
		over := lost - max(0, habit)*flight
		chance := hungChance * math.Sqrt(2*flight*mean/hungWindow.Seconds())
		if over > hungShare*flight && over > chance {
			return over, true
		}
	}
	return 0, known
}

// lost returns the mean number of requests in flight at a moment, how many of them
// finished ones do not account for, and how many seconds those took; NaN: not told.
func (a answered) lost(source, moment int) (flight, lost, mean float64) {
	part := func(name string) float64 {
		v, _ := a.one(key{-3, source, moment, name})
		return v
	}
	flight, busy, done := part(partFlight), part(partBusy), part(partDone)
	if !(flight > 0) || !(done > 0) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	return flight, flight - busy, busy / done
}
