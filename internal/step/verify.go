package step

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// freshness is how old the newest sample behind a proof may be. It covers two
// scrapes at the usual interval of a minute.
const freshness = 2 * time.Minute

// verify takes one sample of the proof. Data that cannot be read makes the
// sample inconclusive; it does not fail the effect.
func (s *Set) verify(ctx context.Context, e machine.Effect, now time.Time) machine.Outcome {
	switch {
	case e.Proof == nil:
		return outcomeOf(Invalid("%s: nothing to verify against", e.State), machine.StatusFailed)
	case s.deps.Querier == nil:
		return outcomeOf(NotConfigured("Prometheus", "prometheus.url"), machine.StatusFailed)
	}
	p := e.Proof
	if p.Spec.SLO && len(p.Spec.Until) == 0 {
		sample := s.proveSLO(ctx, e, now).also(nil)
		sample.At = now
		return machine.Outcome{Status: machine.StatusOK, Sample: &sample}
	}
	proof := slo.Proof{
		Hold: p.Spec.Hold, Interval: p.Spec.Interval,
		FixedAt: p.FixedAt, HeldFrom: p.HeldFrom, LastAt: p.LastAt, Deadline: p.Deadline,
	}
	read := func(expr string, fold func([]slo.Sample) float64) slo.Reading {
		return ReadFresh(ctx, s.deps.Querier, expr, p.FixedAt, now, fold)
	}
	var r slo.Readings
	for _, x := range p.Spec.Until {
		say := func(v float64) string { return playbook.Quantity(v, x.Unit) }
		proof.Until = append(proof.Until, slo.Target{Name: x.Shown(), Op: x.Op, Limit: x.Value, Say: say})
		query, err := measured(x.Query, e.Service)
		if err != nil {
			return outcomeOf(err, machine.StatusFailed)
		}
		r.Until = append(r.Until, read(query, Worst(x.Op, x.Value)))
	}
	if p.Spec.ErrorRatio != "" {
		proof.Burn = &slo.BurnTarget{Objective: p.Spec.Objective, Max: p.Spec.MaxBurn}
		r.ErrorRatio = read(slo.Since(p.Spec.ErrorRatio, p.FixedAt, now, p.Spec.Interval), Worst("<", 0))
	}
	if p.Spec.Traffic != "" {
		proof.Traffic = &slo.TrafficTarget{MinRate: p.Spec.MinRate, Share: p.Spec.MinTraffic, Before: s.before(ctx, e)}
		r.Traffic = read(p.Spec.Traffic, sum)
	}
	j := slo.Judge(proof, r, now)
	if p.Spec.SLO {
		joined := s.proveSLO(ctx, e, now).also(&j)
		joined.At = now
		for i, v := range j.Values {
			joined.Values = append(joined.Values, reading(v, p.Spec.Until[i].Unit))
		}
		return machine.Outcome{Status: machine.StatusOK, Sample: &joined}
	}
	sample := &machine.Sample{
		At: now, Verdict: machine.Verdict(j.Verdict), Reason: j.Reason,
		Message: j.Message, HeldFrom: j.HeldFrom,
	}
	for i, v := range j.Values {
		unit := ""
		if i < len(p.Spec.Until) { // they come first, in their order
			unit = p.Spec.Until[i].Unit
		}
		sample.Values = append(sample.Values, reading(v, unit))
	}
	return machine.Outcome{Status: machine.StatusOK, Sample: sample}
}

func reading(v slo.Judged, unit string) machine.Reading {
	return machine.Reading{Name: v.Name, Unit: unit, Value: v.Value, Limit: v.Limit, Op: v.Op, OK: v.OK, Why: v.Why}
}

// before returns the traffic before the change. If the operator confirmed that
// the change was made, it was not read then, but Prometheus still has it. If it
// stays unknown, the proof is inconclusive.
func (s *Set) before(ctx context.Context, e machine.Effect) float64 {
	p := e.Proof
	if p.Before >= 0 || p.Spec.MinTraffic <= 0 || p.Planned.IsZero() {
		return p.Before
	}
	// None at all may mean that Prometheus has forgotten.
	if rate, _, err := s.traffic(ctx, e, p.Planned); err == nil && rate != nil && *rate > 0 {
		return *rate
	}
	return p.Before
}

// ReadFresh evaluates one expression and checks that the result is fresh: no
// older than freshness, and with a sample from after the change was in effect.
// Zero fixed: there was no change.
func ReadFresh(ctx context.Context, q Querier, expr string, fixed, now time.Time, fold func([]slo.Sample) float64) slo.Reading {
	v, err := q.Instant(ctx, expr, now)
	if err != nil {
		e := AsError(err)
		return slo.Reading{Reason: e.Reason, Detail: e.Error()}
	}
	if w := Warnings(v.Warnings); w != "" {
		return slo.Reading{Reason: fault.NoData, Detail: "the answer may be partial: " + w}
	}
	if len(v.Samples) == 0 {
		return slo.Reading{Reason: fault.NoData}
	}
	newest, asked, err := NewestSample(ctx, q, expr, now)
	if err != nil {
		e := AsError(err)
		return slo.Reading{Reason: e.Reason, Detail: "how old the samples are: " + e.Error()}
	}
	if asked && newest.IsZero() {
		return slo.Reading{Reason: fault.NoData, Detail: "the answer is a constant, no series is behind it"}
	}
	if age := now.Sub(newest); asked && age > freshness {
		return slo.Reading{Reason: fault.Stale, Detail: "the newest sample is " + Ago(age, newest)}
	}
	if asked && newest.Before(fixed) {
		return slo.Reading{Reason: fault.Stale, Detail: "the newest sample is from before the change was in effect, " + Ago(now.Sub(newest), newest)}
	}
	return slo.Reading{Value: fold(v.Samples)}
}

