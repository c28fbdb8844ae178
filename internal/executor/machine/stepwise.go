package machine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// A lever with steps is entered again for each of them: each step has a plan, an
// approval, a proof and a consequence of its own.

// Step returns which step of the current lever this is, from 1, and how many
// there are at most; 0: it has none.
func (s State) Step() (n, of int) {
	st := s.current()
	if st == nil || st.Steps == nil {
		return 0, 0
	}
	of, err := s.count(playbook.NumberTimes, st.Steps.Times, s.Updated)
	if err != nil {
		of = 1 // unreachable: a state whose numbers are unknown is left at once
	}
	n = s.Visits[st.Name] - s.Untried[st.Name]
	return n, max(n, of) // newer evidence may allow fewer than were begun
}

// nextStep begins the next step of a lever, and reports whether it did. A step
// follows one that helped without proving it, or had no effect. What made the
// service worse, could not be proven, or needs people is followed by none. Where the
// playbook names a state between two steps, the run enters that, and comes to the
// next step if its edges still lead there.
func (t *turn) nextStep(sig playbook.Signal) bool {
	if !t.s.stepsOn(sig) {
		return false
	}
	st := t.s.current()
	n, of := t.s.Step()
	if via := st.Steps.Via; via != "" {
		why := fmt.Sprintf("%s: step %d of %d may follow", sig, n+1, of)
		t.emit(Event{Kind: EdgeTaken, State: st.Name, To: via, Message: why, Further: true})
		t.untold = ""
		t.enter(via)
		return true
	}
	t.stepping = true
	defer func() { t.stepping = false }()
	t.take(st.Name, fmt.Sprintf("%s: step %d of %d follows", sig, n+1, of))
	return true
}

// stepsOn reports whether another step follows a result of the current one.
func (s State) stepsOn(sig playbook.Signal) bool {
	n, of := s.Step()
	return n < of && Continues(sig, s.fate(Verdict(sig)), s.current().Steps.Via != "")
}

// Continues reports whether a lever with steps goes on after a result: the change
// helped without a proof, or had no effect, and people need not be told. Where the
// evidence is gathered anew between two steps, it also goes on if nobody can tell what a
// change came to that stays on loan.
func Continues(sig playbook.Signal, f Fate, via bool) bool {
	return (sig == playbook.OnImproved || sig == playbook.OnNoEffect) && !f.Tell || via && sig == playbook.OnInconclusive && f.Then == Lend
}

// follows describes the step that follows a result, for people.
func (s State) follows(sig playbook.Signal) string {
	if !s.stepsOn(sig) {
		return ""
	}
	n, of := s.Step()
	if st := s.current(); st.Steps.Via != "" {
		return fmt.Sprintf("; the evidence is gathered anew, and step %d of %d may follow", n+1, of)
	}
	return fmt.Sprintf("; step %d of %d is planned", n+1, of)
}

// stepDue reports whether a lever that the run leaves to look again was about to make a
// further step, which the evidence between two steps may still call for.
func (s State) stepDue(name string) bool {
	st := s.Playbook.State(name)
	return st != nil && st.Steps != nil && st.Steps.Via != "" && s.Visits[name] > s.Untried[name]
}

// advance sets the parameter that the lever changes in steps to the number of
// the current step.
func (s State) advance(with map[string]any, now time.Time) error {
	st := s.current()
	n, _ := s.Step()
	if st.Steps == nil || st.Steps.Relative || n <= 1 {
		return nil
	}
	by, err := st.Steps.By.Number(s.scope(now))
	if err != nil {
		return fmt.Errorf("step.by: %w", err)
	}
	first, err := numberOf(with[st.Steps.Param])
	if err != nil {
		return fmt.Errorf("with.%s: %w", st.Steps.Param, err)
	}
	sum := first + by*float64(n-1)
	// Steps of 0.02 end at 0.88, not at 0.8800000000000001.
	sum = math.Round(sum*1e9) / 1e9
	if _, text := with[st.Steps.Param].(string); text {
		with[st.Steps.Param] = strconv.FormatFloat(sum, 'f', -1, 64)
	} else {
		with[st.Steps.Param] = sum
	}
	return nil
}

func numberOf(v any) (float64, error) {
	switch v := v.(type) {
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, fmt.Errorf("%q is not a number, and cannot be changed in steps", v)
		}
		return f, nil
	default:
		return 0, fmt.Errorf("a %T cannot be changed in steps", v)
	}
}

// lentBefore returns the loan of an earlier step of the current lever that this
// step's return gives back too: its value is the one from before the first step.
// Nil: there is none. Relative steps are each given back by themselves.
func (s State) lentBefore() *Loan {
	st := s.current()
	if st == nil || st.Steps == nil || st.Steps.Relative {
		return nil
	}
	i := slices.IndexFunc(s.Loans, func(l Loan) bool { return l.State == st.Name })
	if i < 0 {
		return nil
	}
	return &s.Loans[i]
}

// settled drops the loan of the earlier steps once a step is kept for good: to
// give them back would take its value away.
func (s State) settled(e Event) State {
	if first := s.lentBefore(); first != nil && e.Loan == nil && e.Then != Lend {
		id := first.ID
		s.Loans = slices.DeleteFunc(slices.Clone(s.Loans), func(l Loan) bool { return l.ID == id })
	}
	return s
}
