package executor

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Who asks only whether anything happened misses nothing that a list of open runs shows,
// over restarts too, and is told of nothing while nothing happens.
func TestChanges(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		last := h.e.Changes()
		moved := func(what string, want bool) {
			t.Helper()
			if now := h.e.Changes(); want && now <= last || !want && now != last {
				t.Errorf("%s: the count went from %d to %d", what, last, now)
			}
			last = h.e.Changes()
		}
		open := func() (n int) {
			for s := range h.e.Open() {
				if n++; s.Phase == machine.PhaseEnded {
					t.Error("a run that ended is open")
				}
			}
			return n
		}
		h.post(alertOf("Slow", "a"))
		moved("a run began", true)
		h.pass(30 * time.Second) // in the air
		moved("it progressed", true)
		id := h.only().Start.Run
		moved("nobody did anything but look", false)
		h.quarantineNow(id)
		moved("it was quarantined", true)
		for s := range h.e.Open() {
			if s.Quarantine == nil {
				t.Error("the open run does not say that it is quarantined")
			}
		}
		h.pass(time.Second)
		h.restart()
		moved("another process", true)
		if n := open(); n != 1 {
			t.Errorf("%d runs are open, want 1", n)
		}
		h.mustRelease(id)
		moved("it ended", true)
		if n := open(); n != 0 {
			t.Errorf("%d runs are open, want none", n)
		}
	})
}
