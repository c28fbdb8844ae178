package step

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/slo"
)

// leastTraffic is the smallest share of the traffic before the change that must
// still arrive: a service that lost its traffic always meets its objectives.
const leastTraffic = 0.5

// muchTraffic is how many times the traffic before a change hides that the change had no
// effect: a burst during the proof of a rollback says nothing of the release.
const muchTraffic = 1.5

// moreTraffic is how many times the traffic before that is for a change that looks worse.
const moreTraffic = 1.1

// leastEarly is how long a change must be in effect before it can be called worse.
// Half of that time is looked at: four scrapes at the usual interval of 15 s.
const leastEarly = 2 * time.Minute

// soonKnown are the indicators that are known soon after a request arrives. The others
// are known when it ends, long after the change for one that began before it.
var soonKnown = []string{engine.TTFT, engine.ITL, engine.Errors}

// A replica that has just started is slow for a while: its caches are cold. So before
// the hold time at least half of the requests must be bad, and twice the share of before.
const (
	earlyBad = 0.5 // share of the requests
	earlyBy  = 2   // times the share before the change
)

// look is what one sample shows of the service's objectives.
type look struct {
	verdict slo.Verdict // so far
	ends    slo.Verdict // if the proof ends with this sample
	reason  fault.Reason
	text    string
	values  []machine.Reading
}

// proveSLO measures the objectives of the service over the last hold window, and
// compares it with the same length of time before the change. What was before
// the change took effect is not held against it.
func (s *Set) proveSLO(ctx context.Context, e machine.Effect, now time.Time) look {
	p := e.Proof
	ask := Objectives(e.Service)
	if len(ask.Objectives) == 0 {
		return look{verdict: slo.Inconclusive, ends: slo.Inconclusive, reason: fault.Invalid, text: "the service has no objectives: declare slos in the catalog, or slo.defaults"}
	}
	inEffect := now.Sub(p.FixedAt)
	if inEffect < p.Spec.Hold {
		return s.early(ctx, ask, e, now)
	}
	w := windows{now: p.Spec.Hold, effect: e}
	m, err := w.measure(ctx, s.deps.Querier, ask, now)
	if err != nil {
		x := AsError(err)
		return look{verdict: slo.Inconclusive, ends: slo.Inconclusive, reason: x.Reason, text: x.Error()}
	}
	if longer := w.longest(m, inEffect); longer > w.now {
		more := windows{now: longer, effect: e}
		if again, err := more.measure(ctx, s.deps.Querier, ask, now); err == nil {
			w, m = more, again
		}
	}
	l := w.judge(m)
	if l.verdict != slo.Verified && l.verdict != slo.Worse && inEffect >= 2*w.now && w.lasts(ctx, s.deps.Querier, ask, now) {
		l.verdict = slo.Failed
		l.text += fmt.Sprintf("; no worse in the %s before, and no fewer requests are in flight: waiting longer would not prove it", w.now.Round(time.Second))
	}
	return l
}

// lasts reports whether waiting longer would not prove the change: an objective is
// clearly missed, as it was a window before, none is missed by less and less, and
// the engine is known to hold no fewer requests.
func (w *windows) lasts(ctx context.Context, q Querier, ask slo.Ask, now time.Time) bool {
	if server, _ := engine.Named(w.effect.Service.Engine); server.Fronted() {
		return false // the router's queue is hidden
	}
	half := w.now / 2
	spans := []slo.Span{{Window: w.now}, {Window: half, Offset: half}, {Window: half}, {Window: w.now, Offset: w.now}}
	m, err := slo.Measure(ctx, q, ask, now, spans...)
	if err != nil {
		return false
	}
	lasts := false
	for _, x := range m.Measured {
		if x.Reason != "" {
			return false
		}
		t, was := w.test(x, false), w.test(x, false)
		was.Now = x.Counts[len(spans)-1]
		if t.Falling || slo.Heads(was.Now, t.Now) == slo.Falling {
			return false
		}
		lasts = lasts || t.Missed() && was.Missed()
	}
	return lasts && w.piles(ctx, q, ask, now)
}

