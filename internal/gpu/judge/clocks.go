package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// Windows of history.
const (
	recent    = 3 * time.Minute // what is the case now
	Window    = 15 * time.Minute
	needFor   = 2 * time.Minute // least history for a verdict
	leastHits = 3               // samples, below which a reason is a blip
)

// knownReasons are the bits that the rules understand.
const knownReasons = gpu.Harmful | gpu.Benign | gpu.SWPowerCap

// brake is a reason that is harmful when it lasts.
type brake struct {
	bit      gpu.Reasons // 0: no reason shows it, only the driver's count
	throttle Throttle
	share    float64 // of the samples, from which on it lasts
}

// Hardware slowdown may show up on a change of P-state (nvml.h), so it has to
// be there in half of the samples; the other bits mean one thing only.
var brakes = []brake{
	{gpu.HWThermalSlowdown, Thermal, 0.1},
	{gpu.SWThermalSlowdown, Thermal, 0.1},
	{gpu.HWPowerBrakeSlowdown, PowerBrake, 0.1},
	{gpu.HWSlowdown, Hardware, 0.5},
	{0, Thermal, 0.1},
}

func (b brake) name() string {
	if b.bit == 0 {
		return "thermal slowdown"
	}
	return b.bit.Names()[0]
}

// stretch returns the reason under which a [Stretch] and [Violations.Lost] know it.
func (b brake) stretch() gpu.Reasons {
	if b.bit == 0 {
		return gpu.EitherThermal
	}
	return b.bit
}

func (b brake) lost(v gpu.Violations) gpu.Reading[uint64] { return v.Lost(b.stretch()) }

// minutes returns the minutes of the last d before the readings.
func (u subject) minutes(d time.Duration) []gpu.Minute { return minutesOf(u.gpu, d) }

func minutesOf(g gpu.GPU, d time.Duration) []gpu.Minute {
	from := g.TakenAt.Add(-d)
	i := slices.IndexFunc(g.Minutes, func(m gpu.Minute) bool { return m.Start.Add(time.Minute).After(from) })
	if i < 0 {
		return nil
	}
	return g.Minutes[i:]
}

// hits counts the samples that showed a reason, and all.
func hits(minutes []gpu.Minute, bit gpu.Reasons) (hit, samples int) {
	for _, m := range minutes {
		hit += m.Reasons[bit]
		samples += m.Samples
	}
	return hit, samples
}

func throttling(u subject) []sign {
	var out []sign
	now, _ := u.gpu.Clocks.Reasons.Get()
	for _, b := range brakes {
		s, seen := u.braked(b)
		if !seen {
			s, seen = u.braking(b)
		}
		switch {
		case seen:
			out = append(out, s)
		case now&b.bit != 0:
			out = append(out, sign{
				outcome: outcome{verdict: Healthy}, text: b.name() + " just now, which has not lasted",
				evidence: "clocks.reasons=" + now.String(),
			})
		}
	}
	return out
}

// braked judges one reason over the last minutes, and then over the whole window.
func (u subject) braked(b brake) (sign, bool) {
	for _, window := range []time.Duration{recent, Window} {
		minutes := u.minutes(window)
		hit, samples := hits(minutes, b.bit)
		lost, counted := time.Duration(0), false
		for _, m := range minutes {
			if ns, ok := b.lost(m.Violation).Get(); ok {
				lost, counted = lost+time.Duration(min(ns, uint64(time.Hour))), true
			}
		}
		lasts := hit >= leastHits && float64(hit) >= b.share*float64(samples)
		if counted && lost.Seconds() >= b.share*float64(len(minutes))*time.Minute.Seconds() {
			lasts = true
		}
		if !lasts {
			continue
		}
		first := u.firstOf(func(m gpu.Minute) bool { ns, _ := b.lost(m.Violation).Get(); return m.Reasons[b.bit] > 0 || ns > 0 })
		evidence := fmt.Sprintf("%s in %d of %d samples of %d minutes", b.bit, hit, samples, len(minutes))
		if counted {
			evidence += fmt.Sprintf(", %s by the driver's count", lost.Round(time.Millisecond))
		}
		if c, ok := u.gpu.Temperature.GPUC.Get(); ok {
			evidence += fmt.Sprintf(", %d °C", c)
		}
		since, says := u.began(gpu.Stretch{Reason: b.stretch()}, first)
		return sign{
			outcome: outcome{verdict: Throttled, throttle: b.throttle},
			text:    b.name() + says, evidence: evidence, since: since,
		}, true
	}
	return sign{}, false
}

