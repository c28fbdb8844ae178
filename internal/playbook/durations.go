package playbook

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// duration reads a duration, or one ${...} that yields a duration or its text.
// least and most limit it: of an expression when it is evaluated.
func (r *reader) duration(n *yaml.Node, path, name string, least, most time.Duration, at place) *Value {
	return r.value(n, path, durationField(name, least, most), at)
}

func durationField(name string, least, most time.Duration) Field {
	low, high := least.Seconds(), most.Seconds()
	return Field{Name: name, Type: Type{Name: Duration}, Min: &low, Max: &high}
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
func constantDuration(name string, d time.Duration) *Value {
	text := FormatDuration(d)
	return &Value{source: text, field: durationField(name, d, d), constant: text}
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

// Times returns the durations of the state that are expressions, by their
// path, such as wait.within. A run evaluates them when it enters the state. It
// evaluates those of a proof with the proof.
func (s *State) Times() map[string]*Value {
	out := map[string]*Value{}
	add := func(path string, v *Value) {
		if v != nil && v.expr != nil {
			out[path] = v
		}
	}
	if s.Wait != nil {
		add(TimeHold, s.Wait.Hold)
		add(TimeEvery, s.Wait.Every)
		add(TimeWithin, s.Wait.Within)
	}
	if s.Approve != nil {
		add(TimeApprove, s.Approve.Within)
	}
	return out
}

// The paths of the durations that [State.Times] returns. They are stored.
const (
	TimeHold    = "wait.hold"
	TimeEvery   = "wait.every"
	TimeWithin  = "wait.within"
	TimeApprove = "approve.within"
)
