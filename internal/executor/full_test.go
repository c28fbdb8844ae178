package executor

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// While the journal has no space, what people ask is refused at once, with the
// reason; what has happened in the world is kept, and recorded once there is space.
func TestFullJournal(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		full := h.failing(t, syscall.ENOSPC)
		h.start()
		h.world.before = func(e machine.Effect) {
			if e.Action == machine.ActionApply {
				full.Store(true) // the change is made, and its outcome has no place
			}
		}
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		id := h.only().Start.Run
		asked := time.Now()
		err := h.e.Command(t.Context(), id, machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada"}})
		if !errors.Is(err, audit.ErrUnavailable) && !errors.Is(err, audit.ErrFull) || time.Since(asked) > time.Second {
			t.Errorf("answered after %s: %v", time.Since(asked), err)
		}
		if h.e.Ready() == nil {
			t.Error("it is ready all the same")
		}
		if s := h.only(); s.Phase != machine.PhaseApplying {
			t.Errorf("the run is %s", s.Phase)
		}
		full.Store(false)
		h.pass(10 * time.Minute)
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved || h.world.count("apply") != 1 {
			t.Errorf("%s, %d applied", s.Phase, h.world.count("apply"))
		}
		full.Store(false)
		h.post(alertOf("Slow", "b"))
		h.pass(time.Minute) // the outcome of another change has no place
		began := time.Now()
		if err := h.stop(); err != nil || time.Since(began) > time.Minute {
			t.Errorf("stopped after %s: %v", time.Since(began), err)
		}
		h.start() // and starts without space
		h.pass(time.Minute)
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		full.Store(false)
		h.world.before = nil
		h.start()
		h.pass(20 * time.Minute)
		if s := h.runs()[1]; s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved || h.world.count("apply") != 2 {
			t.Errorf("after the restarts it is %s, %d applied", s.Phase, h.world.count("apply"))
		}
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A person who is refused may be the only one who wanted something. Once there is space
// people are served again, and the journal says that they were not.
func TestFullJournalRefusesOnlyAPerson(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		full := h.failing(t, syscall.ENOSPC)
		h.start()
		full.Store(true)
		pause := func() error { return h.e.Pause(t.Context(), Scope{}, "user:ada", "maintenance") }
		if err := pause(); !errors.Is(err, audit.ErrDiskFull) {
			t.Fatalf("answered %v", err)
		}
		h.pass(time.Minute)
		if h.e.Ready() == nil {
			t.Error("it is ready all the same")
		}
		full.Store(false)
		h.pass(5 * time.Second)
		if err := h.e.Ready(); err != nil {
			t.Errorf("with space again: %v", err)
		}
		if err := pause(); err != nil {
			t.Errorf("with space again: %v", err)
		}
		refused := 0
		for rec, err := range h.journal.Stream(streamControl, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if rec.Kind == KindStalled {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d records say that people were refused, want 1", refused)
		}
	})
}
