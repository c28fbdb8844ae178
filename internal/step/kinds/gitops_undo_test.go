package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// TestUndoByValue: where Git cannot revert the lines of a change, its values are
// set back, and that commit is known as its revert all the same: going back over
// both takes no repair away.
func TestUndoByValue(t *testing.T) {
	w := inGit(false)
	good := w.Head().SHA
	w.pushed("eve", map[string]string{"--max-num-batched-tokens": "4096"})
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	ours := w.Head().SHA
	w.Settle()
	w.Tangled = true
	want(t, "undo", w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false), machine.StatusOK, "")
	back := w.Head()
	if back.SHA == ours || back.Values["--max-num-seqs"] != "256" || !slices.Equal(back.Reverts, []string{ours}) {
		t.Fatalf("taken back by %s, which sets %s and reverts %v; want 256 and %s", back.SHA, back.Values["--max-num-seqs"], back.Reverts, ours)
	}
	w.Settle()
	w.deps.LastGood = verified{"--max-num-batched-tokens": good}
	if p := w.plan(t, "argocd.rollback", map[string]any{"to": "last_good"}); !strings.Contains(p.Summary, " to "+good[:9]) {
		t.Errorf("goes back: %q, want to %s", p.Summary, good[:9])
	}
}
