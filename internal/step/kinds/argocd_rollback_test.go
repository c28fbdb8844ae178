package kinds_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// repair lets Responder set the flag, and has it deployed.
func (w *gitWorld) repair(t *testing.T) string {
	t.Helper()
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "repair", o, machine.StatusOK, "")
	w.Settle()
	w.Syncs = nil
	return w.Head().SHA
}

// pushed lets somebody change a value, and has it deployed.
func (w *gitWorld) pushed(by string, change map[string]string, reverts ...string) string {
	sha := w.Push(by, "tune", change)
	w.Commits[len(w.Commits)-1].Reverts = reverts
	w.deploy()
	return sha
}

// TestRollbackToLastGood: what is gone back to is found as gitops.revert finds
// it, and what Argo CD puts back takes no repair of Responder's own along.
func TestRollbackToLastGood(t *testing.T) {
	const flag, tokens = "--max-num-seqs", "--max-num-batched-tokens"
	for name, tt := range map[string]struct {
		automated bool
		change    func(t *testing.T, w *gitWorld) (good verified, to string)
		reason    fault.Reason
		text      string // of the refusal, or of the summary; empty: the commit gone back to
	}{
		"before what came": {false, func(_ *testing.T, w *gitWorld) (verified, string) {
			good := w.Head().SHA
			w.pushed("eve", map[string]string{flag: "512"})
			w.pushed("eve", map[string]string{flag: "640"})
			return verified{flag: good}, good
		}, "", ""},
		"not before another variable's repair": {false, func(t *testing.T, w *gitWorld) (verified, string) {
			first := w.Commits[0].SHA
			ours := w.repair(t)
			return verified{flag: ours, tokens: first}, ours
		}, fault.NothingToDo, "would revert a repair by Responder, "},
		"after a repair": {false, func(t *testing.T, w *gitWorld) (verified, string) {
			ours := w.repair(t)
			w.pushed("eve", map[string]string{flag: "640"})
			return verified{flag: ours, "": ours}, ours
		}, "", ""},
		"another variable's commit is no target": {false, func(t *testing.T, w *gitWorld) (verified, string) {
			ours := w.repair(t)
			w.pushed("eve", map[string]string{"image": "vllm:v0.12"})
			return verified{flag: ours, "": ours}, ours
		}, fault.NoData, "what moved last is image, by commit "},
		"what waits does not count": {false, func(_ *testing.T, w *gitWorld) (verified, string) {
			good := w.Head().SHA
			w.pushed("eve", map[string]string{flag: "512"})
			w.Push("eve", "not yet out", map[string]string{"image": "vllm:v0.12"})
			w.App.Sync, w.App.Revisions = "OutOfSync", []string{w.Head().SHA}
			return verified{flag: good, "image": good}, good
		}, "", ""},
		"as it was verified": {false, func(_ *testing.T, w *gitWorld) (verified, string) {
			sha := w.pushed("eve", map[string]string{flag: "512"})
			return verified{flag: sha, tokens: sha}, sha
		}, fault.NothingToDo, "argocd.rollback: serving/chat is as it was last verified"},
		"a short history": {false, func(_ *testing.T, w *gitWorld) (verified, string) {
			good := w.Head().SHA
			w.pushed("eve", map[string]string{flag: "512"})
			w.pushed("eve", map[string]string{flag: "640"})
			w.App.History = w.App.History[len(w.App.History)-2:]
			return verified{flag: good}, good
		}, fault.NothingToDo, "does not reach back before"},
		"in Git": {true, func(_ *testing.T, w *gitWorld) (verified, string) {
			good := w.Head().SHA
			w.pushed("eve", map[string]string{flag: "512"})
			w.pushed("eve", map[string]string{flag: "640"})
			w.App.History = w.App.History[len(w.App.History)-1:] // Git tells
			return verified{flag: good}, good
		}, "", "revert 2 commits"},
		"in Git, over a repair": {true, func(t *testing.T, w *gitWorld) (verified, string) {
			good := w.Head().SHA
			ours := w.repair(t)
			w.pushed("eve", map[string]string{flag: "640"})
			return verified{flag: good}, ours
		}, fault.NothingToDo, "would revert a repair by Responder, "},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(tt.automated)
			good, to := tt.change(t, w)
			w.deps.LastGood = good
			before := w.Text()
			o := w.do(t, "argocd.rollback", machine.ActionPlan, map[string]any{"to": "last_good"}, nil, nil, false)
			if o.Reason != tt.reason {
				t.Fatalf("%s %s %q, want reason %q", o.Status, o.Reason, o.Message, tt.reason)
			}
			text := o.Message
			if tt.reason == "" {
				text = o.Plan.Summary
			}
			if words := cmp.Or(tt.text, " to "+to[:9]+", deployed"); !strings.Contains(text, words) {
				t.Errorf("%q, want ...%s...", text, words)
			}
			if strings.HasSuffix(tt.text, "own, ") && !strings.Contains(text, "own, "+to[:9]) {
				t.Errorf("%q does not name %s", text, to[:9])
			}
			if w.Text() != before || len(w.Syncs) > 0 {
				t.Error("a plan changed something")
			}
		})
	}
}

