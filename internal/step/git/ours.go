package git

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// ownHistory marks the commits that are Responder's. What a commit says of itself,
// in its trailers or its subject, only tells which run to ask the journal about:
// anybody who can push can write it.
type ownHistory struct {
	step.History

	journal step.Journal // nil: no commit is Responder's
}

// Changes implements [step.History].
func (h ownHistory) Changes(ctx context.Context, src gitops.Source, t gitops.Target, since time.Time) ([]gitops.Touched, error) {
	out, err := h.History.Changes(ctx, src, t, since)
	return h.mark(out, err)
}

// Since implements [step.History].
func (h ownHistory) Since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error) {
	out, err := h.History.Since(ctx, src, t, sha)
	return h.mark(out, err)
}

// mark sets Ours of the commits that the journal has. The journal has the merge of
// a pull request; what it merged is the second parent of it.
func (h ownHistory) mark(log []gitops.Touched, err error) ([]gitops.Touched, error) {
	if err != nil {
		return nil, err
	}
	out := slices.Clone(log)
	merged := map[string]string{} // by which run
	for i := range out {
		c := &out[i].Commit
		c.Ours = false
		run := claimed(*c)
		if run == "" || h.journal == nil {
			continue
		}
		if c.Ours, err = h.journal.Committed(run, c.SHA); err != nil {
			return nil, err
		}
		if c.Ours && len(c.Parents) > 1 {
			merged[c.Parents[1]] = run
		}
	}
	for i := range out {
		if c := &out[i].Commit; merged[c.SHA] != "" && merged[c.SHA] == claimed(*c) {
			c.Ours = true
		}
	}
	return out, nil
}

// claimed returns the run that a commit says it is by: in its trailer or, of a merge
// by people, in the name of the branch; empty: none.
func claimed(c gitops.Commit) string {
	run, _, found := strings.Cut(effectText(c), "/")
	if !found || !strings.HasPrefix(run, "r-") {
		return ""
	}
	return run
}

// effectText returns the key of the effect that a commit claims in its trailer or, if
// people merged it, in the name of its branch.
func effectText(c gitops.Commit) string {
	text := c.Trailers[gitops.TrailerEffect]
	if text == "" && len(c.Parents) > 1 {
		_, text, _ = strings.Cut(c.Subject, gitops.BranchPrefix)
	}
	return text
}

// effectOf returns effectText as branches spell it: with dashes for what git allows in no
// name. Those of a change and of its undo differ in the action at the end.
func effectOf(c gitops.Commit) string {
	return strings.NewReplacer("/", "-", "#", "-").Replace(effectText(c))
}

// undone returns the undos by Responder, and the changes of its own that they undid.
// Together those changed nothing: neither is a repair. What was there before is there
// again, and is whose it was.
func undone(changes []gitops.Touched) map[string]bool {
	undo, apply := string(machine.ActionUndo), string(machine.ActionApply)
	gone := map[string]bool{} // by effect
	for _, c := range changes {
		if effect, is := strings.CutSuffix(effectOf(c.Commit), undo); is && repairs(c.Commit) {
			gone[effect+undo], gone[effect+apply] = true, true
		}
	}
	out := map[string]bool{}
	for _, c := range changes {
		if repairs(c.Commit) && gone[effectOf(c.Commit)] {
			out[c.Commit.SHA] = true
		}
	}
	return out
}

// withoutUndone returns the commits without those that undone returns.
func withoutUndone(changes []gitops.Touched) []gitops.Touched {
	gone := undone(changes)
	return slices.DeleteFunc(slices.Clone(changes), func(c gitops.Touched) bool { return gone[c.Commit.SHA] })
}
