package machine

import (
	"testing"
)

// An older version journaled no durations of a state. Its runs go on with those
// that the playbook has.
func TestTimesOfOlderRuns(t *testing.T) {
	s := &script{t: t, set: testPlaybooks(t), now: epoch}
	s.run("> start waits\n")
	var old State
	for _, e := range s.events {
		e.With = nil
		old.Playbook = s.state.Playbook
		old = Evolve(old, e)
	}
	if old.Times != nil {
		t.Fatalf("folded %v from events without it", old.Times)
	}
	hold, err := old.lasting("wait.hold", old.current().Wait.Hold, epoch)
	want, wantErr := s.state.lasting("wait.hold", s.state.current().Wait.Hold, epoch)
	if err != nil || wantErr != nil || hold != want || hold == 0 {
		t.Errorf("hold is %s (%v), of a newer run %s (%v)", hold, err, want, wantErr)
	}
}
