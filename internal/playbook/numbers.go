package playbook

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// The paths of the numbers and durations of a state that can be ${...}. Those
// that [State.Numbers] returns are stored.
const (
	NumberHold     = "wait.hold"
	NumberEvery    = "wait.every"
	NumberWithin   = "wait.within"
	NumberApprove  = "approve.within"
	NumberQuorum   = "approve.quorum"
	NumberTimes    = "step.times"
	NumberTimeout  = "timeout"
	NumberAttempts = "retry.attempts"
	NumberBackoff  = "retry.backoff"

	NumberCooldown    = "guards.cooldown"
	NumberEvidenceAge = "guards.evidence_age"
	NumberMinReady    = "guards.min_ready"

	numberFor       = "wait"
	numberProof     = "verify.within"
	numberProofHold = "verify.hold"
	numberInterval  = "verify.interval"
	numberObjective = "verify.burn.objective"
	numberMaxBurn   = "verify.burn.max"
	numberMinRate   = "verify.traffic.min_rate"
	numberMinShare  = "verify.traffic.min_share"
	numberLimit     = "verify.until.value"
)

// numberFields declares these numbers and durations, each with its path as name,
// in the order of the reference. Step.by has the type of the parameter that it
// changes.
func numberFields() []Field {
	zero, one := 0.0, 1.0
	usual := func(f Field, value any, doc string) Field {
		f.Default, f.Doc = value, doc
		return f
	}
	number := func(path string, above, below, most *float64, value any, doc string) Field {
		return Field{Name: path, Type: Type{Name: Double}, Above: above, Below: below, Max: most, Default: value, Doc: doc}
	}
	return []Field{
		usual(durationField(numberFor, 0, maxWindow), nil, "Of a plain wait."),
		usual(durationField(NumberHold, 0, maxWindow), nil, "How long the condition must hold. Default: once is enough."),
		usual(durationField(NumberEvery, leastWait, maxEvery), defaultEvery, "Between two looks."), // each look is recorded
		usual(durationField(NumberWithin, 0, maxWait), nil, "Until the edge named expired is taken."),
		usual(durationField(NumberApprove, 0, maxDecision), nil, "How long people have."),
		usual(wholeField(NumberQuorum, 1, maxQuorum), 1, "Number of distinct people of by who must approve."),
		usual(wholeField(NumberTimes, 1, maxSteps), nil, "Most steps of one run; a constant is at least 2. A step follows one that improved the service without proving it, or had no effect."),
		usual(durationField(NumberTimeout, 0, maxTimeout), nil, "Of one attempt of the step."),
		usual(wholeField(NumberAttempts, 1, maxAttempts), nil, "In all. Default: 3 of a check, 1 of a lever. A lever that is not idempotent has 1."),
		usual(durationField(NumberBackoff, 0, maxBackoff), time.Second, "Before the second attempt; doubled after each."),
		usual(durationField(NumberCooldown, 0, maxCooldown), nil, "Since the last lever of another run on the service. The configuration's holds where it is longer."),
		usual(durationField(NumberEvidenceAge, 0, maxAge), nil, "Oldest evidence that the lever may act on. The configuration's holds where it is shorter."),
		usual(wholeField(NumberMinReady, 0, maxReady), nil, "Replicas that must stay ready. The service's or the configuration's holds where it is higher."),
		usual(durationField(numberProof, 0, maxProof), defaultWithin, "The deadline of the proof, from when the change takes effect."),
		usual(durationField(numberProofHold, 0, maxProof), defaultHold, "How long it must hold. At most within."),
		usual(durationField(numberInterval, leastSample, maxProof), defaultInterval, "Between two samples."), // Prometheus scrapes no faster
		number(numberLimit, nil, nil, nil, nil, "Also of the conditions of also, and in the short form: engine.waiting < ${...}."),
		number(numberObjective, &zero, &one, nil, nil, "The SLO's objective, such as 0.99."),
		number(numberMaxBurn, &zero, nil, nil, defaultMaxBurn, "A burn rate of 1 uses the budget up exactly at the end of its window."),
		number(numberMinRate, &zero, nil, nil, nil, "Requests per second that count as traffic."),
		number(numberMinShare, &zero, nil, &one, defaultMinTraffic, "Share of the traffic before the change that must still arrive."),
	}
}