// early looks for what is worse before the hold time is over. It looks at the later
// half of the time in effect: right after a change, requests finish that waited for
// it. While the engine holds fewer of them, or how many cannot be told, nothing is
// said before the hold time, nor where everything that serves was started anew.
func (s *Set) early(ctx context.Context, ask slo.Ask, e machine.Effect, now time.Time) look {
	p := e.Proof
	inEffect := now.Sub(p.FixedAt)
	wait := look{
		verdict: slo.Watching, ends: slo.Inconclusive, reason: fault.NoData,
		text: fmt.Sprintf("in effect for %s, judged after %s", inEffect.Round(time.Second), p.Spec.Hold),
	}
	if server, _ := engine.Named(e.Service.Engine); inEffect < leastEarly || p.Anew || server.Fronted() {
		return wait
	}
	w := windows{now: inEffect / 2, early: true, effect: e}
	finished := ask
	finished.Progress = nil // what stands still is counted from before the change was in effect
	finished.Objectives = slices.DeleteFunc(slices.Clone(ask.Objectives), func(o slo.Objective) bool { return !slices.Contains(soonKnown, o.Indicator) })
	if len(finished.Objectives) == 0 {
		return wait
	}
	m, err := w.measure(ctx, s.deps.Querier, finished, now)
	if err != nil {
		return wait
	}
	if l := w.judge(m); l.verdict == slo.Worse && w.piles(ctx, s.deps.Querier, ask, now) {
		return l
	}
	return wait
}

// piles reports whether the engine is known to hold no fewer requests than a window ago.
func (w *windows) piles(ctx context.Context, q Querier, ask slo.Ask, now time.Time) bool {
	load, err := slo.Loads(ctx, q, ask.Service, ask.Progress, now, slo.Span{Window: w.now}, slo.Span{Window: w.now, Offset: w.now})
	return err == nil && load[0].Held >= load[1].Held // false for NaN
}

// windows are the stretches of time that one sample compares.
type windows struct {
	now    time.Duration // wholly after the change is in effect
	before time.Duration // up to when the change was planned; 0: unknown
	early  bool          // the hold time is not over
	effect machine.Effect
}

// The spans of a proof, by their position.
const (
	spanNow = iota
	spanEarlier
	spanRecent
	spanBefore
)

// measure counts the requests of the windows. The time before the alert began
// stays out of the comparison: the service was well then.
func (w *windows) measure(ctx context.Context, q Querier, ask slo.Ask, now time.Time) (slo.Measurement, error) {
	p, half := w.effect.Proof, w.now/2
	spans := []slo.Span{{Window: w.now}, {Window: half, Offset: half}, {Window: half}}
	if !p.Planned.IsZero() && p.Planned.Before(now) {
		w.before = max(w.now, p.Spec.Hold)
		if began := w.effect.Alert.StartsAt; !began.IsZero() {
			w.before = max(min(w.before, p.Planned.Sub(began)), min(p.Spec.Hold, w.now))
		}
		spans = append(spans, slo.Span{Window: w.before, Offset: now.Sub(p.Planned)})
	}
	m, err := slo.Measure(ctx, Patient(q), ask, now, spans...)
	if err != nil || m.Unfinished == 0 || len(spans) == spanBefore {
		return m, err
	}
	return m, w.stuckBefore(ctx, q, ask, &m)
}

