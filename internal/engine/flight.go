package engine

import (
	"math"
	"strconv"
	"strings"
)

// InFlight returns the requests that an engine computes or holds in its queue, by
// what its own /metrics shows. It reports false if the engine's gauges are not
// among it, or are no numbers. Queues that only some versions have may be missing.
func (e Engine) InFlight(exposition string) (requests float64, known bool) {
	for _, p := range e.Progress() {
		running, ok := sum(exposition, p.Running)
		if !ok {
			continue
		}
		waiting, known := sum(exposition, p.Waiting)
		total := running + waiting
		for _, name := range p.Queues {
			queued, _ := sum(exposition, name)
			total += queued
		}
		if !known || math.IsNaN(total) {
			return 0, false
		}
		return total, true
	}
	return 0, false
}

// sum adds up the samples of a metric in the text format of Prometheus. The total is
// NaN if one of them is no number.
func sum(exposition, metric string) (total float64, found bool) {
	if metric == "" {
		return 0, false
	}
	for line := range strings.Lines(exposition) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), metric)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if end := strings.LastIndexByte(rest, '}'); end >= 0 {
			rest = rest[end+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return math.NaN(), true
		}
		total, found = total+v, true
	}
	return total, found
}
