package kinds_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// inRevisions is a service in Git with a good commit 20 minutes ago, revision 2, and a
// bad one 5 minutes ago, revision 3.
func inRevisions(t *testing.T) (w *gitWorld, bad string) {
	t.Helper()
	w = inGit(true)
	w.now = noon.Add(-5 * time.Minute)
	bad = w.Push("eve", "new engine", map[string]string{"image": "vllm:v0.12"})
	w.Settle()
	w.now = noon
	w.runs(3, 72*time.Hour, 20*time.Minute, 5*time.Minute)
	return w, bad
}

// runs makes revisions of the workload from when each became current; one is current.
func (w *gitWorld) runs(current int64, ago ...time.Duration) {
	var all []kube.Revision
	for i, d := range ago {
		all = append(all, kube.Revision{Number: int64(i + 1), Created: noon.Add(-d), Active: noon.Add(-d), Current: int64(i+1) == current})
	}
	w.deps.Workloads = alike{Workloads: argoFleet{}, revisions: all}
}

// rollback plans service.rollback of the service.
func (w *gitWorld) rollback(t *testing.T, to, from int64) machine.Outcome {
	t.Helper()
	w.deps.Changer = fleet{}
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	return kinds.New(w.deps).Do(t.Context(), machine.Effect{
		Key: "r-2/back#1/plan#1", Run: "r-2", State: "back", Action: machine.ActionPlan, Step: "service.rollback",
		With: map[string]any{"window": "1h", "to_revision": to, "from_revision": from}, Service: svc,
	})
}

// TestRollbackToARevisionInGit: only the commits that came after the revision to go back
// to are reverted, and the plan says what that revision ran.
func TestRollbackToARevisionInGit(t *testing.T) {
	for name, tt := range map[string]struct {
		to     int64
		change func(*gitWorld)
		fields []string
		note   string
	}{
		"the one before": {2, func(*gitWorld) {}, []string{"image"}, "goes back to revision 2, which ran commit "},
		"two before":     {1, func(*gitWorld) {}, []string{"--max-num-batched-tokens", "image"}, "goes back to revision 1, which ran commit "},
		"no revision":    {0, func(*gitWorld) {}, []string{"--max-num-batched-tokens", "image"}, "it goes back in Git"},
		"one not kept":   {9, func(*gitWorld) {}, []string{"--max-num-batched-tokens", "image"}, "which commit revision 9 ran is not known: all commits of the window go back"},
		"no history":     {2, func(w *gitWorld) { w.App.History = w.App.History[len(w.App.History)-1:] }, []string{"image"}, "does not tell when it was deployed"},
		"nothing in Git made the next": {2, func(w *gitWorld) {
			w.App.History = w.App.History[len(w.App.History)-1:]
			w.runs(3, 72*time.Hour, 20*time.Minute, 10*time.Minute)
		}, []string{"--max-num-batched-tokens", "image"}, "which commit revision 2 ran is not known"},
		"two commits by one sync": {1, func(w *gitWorld) {
			w.App.History = slices.Delete(w.App.History, 1, 2)
			w.runs(2, 72*time.Hour, 5*time.Minute)
		}, []string{"--max-num-batched-tokens", "image"}, "goes back to revision 1, which ran commit "},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := inRevisions(t)
			tt.change(w)
			o := w.rollback(t, tt.to, 0)
			if o.Status != machine.StatusOK {
				t.Fatalf("%s %s", o.Reason, o.Message)
			}
			var fields []string
			for _, s := range o.Plan.Good {
				fields = append(fields, s.Name)
			}
			slices.Sort(fields)
			if !slices.Equal(fields, tt.fields) || !strings.Contains(strings.Join(o.Plan.Notes, "\n"), tt.note) {
				t.Errorf("%s, notes %q, want fields %q, note %q", fields, o.Plan.Notes, tt.fields, tt.note)
			}
		})
	}
}

// TestRollbackInGitOnStaleEvidence: what a person commits after the evidence is not
// reverted along with the suspects, deployed or not.
func TestRollbackInGitOnStaleEvidence(t *testing.T) {
	w, _ := inRevisions(t)
	if o := w.rollback(t, 2, 3); o.Status != machine.StatusOK {
		t.Fatalf("%s %s, want the evidence to be fresh", o.Reason, o.Message)
	}
	w.Push("ada", "a fix", map[string]string{"--max-num-seqs": "128"})
	if o := w.rollback(t, 2, 3); o.Plan != nil || !strings.Contains(o.Message, `"a fix" by ada`) || !strings.Contains(o.Message, "would be deployed along") {
		t.Errorf("with a commit that waits: %s %s %+v", o.Reason, o.Message, o.Plan)
	}
	w.Settle()
	w.runs(4, 72*time.Hour, 20*time.Minute, 5*time.Minute, 0)
	if o := w.rollback(t, 2, 3); o.Plan != nil || o.Reason != fault.Conflict || !strings.Contains(o.Message, "runs revision 4, and revision 3 was current") {
		t.Errorf("with another revision: %s %s %+v", o.Reason, o.Message, o.Plan)
	}
	w.deps.Manifests, w.deps.Commits, w.deps.Pulls, w.deps.History = nil, nil, nil, nil
	w.App.Automated = false
	if o := w.rollback(t, 2, 3); o.Plan != nil || o.Reason != fault.Conflict {
		t.Errorf("by Argo CD: %s %s %+v", o.Reason, o.Message, o.Plan)
	}
}

// TestUndoInGitIsNoRepair: the revert of our revert puts the bad release back. It stays a
// cause, and is reverted again.
func TestUndoInGitIsNoRepair(t *testing.T) {
	w, bad := inRevisions(t)
	with := map[string]any{"window": "15m"}
	w.now = noon.Add(-4 * time.Minute)
	plan := w.plan(t, "gitops.revert", with)
	made := w.do(t, "gitops.revert", machine.ActionApply, with, plan, nil, false)
	want(t, "apply", made, machine.StatusOK, "")
	w.Settle()
	w.runs(4, 72*time.Hour, 20*time.Minute, 5*time.Minute, 4*time.Minute)
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	w.now = noon
	if out := changesOf(t, kinds.New(w.deps), svc); !out.Ours {
		t.Fatalf("our revert is no repair: %+v", out)
	}
	w.now = noon.Add(-2 * time.Minute)
	want(t, "undo", w.do(t, "gitops.revert", machine.ActionUndo, with, plan, made.Data, false), machine.StatusOK, "")
	w.Settle()
	w.runs(5, 72*time.Hour, 20*time.Minute, 5*time.Minute, 4*time.Minute, 2*time.Minute)
	w.now = noon
	if out := changesOf(t, kinds.New(w.deps), svc); out.Ours || !out.Changed || !out.Commits[0].Ours {
		t.Errorf("after the undo: %+v, want the release to be a cause", out)
	}
	if out := changes(t, w); out.Ours {
		t.Errorf("after the undo: %+v, want no repair", out)
	}
	for name, o := range map[string]machine.Outcome{
		"to the revision before": w.rollback(t, 4, 5), "the window": w.do(t, "gitops.revert", machine.ActionPlan, with, nil, nil, false),
		"the last one": w.do(t, "gitops.revert", machine.ActionPlan, map[string]any{"to": "previous"}, nil, nil, false),
	} {
		if o.Status != machine.StatusOK || !strings.Contains(o.Plan.Summary, "revert commit "+bad[:9]) {
			t.Errorf("%s: %s %s %+v, want commit %s reverted", name, o.Reason, o.Message, o.Plan, bad[:9])
		}
	}
}
