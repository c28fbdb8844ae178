package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestAdvance: the first step takes the playbook's number, each further one adds
// the size of a step, in the form that the parameter has; what is no number is
// not guessed.
func TestAdvance(t *testing.T) {
	ps, err := playbook.Parse("p.yaml", []byte(`apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: tune, runbook: docs/test.md}
spec:
  match: '{alertname="X"}'
  autonomy: observe
  start: look
  states:
    look: {check: test.look, on_error: end, next: tune}
    tune:
      lever: test.tune
      with: {to: 1}
      step: {by: -0.02, times: 9}
      next: end
    end: {end: escalated}
`), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		visits int
		first  any
		want   any
		bad    string
	}{
		{"first", 1, "0.9", "0.9", ""},
		{"text", 2, "0.9", "0.88", ""},
		{"text, further", 5, "0.9", "0.82", ""},
		{"number", 3, int64(8), 7.96, ""},
		{"no number", 2, "last_good", nil, `with.to: "last_good" is not a number, and cannot be changed in steps`},
		{"not finite", 2, "NaN", nil, `with.to: "NaN" is not a number, and cannot be changed in steps`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := State{Playbook: ps[0], Current: "tune", Visits: map[string]int{"tune": c.visits}}
			with := map[string]any{"to": c.first}
			err := s.advance(with, time.Time{})
			switch {
			case c.bad != "" && (err == nil || err.Error() != c.bad):
				t.Errorf("error %v, want %s", err, c.bad)
			case c.bad == "" && (err != nil || with["to"] != c.want):
				t.Errorf("%v, %v; want %v", with["to"], err, c.want)
			}
		})
	}
}

// TestFurtherStepIsLookedAtAgain: a run that is led back to the start while it is about to make
// a further step may make it afterwards, and no step is counted twice.
func TestFurtherStepIsLookedAtAgain(t *testing.T) {
	p := testPlaybooks(t).ByName("looks-between")
	s := State{Start: Start{Run: "r-1"}, Playbook: p, Phase: PhasePlanning, Current: "more", Visits: map[string]int{"look": 2, "more": 2}, Path: []Visit{{State: "more", Visit: 2}}}
	if s.tried("more") == "" {
		t.Fatal("a lever is taken again, and no step of it is due")
	}
	s = Evolve(s, Event{Kind: EdgeTaken, State: "more", To: "look", Again: true, At: epoch})
	s = Evolve(s, Event{Kind: StateEntered, State: "look", Visit: 3, At: epoch})
	if why := s.tried("more"); why != "" {
		t.Errorf("the step that was due is not taken: %s", why)
	}
	s = Evolve(s, Event{Kind: StateEntered, State: "more", Visit: 3, At: epoch})
	if n, of := s.Step(); n != 2 || of != 3 {
		t.Errorf("it is step %d of %d, want 2 of 3", n, of)
	}
	s.Visits = map[string]int{"more": 6}
	if n, of := s.Step(); n != 5 || of != 5 {
		t.Errorf("step %d of %d, where newer evidence allows 3", n, of)
	}
}

// TestStepsShareALoan: the loan of a later step takes the place of the first
// one's and gives back what was before all of them; a step that is kept for good
// leaves none.
func TestStepsShareALoan(t *testing.T) {
	p := testPlaybooks(t).ByName("steps")
	lent := func(state string, visit int, back map[string]any) *turn {
		tn := &turn{s: State{Playbook: p, Start: Start{Run: "r-1"}, Current: state, Visits: map[string]int{state: visit}}, now: epoch}
		tn.s.Lever = &Lever{Step: "test.tune", Plan: &Plan{Summary: "to " + state, Back: back}}
		return tn
	}
	for state, want := range map[string][]Loan{
		"tune": {{ID: "r-1/tune#1", State: "tune", Step: "test.tune", Summary: "to tune", Back: map[string]any{"value": "12"}, Verdict: VerdictNoEffect, Since: epoch}},
		"more": {
			{ID: "r-1/more#1", State: "more", Step: "test.tune", Summary: "to more", Back: map[string]any{"value": "12"}, Verdict: VerdictNoEffect, Since: epoch},
			{ID: "r-1/more#2", State: "more", Step: "test.tune", Summary: "to more", Back: map[string]any{"value": "10"}, Verdict: VerdictNoEffect, Since: epoch},
		},
	} {
		first := lent(state, 1, map[string]any{"value": "12"})
		s := first.s.lend(first.loan(VerdictNoEffect))
		second := lent(state, 2, map[string]any{"value": "10"})
		second.s.Loans = s.Loans
		s = second.s.lend(second.loan(VerdictNoEffect))
		if diff := cmp.Diff(want, s.Loans); diff != "" {
			t.Errorf("loans of %s (-want +got):\n%s", state, diff)
		}
		kept := s.settled(Event{Kind: Verified})
		if n := len(kept.Loans); state == "tune" && n != 0 || state == "more" && n != 2 {
			t.Errorf("%d loans of %s after a step that is kept for good", n, state)
		}
	}
}
