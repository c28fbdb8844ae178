package executor

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/rights"
)

// One credential does not crowd the refusals of another out of the record, and all of
// them together do not fill it.
func TestRefusalsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		recorded := func(f func()) int {
			before := len(h.controls(KindRightRefused))
			f()
			return len(h.controls(KindRightRefused)) - before
		}
		refuse := func(by string, times int) {
			for range times {
				h.e.RecordRefused(by, rights.Start, "serving/chat", "lacks the right")
			}
		}
		if n := recorded(func() { refuse("user:eve", 100) }); n != maxRefusedBy {
			t.Errorf("%d refusals of one are recorded, want %d", n, maxRefusedBy)
		}
		if n := recorded(func() { refuse("user:ada", 1) }); n != 1 {
			t.Error("the refusal of another is not recorded")
		}
		if n := recorded(func() {
			for i := range 100 {
				refuse(fmt.Sprintf("user:%d", i), 1)
			}
		}); n != maxRefused-maxRefusedBy-1 {
			t.Errorf("%d refusals of many are recorded", n)
		}
		h.pass(time.Hour)
		if n := recorded(func() { refuse("user:eve", 1) }); n != 1 {
			t.Error("after an hour a refusal is not recorded")
		}
	})
}

// What a run records of commands that change nothing is bounded the same way, however many
// runs there are, open or ended.
func TestIgnoredCommandsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		var ids []string
		newest := func() string {
			all := h.runs()
			return all[len(all)-1].Start.Run
		}
		for range 3 {
			a := alertOf("Slow", "a")
			h.post(a)
			h.pass(time.Second)
			ids = append(ids, newest())
			h.post(resolvedOf(a))
			h.pass(time.Hour)
		}
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		open := newest()
		recorded := func(ids []string, c machine.Command) (n int) {
			for _, id := range ids {
				before, _ := h.e.RunState(id)
				for range 20 {
					if err := h.e.Command(t.Context(), id, c); err == nil {
						t.Fatalf("run %s took it", id)
					}
				}
				after, _ := h.e.RunState(id)
				n += int(after.Head - before.Head)
			}
			return n
		}
		command := func(by, refused string) machine.Command {
			return machine.Command{Kind: machine.CmdDecide, Refused: refused, Decision: &machine.Decision{By: by, Approve: true, Person: true}}
		}
		for name, tt := range map[string]struct {
			ids []string
			c   machine.Command
		}{
			"late, on ended runs":         {ids, command("user:eve", "")},
			"without the right, on both":  {append([]string{open}, ids...), command("user:mallory", "lacks the right")},
			"without the right, an ended": {ids[:1], command("user:trudy", "lacks the right")},
		} {
			if n := recorded(tt.ids, tt.c); n != maxRefusedBy {
				t.Errorf("%s: %d are recorded, want %d", name, n, maxRefusedBy)
			}
		}
		if n := recorded([]string{open}, command("user:peggy", "")); n != machine.MostIgnored {
			t.Errorf("on an open run %d are recorded, want %d", n, machine.MostIgnored)
		}
		h.pass(time.Hour)
		if n := recorded(ids[1:], command("user:eve", "")); n == 0 {
			t.Error("after an hour none is recorded")
		}
	})
}
