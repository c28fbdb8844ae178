package slo

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

// The error rates of a whole proof, and the margins. They are properties of the
// product, not settings: an operator sets objectives, not significance.
const (
	// proofError bounds each wrong decision over all looks of one proof: to
	// verify a service that still burns, to call one worse that is as before.
	// Half of it is spent on the looks before the deadline, in equal parts,
	// half on the last one (Bonferroni: overlapping looks need no model).
	proofError = 0.01

	// burningError bounds, for one look, that a service exactly at its
	// objective is taken for one that misses it.
	burningError = 0.005

	// improvedError bounds that a change without effect is called improved. It
	// is asked once, at the deadline.
	improvedError = 0.005

	worseBy  = 1.25 // worse: at least this many times the bad ratio of before
	betterBy = 1.1  // improved: the measured bad ratio of before is at least this many times that of now

	// unknownFactor is the burn factor that a proof assumes when the alert's is
	// not known: 6, of the slower paging rule. The larger 14.4 would pass a
	// service that keeps the slower alert firing.
	unknownFactor = 6

	// leastFactor is the lowest factor a proof tells from the objective itself.
	// Half of a factor of 2 is the objective: alerts at 1 and at 0.93 (three
	// days) are proven against one and a half times what may be bad.
	leastFactor = 3

	usualLooks = 100  // looks of a proof that does not say how many: every 15 s within 25 min
	power      = 0.99 // how often the requests of [Test.Needed] suffice to verify a service at its objective
)

// Counts are the events of a window. Increases of counters are not whole
// numbers; requests that never finish count as bad and belong to both.
type Counts struct{ Bad, Total float64 }

// Ratio returns the share of bad events; NaN without any.
func (c Counts) Ratio() float64 { return c.Bad / c.Total }

// usable reports whether the counts can be judged at all.
func (c Counts) usable() bool {
	return c.Total > 0 && c.Bad >= 0 && !math.IsInf(c.Total, 0) && !math.IsInf(c.Bad, 0) // false for NaN
}

// bounded returns the counts with at most as many bad events as events: two
// counters are not scraped at one instant by all replicas.
func (c Counts) bounded() Counts { return Counts{Bad: min(c.Bad, c.Total), Total: c.Total} }

// Test is one look of the proof of a change by one objective of its service.
//
// Let q be the share that may be bad (1 - Objective) and h half the alert's
// factor times q. A look verifies the change when the window's counts reject
// "the true share is h or more" and do not reject "it is q or less"; both are
// exact binomial tests (Clopper and Pearson 1934). It is worse when they reject
// q and, against the counts before the change, "at most 1.25 times as many are
// bad". It is improved when they reject, at the deadline, "as many as before are
// bad", and at least a tenth fewer are. Both compare two counts by the
// conditional binomial test (Przyborowski and Wilenski 1940): given their sum,
// one of them is binomial. The test is exact for Poisson counts and conservative
// for shares.
//
// The two windows need not be of one length. The one before the change should be
// as long as the incident allows and no longer: next to the better times before
// the incident, a change that helps looks worse.
//
// The tests take requests as independent. Those of one overloaded minute are
// not; the margins are there for that.
type Test struct {
	Objective float64 // share of good events, between 0 and 1
	Factor    float64 // burn factor of the alert that fired, e.g. 14.4; 0: unknown
	Before    *Counts // between the beginning of the incident and the plan of the change; nil: not known
	Now       Counts  // in the window of this look, wholly after the change is in effect
	Final     bool    // the deadline: no further look
	Looks     int     // how many looks the whole proof takes; 0: 100
	Falling   bool    // the bad share falls within the window (a queue drains): worse is not said before the deadline
	Bad       string  // a bad event in one word, such as slow; empty: bad
}

// Decision is what one look shows.
type Decision struct {
	Verdict     Verdict      // watching until the deadline, then never
	Reason      fault.Reason // why it is not verified; empty when it is
	Text        string       // one sentence for people
	Ratio       float64      // bad share of the window; NaN without events
	Allowed     float64      // bad share that the objective allows
	Burn        float64      // Ratio in multiples of Allowed
	Total       float64      // events of the window
	Needed      float64      // events that suffice to verify a service at its objective
	BeforeRatio *float64     // bad share before the change; nil: not known
	Better      bool         // the objective was missed before the change, and fewer are bad now
}

