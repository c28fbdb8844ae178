package slo

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

// Verdict is what the samples of a proof show so far.
type Verdict string

// The verdicts. Only Verified, Worse and Failed end a proof before its
// deadline. [Judge] does not return Improved, NoEffect and Worse, [Test.Decide]
// not Recovering and Failed.
const (
	Watching     Verdict = "watching"     // an expectation is not met yet, or the budget burns
	Recovering   Verdict = "recovering"   // everything is met, not yet for the hold time
	Verified     Verdict = "verified"     // everything was met for the hold time, with data and traffic
	Inconclusive Verdict = "inconclusive" // something is missing: nothing can be said
	Failed       Verdict = "failed"       // the hold time no longer fits before the deadline

	Improved Verdict = "improved"  // better than before the change, not yet within the objective
	NoEffect Verdict = "no_effect" // outside the objective, and not measurably better than before
	Worse    Verdict = "worse"     // outside the objective, and clearly worse than before
)

// Proof is what must hold, since when, and the result of the samples so far.
type Proof struct {
	Until    []Target
	Burn     *BurnTarget // nil: not asked
	Traffic  *TrafficTarget
	Hold     time.Duration // > 0: how long everything must hold without a break
	Interval time.Duration // between samples; 0: 15s
	FixedAt  time.Time     // when the change took effect
	HeldFrom time.Time     // since when every sample met everything; zero: the last one did not
	LastAt   time.Time     // of the sample before this one; zero: not known
	Deadline time.Time     // for the proof; zero: none
}

// Target is one comparison: the reading Op Limit.
type Target struct {
	Name  string // how it is shown: in words, or the expression
	Op    string // <, <=, >, >=, ==
	Limit float64
	Say   func(float64) string // writes a number of it; nil: with four digits
}

func (t Target) say(v float64) string {
	if t.Say == nil {
		return fmt.Sprintf("%.4g", v)
	}
	return t.Say(v)
}

// BurnTarget asks that the error budget burns at less than Max since the fix.
type BurnTarget struct {
	Objective float64 // 0 < Objective < 1
	Max       float64 // > 0; 1 spends exactly the budget
}

// TrafficTarget asks that requests still arrive.
type TrafficTarget struct {
	MinRate float64 // requests per second, > 0
	Share   float64 // of Before that must still be there; 0: not asked
	Before  float64 // requests per second before the change; negative or NaN: not known
}

// Reading is the answer to one question. Reason is set when there is none.
type Reading struct {
	Value  float64
	Reason fault.Reason
	Detail string // for people, when Reason is set
}

// Readings are the answers of one sample, in the order of the proof's targets.
type Readings struct {
	Until      []Reading
	ErrorRatio Reading // share of bad events since the fix
	Traffic    Reading // requests per second now
}

// Judgement is what one sample showed.
type Judgement struct {
	Verdict  Verdict
	Reason   fault.Reason
	Message  string
	HeldFrom time.Time // to be handed to the next sample; zero: the hold starts anew
	Values   []Judged  // one per target, then burn and traffic where asked
}

// Judged is one reading beside what it was compared with.
type Judged struct {
	Name  string
	Value *float64 // nil: no usable reading
	Limit float64
	Op    string
	OK    bool
	Why   fault.Reason
	Text  string // for people, when not OK
}

// Judge returns what a sample taken at now proves. It is pure.
//
// Nothing missing is ever good: an absent, stale, non-finite or unanswered
// reading makes the sample inconclusive and the hold time starts anew, as it
// does when a target is missed or when no sample was taken for longer than
// three intervals. A burn since the fix that is still too high is watched, not
// failed: the past drains. Failed is said early only when the hold time no
// longer fits before the deadline, so that waiting could not change it.
func Judge(p Proof, r Readings, now time.Time) Judgement {
	if msg := p.check(r); msg != "" {
		return Judgement{Verdict: Inconclusive, Reason: fault.Invalid, Message: msg}
	}
	j := Judgement{Values: judgeAll(p, r)}
	if bad, ok := firstBad(j.Values, isGap); ok {
		j.Verdict, j.Reason, j.Message = Inconclusive, bad.Why, bad.Text
		return j
	}
	if bad, ok := firstBad(j.Values, func(v Judged) bool { return !v.OK }); ok {
		j.Verdict, j.Reason, j.Message = Watching, bad.Why, bad.Text
		if !p.Deadline.IsZero() && now.Add(p.Hold).After(p.Deadline) {
			j.Verdict = Failed
			j.Message += fmt.Sprintf("; %s would have to hold before %s and no longer can",
				p.Hold, p.Deadline.UTC().Format(time.TimeOnly))
		}
		return j
	}
	j.HeldFrom = p.heldFrom(now)
	held := now.Sub(j.HeldFrom)
	if held >= p.Hold {
		j.Verdict, j.Message = Verified, fmt.Sprintf("held for %s", round(held))
		return j
	}
	j.Verdict, j.Message = Recovering, fmt.Sprintf("holds for %s of %s", round(held), p.Hold)
	if round(held) == 0 {
		j.Message = fmt.Sprintf("holds now, and has to hold for %s", p.Hold)
	}
	return j
}

