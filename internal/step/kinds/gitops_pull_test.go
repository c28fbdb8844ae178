package kinds_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestPullRequest: a change that waits for its merge is pending; merged it goes
// on; closed by a person it ends; taken back it is withdrawn.
func TestPullRequest(t *testing.T) {
	open := func(t *testing.T) (*gitWorld, *machine.Plan, machine.Outcome) {
		w := inGit(true)
		w.Protected = true
		plan := w.plan(t, "gitops.set_flag", seqs)
		o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
		want(t, "apply", o, machine.StatusOK, "")
		want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "waits for the merge of https://git.example/ml/serving/pull/1")
		want(t, "look", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, true), machine.StatusOK, "waits for the merge")
		return w, plan, o
	}
	t.Run("merged", func(t *testing.T) {
		w, plan, o := open(t)
		w.MergeAll()
		want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "so far, not ")
		w.Settle()
		want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusOK, "healthy")
		back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
		want(t, "undo", back, machine.StatusOK, "")
		want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusPending, "pull/2")
	})
	t.Run("closed by a person", func(t *testing.T) {
		w, plan, o := open(t)
		w.Close()
		want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusRefused, "closed without being merged: that is a no")
		want(t, "look", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, true), machine.StatusRefused, "that is a no")
		if w.Head().Trailers[gitops.TrailerRun] != "" {
			t.Errorf("head is %+v", w.Head())
		}
	})
	t.Run("changed by a person", func(t *testing.T) {
		w, plan, o := open(t)
		w.Foreign = "its branch is at 1234"
		want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusForeign, "somebody changed the pull request: its branch is at 1234")
	})
	t.Run("its undo closed by a person", func(t *testing.T) {
		w, plan, o := open(t)
		w.MergeAll()
		back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
		w.Close()
		want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusRefused, "which takes the change back")
	})
	t.Run("withdrawn", func(t *testing.T) {
		w, plan, o := open(t)
		back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
		want(t, "undo", back, machine.StatusOK, "")
		want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusOK, "nothing of it")
	})
	t.Run("withdrawn, and its branch stays", func(t *testing.T) {
		w, plan, o := open(t)
		w.Left = "branch responder/r-1 of its pull request stays: refused"
		back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
		want(t, "undo", back, machine.StatusOK, "")
		now := w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false)
		if want(t, "unwind", now, machine.StatusOK, "; "+w.Left); !slices.Equal(now.Facts, []string{w.Left}) {
			t.Errorf("people are told %q", now.Facts)
		}
	})
}

// TestPlanNamesDelivery: what is pushed and what takes a pull request are two plans.
func TestPlanNamesDelivery(t *testing.T) {
	w := inGit(true)
	pushed := w.plan(t, "gitops.set_flag", seqs)
	w.Protected = true
	for kind, with := range map[string]map[string]any{"gitops.set_flag": seqs, "gitops.revert": {"window": "1h"}, "gitops.set_replicas": {"by": int64(1)}, "argocd.rollback": nil} {
		asked := w.plan(t, kind, with)
		if !strings.HasSuffix(asked.Summary, ", by pull request") || asked.MergeWithin != time.Hour ||
			!strings.Contains(strings.Join(asked.Notes, "; "), "on github ml/serving, because branch main is protected; closed unless it is merged within 1h") {
			t.Errorf("%s: %q, %s, notes %q", kind, asked.Summary, asked.MergeWithin, asked.Notes)
		}
	}
	if asked := w.plan(t, "gitops.set_flag", seqs); asked.Digest() == pushed.Digest() {
		t.Error("an approval of one is one of the other")
	}
	if pushed.MergeWithin != 0 || strings.Contains(pushed.Summary, "pull request") {
		t.Errorf("pushed: %+v", pushed)
	}
	w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route to the forge"}
	want(t, "plan", w.do(t, "gitops.set_flag", machine.ActionPlan, seqs, nil, nil, false), machine.StatusFailed, "no route")
}

