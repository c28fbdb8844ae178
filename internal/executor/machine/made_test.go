package machine

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestNoticesTellWhatWasChanged: people who read a message of a run know whether the
// service was touched, and what is in place now.
func TestNoticesTellWhatWasChanged(t *testing.T) {
	plan := &Plan{Summary: "roll vllm back from revision 8 to 6"}
	lever := func(edit func(*Lever)) *Lever {
		l := &Lever{State: "rollback", Plan: plan, Applied: true, AppliedAt: epoch, Signal: playbook.OnNoEffect}
		edit(l)
		return l
	}
	for _, tt := range []struct {
		name   string
		lever  *Lever
		levers int
		before []string
		want   string
	}{
		{"no lever", nil, 0, nil, "Nothing was changed."},
		{"refused", lever(func(l *Lever) { l.Applied, l.AppliedAt, l.Signal = false, time.Time{}, playbook.OnRefused }), 0, nil, "Nothing was changed."},
		{"stays", lever(func(*Lever) {}), 1, nil, "Changed so far: roll vllm back from revision 8 to 6 (had no effect, in place)."},
		{"taken back", lever(func(l *Lever) { l.Applied, l.Signal = false, playbook.OnWorse }), 1, nil, "Changed so far: roll vllm back from revision 8 to 6 (made it worse, taken back)."},
		{"stopped", lever(func(l *Lever) { l.Stopped = "three of four pods are left" }), 1, nil, "Changed so far: roll vllm back from revision 8 to 6 (had no effect, three of four pods are left)."},
		{"not merged", lever(func(l *Lever) { l.Waits = "https://git.example.com/pull/7" }), 1, nil, "Changed so far: roll vllm back from revision 8 to 6 (had no effect, not merged)."},
		{"declined", lever(func(l *Lever) { l.Applied, l.AppliedAt, l.Signal = false, time.Time{}, playbook.OnRefused }), 1, nil, ""},
		{"before the handover", nil, 0, []string{"scale vllm from 4 to 6 (improved, in place)"}, "Changed so far: scale vllm from 4 to 6 (improved, in place)."},
	} {
		s := State{Start: Start{Changed: tt.before}, Current: "rollback", Phase: PhaseEntering, Levers: tt.levers, Lever: tt.lever, Visits: map[string]int{}, Path: []Visit{{State: "rollback"}}}
		if got := s.changed(); got != tt.want {
			t.Errorf("%s, in the lever's own state: %q, want %q", tt.name, got, tt.want)
		}
		s = Evolve(s, Event{Kind: EdgeTaken, State: "rollback", To: "tell", At: epoch})
		s = Evolve(s, Event{Kind: StateEntered, State: "tell", Visit: 1, At: epoch})
		if got := s.changed(); got != tt.want {
			t.Errorf("%s, in the next state: %q, want %q", tt.name, got, tt.want)
		}
		if next, _ := s.Successor(); len(next.Changed) != len(s.changes()) {
			t.Errorf("%s: the run that takes over knows of %q", tt.name, next.Changed)
		}
	}
}

// TestMessageOfAnUndo: how far the undo of a change has come does not take the place of
// why it is undone.
func TestMessageOfAnUndo(t *testing.T) {
	s := State{
		Phase: PhaseUnwinding, Open: &OpenEffect{Action: ActionUnwind},
		Lever: &Lever{State: "add", AppliedAt: epoch, Signal: playbook.OnWorse, Message: "TTFT: 40 % of requests are slow, 10 % before"},
	}
	s = Evolve(s, Event{Kind: Settling, At: epoch, Action: ActionUnwind, Message: "the controller has not seen the change yet"})
	if s.Lever.Message != "TTFT: 40 % of requests are slow, 10 % before" {
		t.Errorf("the undo's progress is told as the reason: %q", s.Lever.Message)
	}
}
