package judge

import (
	"fmt"

	"github.com/inference-responder/responder/internal/gpu"
)

// Limits for comparing clocks. NVML has no base clock, so a clock is compared with
// the peers, and without peers with the highest clock.
const (
	atWork    = 50   // percent of utilisation from which on a GPU is compared
	slower    = 0.85 // of the peers' clock
	farBelow  = 0.6  // of the highest clock
	capped    = 0.8  // of the samples show the power cap
	fullLoad  = 90   // percent of utilisation
	someShare = 0.5
	beyond    = 1.05 // of the highest clock: what no GPU of the product runs at
)

// load is what a GPU did in the last minutes.
type load struct {
	percent int64 // mean utilisation
	capped  float64

	mhz    int64 // mean clock of the minutes that it worked in
	worked bool  // there is such a minute, and the clock can be compared
}

// loadOf returns the load, and whether it is known. A minute counts for the clock
// if the GPU worked in it and in the minute before: the clock of one that loads its
// model, or has just begun to serve, is low for another reason.
func loadOf(g gpu.GPU) (load, bool) {
	var mhz, percent, n, worked int64
	minutes, before := minutesOf(g, recent), true
	for _, m := range minutes {
		c, ok1 := m.SMMeanMHz.Get()
		p, ok2 := m.GPUPercent.Get()
		if !ok1 || !ok2 {
			continue
		}
		percent, n = percent+p, n+1
		if p >= atWork && before {
			mhz, worked = mhz+c, worked+1
		}
		before = p >= atWork
	}
	hit, samples := hits(minutes, gpu.SWPowerCap)
	if n == 0 || samples == 0 {
		return load{}, false
	}
	l := load{percent: percent / n, capped: float64(hit) / float64(samples)}
	if l.percent >= atWork && worked > 0 {
		l.mhz, l.worked = mhz/worked, true
	}
	return l, true
}

// slowerThanPeers finds a GPU that runs slower than others that do the same work.
// The software power cap is normal at full load. It is a finding if the peers run
// faster, capped or not.
func slowerThanPeers(u subject) []sign {
	own, ok := loadOf(u.gpu)
	if !ok || !own.worked {
		return nil
	}
	draw, limit, delivered := u.gpu.Power.DrawMW, u.gpu.Power.LimitMW, u.gpu.Power.DefaultLimitMW
	evidence := fmt.Sprintf("sm %d MHz at %d %% utilisation, power cap in %.0f %% of samples, draw %s of %s mW (as delivered %s)", own.mhz, own.percent, own.capped*100, draw, limit, delivered)
	if u.peers.working == 0 {
		most, known := u.gpu.Clocks.SMMaxMHz.Get()
		if own.capped >= capped && known && float64(own.mhz) < farBelow*float64(most) {
			return []sign{{outcome: outcome{verdict: Healthy}, text: "at the power cap with clocks far below the highest, and no peer to compare with", evidence: evidence}}
		}
		return nil
	}
	median := u.peers.median
	if float64(own.mhz) >= slower*float64(median) {
		return nil
	}
	why := ""
	if own.capped >= someShare {
		why = " under its software power cap"
	}
	return []sign{{
		outcome:  outcome{verdict: Degraded},
		text:     fmt.Sprintf("runs at %d MHz%s while its peers run at %d MHz", own.mhz, why, median),
		evidence: fmt.Sprintf("%s; median of %s", evidence, plural(u.peers.working, "peer")),
	}}
}

func busy(u subject) []sign {
	l, ok := loadOf(u.gpu)
	if !ok {
		return nil
	}
	evidence := fmt.Sprintf("utilisation %d %%, software power cap in %.0f %% of samples", l.percent, l.capped*100)
	switch {
	case l.capped >= someShare:
		return []sign{{outcome: outcome{verdict: Busy}, text: "at its power limit, as is normal at full load", evidence: evidence}}
	case l.percent >= fullLoad:
		return []sign{{outcome: outcome{verdict: Busy}, text: "at full utilisation", evidence: evidence}}
	}
	return nil
}
