package step

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/slo"
)

// leastTraffic is the smallest share of the traffic before the change that must
// still arrive: a service that lost its traffic always meets its objectives.
const leastTraffic = 0.5

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
		return look{
			verdict: slo.Watching, ends: slo.Inconclusive, reason: fault.NoData,
			text: fmt.Sprintf("in effect for %s, judged after %s", inEffect.Round(time.Second), p.Spec.Hold),
		}
	}
	window := p.Spec.Hold
	m, err := measure(ctx, s.deps.Querier, ask, p, now, window)
	if err != nil {
		x := AsError(err)
		return look{verdict: slo.Inconclusive, ends: slo.Inconclusive, reason: x.Reason, text: x.Error()}
	}
	if longer := longest(m, p, window, inEffect); longer > window {
		if again, err := measure(ctx, s.deps.Querier, ask, p, now, longer); err == nil {
			m = again
		}
	}
	return judgeSLO(m, p)
}

// The spans of a proof, by their position.
const (
	spanNow = iota
	spanEarlier
	spanRecent
	spanBefore
)

func measure(ctx context.Context, q Querier, ask slo.Ask, p *machine.Proof, now time.Time, window time.Duration) (slo.Measurement, error) {
	half := window / 2
	spans := []slo.Span{{Window: window}, {Window: half, Offset: half}, {Window: half}}
	if !p.Planned.IsZero() && p.Planned.Before(now) {
		spans = append(spans, slo.Span{Window: window, Offset: now.Sub(p.Planned)})
	}
	return slo.Measure(ctx, Patient(q), ask, now, spans...)
}

// testOf returns the statistical test of one measured objective.
func testOf(x slo.Measured, p *machine.Proof, final bool) slo.Test {
	t := slo.Test{
		Objective: x.Objective.Objective, Now: x.Counts[spanNow], Final: final, Looks: int(p.Spec.Within/max(p.Spec.Interval, time.Second)) + 1,
		Falling: slo.Heads(x.Counts[spanEarlier], x.Counts[spanRecent]) == slo.Falling, Bad: BadWord(x.Objective.Indicator),
	}
	if len(x.Counts) > spanBefore {
		before := x.Counts[spanBefore]
		t.Before = &before
	}
	return t
}

// longest returns the window that gives every objective enough requests, never
// reaching to before the change was in effect.
func longest(m slo.Measurement, p *machine.Proof, window, inEffect time.Duration) time.Duration {
	out := window
	for _, x := range m.Measured {
		if x.Reason == "" {
			out = max(out, testOf(x, p, false).Window(p.Spec.Hold, window, inEffect))
		}
	}
	return out
}

// judgeSLO decides one sample of all objectives.
func judgeSLO(m slo.Measurement, p *machine.Proof) look {
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
		d := lessTraffic(x, testOf(x, p, false).Decide())
		end := lessTraffic(x, testOf(x, p, true).Decide())
		if ratio := d.Ratio; !math.IsNaN(ratio) {
			r.Value = &ratio
		}
		r.OK, r.Why = d.Verdict == slo.Verified, d.Reason
		l.values = append(l.values, r)
		now, last = append(now, d), append(last, end)
		l.say(x.Name(), d)
	}
	l.verdict, l.ends = slo.Combine(now), slo.Combine(last)
	if l.verdict == slo.Verified {
		l.reason, l.text = "", texts(m, now)
	}
	if len(m.Stuck) > 0 {
		l.stuck(m)
	}
	return l
}

// lessTraffic withholds the proof of an objective whose requests went away.
func lessTraffic(x slo.Measured, d slo.Decision) slo.Decision {
	if d.Verdict != slo.Verified || len(x.Counts) <= spanBefore || !(x.Counts[spanBefore].Total > 0) {
		return d
	}
	if before := x.Counts[spanBefore].Total; d.Total < leastTraffic*before {
		d.Verdict, d.Reason = slo.Inconclusive, fault.NoTraffic
		d.Text = fmt.Sprintf("%.0f requests, and %.0f in the same time before: where the others went is not known", d.Total, before)
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
		s.Verdict, s.Reason, s.Message = machine.VerdictInconclusive, j.Reason, j.Message
	case l.verdict == slo.Verified && j.Verdict != slo.Verified:
		s.Verdict, s.Reason, s.Message = machine.Verdict(j.Verdict), j.Reason, j.Message
		if j.Verdict == slo.Failed {
			s.Verdict = machine.VerdictWatching
		}
	}
	return s
}
