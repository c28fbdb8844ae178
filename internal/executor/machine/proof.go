package machine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Proof returns what must hold for the change of a lever state to be kept, with
// its expressions filled in. ${since} stays for each sample.
func (s State) Proof(state string, now time.Time) (*VerifySpec, error) {
	s.Current = state
	st := s.current()
	if st == nil || st.Verify == nil {
		return nil, fmt.Errorf("lever %s has no verify block, so nothing can be proven", state)
	}
	v, sc := st.Verify, s.scope(now)
	if v.SLO && len(s.Start.Service.SLOs) == 0 {
		return nil, fmt.Errorf("service %s has no objectives, so nothing can be proven: declare slos in its catalog entry, or slo.defaults", s.Start.Service.Name)
	}
	spec := &VerifySpec{Itself: v.Itself}
	if err := s.proofTimes(spec, v, sc); err != nil {
		return nil, err
	}
	if v.SLO {
		spec.SLO = true
		for _, o := range s.Start.Service.SLOs {
			spec.Objectives = append(spec.Objectives, objectiveText(o))
		}
	}
	for i, u := range v.Until {
		q, err := u.Query.Text(sc)
		if err != nil {
			return nil, fmt.Errorf("verify.until[%d]: %w", i, s.lacksAlert(err))
		}
		limit, err := u.Value.Number(sc)
		if err != nil {
			return nil, fmt.Errorf("verify.until[%d].value: %w", i, s.lacksAlert(err))
		}
		if why := playbook.HoldsAnyway(q, u.Op, limit); why != "" {
			return nil, fmt.Errorf("verify.until[%d] proves nothing: it %s", i, why)
		}
		spec.Until = append(spec.Until, Expectation{Name: u.Name, Unit: u.Unit, Query: q, Op: u.Op, Value: limit})
	}
	var err error
	if v.Burn != nil {
		if spec.ErrorRatio, err = v.Burn.ErrorRatio.Text(sc); err != nil {
			return nil, fmt.Errorf("verify.burn: %w", s.lacksAlert(err))
		}
	}
	if v.Traffic != nil {
		if spec.Traffic, err = v.Traffic.Text(sc); err != nil {
			return nil, fmt.Errorf("verify.traffic: %w", s.lacksAlert(err))
		}
	}
	if err := s.proofNumbers(spec, v, sc); err != nil {
		return nil, err
	}
	return spec, nil
}

// proofNumbers evaluates the limits of burn and traffic.
func (s State) proofNumbers(spec *VerifySpec, v *playbook.Verify, sc playbook.Scope) error {
	values := map[string]*playbook.Value{"verify.traffic.min_rate": v.MinRate, "verify.traffic.min_share": v.MinTraffic}
	to := map[string]*float64{"verify.traffic.min_rate": &spec.MinRate, "verify.traffic.min_share": &spec.MinTraffic}
	if b := v.Burn; b != nil {
		values["verify.burn.objective"], to["verify.burn.objective"] = b.Objective, &spec.Objective
		values["verify.burn.max"], to["verify.burn.max"] = b.Max, &spec.MaxBurn
	}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		if values[path] == nil {
			continue
		}
		f, err := values[path].Number(sc)
		if err != nil {
			return fmt.Errorf("%s: %w", path, s.lacksAlert(err))
		}
		*to[path] = f
	}
	return nil
}

// proofTimes evaluates the times of a proof and checks that they fit together.
func (s State) proofTimes(spec *VerifySpec, v *playbook.Verify, sc playbook.Scope) error {
	var err error
	if spec.Within, err = v.Within.Duration(sc); err != nil {
		return fmt.Errorf("verify.within: %w", s.lacksAlert(err))
	}
	if spec.Hold, err = v.Hold.Duration(sc); err != nil {
		return fmt.Errorf("verify.hold: %w", s.lacksAlert(err))
	}
	if spec.Interval, err = v.Interval.Duration(sc); err != nil {
		return fmt.Errorf("verify.interval: %w", s.lacksAlert(err))
	}
	if spec.Hold > spec.Within {
		return fmt.Errorf("verify.hold is %s, longer than within (%s), so the proof can never succeed", playbook.FormatDuration(spec.Hold), playbook.FormatDuration(spec.Within))
	}
	spec.Interval = max(min(spec.Interval, spec.Hold), time.Second) // one sample is not a proof
	return nil
}

// objectiveText describes an objective of the service in a few words.
func objectiveText(o playbook.SLO) string {
	text := fmt.Sprintf("%s: %s %% of requests good", o.Name, strconv.FormatFloat(100*o.Objective, 'g', 6, 64))
	if o.Threshold > 0 {
		text += fmt.Sprintf(", within %s s", strconv.FormatFloat(o.Threshold, 'g', 6, 64))
	}
	return text
}

// ProofLines describes for people what must hold for the change of a lever
// state to be kept; none if the state changes nothing or the playbook is
// unknown. An expression that cannot be filled in is reported, because the
// change would not be made.
func (s State) ProofLines(state string, now time.Time) []ProofLine {
	if s.Playbook == nil {
		return nil
	}
	if st := s.Playbook.State(state); st == nil || st.Verify == nil {
		return nil
	}
	spec, err := s.Proof(state, now)
	if err != nil {
		return []ProofLine{{Text: "cannot be evaluated, so nothing will be changed: " + err.Error()}}
	}
	return spec.Lines()
}

// ProofLine is one condition of a proof.
type ProofLine struct {
	Text  string
	Query string // the expression that Text describes; empty: Text is complete
}

// ProofTexts returns the lines without expressions that have a description.
func ProofTexts(lines []ProofLine) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

// Shown returns the name of the expectation: its words, else its expression.
func (x Expectation) Shown() string {
	if x.Name != "" {
		return x.Name
	}
	return strings.Join(strings.Fields(x.Query), " ")
}

// Lines describes the proof for people.
func (v VerifySpec) Lines() []ProofLine {
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
	var out []ProofLine
	for _, u := range v.Until {
		l := ProofLine{Text: fmt.Sprintf("%s %s %s", u.Shown(), u.Op, playbook.Quantity(u.Value, u.Unit))}
		if u.Name != "" {
			l.Query = strings.Join(strings.Fields(u.Query), " ")
		}
		out = append(out, l)
	}
	if v.Itself {
		return append(out, ProofLine{Text: fmt.Sprintf("the change stands, within %s; the service's objectives are not asked", playbook.FormatDuration(v.Within))})
	}
	for _, o := range v.Objectives {
		out = append(out, ProofLine{Text: o})
	}
	say := func(format string, args ...any) { out = append(out, ProofLine{Text: fmt.Sprintf(format, args...)}) }
	if v.ErrorRatio != "" {
		say("the error budget burns at less than %s times since the fix", number(v.MaxBurn))
	}
	if v.Traffic != "" {
		say("traffic still arrives: at least %s requests per second and %s %% of before", number(v.MinRate), number(100*v.MinTraffic))
	}
	if v.SLO {
		say("over the last %s, wholly after the change is in effect, within %s; missing data never counts", playbook.FormatDuration(v.Hold), playbook.FormatDuration(v.Within))
		return out
	}
	say("it holds for %s, within %s; missing data never counts", playbook.FormatDuration(v.Hold), playbook.FormatDuration(v.Within))
	return out
}
