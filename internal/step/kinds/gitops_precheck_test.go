package kinds_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// lateTurns are what may become of an application between the plan and the write.
var lateTurns = map[string]struct {
	turn   func(*gitWorld)
	reason fault.Reason
	text   string
}{
	"a window closed": {func(w *gitWorld) { w.App.Window = "the deny window * * * * *" }, fault.Throttled, "nothing was written: Argo CD application argocd/chat may not be synced now: sync window the deny"},
	"somebody syncs": {func(w *gitWorld) {
		w.App.Operation = gitops.Operation{Running: true, Revisions: []string{"v1"}, By: "eve"}
	}, fault.Conflict, "nothing was written: since it was planned, Argo CD application argocd/chat is being synced (v1, by eve)"},
	"it is being deleted":     {func(w *gitWorld) { w.App.Deleting = true }, fault.Owned, "is being deleted"},
	"it is no longer owner":   {func(w *gitWorld) { w.App.Resources[0].Name = "code" }, fault.Owned, "does not manage Deployment serving/chat"},
	"it deploys another path": {func(w *gitWorld) { w.App.Sources[0].Path = "apps/code" }, fault.Conflict, "deploys from https://git.example/ml/serving.git apps/code since it was planned"},
	"another branch":          {func(w *gitWorld) { w.App.Target = []string{"release"} }, fault.Conflict, "deploys branch release of it since it was planned"},
	"HEAD":                    {func(w *gitWorld) { w.App.Target = []string{"HEAD"} }, fault.Conflict, "deploys HEAD of it since it was planned"},
	"the cluster was changed": {func(w *gitWorld) { w.App.Sync, w.App.Resources[0].Sync = "OutOfSync", "OutOfSync" }, fault.Conflict, "is OutOfSync since it was planned: apps/Deployment serving/chat differs"},
	"Argo CD does not answer": {func(w *gitWorld) {
		w.ArgoDown = &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
	}, fault.Unreachable, "connection refused"},
}

// TestLookedAtBeforeThePush: what the plan found is looked at again right before
// anything is written, and a moment that is no longer right writes nothing.
func TestLookedAtBeforeThePush(t *testing.T) {
	for name, tt := range lateTurns {
		t.Run(name, func(t *testing.T) {
			w := inGit(false)
			plan, head := w.plan(t, "gitops.set_flag", seqs), w.Head().SHA
			was := w.App
			was.Resources, was.Sources = append([]gitops.Resource(nil), was.Resources...), append([]gitops.Source(nil), was.Sources...)
			tt.turn(w)
			o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
			want(t, "apply", o, machine.StatusFailed, tt.text)
			if o.Reason != tt.reason || w.Head().SHA != head || len(w.Syncs) != 0 {
				t.Errorf("%s, want %s; head %q, %d syncs", o.Reason, tt.reason, w.Head().Subject, len(w.Syncs))
			}
			w.App, w.ArgoDown = was, nil
			want(t, "apply once that is over", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false), machine.StatusOK, "")
		})
	}
}

// TestLookedAtBeforeTheMerge: so is it before Responder merges, which is the
// write where a pull request is. The request stays open meanwhile.
func TestLookedAtBeforeTheMerge(t *testing.T) {
	for name, tt := range lateTurns {
		t.Run(name, func(t *testing.T) {
			w := inGit(false)
			w.Protected = true
			plan := w.plan(t, "gitops.set_flag", seqs)
			o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
			tt.turn(w)
			now := settleAs(t, w, plan, o, machine.ActionSettle)
			if want(t, "settle", now, machine.StatusPending, tt.text); w.Merged != 0 || now.Waits == "" {
				t.Errorf("%d merged, waits for %q", w.Merged, now.Waits)
			}
		})
	}
}

func settleAs(t *testing.T, w *gitWorld, plan *machine.Plan, receipt machine.Outcome, a machine.Action) machine.Outcome {
	t.Helper()
	return kinds.New(w.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/cap#1/" + string(a) + "#1", Run: "r-1", Action: a, Step: "gitops.set_flag", With: seqs,
		Service: service("Deployment"), Plan: plan, Receipt: receipt.Data, Attempt: 1, MergeBy: machine.MergeResponder,
	})
}