// TestDeliveryChanged: a change is made the way its plan says or not at all; the
// other way is a fresh plan.
func TestDeliveryChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after func(*gitWorld)
		text          string
	}{
		"protected meanwhile":   {func(*gitWorld) {}, func(w *gitWorld) { w.Protected = true }, "the branch needs a pull request: branch main is protected"},
		"only the push tells":   {func(w *gitWorld) { w.Protected, w.Silent = true, true }, func(*gitWorld) {}, "the branch needs a pull request: push refused"},
		"unprotected meanwhile": {func(w *gitWorld) { w.Protected = true }, func(w *gitWorld) { w.Protected = false }, "accepts pushes now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			tt.before(w)
			plan, head := w.plan(t, "gitops.set_flag", seqs), w.Head().SHA
			tt.after(w)
			o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
			want(t, "apply", o, machine.StatusFailed, tt.text)
			if o.Reason != fault.Conflict || w.Head().SHA != head {
				t.Errorf("%s, head %s", o.Reason, w.Head().Subject)
			}
			fresh := w.plan(t, "gitops.set_flag", seqs)
			if fresh.Digest() == plan.Digest() {
				t.Error("the approval of the first plan holds for the second")
			}
			want(t, "apply", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, fresh, nil, false), machine.StatusOK, "")
		})
	}
}

// TestNoForge: where nothing but a push is possible, its refusal stands.
func TestNoForge(t *testing.T) {
	w := inGit(true)
	w.Protected, w.Silent = true, true
	w.deps.Pulls = pushOnly{w}
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", o, machine.StatusFailed, "push refused")
	if o.Reason != fault.Forbidden {
		t.Errorf("%s: it is tried again", o.Reason)
	}
}

// pushOnly is a repository without a forge.
type pushOnly struct{ step.Pulls }

func (pushOnly) Delivery(context.Context, gitops.Source) (gitops.Delivery, error) {
	return gitops.Delivery{}, nil
}

// TestUndoOfAPushByRequest: the branch became protected after the change was
// pushed; it is taken back by a pull request.
func TestUndoOfAPushByRequest(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := inGit(true)
		plan := w.plan(t, "gitops.set_flag", seqs)
		o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
		w.Settle()
		w.Protected, w.Silent = true, silent
		back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
		want(t, "undo", back, machine.StatusOK, "")
		if back.Waits == "" || w.Head().Values["--max-num-seqs"] != "192" {
			t.Errorf("undo %+v", back)
		}
		w.MergeAll()
		w.Settle()
		want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusOK, "")
		if w.Head().Values["--max-num-seqs"] != "256" {
			t.Errorf("after the undo %v", w.Head().Values)
		}
	}
}

// TestWhoMerges: Responder merges where the policy says so, and never over what
// is missing; it says what it waits for either way.
func TestWhoMerges(t *testing.T) {
	w := inGit(true)
	w.Protected, w.Needs = true, []string{"check ci/build: failure", "ada asks for changes"}
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	if want(t, "apply", o, machine.StatusOK, ""); !strings.HasSuffix(o.Waits, "/pull/1") {
		t.Errorf("waits for %q", o.Waits)
	}
	settle := func(by machine.MergeBy) machine.Outcome {
		return kinds.New(w.deps).Do(t.Context(), machine.Effect{
			Key: "r-1/cap#1/settle#1", Run: "r-1", Action: machine.ActionSettle, Step: "gitops.set_flag", With: seqs,
			Service: service("Deployment"), Plan: plan, Receipt: o.Data, Attempt: 1, MergeBy: by,
		})
	}
	const missing = "check ci/build: failure; ada asks for changes"
	want(t, "people", settle(""), machine.StatusPending, "/pull/1 by people: "+missing)
	want(t, "Responder", settle(machine.MergeResponder), machine.StatusPending, "/pull/1 by Responder: "+missing)
	w.Needs = nil
	want(t, "people", settle(machine.MergePeople), machine.StatusPending, "by people")
	if w.Merged != 0 {
		t.Fatal("merged what people merge")
	}
	want(t, "Responder", settle(machine.MergeResponder), machine.StatusPending, "by Responder")
	if w.Merged != 1 || w.Head().Values["--max-num-seqs"] != "192" {
		t.Errorf("%d merged, head %v", w.Merged, w.Head().Values)
	}
	w.Settle()
	if after := settle(machine.MergeResponder); after.Status != machine.StatusOK || after.Waits != "" {
		t.Errorf("after the merge: %+v", after)
	}
}