// stuckBefore counts what stood still before the change, too, where something
// stands still now: else every change would look worse than what was there before.
func (w *windows) stuckBefore(ctx context.Context, q Querier, ask slo.Ask, m *slo.Measurement) error {
	was, err := slo.Measure(ctx, Patient(q), ask, w.effect.Proof.Planned, slo.Span{Window: w.before})
	if err != nil {
		return err
	}
	for i := range m.Measured {
		for _, x := range was.Measured {
			if x.Name() == m.Measured[i].Name() && x.Reason == "" && m.Measured[i].Reason == "" {
				m.Measured[i].Counts[spanBefore] = x.Counts[0]
			}
		}
	}
	return nil
}

// test returns the statistical test of one measured objective.
func (w *windows) test(x slo.Measured, final bool) slo.Test {
	p := w.effect.Proof
	t := slo.Test{
		Objective: x.Objective.Objective, Now: x.Counts[spanNow], Final: final, Looks: int(p.Spec.Within/max(p.Spec.Interval, time.Second)) + 1,
		Falling: slo.Heads(x.Counts[spanEarlier], x.Counts[spanRecent]) == slo.Falling, Bad: BadWord(x.Objective.Indicator),
	}
	for _, o := range w.effect.Service.SLOs {
		if o.Name == x.Objective.Name {
			t.Factor = AlertFactor(w.effect.Alert, o.Window)
		}
	}
	if len(x.Counts) > spanBefore {
		before := x.Counts[spanBefore]
		t.Before = &before
	}
	return t
}

// longest returns the window that gives every objective enough requests, never
// reaching to before the change was in effect.
func (w *windows) longest(m slo.Measurement, inEffect time.Duration) time.Duration {
	out := w.now
	for _, x := range m.Measured {
		if x.Reason == "" {
			out = max(out, w.test(x, false).Window(w.effect.Proof.Spec.Hold, w.now, inEffect))
		}
	}
	return out
}

// judge decides one sample of all objectives.
func (w *windows) judge(m slo.Measurement) look {
	var now, last []slo.Decision
	var l look
	for _, x := range m.Measured {
		r := machine.Reading{Name: x.Name(), Unit: "ratio of requests", Op: "<=", Limit: 1 - x.Objective.Objective}
		if x.Reason != "" {
			r.Why = x.Reason
			l.values = append(l.values, r)
			d := slo.Decision{Verdict: slo.Inconclusive, Reason: x.Reason, Text: x.Detail}
			now, last = append(now, d), append(last, d)
			l.say(x.Name(), d)
			continue
		}
		d, end := w.otherTraffic(x, w.test(x, false).Decide()), w.otherTraffic(x, w.test(x, true).Decide())
		if w.early && d.Verdict == slo.Worse && !(d.Ratio >= earlyBad && d.Ratio >= earlyBy**d.BeforeRatio) {
			d.Verdict = slo.Watching
		}
		if ratio := d.Ratio; !math.IsNaN(ratio) {
			r.Value = &ratio
		}
		r.OK, r.Why = d.Verdict == slo.Verified, d.Reason
		l.values = append(l.values, r)
		now, last = append(now, d), append(last, end)
		l.say(x.Name(), d)
	}
	l.verdict, l.ends = slo.Combine(now), slo.Combine(last)
	switch l.verdict {
	case slo.Verified:
		l.reason, l.text = "", texts(m, now)
	case slo.Worse:
		i := slices.IndexFunc(now, func(d slo.Decision) bool { return d.Verdict == slo.Worse })
		l.reason, l.text = now[i].Reason, m.Measured[i].Name()+": "+now[i].Text
	case slo.Improved: // not before the deadline
		l.verdict = slo.Watching
	}
	if len(m.Stuck) > 0 {
		l.stuck(m)
	}
	if m.Hung > 0 && l.verdict != slo.Verified {
		l.text += "; " + HungText(m.Hung)
	}
	return l
}