// braking finds a reason that comes and goes, too seldom to last. Hardware
// thermal slowdown is heat at any share: a GPU that shows it in most minutes is
// degraded.
func (u subject) braking(b brake) (sign, bool) {
	minutes := u.minutes(Window)
	hit, samples := hits(minutes, b.bit)
	shown, lost := 0, time.Duration(0)
	for _, m := range minutes {
		ns, _ := b.lost(m.Violation).Get()
		lost += time.Duration(min(ns, uint64(time.Hour)))
		if m.Reasons[b.bit] > 0 || ns > 0 {
			shown++
		}
	}
	if hit < leastHits && shown < leastHits {
		return sign{}, false
	}
	s := sign{
		outcome: outcome{verdict: Healthy}, text: fmt.Sprintf("%s in %d of %s, which has not lasted", b.name(), shown, plural(len(minutes), "minute")),
		evidence: fmt.Sprintf("%s in %d of %d samples, %s by the driver's count", b.bit, hit, samples, lost.Round(time.Millisecond)),
	}
	if b.bit == gpu.HWThermalSlowdown && shown >= leastHits && 2*shown > len(minutes) {
		s.verdict, s.throttle = Degraded, Thermal
		s.text = fmt.Sprintf("%s again and again, in %d of the last %s", b.name(), shown, plural(len(minutes), "minute"))
	}
	return s, true
}

// firstOf returns the start of the last uninterrupted series of minutes that show
// something.
func (u subject) firstOf(shows func(gpu.Minute) bool) time.Time {
	first := time.Time{}
	for i := len(u.gpu.Minutes) - 1; i >= 0; i-- {
		m := u.gpu.Minutes[i]
		switch {
		case shows(m):
			first = m.Start
		case !first.IsZero():
			return first
		}
	}
	return first
}

// began returns since when a reason or heat has lasted, and the text for it. first
// is the first minute that shows it. A stretch that covers that minute knows the
// true beginning. Without one, what the oldest minute shows may have begun before.
func (u subject) began(what gpu.Stretch, first time.Time) (since time.Time, text string) {
	for _, one := range u.gpu.Stretches {
		if one.Reason != what.Reason || one.Heat != what.Heat || one.Last.Before(first) || one.Since.After(first.Add(time.Minute+gpu.ClockSlack)) {
			continue
		}
		if one.OrBefore {
			return one.Since, u.since(one.Since) + " or before"
		}
		return one.Since, u.since(one.Since)
	}
	return first, u.ongoing(first)
}

// leastHot is the number of recent minutes in which a temperature must have been
// at its limit. A single reading is not lasting heat.
const leastHot = 2

// temperature finds heat. A GPU near its shutdown temperature is throttled by its
// current reading alone: there is no time to wait.
func temperature(u subject) []sign {
	t := u.gpu.Temperature
	var out []sign
	if c, ok := t.GPUC.Get(); ok {
		if down, ok := t.ShutdownC.Get(); ok && c >= down-1 {
			out = append(out, sign{
				outcome: outcome{verdict: Throttled, throttle: Thermal}, text: fmt.Sprintf("%d °C, about to switch itself off at %d °C", c, down),
				evidence: fmt.Sprintf("gpu_c=%d shutdown_c=%d", c, down),
			})
		}
	}
	out = append(out, goingOff(t)...)
	gpuMax := func(m gpu.Minute) gpu.Reading[int64] { return m.GPUMaxC }
	memMax := func(m gpu.Minute) gpu.Reading[int64] { return m.MemMaxC }
	if limit, known := t.SlowdownLimit(); known {
		out = append(out, u.hot(gpu.HotGPU, t.GPUC, gpuMax, limit)...)
	} else {
		out = append(out, perhapsHot(t)...)
	}
	if limit, known := t.MemMaxC.Get(); known {
		out = append(out, u.hot(gpu.HotMemory, t.MemoryC, memMax, limit)...)
	}
	if margin, ok := t.MarginC.Get(); ok && margin <= t.LeastMargin() {
		s, lasts := u.lasting(func(m gpu.Minute) bool { left, ok := m.MarginMinC.Get(); return ok && left <= t.LeastMargin() })
		s.text, s.evidence = "no margin is left to the temperature at which it slows down", fmt.Sprintf("margin_c=%d least=%d", margin, t.LeastMargin())
		if lasts {
			since, says := u.began(gpu.Stretch{Heat: gpu.NoMargin}, s.since)
			s.since, s.text = since, s.text+says
		} else {
			s.text += ", just now"
		}
		out = append(out, s)
	}
	return out
}

