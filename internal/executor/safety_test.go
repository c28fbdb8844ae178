package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// slow takes ten seconds over an apply and says whether it was cut off.
type slow struct {
	*world
	cut *error
}

// Do implements Steps.
func (s slow) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionApply && !e.Observe {
		select {
		case <-ctx.Done():
			*s.cut = ctx.Err()
		case <-time.After(time.Minute):
		}
	}
	return s.world.Do(ctx, e)
}

// A pause lets a change under way finish. Cutting it off in the middle would
// make its outcome unknown.
func TestPauseDoesNotCutAChange(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		var cut error
		h.options = func(o *Options) { o.Steps = slow{h.world, &cut} }
		h.start()
		h.post(alertOf("Slow", "a"))
		for h.only().Phase != machine.PhaseApplying {
			h.pass(time.Second)
		}
		if err := h.e.Pause(t.Context(), Scope{}, "user:ada", ""); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		synctest.Wait()
		if cut != nil {
			t.Errorf("the apply was cut off: %v", cut)
		}
		if n := h.world.count("apply"); n != 1 {
			t.Errorf("applied %d times", n)
		}
	})
}

// The clock is set back while a repeated apply is under way: it began, whatever
// the time is now, so nobody may say that it certainly did not happen.
func TestClockSetBackWhileApplying(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		now, due := h.e.clock.now(), h.e.clock.now().Add(5*time.Second)
		alert := playbook.Alert{Fingerprint: "f", Status: playbook.Firing}
		p := h.set.ByName("ladder")
		r := h.e.newRun("r-1", machine.State{
			Start: machine.Start{Run: "r-1", Playbook: p.Name, Alert: alert}, Playbook: p, Head: 9,
			Phase: machine.PhaseApplying, Current: p.Start, Visits: map[string]int{p.Start: 1},
			Episodes: machine.EpisodesOf(map[string]*machine.Episode{alert.Episode(): {Alert: alert, Firing: true}}),
			Lever:    &machine.Lever{Plan: &machine.Plan{}},
			Open:     &machine.OpenEffect{Key: "k", Action: machine.ActionApply, Attempt: 2, NotUntil: due},
		})
		r.flight = &flight{effect: machine.Effect{Key: "k", Action: machine.ActionApply, Attempt: 2, NotUntil: due}, cut: func() {}}
		for _, c := range []machine.Command{
			{Kind: machine.CmdPause, Message: "by ada"},
			{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada"}},
		} {
			c.Now = now
			b := h.e.batch()
			if err := b.must(r, c); err != nil {
				t.Fatal(err)
			}
			if s := b.state(r); s.Phase != machine.PhaseApplying || s.Open == nil {
				t.Errorf("%s: the run is %s, the apply under way is forgotten", c.Kind, s.Phase)
			}
		}
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
}