// check names what makes the proof itself meaningless.
func (p Proof) check(r Readings) string {
	switch {
	case p.Hold <= 0:
		return "the hold time is not positive: nothing would be proven"
	case len(p.Until) == 0 && p.Burn == nil:
		return "the proof asks nothing: give until or burn"
	case len(r.Until) != len(p.Until):
		return fmt.Sprintf("%d readings for %d targets", len(r.Until), len(p.Until))
	case p.Burn != nil && !(p.Burn.Objective > 0 && p.Burn.Objective < 1):
		return fmt.Sprintf("objective %v is not between 0 and 1", p.Burn.Objective)
	case p.Burn != nil && !(p.Burn.Max > 0):
		return fmt.Sprintf("largest burn %v is not positive", p.Burn.Max)
	case p.Traffic != nil && !(p.Traffic.MinRate > 0):
		return fmt.Sprintf("least rate %v is not positive", p.Traffic.MinRate)
	}
	return ""
}

// heldFrom is since when everything holds, given that it holds now.
func (p Proof) heldFrom(now time.Time) time.Time {
	from := p.HeldFrom
	interval := p.Interval
	if interval <= 0 {
		interval = 15 * time.Second
	}
	switch {
	case from.IsZero(), from.After(now):
		return now // starts now, or the clock went back: the old start proves nothing
	case p.LastAt.After(now), !p.LastAt.IsZero() && now.Sub(p.LastAt) > 3*interval:
		return now // nobody looked in between
	case from.Before(p.FixedAt):
		return p.FixedAt
	}
	return from
}

func isGap(v Judged) bool {
	return !v.OK && v.Why != fault.NotMet && v.Why != fault.Burning
}

func firstBad(vs []Judged, bad func(Judged) bool) (Judged, bool) {
	i := slices.IndexFunc(vs, bad)
	if i < 0 {
		return Judged{}, false
	}
	return vs[i], true
}

func judgeAll(p Proof, r Readings) []Judged {
	var out []Judged
	for i, t := range p.Until {
		out = append(out, judgeTarget(t, r.Until[i], fault.NotMet))
	}
	if p.Burn != nil {
		burn := r.ErrorRatio
		burn.Value = BurnRate(burn.Value, p.Burn.Objective)
		out = append(out, judgeTarget(Target{Name: "burn", Op: "<", Limit: p.Burn.Max}, burn, fault.Burning))
	}
	if p.Traffic != nil {
		out = append(out, p.Traffic.judge(r.Traffic))
	}
	return out
}

// Judge judges whether a reading meets the target. A missing one does not.
func (t Target) Judge(r Reading) Judged { return judgeTarget(t, r, fault.NotMet) }

func judgeTarget(t Target, r Reading, missed fault.Reason) Judged {
	j := Judged{Name: t.Name, Limit: t.Limit, Op: t.Op}
	if !usable(&j, r) {
		return j
	}
	met, known := compare(r.Value, t.Op, t.Limit)
	switch {
	case !known:
		j.Why, j.Text = fault.Invalid, fmt.Sprintf("%s: comparison %q is not one of <, <=, >, >=, ==", t.Name, t.Op)
	case !met:
		j.Why, j.Text = missed, fmt.Sprintf("%s is %s, wanted %s %s", t.Name, t.say(r.Value), t.Op, t.say(t.Limit))
	default:
		j.OK = true
	}
	return j
}

func (t TrafficTarget) judge(r Reading) Judged {
	limit := t.MinRate
	baseline := t.Before >= 0 && !math.IsInf(t.Before, 0) // false for NaN
	if baseline {
		limit = max(limit, t.Share*t.Before)
	}
	j := Judged{Name: "traffic", Limit: limit, Op: ">="}
	switch {
	case !usable(&j, r):
	case t.Share > 0 && !baseline:
		j.Why, j.Text = fault.NoTraffic, "traffic before the change is not known, so it cannot be said that it did not leave"
	case r.Value < limit:
		j.Why = fault.NoTraffic
		j.Text = fmt.Sprintf("traffic is %.3g requests/s, at least %.3g are needed to prove anything", r.Value, limit)
	default:
		j.OK = true
	}
	return j
}

// usable fills in the value, or why there is none.
func usable(j *Judged, r Reading) bool {
	if r.Reason == "" && (math.IsNaN(r.Value) || math.IsInf(r.Value, 0)) {
		r.Reason = fault.NotANumber
	}
	if r.Reason != "" {
		j.Why, j.Text = r.Reason, j.Name+": "+r.Detail
		if r.Detail == "" {
			j.Text = j.Name + ": " + reasonText(r.Reason)
		}
		return false
	}
	v := r.Value
	j.Value = &v
	return true
}

func compare(v float64, op string, limit float64) (met, known bool) {
	switch op {
	case "<":
		return v < limit, true
	case "<=":
		return v <= limit, true
	case ">":
		return v > limit, true
	case ">=":
		return v >= limit, true
	case "==":
		return v == limit, true
	default:
		return false, false
	}
}

// reasonText is the reason for people, where nothing more is known.
func reasonText(r fault.Reason) string {
	switch r {
	case fault.NotANumber:
		return "not a finite number (nothing was measured)"
	case fault.NoData:
		return "no series answers (missing is not zero)"
	case fault.Stale:
		return "the newest sample is too old"
	default:
		return string(r)
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