// goingOff compares margins to find a temperature that is about to switch the GPU
// off.
func goingOff(t gpu.Temperature) []sign {
	left, ok1 := t.MarginC.Get()
	down, ok2 := t.ShutdownMarginC.Get()
	if !ok1 || !ok2 || left > down+1 {
		return nil
	}
	text := "at the temperature at which it switches itself off, or past it"
	if left > down {
		text = fmt.Sprintf("%d °C from the temperature at which it switches itself off", left-down)
	}
	return []sign{{
		outcome: outcome{verdict: Throttled, throttle: Thermal}, text: text,
		evidence: fmt.Sprintf("margin_c=%d shutdown_margin_c=%d", left, down),
	}}
}

// perhapsTooHot is the temperature in °C at which a GPU with an unknown limit may
// be too hot. GPUs of data centres slow down at 83 to 93 °C.
const perhapsTooHot = 85

// perhapsHot finds a temperature that is too hot for many GPUs when this GPU's
// limit is unknown.
func perhapsHot(t gpu.Temperature) []sign {
	c, ok := t.GPUC.Get()
	if _, margin := t.MarginC.Get(); !ok || margin || c < perhapsTooHot {
		return nil
	}
	return []sign{{
		outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("%d °C, and the temperature at which it slows down is unknown", c),
		evidence: fmt.Sprintf("gpu_c=%d gpu_max_c=%s slowdown_c=%s margin_c=%s", c, t.GPUMaxC, t.SlowdownC, t.MarginC),
	}}
}

// hot judges a temperature that is at its limit now, and returns since when.
func (u subject) hot(kind gpu.Heat, now gpu.Reading[int64], past func(gpu.Minute) gpu.Reading[int64], limit int64) []sign {
	c, ok := now.Get()
	if !ok || c < limit {
		return nil
	}
	s, lasts := u.lasting(func(m gpu.Minute) bool { v, ok := past(m).Get(); return ok && v >= limit })
	s.evidence = fmt.Sprintf("%s %d °C, slows down at %d °C", kind, c, limit)
	s.text = fmt.Sprintf("%s at %d °C just now", kind, c)
	if lasts {
		since, says := u.began(gpu.Stretch{Heat: kind}, s.since)
		s.since, s.text = since, fmt.Sprintf("%s at %d °C or more%s", kind, limit, says)
	}
	return []sign{s}
}

// lasting returns the sign for heat that is there now: throttled if other recent
// minutes show it too.
func (u subject) lasting(hot func(gpu.Minute) bool) (s sign, lasts bool) {
	n := 0
	for _, m := range u.minutes(recent) {
		if hot(m) {
			n++
		}
	}
	if n < leastHot {
		return sign{outcome: outcome{verdict: Healthy}}, false
	}
	return sign{outcome: outcome{verdict: Throttled, throttle: Thermal}, since: u.firstOf(hot)}, true
}

func newReason(u subject) []sign {
	now, _ := u.gpu.Clocks.Reasons.Get()
	all := now
	for _, m := range u.gpu.Minutes {
		for bit, n := range m.Reasons {
			if n > 0 {
				all |= bit
			}
		}
	}
	if all &^= knownReasons; all != 0 {
		return []sign{{outcome: outcome{verdict: Uncertain}, text: "an unknown clocks event reason", evidence: all.String()}}
	}
	return nil
}

func enoughHistory(u subject) []sign {
	minutes := u.minutes(recent)
	samples, missed := 0, 0
	for _, m := range minutes {
		samples, missed = samples+m.Samples, missed+m.Missed
	}
	evidence := fmt.Sprintf("%s and %d missed in %s", plural(samples, "sample"), missed, plural(len(minutes), "minute"))
	least := max(leastHits, int(needFor/max(u.snap.Period(), time.Second))/2)
	switch {
	case samples < least:
		return []sign{{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("too little history: %s, want %d", plural(samples, "sample"), least), evidence: evidence}}
	case u.gpu.TakenAt.Sub(minutes[0].Start) < needFor:
		return []sign{{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("too little history: less than %s", needFor), evidence: evidence}}
	case missed > samples:
		return []sign{{outcome: outcome{verdict: Uncertain}, text: "more samples were missed than taken", evidence: evidence}}
	}
	return nil
}