// NewestSample returns the time of the newest sample behind an expression;
// zero: there is none. It returns false if that cannot be queried, because the
// expression names no series of now.
func NewestSample(ctx context.Context, q Querier, expr string, now time.Time) (time.Time, bool, error) {
	ask, _, err := slo.FreshnessQuery(expr)
	if err != nil || ask == "" {
		return time.Time{}, false, err
	}
	v, err := q.Instant(ctx, ask, now)
	if err != nil {
		return time.Time{}, false, err
	}
	at, _ := slo.Newest(v)
	return at, true, nil
}

// Ago describes an age, or states that it is beyond Prometheus's look-back.
func Ago(age time.Duration, at time.Time) string {
	if at.Unix() == 0 {
		return "older than Prometheus looks back (5m by default)"
	}
	return fmt.Sprintf("%s old", age.Round(time.Second))
}

// Warnings joins the warnings of Prometheus, without remarks on style.
func Warnings(all []string) string {
	var out []string
	for _, w := range all {
		if !strings.HasPrefix(w, "PromQL info") {
			out = append(out, w)
		}
	}
	return strings.Join(out, "; ")
}

// Worst returns a function that picks the value furthest from satisfying the
// comparison: all series must satisfy it.
func Worst(op string, limit float64) func([]slo.Sample) float64 {
	badness := func(v float64) float64 {
		switch op {
		case ">", ">=":
			return -v
		case "==":
			return math.Abs(v - limit)
		default:
			return v
		}
	}
	return func(samples []slo.Sample) float64 {
		pick := samples[0].Value
		for _, s := range samples {
			if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
				return math.NaN()
			}
			if badness(s.Value) > badness(pick) {
				pick = s.Value
			}
		}
		return pick
	}
}

func sum(samples []slo.Sample) float64 {
	total := 0.0
	for _, s := range samples {
		total += s.Value
	}
	return total
}

// trafficMemory is how long the last value of vanished series counts as the
// traffic before a change: a failed scrape does not mean that there was no
// traffic.
const trafficMemory = 10 * time.Minute

// traffic reads the requests per second just before a change, for the proof,
// and returns a note if they could not be read directly. If the series are gone
// now, the newest value of the last ten minutes counts; if there is none, the
// traffic was 0. The rate is nil if the proof does not ask for it.
func (s *Set) traffic(ctx context.Context, e machine.Effect, at time.Time) (rate *float64, note string, err error) {
	if e.Proof == nil || e.Proof.Spec.Traffic == "" {
		return nil, "", nil
	}
	if s.deps.Querier == nil {
		return nil, "", NotConfigured("Prometheus", "prometheus.url")
	}
	v, err := s.deps.Querier.Instant(ctx, e.Proof.Spec.Traffic, at)
	if err == nil && len(v.Samples) == 0 && Warnings(v.Warnings) == "" {
		return s.trafficWas(ctx, e.Proof.Spec.Traffic, at)
	}
	rate, err = trafficOf(sum(v.Samples), e.Proof.Spec.Traffic, v.Warnings, err)
	return rate, "", err
}

// trafficWas returns the newest traffic of series that are gone.
func (s *Set) trafficWas(ctx context.Context, expr string, at time.Time) (*float64, string, error) {
	m, err := s.deps.Querier.Range(ctx, expr, at.Add(-trafficMemory), at, 15*time.Second)
	var newest time.Time
	total := 0.0
	for _, series := range m.Series {
		for _, p := range series.Points {
			switch {
			case p.At.After(newest):
				newest, total = p.At, p.Value
			case p.At.Equal(newest):
				total += p.Value
			}
		}
	}
	rate, err := trafficOf(total, expr, m.Warnings, err)
	switch {
	case err != nil:
		return nil, "", err
	case newest.IsZero():
		return rate, fmt.Sprintf("no traffic series in the last %s: counted as no traffic before the change", trafficMemory), nil
	default:
		return rate, fmt.Sprintf("the traffic series are gone; before the change counts what they were at %s: %.3g requests/s",
			newest.UTC().Format("15:04:05Z"), total), nil
	}
}

// trafficOf checks that the proof can compare with a rate.
func trafficOf(rate float64, expr string, warned []string, err error) (*float64, error) {
	if err != nil {
		x := AsError(err)
		return nil, &fault.Error{Reason: x.Reason, Message: "traffic before the change cannot be read, nothing was changed", Err: x}
	}
	if w := Warnings(warned); w != "" {
		return nil, &fault.Error{Reason: fault.NoData, Message: "traffic before the change may be partial, nothing was changed: " + w}
	}
	if math.IsNaN(rate) || math.IsInf(rate, 0) {
		return nil, &fault.Error{Reason: fault.NotANumber, Message: "traffic before the change is not a finite number, nothing was changed: " + expr}
	}
	return &rate, nil
}
