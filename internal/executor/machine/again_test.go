package machine

import (
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestRefusedLeverIsTriedAgain: after another lever was verified, a lever that was refused
// counts as not tried. One that was refused at a later step, and one that changed
// something, do not.
func TestRefusedLeverIsTriedAgain(t *testing.T) {
	leave := func(s State, name string, signal playbook.Signal) State {
		s.Visits[name]++
		s.Phase, s.Current, s.Lever = PhaseEntering, name, &Lever{State: name, Signal: signal}
		s.Path = append(s.Path, Visit{State: name, Visit: s.Visits[name]})
		return Evolve(s, Event{Kind: EdgeTaken, State: name, To: "triage", At: epoch})
	}
	untried := func(s State, name string) bool { return s.Visits[name] == s.Untried[name] }

	s := State{Visits: map[string]int{}}
	s = leave(s, "scale", playbook.OnRefused)
	s = leave(s, "evict", playbook.OnNoEffect)
	s = leave(s, "shift", playbook.OnImproved)
	s = leave(s, "shift", playbook.OnRefused) // its second step
	if untried(s, "scale") {
		t.Error("a refused lever is tried again although nothing was verified since")
	}
	s = leave(s, "clear", playbook.OnVerified)
	for name, want := range map[string]bool{"scale": true, "evict": false, "shift": false, "clear": false} {
		if got := untried(s, name); got != want {
			t.Errorf("%s counts as not tried: %t, want %t", name, got, want)
		}
	}
	if s = leave(s, "scale", playbook.OnNoEffect); untried(s, "scale") {
		t.Error("what was tried again counts as not tried")
	}
}
