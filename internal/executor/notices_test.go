package executor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// muted is a world whose channels are down until a time.
type muted struct {
	*world
	until time.Time
	why   fault.Reason
	tries *int
}

// Do implements Steps.
func (m muted) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionNotify && time.Now().Before(m.until) {
		*m.tries++
		return machine.Outcome{Status: machine.StatusFailed, Reason: m.why, Message: "the channel refuses it"}
	}
	return m.world.Do(ctx, e)
}

// What people have to act on is a debt until a channel took it: over days, over
// restarts, and when trying again seems to make no sense.
func TestUrgentNoticesStayDue(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		tries, began := 0, time.Now()
		h.options = func(o *Options) {
			o.Steps = muted{h.world, began.Add(60 * time.Hour), fault.Forbidden, &tries}
		}
		h.world.helps = func(int) bool { return false }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(2 * time.Hour)
		s := h.only()
		if s.Ending == nil || s.Ending.Outcome != machine.OutcomeEscalated {
			t.Fatalf("the run did not escalate: %s %+v", s.Phase, s.Ending)
		}
		h.restart()
		h.pass(57 * time.Hour)
		if n := h.world.told("ends escalated"); n != 0 {
			t.Fatalf("told %d times by channels that are down", n)
		}
		h.pass(2 * time.Hour)
		if n := h.world.told("ends escalated"); n != 1 {
			t.Errorf("told %d times after the channels are back, %d tries: %q", n, tries, strings.Join(h.world.notices, "; "))
		}
	})
}