// TestOthersCommitBeforeTheMerge: what others have committed since the plan would
// be rolled out with the merge, and is for nobody to carry out along with it.
func TestOthersCommitBeforeTheMerge(t *testing.T) {
	for change, text := range map[string]string{"image": "moved on to", "--max-num-seqs": "changed --max-num-seqs from 256 to 128"} {
		w := inGit(false)
		w.Protected = true
		plan := w.plan(t, "gitops.set_flag", seqs)
		o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
		w.Push("eve", "meanwhile", map[string]string{change: "128"})
		now := settleAs(t, w, plan, o, machine.ActionSettle)
		if want(t, "settle", now, machine.StatusPending, text); w.Merged != 0 || len(w.Syncs) != 0 {
			t.Errorf("%s: %d merged, %d syncs", change, w.Merged, len(w.Syncs))
		}
	}
}

// TestDriftBeforeTheRevert: what somebody has changed in the cluster since a
// revert was planned is not taken back with it.
func TestDriftBeforeTheRevert(t *testing.T) {
	w := inGit(false)
	bad := w.Push("eve", "more", map[string]string{"--max-num-seqs": "512"})
	w.deploy()
	with := map[string]any{"to": "previous"}
	plan := w.plan(t, "gitops.revert", with)
	w.App.Sync, w.App.Resources[0].Sync = "OutOfSync", "OutOfSync"
	o := w.do(t, "gitops.revert", machine.ActionApply, with, plan, nil, false)
	if want(t, "apply", o, machine.StatusFailed, "is OutOfSync since it was planned"); o.Reason != fault.Conflict || w.Head().SHA != bad {
		t.Errorf("%s, head %q", o.Reason, w.Head().Subject)
	}
}

// TestUndoInAClosedWindow: an undo is written whatever the window says, so that
// nobody rolls the change out once it opens; past the window nothing is synced.
func TestUndoInAClosedWindow(t *testing.T) {
	for _, protected := range []bool{false, true} {
		w := inGit(false)
		w.Protected = protected
		plan := w.plan(t, "gitops.set_flag", seqs)
		o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
		w.MergeAll()
		settleAs(t, w, plan, o, machine.ActionSettle)
		w.Settle()
		want(t, "settle", settleAs(t, w, plan, o, machine.ActionSettle), machine.StatusOK, "healthy")
		w.App.Window = "the deny window * * * * *"
		back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
		want(t, "undo", back, machine.StatusOK, "")
		syncs := len(w.Syncs)
		settleAs(t, w, plan, back, machine.ActionUnwind) // merges it, where it is a pull request
		if now := w.Head().Values["--max-num-seqs"]; now != "256" || !strings.HasPrefix(w.Head().Subject, "Revert ") {
			t.Fatalf("protected %t: the branch says %s by %q", protected, now, w.Head().Subject)
		}
		unwound := settleAs(t, w, plan, back, machine.ActionUnwind)
		if want(t, "unwind", unwound, machine.StatusFailed, "sync window"); !unwound.Reason.Retryable() || len(w.Syncs) != syncs {
			t.Errorf("protected %t: %s, %d syncs, want %d", protected, unwound.Reason, len(w.Syncs), syncs)
		}
		w.App.Window = ""
		settleAs(t, w, plan, back, machine.ActionUnwind)
		w.Settle()
		want(t, "unwind", settleAs(t, w, plan, back, machine.ActionUnwind), machine.StatusOK, "healthy")
	}
}

