package web

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/rights"
)

// TestBarNeverAsksHalfAQuestion: whoever decides in the bar has read what an answer does.
func TestBarNeverAsksHalfAQuestion(t *testing.T) {
	plan := machine.Plan{Summary: "roll Deployment serving/chat back from revision 3 to 2"}
	render := func(g machine.Gate) string {
		g.ID, g.Needs = "g-1", []machine.Need{{From: []string{"user:ada"}, Quorum: 1}}
		d := &runData{Run: machine.State{Lever: &machine.Lever{Plan: &plan}}, Ask: &question{Gate: g}, Lacks: func(rights.Right) string { return "" }}
		var b strings.Builder
		if err := askBar(page{Now: time.Unix(0, 0)}, d).Render(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	long := strings.Repeat("what was measured was no better than before; ", 9)
	back := render(machine.Gate{Undo: true, Digest: "undo:" + plan.Digest(), Text: plan.Summary + ": " + long + "Take it back? Deny keeps it."})
	for _, want := range []string{"Take back: " + plan.Summary, ">Take it back<", ">Keep it<", "without an answer it stays"} {
		if !strings.Contains(back, want) {
			t.Errorf("no %q in %s", want, back)
		}
	}
	if strings.Contains(back, ">Approve<") || strings.Contains(back, ">Deny<") {
		t.Errorf("an answer has the name of another: %s", back)
	}
	if bar := render(machine.Gate{Text: long + "Is the other region up?"}); strings.Contains(bar, ">Approve<") || !strings.Contains(bar, ">Decide<") {
		t.Errorf("a question is cut off and can be answered: %s", bar)
	}
	if bar := render(machine.Gate{Text: "Is the other region up?"}); !strings.Contains(bar, ">Approve<") {
		t.Errorf("a short question cannot be answered: %s", bar)
	}
}