// Decide returns the verdict of a look. It is pure, and more bad events among
// as many never turn another verdict into verified.
func (t Test) Decide() Decision {
	d := Decision{Verdict: Inconclusive, Reason: fault.Invalid, Ratio: math.NaN(), Burn: math.NaN()}
	if !(t.Objective > 0 && t.Objective < 1) {
		d.Text = fmt.Sprintf("objective %v is not between 0 and 1", t.Objective)
		return d
	}
	d.Allowed, d.Needed = 1-t.Objective, t.Needed()
	before := t.before()
	if before != nil {
		ratio := before.Ratio()
		d.BeforeRatio = &ratio
	}
	if !t.Now.usable() {
		d.Reason, d.Text = fault.NoTraffic, "no requests finished in the window"
		if math.IsNaN(t.Now.Total+t.Now.Bad) || t.Now.Bad < 0 {
			d.Reason, d.Text = fault.NotANumber, "the counts of the window are not numbers"
		}
		return t.orWatch(d)
	}
	now := t.Now.bounded()
	d.Total, d.Ratio = now.Total, now.Ratio()
	d.Burn = BurnRate(d.Ratio, t.Objective)
	d.Better = before != nil && upperTail(before.Bad, before.Total, d.Allowed) <= burningError &&
		*d.BeforeRatio >= betterBy*d.Ratio && exceeds(*before, now, 1) <= improvedError
	t.verdict(&d, now, before)
	d.Text = t.sentence(d)
	return d
}

// verdict decides between usable counts.
func (t Test) verdict(d *Decision, now Counts, before *Counts) {
	alpha := t.alpha()
	chance := upperTail(now.Bad, now.Total, d.Allowed) // of as many bad events, at the objective
	burning := chance <= burningError
	switch {
	case !burning && lowerTail(now.Bad, now.Total, t.line()) <= alpha:
		d.Verdict, d.Reason = Verified, ""
	case chance <= min(alpha, burningError) && (t.Final || !t.Falling) && before != nil && exceeds(now, *before, worseBy) <= alpha:
		d.Verdict, d.Reason = Worse, fault.Burning
	case !t.Final && burning:
		d.Verdict, d.Reason = Watching, fault.Burning
	case !t.Final:
		d.Verdict, d.Reason = Watching, fault.NoTraffic
	case !burning:
		d.Verdict, d.Reason = Inconclusive, fault.NoTraffic
	case before == nil:
		d.Verdict, d.Reason = Inconclusive, fault.NoData
	case *d.BeforeRatio >= betterBy*d.Ratio && exceeds(*before, now, 1) <= improvedError:
		d.Verdict, d.Reason = Improved, fault.Burning
	default:
		d.Verdict, d.Reason = NoEffect, fault.Burning
	}
}

// Missed reports whether the window rejects, with the error of one look, that the
// objective is met, and at least as many are bad as where a service counts as burning.
func (t Test) Missed() bool {
	now := t.Now.bounded()
	return now.usable() && now.Ratio() >= t.line() && upperTail(now.Bad, now.Total, 1-t.Objective) <= min(t.alpha(), burningError)
}

// orWatch turns a missing reading into watching before the deadline.
func (t Test) orWatch(d Decision) Decision {
	if !t.Final {
		d.Verdict = Watching
	}
	return d
}

// before returns the counts before the change if they can be compared with.
func (t Test) before() *Counts {
	if t.Before == nil || !t.Before.usable() {
		return nil
	}
	b := t.Before.bounded()
	return &b
}

// line returns the bad share at which a service counts as still burning: half
// of what its alert fires at.
func (t Test) line() float64 {
	allowed := 1 - t.Objective
	factor := t.Factor
	if !(factor > 0) || math.IsInf(factor, 0) {
		factor = unknownFactor
	}
	line := max(factor, leastFactor) / 2 * allowed
	return min(line, (1+allowed)/2) // an objective of 90 % cannot burn at 14.4
}

// alpha returns the error that this look may spend.
func (t Test) alpha() float64 {
	if t.Final {
		return proofError / 2
	}
	return proofError / 2 / float64(t.looks())
}

func (t Test) looks() int {
	if t.Looks <= 0 {
		return usualLooks
	}
	return t.Looks
}

// exceeds returns the chance of counts as far apart as a above b, if the share
// of a were only times that of b: given both, a.Bad ~ Binomial(a.Bad + b.Bad, s)
// with s = times*a.Total / (times*a.Total + b.Total).
func exceeds(a, b Counts, times float64) float64 {
	share := times * a.Total / (times*a.Total + b.Total)
	return upperTail(a.Bad, a.Bad+b.Bad, share)
}

// Needed returns how many events a look needs so that a service exactly at its
// objective is verified with 99 %: the sample size of a test between two
// shares, n = ((z1 sqrt(h(1-h)) + z2 sqrt(q(1-q))) / (h-q))^2, and at least as
// many as reject h without any bad event, ln(alpha)/ln(1-h).
func (t Test) Needed() float64 {
	q, h := 1-t.Objective, t.line()
	a := t.alpha()
	n := (quantile(a)*math.Sqrt(h*(1-h)) + quantile(1-power)*math.Sqrt(q*(1-q))) / (h - q)
	return math.Ceil(max(n*n, math.Log(a)/math.Log1p(-h)))
}