// otherTraffic withholds the proof of an objective whose requests went away, and what
// speaks against a rollback where many more came. While more requests end than before,
// neither a rollback nor capacity that was added made anything worse: the load has grown,
// and what serves it is no slower. Those that fail do not count for that, because they
// end at once.
func (w *windows) otherTraffic(x slo.Measured, d slo.Decision) slo.Decision {
	p, hides := w.effect.Proof, muchTraffic
	against := p.Release && d.Verdict == slo.NoEffect
	worse := (p.Release || p.Added) && d.Verdict == slo.Worse
	if worse {
		against, hides = true, moreTraffic
	}
	if d.Verdict != slo.Verified && !against || len(x.Counts) <= spanBefore || !(x.Counts[spanBefore].Total > 0) || w.before <= 0 {
		return d
	}
	now, before := d.Total/w.now.Seconds(), x.Counts[spanBefore].Total/w.before.Seconds()
	end := "end"
	if worse && IsErrors(x.Objective.Indicator) {
		was := x.Counts[spanBefore]
		now, before, end = now*(1-d.Ratio), max(was.Total-was.Bad, 0)/w.before.Seconds(), "succeed"
	}
	switch {
	case against && now >= hides*before:
		d.Verdict = slo.Inconclusive
		d.Text += fmt.Sprintf("; %.3g requests/s %s, and %.3g before: more load may hide what it did", now, end, before)
	case !against && now < leastTraffic*before:
		d.Verdict, d.Reason = slo.Inconclusive, fault.NoTraffic
		d.Text = fmt.Sprintf("%.3g requests/s, and %.3g before: where the others went is not known", now, before)
	}
	return d
}

// say keeps the first objective that is not proven.
func (l *look) say(name string, d slo.Decision) {
	if d.Verdict != slo.Verified && l.text == "" {
		l.reason, l.text = d.Reason, name+": "+d.Text
	}
}

// stuck withholds the proof while replicas take requests and finish none.
func (l *look) stuck(m slo.Measurement) {
	var names []string
	for _, r := range m.Stuck {
		names = append(names, fmt.Sprintf("%s (%.0f in flight)", r.Name, r.InFlight))
	}
	text := "runs requests and takes no step: " + strings.Join(names, ", ")
	l.values = append(l.values, machine.Reading{Name: "stuck replicas", Value: ptr(float64(len(m.Stuck))), Op: "<=", Why: fault.NotMet})
	if l.verdict == slo.Verified {
		l.verdict, l.reason, l.text = slo.Watching, fault.NotMet, text
	}
	if l.ends == slo.Verified || l.ends == slo.Inconclusive {
		l.ends = slo.NoEffect
	}
}

// HungText returns the line for people about requests that never finish.
func HungText(n float64) string {
	return fmt.Sprintf("about %.0f requests in flight never finish", n)
}

func ptr(v float64) *float64 { return &v }

func texts(m slo.Measurement, all []slo.Decision) string {
	var out []string
	for i, d := range all {
		out = append(out, m.Measured[i].Name()+": "+d.Text)
	}
	return strings.Join(out, "; ")
}

// also joins what the objectives show with the further conditions of a proof.
func (l look) also(j *slo.Judgement) machine.Sample {
	s := machine.Sample{Verdict: machine.Verdict(l.verdict), Ends: machine.Verdict(l.ends), Reason: l.reason, Message: l.text, Values: l.values}
	if l.ends == slo.Verified { // verified, and ended because of a further condition or a lost look
		s.Ends = machine.VerdictImproved
	}
	if j == nil {
		return s
	}
	s.HeldFrom = j.HeldFrom
	switch {
	case l.verdict == slo.Worse:
	case j.Verdict == slo.Inconclusive:
		s.Verdict, s.Ends, s.Reason, s.Message = machine.VerdictInconclusive, machine.VerdictInconclusive, j.Reason, j.Message
	case l.verdict == slo.Verified && j.Verdict != slo.Verified:
		s.Verdict, s.Reason, s.Message = machine.Verdict(j.Verdict), j.Reason, j.Message
		if j.Verdict == slo.Failed {
			s.Verdict = machine.VerdictWatching
		}
	}
	return s
}
