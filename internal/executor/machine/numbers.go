package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// numbers evaluates the numbers and durations of a state that are expressions,
// for the journal; nil: it has none.
func (s State) numbers(st *playbook.State, now time.Time) (map[string]any, error) {
	var out map[string]any
	values := st.Numbers()
	for _, path := range slices.Sorted(maps.Keys(values)) {
		v, err := values[path].Eval(s.scope(now))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, s.lacksAlert(err))
		}
		if out == nil {
			out = map[string]any{}
		}
		out[path] = plain(v)
	}
	return out, nil
}

// lasting returns a duration of the current state: as journaled when the run
// entered it, or evaluated now if it is a constant or an older version entered
// the state. A nil value is 0.
func (s State) lasting(path string, v *playbook.Value, now time.Time) (time.Duration, error) {
	if v == nil {
		return 0, nil
	}
	if text, ok := s.Numbers[path].(string); ok {
		return playbook.ParseDuration(text)
	}
	d, err := v.Duration(s.scope(now))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, s.lacksAlert(err))
	}
	return d, nil
}

// count returns a whole number of a state, as lasting does a duration.
func (s State) count(path string, v *playbook.Value, now time.Time) (int, error) {
	if v == nil {
		return 0, nil
	}
	if f, ok := s.Numbers[path].(float64); ok {
		return int(f), nil
	}
	n, err := v.Int(s.scope(now))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, s.lacksAlert(err))
	}
	return n, nil
}

// Guarding is what a state asks of the guards beyond the configuration. A zero
// field asks for nothing.
type Guarding struct {
	Cooldown    time.Duration // since the last lever of another run on the service
	EvidenceAge time.Duration // oldest evidence
	MinReady    int           // replicas that stay ready
}

// Guarding returns what the current state asks of the guards.
func (s State) Guarding(st *playbook.State, now time.Time) (Guarding, error) {
	var g Guarding
	if st.Guards == nil {
		return g, nil
	}
	var errs [3]error
	g.Cooldown, errs[0] = s.lasting(playbook.NumberCooldown, st.Guards.Cooldown, now)
	g.EvidenceAge, errs[1] = s.lasting(playbook.NumberEvidenceAge, st.Guards.EvidenceAge, now)
	g.MinReady, errs[2] = s.count(playbook.NumberMinReady, st.Guards.MinReady, now)
	return g, errors.Join(errs[:]...)
}

// numberless leaves a state whose numbers cannot be evaluated. A lever is
// refused; everything else ends with people, or by the state's on_error.
func (t *turn) numberless(st *playbook.State, err error) {
	if st.Kind == playbook.StateLever {
		t.expression(ActionPlan, err)
		return
	}
	t.emit(Event{Kind: EffectFailed, State: st.Name, Reason: fault.Expression, Message: err.Error()})
	t.failed(fault.Expression, err.Error())
}

// Deciding returns how long people have for a decision about the state, without
// the policy.
func (s State) Deciding(st *playbook.State, now time.Time) (time.Duration, error) {
	if st.Approve == nil {
		return AskWithin, nil
	}
	return s.lasting(playbook.NumberApprove, st.Approve.Within, now)
}