// TestFollowsTheBranch: an application that moved from HEAD to a branch is noticed
// too, and so is the one of a plan that an older journal holds, as far as that says.
func TestFollowsTheBranch(t *testing.T) {
	for name, tt := range map[string]struct {
		planned, now string
		older        bool
		text         string // empty: it is written
	}{
		"as planned":              {"HEAD", "HEAD", false, ""},
		"in other words":          {"main", "refs/heads/main", false, ""},
		"HEAD, named later":       {"HEAD", "release", false, "deploys branch release of it"},
		"older, as planned":       {"main", "main", true, ""},
		"older, HEAD":             {"HEAD", "HEAD", true, ""},
		"older, another branch":   {"main", "release", true, "deploys branch release of it"},
		"older, HEAD named later": {"HEAD", "release", true, "deploys branch release of it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(false)
			w.App.Target = []string{tt.planned}
			plan, head := w.plan(t, "gitops.set_flag", seqs), w.Head().SHA
			if tt.older {
				plan.Payload = without(t, plan.Payload, "follows")
			}
			w.App.Target = []string{tt.now}
			o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
			if tt.text == "" {
				want(t, "apply", o, machine.StatusOK, "")
				return
			}
			if want(t, "apply", o, machine.StatusFailed, tt.text); o.Reason != fault.Conflict || w.Head().SHA != head {
				t.Errorf("%s; head %q", o.Reason, w.Head().Subject)
			}
		})
	}
}

// without is an object without one of its members, which has to be there.
func without(t *testing.T, object json.RawMessage, member string) json.RawMessage {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil || all[member] == nil {
		t.Fatalf("%s has no %s: %v", object, member, err)
	}
	delete(all, member)
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTriedBeforeCommit: what the API server would refuse, or make another value
// of, is not planned; what it was not asked is said.
func TestTriedBeforeCommit(t *testing.T) {
	denied := func(only string) func(string) ([]byte, error) {
		return func(manifest string) ([]byte, error) {
			if !strings.Contains(manifest, only) {
				return []byte(manifest), nil
			}
			return nil, &fault.Error{Reason: fault.Invalid, Message: "patch deployments.apps serving/chat: denied: at most 128 sequences"}
		}
	}
	refused := func(reason fault.Reason) func(string) ([]byte, error) {
		return func(string) ([]byte, error) {
			return nil, &fault.Error{Reason: reason, Message: "the server says " + string(reason)}
		}
	}
	for name, tt := range map[string]struct {
		change func(*gitWorld)
		reason fault.Reason // empty: planned
		text   string       // of the refusal, or a note
	}{
		"taken":            {func(*gitWorld) {}, "", ""},
		"refused":          {func(w *gitWorld) { w.Admits = denied("--max-num-seqs=192") }, fault.Invalid, "the API server would refuse Deployment serving/chat (apps/chat/values.yaml:1) after the change: patch deployments.apps serving/chat: denied: at most 128 sequences"},
		"refused as it is": {func(w *gitWorld) { w.Admits = denied("") }, "", "it refuses the present manifest, too"},
		"no right to ask":  {func(w *gitWorld) { w.Admits = refused(fault.Forbidden) }, "", "could not be asked whether it accepts Deployment serving/chat"},
		"not served":       {func(w *gitWorld) { w.Admits = refused(fault.NotFound) }, "", "could not be asked"},
		"away":             {func(w *gitWorld) { w.Admits = refused(fault.Unreachable) }, fault.Unreachable, "unreachable"},
		"a chart":          {func(w *gitWorld) { w.Chart = true }, "", "was not asked about all of the change"},
		"made another value": {func(w *gitWorld) {
			w.Admits = func(m string) ([]byte, error) { return []byte(strings.Replace(m, "=192", "=128", 1)), nil }
		}, fault.Overridden, "the API server changes --max-num-seqs to 128, not 192: an admission webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			tt.change(w)
			o := w.do(t, "gitops.set_flag", machine.ActionPlan, seqs, nil, nil, false)
			if o.Reason != tt.reason {
				t.Fatalf("%s %s %q, want reason %q", o.Status, o.Reason, o.Message, tt.reason)
			}
			if tt.reason != "" && !strings.Contains(o.Message, tt.text) {
				t.Errorf("%q, want ...%s...", o.Message, tt.text)
			}
			if tt.reason == "" && !slices.ContainsFunc(o.Plan.Notes, func(n string) bool { return strings.Contains(n, tt.text) }) {
				t.Errorf("notes %q, want ...%s...", o.Plan.Notes, tt.text)
			}
			if !w.Chart && !strings.Contains(w.Tried[0], "--max-num-seqs=192") {
				t.Errorf("asked about %q", w.Tried)
			}
		})
	}
}
