package judge

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// Limits of retired pages, as DCGM's health check has them.
const (
	retiredLimit = 60 // replace
	retiredSoft  = 15
)

// eccUncorrectable separates errors since watching began from those since the
// driver was loaded and those of the GPU's life. The last are history.
func eccUncorrectable(u subject) []sign {
	var out []sign
	base := u.gpu.Baseline.Counters
	volatileNow, known := u.gpu.ECC.VolatileUncorrectable.Get()
	lifeNow, lifeKnown := u.gpu.ECC.AggregateUncorrectable.Get()
	fresh := uint64(0)
	if before, ok := base.VolatileUncorrectable.Get(); ok && known {
		fresh = volatileNow - min(before, volatileNow)
		if volatileNow < before { // the driver was loaded anew, and counts from zero
			fresh = volatileNow
		}
	}
	if before, ok := base.AggregateUncorrectable.Get(); ok && lifeKnown {
		if lifeNow < before {
			out = append(out, sign{
				outcome: outcome{verdict: Uncertain}, text: "the lifetime count of uncorrectable errors went down, which is impossible",
				evidence: fmt.Sprintf("aggregate_uncorrectable %d after %d", lifeNow, before),
			})
		} else {
			fresh = max(fresh, lifeNow-before)
		}
	}
	e := u.gpu.ECC
	evidence := fmt.Sprintf("volatile_uncorrectable=%s aggregate_uncorrectable=%s", e.VolatileUncorrectable, e.AggregateUncorrectable)
	if s, d := e.SRAMVolatileUncorrectable, e.DRAMVolatileUncorrectable; s.Why() == "" || d.Why() == "" {
		evidence += fmt.Sprintf(", of the volatile in SRAM %s and DRAM %s", s, d)
	}
	switch {
	case fresh > 0:
		since, says := u.firstECC(base), u.since
		if u.gpu.Baseline.At.Before(since) { // else they came within the first minute of watching
			says = u.ongoing
		}
		if at := u.gpu.Baseline.ErredAt; !at.IsZero() && (since.IsZero() || at.Before(since.Add(time.Minute))) {
			since, says = at, u.since
		}
		out = append(out, sign{
			outcome: outcome{verdict: Failing, reset: true}, since: since,
			text:     fmt.Sprintf("%s%s", plural(int(min(fresh, 1<<30)), "uncorrectable ECC error"), says(since)),
			evidence: evidence + fmt.Sprintf("; at %s %s and %s", u.clock(u.gpu.Baseline.At), base.VolatileUncorrectable, base.AggregateUncorrectable),
		})
	case volatileNow > 0:
		out = append(out, sign{
			outcome: outcome{verdict: Degraded, reset: true}, evidence: evidence,
			text: plural(int(min(volatileNow, 1<<30)), "uncorrectable ECC error") + " since the driver was loaded, all before watching began",
		})
	case lifeNow > 0 && !known:
		out = append(out, sign{
			outcome: outcome{verdict: Uncertain}, evidence: evidence,
			text: plural(int(min(lifeNow, 1<<30)), "uncorrectable ECC error") + " in its life; whether any came since the driver was loaded is unknown",
		})
	case lifeNow > 0:
		out = append(out, sign{
			outcome: outcome{verdict: Healthy}, evidence: evidence,
			text: plural(int(min(lifeNow, 1<<30)), "uncorrectable ECC error") + " in its life, none since the driver was loaded",
		})
	}
	return out
}

// firstECC returns the first minute whose counters exceed the baseline.
func (u subject) firstECC(base gpu.Counters) time.Time {
	for _, m := range u.gpu.Minutes {
		if gpu.Grew(base.VolatileUncorrectable, m.Counters.VolatileUncorrectable) || gpu.Grew(base.AggregateUncorrectable, m.Counters.AggregateUncorrectable) {
			return m.Start
		}
	}
	return time.Time{}
}

func memoryRepair(u subject) []sign {
	var out []sign
	for _, f := range memoryFlags {
		if bad, ok := f.get(u.gpu).Get(); ok && bad {
			out = append(out, sign{outcome: f.outcome, text: f.text, evidence: f.name + "=true"})
		}
	}
	if n, ok := u.gpu.Rows.BanksNone.Get(); ok && n > 0 {
		out = append(out, sign{
			outcome: outcome{verdict: Degraded}, text: fmt.Sprintf("%s without a spare row: the next error there cannot be repaired", plural(int(min(n, 1<<30)), "memory bank")),
			evidence: fmt.Sprintf("banks_none=%d banks_low=%s banks_partial=%s", n, u.gpu.Rows.BanksLow, u.gpu.Rows.BanksPartial),
		})
	}
	return out
}

func retiredPages(u subject) []sign {
	single, ok1 := u.gpu.Pages.SingleBit.Get()
	double, ok2 := u.gpu.Pages.DoubleBit.Get()
	if !ok1 && !ok2 {
		return nil
	}
	evidence := fmt.Sprintf("single_bit=%s double_bit=%s", u.gpu.Pages.SingleBit, u.gpu.Pages.DoubleBit)
	switch n := min(single, 1<<20) + min(double, 1<<20); {
	case n >= retiredLimit:
		return []sign{{outcome: outcome{verdict: Failing, rma: true}, text: fmt.Sprintf("%d retired pages, %d is the limit", n, retiredLimit), evidence: evidence}}
	case n >= retiredSoft:
		return []sign{{outcome: outcome{verdict: Degraded}, text: fmt.Sprintf("%d retired pages, of %d at most", n, retiredLimit), evidence: evidence}}
	}
	return nil
}