// Window returns the window to ask for at the next look. It is hold while that
// window holds enough requests. With fewer it reaches further back, as far as
// is needed and never to before the change was in effect. asked is the window
// that t.Now counts, inEffect how long the change will have been in effect. The
// choice depends on how many requests there are, not on how many were bad, so
// it does not favor a verdict.
func (t Test) Window(hold, asked, inEffect time.Duration) time.Duration {
	if inEffect <= hold {
		return max(hold, 0) // the look has to wait until a whole hold time has passed
	}
	if !(t.Now.Total > 0) || asked <= 0 {
		return inEffect
	}
	need := t.Needed() / t.Now.Total * float64(asked)
	if need >= float64(inEffect) {
		return inEffect
	}
	return max(hold, (time.Duration(need) + time.Second - 1).Truncate(time.Second))
}

// Standing is how a service stands to an objective.
type Standing string

// The standings. Unknown is never good.
const (
	Met      Standing = "met"      // its true bad share is within the objective, as far as can be told
	Breached Standing = "breached" // it is not
	Unknown  Standing = "unknown"  // too few requests, or no numbers
)

// Stands returns how a window stands to the objective, with one sentence for
// people: with the tests of a proof's last look.
func (t Test) Stands() (Standing, Decision) {
	t.Final, t.Before = true, nil
	d := t.Decide()
	switch {
	case d.Verdict == Verified:
		return Met, d
	case d.Total > 0 && d.Reason != fault.NoTraffic:
		d.Text = t.numbers(d)
		return Breached, d
	}
	return Unknown, d
}

// Combine returns the verdict on a change by the decisions of all objectives of
// its service at one look. Only all of them verify. Worse by one is worse, unless
// another one is better now and burned more before than the worse one does now:
// taking the change back would bring that back.
func Combine(all []Decision) Verdict {
	if len(all) == 0 {
		return Inconclusive
	}
	repaired := 0.0 // the most that an objective burned before that is better now
	for _, d := range all {
		if d.Better {
			repaired = max(repaired, *d.BeforeRatio/d.Allowed)
		}
	}
	said := map[Verdict]int{}
	for _, d := range all {
		if d.Verdict == Worse && repaired > 0 && betterBy*d.Burn <= repaired {
			d.Verdict = Improved
		}
		said[d.Verdict]++
	}
	if repaired > 0 && said[NoEffect] > 0 {
		said[Improved]++
	}
	for _, v := range []Verdict{Worse, Watching, Inconclusive, Improved, NoEffect} {
		if said[v] > 0 {
			return v
		}
	}
	if said[Verified] == len(all) {
		return Verified
	}
	return Inconclusive
}

// numbers writes the numbers of a window.
func (t Test) numbers(d Decision) string {
	word := t.Bad
	if word == "" {
		word = "bad"
	}
	return fmt.Sprintf("%s of %s requests were %s, at most %s may be", Percent(d.Ratio), thousands(d.Total), word, Percent(d.Allowed))
}

// sentence writes the numbers of a decision, and what follows from them.
func (t Test) sentence(d Decision) string {
	text := t.numbers(d)
	if d.BeforeRatio != nil {
		text += "; before " + Percent(*d.BeforeRatio)
	}
	switch {
	case d.Verdict == Worse:
		return text + ": worse"
	case d.Verdict == Improved:
		return text + ": better, not yet good"
	case d.Verdict == NoEffect:
		return text + ": not measurably better"
	case d.Reason == fault.NoTraffic:
		return text + fmt.Sprintf(": too few to decide, about %s are needed", thousands(d.Needed))
	case d.Reason == fault.NoData:
		return text + "; before is not known, so neither is the effect"
	}
	return text
}

// Direction is where a bad share goes.
type Direction string

// The directions.
const (
	Rising  Direction = "rising"
	Falling Direction = "falling"
	Level   Direction = "level" // no difference that is more than chance
)

// directionError bounds, for each side, that chance is taken for a direction.
const directionError = 0.025

// Heads compares the bad shares of two windows that follow each other. It
// returns [Level] for windows without events.
func Heads(earlier, later Counts) Direction {
	switch {
	case !earlier.usable() || !later.usable():
		return Level
	case exceeds(later.bounded(), earlier.bounded(), 1) <= directionError:
		return Rising
	case exceeds(earlier.bounded(), later.bounded(), 1) <= directionError:
		return Falling
	}
	return Level
}

// Percent writes a share with three digits.
func Percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 3, 64) + " %" }

// thousands writes a count with separators.
func thousands(v float64) string {
	s := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
