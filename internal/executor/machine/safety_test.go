package machine

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// After a crash in the midst of an apply, the traffic before the change is
// asked for. At the time of the restart that change may have driven it away.
func TestLookAsksOfTheTimeBeforeTheChange(t *testing.T) {
	s := &script{t: t, set: testPlaybooks(t), now: epoch}
	for _, line := range []string{"start ladder", `ok data={"bad":true,"value":4}`, "ok", "ok", "+10m restart"} {
		s.command(line)
	}
	for range 2 { // also after a look that told nothing
		e, ok := Pending(s.state)
		if !ok || !e.Observe || e.Action != ActionApply {
			t.Fatalf("owes %+v, want a look at the apply", e)
		}
		if e.At.After(epoch) {
			t.Errorf("attempt %d asks how it was at %s, the change was decided at %s", e.Attempt, e.At.Format(time.TimeOnly), epoch.Format(time.TimeOnly))
		}
		s.command("+10s unknown reason=timeout")
	}
}

// A yes that names neither the question nor the plan counts for the first
// question of a run only: later it may be meant for one that is gone.
func TestBareApprovalOfALaterQuestion(t *testing.T) {
	s := &script{t: t, set: testPlaybooks(t), now: epoch}
	for _, line := range []string{"start ladder autonomy=suggest", `ok data={"bad":true,"value":4}`, "ok", "ok", "approve", "ok generation=xx", "ok"} {
		s.command(line)
	}
	if s.state.Gate == nil || s.state.Lever.Approved != nil {
		t.Fatalf("the run is %s, want the second question", s.state.Phase)
	}
	yes := Decision{By: "user:ada", Approve: true}
	if _, err := Decide(s.state, Command{Kind: CmdDecide, Now: s.now, Decision: &yes}); !errors.Is(err, ErrStale) {
		t.Errorf("a bare yes to the second question: %v, want %v", err, ErrStale)
	}
	for name, d := range map[string]Decision{
		"with the question": {By: "user:ada", Approve: true, Gate: s.state.Gate.ID},
		"with the plan":     {By: "user:ada", Approve: true, Digest: s.state.Gate.Digest},
		"no":                {By: "user:ada"},
	} {
		if _, err := Decide(s.state, Command{Kind: CmdDecide, Now: s.now, Decision: &d}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever sees a button can press it for ever; the run's log does not grow for
// ever, and people who may decide still can.
func TestIgnoredDecisionsAreBounded(t *testing.T) {
	s := &script{t: t, set: testPlaybooks(t), now: epoch}
	for _, line := range []string{"start ladder autonomy=suggest", `ok data={"bad":true,"value":4}`, "ok", "ok"} {
		s.command(line)
	}
	before := s.state.Head
	state := s.state
	press := func(by string, times int) {
		t.Helper()
		for i := range times {
			kind := []CommandKind{CmdDecide, CmdReplan}[i%2]
			events, err := Decide(state, Command{Kind: kind, Now: s.now, Decision: &Decision{By: by, Approve: true, Channel: "slack"}})
			if !errors.Is(err, ErrNotAllowed) {
				t.Fatalf("press %d: %v, want %v", i, err, ErrNotAllowed)
			}
			for _, e := range events {
				state = Evolve(state, e)
			}
		}
	}
	press("user:eve", 3*MaxIgnored)
	if grown := state.Head - before; grown != MostIgnored {
		t.Errorf("%d presses of one left %d events, want %d", 3*MaxIgnored, grown, MostIgnored)
	}
	for i := range MaxIgnored {
		press(fmt.Sprintf("user:%d", i), 2)
	}
	if grown := state.Head - before; grown != MaxIgnored {
		t.Errorf("%d presses of many left %d events, want %d", 2*MaxIgnored, grown, MaxIgnored)
	}
	if _, err := Decide(state, Command{Kind: CmdDecide, Now: s.now, Decision: &Decision{By: "user:ada", Approve: true}}); err != nil {
		t.Errorf("who may decide: %v", err)
	}
}
