package executor

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// What a pause suppressed is known to be larger than we were told when a repeat
// said so: the run it starts may not act on its own.
func TestSuppressedRepeatIsTruncated(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.start()
				if err := h.e.Pause(t.Context(), Scope{}, "user:ada", "storm"); err != nil {
					t.Fatal(err)
				}
				a := alertOf("Slow", "a")
				h.post(a)
				h.postTruncated(3, a)
				h.post(a)
				if restart {
					h.restart()
				}
				if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", "over"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if s := h.only(); !s.Start.Truncated {
					t.Errorf("the run takes the group for complete; %v", h.fates())
				}
			})
		})
	}
}

// Alerts that belong to no service for a hundred different reasons are few
// messages all the same.
func TestNoServiceBurstOfReasons(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		var alerts []playbook.Alert
		for i := range 200 {
			alerts = append(alerts, alertOf("Slow", fmt.Sprintf("who-%d", i)))
		}
		h.post(alerts...)
		h.pass(1)
		if n := len(h.world.notices); n > 4 || h.world.told("and 196 more start no run: several reasons") != 1 {
			t.Errorf("people were told %d times: %.2000q", n, h.world.notices)
		}
	})
}

// An alert that a run which this very batch starts cannot take is not pinned on
// that run: nobody knows it yet, and its service would be blocked for ever.
func TestFreshRunIsNotSetAside(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		a := alertOf("Slow", "a")
		err := h.e.do(t.Context(), &task{decide: func(b *batch) error {
			x, p := batchRuns{b}, b.set.ByName("ladder")
			id, _ := x.Start(machine.Start{Playbook: p.Name, Digest: p.Digest, Service: playbook.Service{Name: "a"}, Alert: a}, p)
			b.runs[0].state.Playbook = nil // our own code is broken
			x.Tell(id, a, false)
			return nil
		}})
		if h.e.target[runKey{playbook: "ladder", service: "a"}] != nil || err == nil || h.lastControl(KindRunQuarantined) != "" {
			t.Errorf("the run that never was stands in the way: %v, %v", h.e.target, err)
		}
	})
}

// A run that is in the log and not in memory is starting, or somebody else
// wrote it: the answer is an error, not a panic.
func TestReleaseOfStartingRun(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Slow", "a"))
		delete(h.e.open, h.only().Start.Run)
		for info, err := range h.journal.Streams(prefixRun) {
			if err != nil {
				t.Fatal(err)
			}
			id := info.Name[len(prefixRun):]
			if err := h.e.Command(t.Context(), id, release("looked")); !errors.Is(err, ErrConflict) {
				t.Errorf("released: %v", err)
			}
		}
	})
}