// numberField returns the declaration at a path, named for messages.
func numberField(path string) Field {
	f, ok := fieldNamed(numberFields(), path)
	if !ok {
		panic("playbook: no number is declared at " + path) // unreachable unless a path above is not in the list
	}
	f.Name = lastOf(path)
	return f
}

// lastOf returns the last part of a path.
func lastOf(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return path
}

// number reads a number or duration that is declared at a path of the state, or
// one ${...} that yields it.
func (r *reader) number(n *yaml.Node, at, path string, in place) *Value {
	return r.value(n, at, numberField(path), in)
}

func durationField(name string, least, most time.Duration) Field {
	low, high := least.Seconds(), most.Seconds()
	return Field{Name: name, Type: Type{Name: Duration}, Min: &low, Max: &high}
}

func wholeField(name string, least, most int) Field {
	low, high := float64(least), float64(most)
	return Field{Name: name, Type: Type{Name: Int}, Min: &low, Max: &high}
}

// durationLimits returns the least and the greatest duration of a field.
func durationLimits(f Field) (least, most time.Duration) {
	most = maxWindow
	if f.Min != nil {
		least = time.Duration(*f.Min * float64(time.Second))
	}
	if f.Max != nil {
		most = time.Duration(*f.Max * float64(time.Second))
	}
	return least, most
}

// constantDuration is the value of a duration that the document does not set.
func constantDuration(path string, d time.Duration) *Value {
	text := FormatDuration(d)
	return &Value{source: text, field: numberField(path), constant: text}
}

// constantNumber is the value of a number that the document does not set.
func constantNumber(path string, f float64) *Value {
	return &Value{source: fmt.Sprint(f), field: numberField(path), constant: f}
}

// fixed returns a duration that is written as a constant; 0 if it is an
// expression, or could not be read.
func (v *Value) fixed() time.Duration {
	if v == nil {
		return 0
	}
	text, _ := v.constant.(string)
	d, _ := ParseDuration(text)
	return d
}

// Constant returns a number that is written as a constant; false if it is an
// expression, or could not be read.
func (v *Value) Constant() (float64, bool) {
	if v == nil {
		return 0, false
	}
	switch c := v.constant.(type) {
	case int64:
		return float64(c), true
	case float64:
		return c, true
	default:
		return 0, false
	}
}

// Numbers returns the numbers and durations of the state that are expressions,
// by their path, such as wait.within. A run evaluates them when it enters the
// state. It evaluates those of a proof with the proof, and a plain wait when it
// begins.
func (s *State) Numbers() map[string]*Value {
	out := map[string]*Value{}
	add := func(path string, v *Value) {
		if v != nil && v.expr != nil {
			out[path] = v
		}
	}
	if s.Wait != nil {
		add(NumberHold, s.Wait.Hold)
		add(NumberEvery, s.Wait.Every)
		add(NumberWithin, s.Wait.Within)
	}
	if s.Approve != nil {
		add(NumberApprove, s.Approve.Within)
		add(NumberQuorum, s.Approve.Quorum)
	}
	if s.Steps != nil {
		add(NumberTimes, s.Steps.Times)
	}
	if s.Guards != nil {
		add(NumberCooldown, s.Guards.Cooldown)
		add(NumberEvidenceAge, s.Guards.EvidenceAge)
		add(NumberMinReady, s.Guards.MinReady)
	}
	add(NumberTimeout, s.Timeout)
	add(NumberAttempts, s.Retry.Attempts)
	add(NumberBackoff, s.Retry.Backoff)
	return out
}