// TestRollbackByHand: the rollback to the previous deployment of an application
// that is synced by hand takes no repair back either, and says where that could
// not be one.
func TestRollbackByHand(t *testing.T) {
	w := inGit(false)
	ours := w.repair(t)
	o := w.do(t, "argocd.rollback", machine.ActionPlan, nil, nil, nil, false)
	if o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "a repair by Responder, "+ours[:9]) {
		t.Errorf("over a repair: %s %s %q", o.Status, o.Reason, o.Message)
	}
	w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route to git"}
	if o := w.do(t, "argocd.rollback", machine.ActionPlan, nil, nil, nil, false); o.Reason != fault.Unreachable {
		t.Errorf("Git is away: %s %s %q", o.Status, o.Reason, o.Message)
	}
	w.Down = nil
	back := w.pushed("ada", map[string]string{"--max-num-seqs": "256"}, ours)
	if p := w.plan(t, "argocd.rollback", nil); !strings.Contains(p.Summary, "from "+back[:9]+" to "+ours[:9]) {
		t.Errorf("over a repair that was taken back: %s", p.Summary)
	}
	w = inGit(false)
	w.deps.History, w.deps.Manifests, w.deps.Commits, w.deps.Pulls = nil, nil, nil, nil
	if p := w.plan(t, "argocd.rollback", nil); !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasSuffix(n, "no repository is configured") }) {
		t.Errorf("without Git: %q", p.Notes)
	}
	if o := w.do(t, "argocd.rollback", machine.ActionPlan, map[string]any{"to": "last_good"}, nil, nil, false); !strings.Contains(o.Message, "gitops.repositories") {
		t.Errorf("without Git to last good: %s %s %q", o.Status, o.Reason, o.Message)
	}
}

