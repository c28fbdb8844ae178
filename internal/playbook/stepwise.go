package playbook

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// maxSteps limits the steps of one lever.
const maxSteps = 9

// Stepping declares the numeric parameter of a kind that can be changed in
// steps.
type Stepping struct {
	Param string
	// Relative is set if the parameter is a difference: each step sets it to the
	// step's size. Otherwise the first step sets the given value, and each further
	// one adds the size to it.
	Relative bool
}

// Stepwise is a lever that is planned, approved, applied and proven in steps,
// until one is verified.
type Stepwise struct {
	Stepping
	By    *Value // size of a step; of a relative parameter also the state's With
	Times *Value // most steps of one run, a whole number
	Via   string // state that the run enters between two steps, whose edges lead to the next one; empty: none
}

// Text describes the steps for people.
func (w *Stepwise) Text() string {
	by := w.By.Source()
	switch {
	case strings.HasPrefix(by, "${"):
		by = "a further step"
	case strings.HasPrefix(by, "-"):
		by = w.Param + " " + by
	default:
		by = w.Param + " +" + by
	}
	if _, ok := w.Times.Constant(); !ok {
		return "not enough: " + by
	}
	return fmt.Sprintf("not enough: %s, %s steps at most", by, w.Times.Source())
}

// stepwise reads the steps of a lever; nil: it has none, or they are broken.
func (r *reader) stepwise(m *yamldoc.Mapping, s *State, k *Kind, at place) *Stepwise {
	n := m.Get("step")
	if n == nil || s.Kind != StateLever || k == nil {
		return nil
	}
	if k.Steps == nil {
		r.d.Report(n, m.At("step"), k.Name+" has no parameter that can be changed in steps", "kube.scale, kube.autoscaler, gitops.set_replicas and gitops.set_flag have one")
		return nil
	}
	sm := r.d.Mapping(n, m.At("step"), "by", "times", "via")
	if sm == nil {
		return nil
	}
	out := &Stepwise{Stepping: *k.Steps}
	if by := sm.Need("by", "how much each step changes, e.g. -1"); by != nil {
		f := Field{Name: "by", Type: Type{Name: Double}}
		if own, ok := fieldNamed(k.With, k.Steps.Param); ok && k.Steps.Relative {
			f = own
		}
		out.By = r.value(by, sm.At("by"), f, at)
		if zero := out.By.constant; zero == int64(0) || zero == 0.0 {
			r.d.Report(by, sm.At("by"), "a step of 0 changes nothing", "e.g. -1")
		}
	}
	if times := sm.Need("times", fmt.Sprintf("the most steps of one run, 2 to %d", maxSteps)); times != nil {
		out.Times = r.number(times, sm.At("times"), NumberTimes, at)
		if out.Times.constant == int64(1) {
			r.d.Report(times, sm.At("times"), "one step is no series of steps", fmt.Sprintf("write 2 to %d, or remove step", maxSteps))
		}
	}
	if via := sm.Get("via"); via != nil {
		out.Via = r.target(via, sm.At("via"))
		if st := r.p.byName[out.Via]; st != nil && st.Kind != StateGather && st.Kind != StateCheck {
			r.d.Report(via, sm.At("via"), "state "+st.Name+" gathers no evidence", "name a gather or check state whose edges lead to this lever")
		}
	}
	return out
}

// stepped checks the stepping parameter of a lever, and sets a relative one.
func (r *reader) stepped(m *yamldoc.Mapping, s *State) {
	w := s.Steps
	value, given := s.With[w.Param]
	n := m.Get("with")
	switch {
	case w.Relative && w.By != nil:
		s.With[w.Param] = w.By
	case w.Relative:
	case !given:
		r.d.Report(or(n, r.at(s)), m.At("with"), fmt.Sprintf("steps need %s, the number of the first step", w.Param), "")
	default:
		if text, ok := value.constant.(string); ok {
			if _, err := strconv.ParseFloat(text, 64); err != nil {
				r.d.Report(n, m.At("with")+"."+w.Param, fmt.Sprintf("%q is not a number and cannot be changed in steps", yamldoc.Clip(text)), "write the number of the first step, or remove step")
			}
		}
	}
}

func or(n, otherwise *yaml.Node) *yaml.Node {
	if n != nil {
		return n
	}
	return otherwise
}