// TestRevertsOfReverts: a commit whose revert was reverted is in effect again.
func TestRevertsOfReverts(t *testing.T) {
	const flag = "--max-num-seqs"
	for name, tt := range map[string]struct {
		change func(t *testing.T, w *gitWorld) (reverts []string)
	}{
		"our revert that did not help": {func(t *testing.T, w *gitWorld) []string {
			cause := w.pushed("eve", map[string]string{flag: "512"})
			with := map[string]any{"to": "previous"}
			plan := w.plan(t, "gitops.revert", with)
			o := w.do(t, "gitops.revert", machine.ActionApply, with, plan, nil, false)
			w.Settle()
			want(t, "undo", w.do(t, "gitops.revert", machine.ActionUndo, with, plan, o.Data, false), machine.StatusOK, "")
			w.Settle()
			return []string{cause}
		}},
		"our revert that stayed": {func(t *testing.T, w *gitWorld) []string {
			w.pushed("eve", map[string]string{flag: "512"})
			with := map[string]any{"to": "previous"}
			want(t, "revert", w.do(t, "gitops.revert", machine.ActionApply, with, w.plan(t, "gitops.revert", with), nil, false), machine.StatusOK, "")
			w.Settle()
			return nil
		}},
		"somebody reverted our revert": {func(t *testing.T, w *gitWorld) []string {
			w.pushed("eve", map[string]string{flag: "512"})
			with := map[string]any{"to": "previous"}
			want(t, "revert", w.do(t, "gitops.revert", machine.ActionApply, with, w.plan(t, "gitops.revert", with), nil, false), machine.StatusOK, "")
			w.Settle()
			return []string{w.pushed("eve", map[string]string{flag: "512"}, w.Head().SHA)}
		}},
		"all by people": {func(_ *testing.T, w *gitWorld) []string {
			cause := w.pushed("eve", map[string]string{flag: "512"})
			back := w.pushed("ada", map[string]string{flag: "256"}, cause)
			return []string{w.pushed("eve", map[string]string{flag: "512"}, back), back, cause}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			w.now = noon.Add(5 * time.Minute) // what was there is older than the window
			shas := tt.change(t, w)
			o := w.do(t, "gitops.revert", machine.ActionPlan, map[string]any{"window": "4m"}, nil, nil, false)
			if len(shas) == 0 {
				if o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "no commit of the last") {
					t.Fatalf("%s %s %q, want nothing to do", o.Status, o.Reason, o.Message)
				}
				return
			}
			if o.Status != machine.StatusOK {
				t.Fatalf("%s %s %q", o.Status, o.Reason, o.Message)
			}
			notes := strings.Join(o.Plan.Notes, "\n")
			for _, sha := range shas {
				if !strings.Contains(notes, "reverts "+sha[:9]) {
					t.Errorf("%q do not revert %s", notes, sha[:9])
				}
			}
			if n := strings.Count(notes, "reverts "); n != len(shas) {
				t.Errorf("%d commits are reverted, want %d: %q", n, len(shas), notes)
			}
			if len(o.Plan.Good) != 1 || o.Plan.Good[0] != (machine.Setting{Name: flag, Value: "256"}) {
				t.Errorf("goes back to %v", o.Plan.Good)
			}
		})
	}
}

// TestRollbackAfterARollback: what was gone back from already is not gone back to.
func TestRollbackAfterARollback(t *testing.T) {
	at := func(revisions ...string) (out []gitops.Deployment) {
		for i, r := range revisions {
			out = append(out, gitops.Deployment{ID: int64(i + 1), Revisions: []string{r}, At: noon})
		}
		return out
	}
	w := inGit(false)
	first, second, third := w.Head().SHA, w.pushed("eve", map[string]string{"--max-num-seqs": "512"}), w.pushed("eve", map[string]string{"--max-num-seqs": "640"})
	for name, tt := range map[string]struct {
		history []gitops.Deployment
		to      string // empty: there is nothing to go back to
	}{
		"a bad one was rolled back":         {at(first, second, first), ""},
		"and there is one from before":      {at(first, second, third, second), first},
		"the bad one again":                 {at(first, second, first, second), first},
		"the same one again":                {at(first, second, second), first},
		"two in turn, and no other, before": {at(second, first, second), ""},
	} {
		now := tt.history[len(tt.history)-1].Revisions[0]
		w.App.History, w.App.Revisions = tt.history, []string{now}
		w.App.Operation.Revisions = []string{now}
		o := w.do(t, "argocd.rollback", machine.ActionPlan, nil, nil, nil, false)
		switch {
		case tt.to == "" && (o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "no revision that it had before the current one")):
			t.Errorf("%s: %s %s %q", name, o.Status, o.Reason, o.Message)
		case tt.to != "" && (o.Plan == nil || !strings.Contains(o.Plan.Summary, " to "+tt.to[:9])):
			t.Errorf("%s: %s %q %+v, want %s", name, o.Reason, o.Message, o.Plan, tt.to[:9])
		}
	}
}
