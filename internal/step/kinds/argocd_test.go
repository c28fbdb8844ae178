package kinds_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestArgoPlansWhatCanBeUndone: an application is synced or rolled back only where
// it is known what runs, and where going back to that brings it back.
func TestArgoPlansWhatCanBeUndone(t *testing.T) {
	const noData = fault.NoData
	ended := func(phase string, of func(*gitWorld) string) func(*gitWorld) {
		return func(w *gitWorld) {
			w.App.Operation = gitops.Operation{Phase: phase, By: "eve", Revisions: []string{of(w)}, Finished: w.now}
		}
	}
	head := func(w *gitWorld) string { return w.Head().SHA }
	now := func(w *gitWorld) string { return w.App.History[len(w.App.History)-1].Revisions[0] }
	elsewhere := func(*gitWorld) string { return strings.Repeat("e", 40) }
	history := func(i int) func(*gitWorld) {
		return func(w *gitWorld) { w.App.History[i].Differs = "spec.source.helm" }
	}
	drift := func(w *gitWorld) { w.App.Sync, w.App.Resources[0].Sync = "OutOfSync", "OutOfSync" }
	sync := []string{"argocd.sync"}
	both := []string{"argocd.sync", "argocd.rollback"}
	for name, tt := range map[string]struct {
		kinds  []string
		waits  bool // a commit waits to be synced
		change func(*gitWorld)
		reason fault.Reason // empty: it is planned
		text   string
	}{
		"as usual":                {both, true, func(*gitWorld) {}, "", ""},
		"the last sync failed":    {both, true, ended("Failed", head), noData, " by eve, ended Failed and is not in its history"},
		"of some resources only":  {both, true, ended("Succeeded", elsewhere), noData, " by eve, ended Succeeded and is not in its history"},
		"failed where it was":     {both, true, ended("Error", now), noData, "what runs is unknown"},
		"it is another one now":   {both, true, history(1), noData, "argocd/chat itself was changed since it was last synced (spec.source.helm)"},
		"it was another one then": {[]string{"argocd.rollback"}, true, history(0), fault.Owned, "(argocd app rollback argocd/chat 1)"},
		"once it was another one": {sync, true, history(0), "", ""},
		"never synced":            {both, true, func(w *gitWorld) { w.App.History = nil }, noData, "has no sync in its history"},
		"not compared":            {both, false, func(w *gitWorld) { w.App.Sync, w.App.Problems = "Unknown", []string{"ComparisonError: no route"} }, noData, "ComparisonError: no route"},
		"nothing new":             {sync, false, func(*gitWorld) {}, fault.NothingToDo, "is synced at"},
		"changed by hand":         {sync, false, drift, fault.NothingToDo, "nothing new on its branch"},
		"changed by hand, back":   {[]string{"argocd.rollback"}, false, drift, fault.Throttled, "Deployment serving/chat differs; the rollback would revert what differs"},
		"by hand, and a commit":   {both, true, drift, "", ""},
		"somebody else's dry run": {both, true, func(w *gitWorld) {
			w.App.Operation = gitops.Operation{DryRun: true, By: "eve", Phase: "Succeeded", Revisions: []string{w.Head().SHA}}
		}, noData, "'s last operation was a dry run by eve: the revision that runs"},
	} {
		for _, kind := range tt.kinds {
			t.Run(kind+" "+name, func(t *testing.T) {
				w := inGit(false)
				if tt.waits {
					w.Push("ada", "bigger", map[string]string{"replicas": "4"})
					w.refresh()
				}
				tt.change(w)
				o := w.do(t, kind, machine.ActionPlan, nil, nil, nil, false)
				if o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) || (o.Plan != nil) != (tt.reason == "") {
					t.Errorf("%s %s %q, want %q ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
				}
				if len(w.Syncs) > 0 {
					t.Error("a plan changed something")
				}
			})
		}
	}
}

// TestSyncLooksFirst: what was pushed a moment ago is what is synced, and people
// read which commits come with it.
func TestSyncLooksFirst(t *testing.T) {
	w := inGit(false)
	from := w.Head().SHA
	w.Push("eve", "new image", map[string]string{"image": "vllm:v0.12"})
	sha := w.Push("ada", "bigger", map[string]string{"replicas": "4"})
	if w.App.Sync != "Synced" {
		t.Fatalf("%s: Argo CD has looked already", w.App.Sync)
	}
	p := w.plan(t, "argocd.sync", nil)
	if want := "sync Argo CD application argocd/chat from " + from[:9] + " to " + sha[:9]; p.Summary != want {
		t.Errorf("%q, want %q", p.Summary, want)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "comes with it: "+sha[:9]+` "bigger" by ada; `) || !strings.Contains(notes, `"new image" by eve`) {
		t.Errorf("%s", notes)
	}
	w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route to git"}
	if notes := strings.Join(w.plan(t, "argocd.sync", nil).Notes, "\n"); !strings.Contains(notes, "which commits come with it is not known: no route to git") {
		t.Errorf("Git is away: %s", notes)
	}
	w.ArgoDown = &fault.Error{Reason: fault.Forbidden, Message: "token revoked"}
	if o := w.do(t, "argocd.sync", machine.ActionPlan, nil, nil, nil, false); o.Reason != fault.Forbidden {
		t.Errorf("Argo CD is away: %s %s %q", o.Status, o.Reason, o.Message)
	}
}

// TestLacksTheRight: what a token may not sync is not for anybody to approve.
func TestLacksTheRight(t *testing.T) {
	for _, tt := range []struct {
		kind      string
		with      map[string]any
		automated bool
		lacks     string
	}{
		{"argocd.sync", nil, false, "no sync"},
		{"argocd.rollback", nil, false, "no sync"},
		{"gitops.set_flag", seqs, false, "no sync"},
		{"gitops.set_flag", seqs, true, ""},
		{"argocd.rollback", nil, true, ""},
	} {
		w := inGit(tt.automated)
		w.NoSync = "no sync"
		if tt.kind == "argocd.sync" {
			w.Push("ada", "bigger", map[string]string{"replicas": "4"})
		}
		if p := w.plan(t, tt.kind, tt.with); p.Lacks != tt.lacks {
			t.Errorf("%s, by itself: %t: lacks %q, want %q", tt.kind, tt.automated, p.Lacks, tt.lacks)
		}
	}
}

// shared adds another service to the application, by its workload, by the object that
// owns its workload or by its name in the catalog, and objects of no service.
func shared(w *gitWorld, by string) {
	other := service("Deployment")
	other.Name, other.Namespace, other.Workload.Name, other.Owners = "batch/embed", "batch", "embed", []string{"group:text"}
	has := gitops.Resource{Group: "apps", Kind: "Deployment", Namespace: "batch", Name: "embed", Sync: "Synced"}
	switch by {
	case "owner":
		has.Group, has.Kind, has.Name = "serving.kserve.io", "InferenceService", "embedding"
	case "catalog":
		has.Kind, other.GitOps.Application = "ConfigMap", w.App.Name
	}
	w.App.Resources = append(w.App.Resources, has,
		gitops.Resource{Kind: "ConfigMap", Namespace: "serving", Name: "chat", Sync: "Synced"}, // the service's own
		gitops.Resource{Kind: "ConfigMap", Namespace: "kube-system", Name: "coredns", Sync: "Synced"},
		gitops.Resource{Kind: "StatefulSet", Namespace: "serving", Name: "redis", Sync: "Synced"},
		gitops.Resource{Kind: "ClusterRole", Name: "chat", Sync: "Synced"})
	w.deps.Workloads = ownedFleet{}
	w.deps.Services = func() []playbook.Service {
		apart := service("Deployment")
		apart.Name, apart.Namespace, apart.Workload.Name = "batch/apart", "batch", "apart"
		return []playbook.Service{apart, other, service("Deployment")}
	}
}

// ownedFleet is one in which InferenceService embedding owns Deployment embed.
type ownedFleet struct{ argoFleet }

func (f ownedFleet) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := f.argoFleet.Workload(ctx, r)
	switch r.Name {
	case "embed":
		w.Owners = []kube.Owner{{Field: "*", Kind: "InferenceService", Name: "embedding"}}
	case "apart":
		err = &fault.Error{Reason: fault.NotFound, Message: "there is none"}
	}
	return w, err
}

// TestApplicationLeversCarryWhomTheyTouch: Argo CD moves all of an application, so the
// plan names the other services and the namespaces that it deploys to.
func TestApplicationLeversCarryWhomTheyTouch(t *testing.T) {
	want := []machine.Touched{
		{Namespace: "kube-system", App: "argocd/chat"},
		{Namespace: "serving", App: "argocd/chat"},
		{Service: "batch/embed", Namespace: "batch", Owners: []string{"group:text"}, App: "argocd/chat"},
	}
	for _, kind := range []string{"argocd.sync", "argocd.rollback", "service.rollback"} {
		for _, by := range []string{"workload", "owner", "catalog"} {
			t.Run(kind+" by "+by, func(t *testing.T) {
				w := inGit(false)
				if kind == "argocd.sync" {
					w.Push("ada", "bigger", map[string]string{"replicas": "4"})
				}
				if kind == "service.rollback" {
					w.deps.Manifests = nil // Git cannot be changed
				}
				shared(w, by)
				svc := service("Deployment")
				svc.GitOps.Application = w.App.Name
				plan := kinds.New(w.deps).Do(t.Context(), machine.Effect{Key: "r-1/cap#1/plan#1", Run: "r-1", State: "cap", Action: machine.ActionPlan, Step: kind, Service: svc}).Plan
				if plan == nil {
					t.Fatal("no plan")
				}
				if diff := cmp.Diff(want, plan.Touches); diff != "" {
					t.Errorf("touched (-want +got):\n%s", diff)
				}
				if !slices.Contains(plan.Locks, "service:batch/embed") {
					t.Errorf("the locks are %q", plan.Locks)
				}
				const note = "judged for all that argocd/chat deploys: also for objects of no service in namespace kube-system, objects of no service in namespace serving, service batch/embed"
				if !slices.Contains(plan.Notes, note) {
					t.Errorf("the notes are %q", plan.Notes)
				}

				w.App.Resources = append(w.App.Resources, gitops.Resource{Kind: "Secret", Namespace: "payments", Name: "ledger", Sync: "Synced"})
				o := w.do(t, plan.Step, machine.ActionApply, nil, plan, nil, false)
				if o.Reason != fault.Conflict || !strings.Contains(o.Message, "payments") || len(w.Syncs) > 0 {
					t.Errorf("applied with more than was judged: %s %s %q", o.Status, o.Reason, o.Message)
				}
			})
		}
	}
}

// TestHangingSyncIsStopped: the undo of a sync that does not end stops it first, and
// nobody else's.
func TestHangingSyncIsStopped(t *testing.T) {
	for _, theirs := range []bool{false, true} {
		w := inGit(false)
		before := w.Head().SHA
		w.Push("ada", "bigger", map[string]string{"replicas": "4"})
		plan := w.plan(t, "argocd.sync", nil)
		o := w.do(t, "argocd.sync", machine.ActionApply, nil, plan, nil, false)
		want(t, "apply", o, machine.StatusOK, "")
		want(t, "settle", w.do(t, "argocd.sync", machine.ActionSettle, nil, plan, o.Data, false), machine.StatusPending, "a sync to ")
		if theirs {
			w.App.Operation.Key = ""
			want(t, "undo over another's", w.do(t, "argocd.sync", machine.ActionUndo, nil, plan, o.Data, false), machine.StatusForeign, "nothing was undone")
			if !w.App.Operation.Running {
				t.Error("somebody else's sync was stopped")
			}
			continue
		}
		first := w.do(t, "argocd.sync", machine.ActionUndo, nil, plan, o.Data, false)
		if want(t, "undo", first, machine.StatusFailed, "Argo CD was asked to stop that"); !first.Reason.Retryable() {
			t.Errorf("%s ends the undo", first.Reason)
		}
		want(t, "undo again", w.do(t, "argocd.sync", machine.ActionUndo, nil, plan, o.Data, false), machine.StatusOK, "")
		w.Settle()
		want(t, "unwind", w.do(t, "argocd.sync", machine.ActionUnwind, nil, plan, o.Data, false), machine.StatusOK, "healthy")
		if now := w.App.History[len(w.App.History)-1].Revisions[0]; now != before {
			t.Errorf("it is at %s, want %s", now, before)
		}
	}
}

// TestFailedSyncGoesBack: a sync that fails leaves no entry in the history and is
// ours all the same; so is the undo of it, done or failed.
func TestFailedSyncGoesBack(t *testing.T) {
	for _, kind := range []string{"argocd.sync", "argocd.rollback"} {
		t.Run(kind, func(t *testing.T) {
			fresh := func() (*gitWorld, *machine.Plan, json.RawMessage) {
				w := inGit(false)
				if kind == "argocd.sync" {
					w.Push("ada", "bigger", map[string]string{"replicas": "4"})
				}
				plan := w.plan(t, kind, nil)
				o := w.do(t, kind, machine.ActionApply, nil, plan, nil, false)
				want(t, "apply", o, machine.StatusOK, "")
				w.Fails = "one of them is invalid"
				w.Settle()
				want(t, "look", w.do(t, kind, machine.ActionApply, nil, plan, nil, true), machine.StatusOK, "is invalid")
				want(t, "settle", w.do(t, kind, machine.ActionSettle, nil, plan, o.Data, false), machine.StatusFailed, "is invalid")
				return w, plan, o.Data
			}
			undo := func(w *gitWorld, plan *machine.Plan, receipt json.RawMessage) {
				t.Helper()
				want(t, "undo", w.do(t, kind, machine.ActionUndo, nil, plan, receipt, false), machine.StatusOK, "")
				want(t, "look at the undo", w.do(t, kind, machine.ActionUndo, nil, plan, receipt, true), machine.StatusOK, "")
			}
			w, plan, receipt := fresh()
			before := w.App.History[len(w.App.History)-1].Revisions[0]
			undo(w, plan, receipt)
			w.Fails = ""
			w.Settle()
			want(t, "unwind", w.do(t, kind, machine.ActionUnwind, nil, plan, receipt, false), machine.StatusOK, "healthy")
			if now := w.App.History[len(w.App.History)-1].Revisions[0]; now != before {
				t.Errorf("it is at %s, want %s", now, before)
			}

			w, plan, receipt = fresh()
			undo(w, plan, receipt)
			w.Settle()
			want(t, "unwind that fails, too", w.do(t, kind, machine.ActionUnwind, nil, plan, receipt, false), machine.StatusFailed, "is invalid")

			w, plan, receipt = fresh()
			if err := w.Sync(context.Background(), gitops.Sync{Revisions: []string{w.Head().SHA}}); err != nil {
				t.Fatal(err)
			}
			w.App.Operation.By = "eve"
			w.Settle()
			want(t, "undo over another's", w.do(t, kind, machine.ActionUndo, nil, plan, receipt, false), machine.StatusForeign, "eve synced argocd/chat to ")
		})
	}
}

// TestDryRunOverASync: somebody's dry run takes the place of the sync before it, and
// of its key. A sync of ours that is in the history stays ours; what came before a dry
// run and is not in it is not known.
func TestDryRunOverASync(t *testing.T) {
	const kind = "argocd.sync"
	start := func() (*gitWorld, *machine.Plan) {
		w := inGit(false)
		w.Push("ada", "bigger", map[string]string{"replicas": "4"})
		return w, w.plan(t, kind, nil)
	}
	dry := func(w *gitWorld) {
		w.App.Operation = gitops.Operation{DryRun: true, By: "eve", Phase: "Succeeded", Revisions: []string{w.Head().SHA}, Finished: w.now}
	}
	w, plan := start()
	dry(w)
	if o := w.do(t, kind, machine.ActionApply, nil, plan, nil, false); o.Reason != fault.Conflict || len(w.Syncs) > 0 {
		t.Errorf("between plan and apply: %s %s %q, %d syncs", o.Status, o.Reason, o.Message, len(w.Syncs))
	}

	w, plan = start()
	before := w.App.History[len(w.App.History)-1].Revisions[0]
	made := w.do(t, kind, machine.ActionApply, nil, plan, nil, false)
	want(t, "apply", made, machine.StatusOK, "")
	w.Settle()
	dry(w)
	want(t, "look, the receipt is lost", w.do(t, kind, machine.ActionApply, nil, plan, nil, true), machine.StatusForeign, "someone else synced")
	want(t, "look", w.do(t, kind, machine.ActionApply, nil, plan, made.Data, true), machine.StatusOK, "")
	back := w.do(t, kind, machine.ActionUndo, nil, plan, made.Data, false)
	want(t, "undo", back, machine.StatusOK, "")
	w.Settle()
	dry(w)
	want(t, "look at the undo", w.do(t, kind, machine.ActionUndo, nil, plan, back.Data, true), machine.StatusOK, "")
	if now := w.App.History[len(w.App.History)-1].Revisions[0]; now != before {
		t.Errorf("it is at %s, want %s", now, before)
	}

	w, plan = start()
	made = w.do(t, kind, machine.ActionApply, nil, plan, nil, false)
	want(t, "apply", made, machine.StatusOK, "")
	w.Fails = "one of them is invalid"
	w.Settle()
	dry(w)
	want(t, "undo of what is hidden", w.do(t, kind, machine.ActionUndo, nil, plan, made.Data, false), machine.StatusForeign, "which hides the operation before it; nothing was undone")
}

// TestMadeAnew: an application that was deleted and created again since the plan is not
// the one that was planned for, whatever its history begins with.
func TestMadeAnew(t *testing.T) {
	for name, history := range map[string]func(last gitops.Deployment) []gitops.Deployment{
		"never synced": func(gitops.Deployment) []gitops.Deployment { return nil },
		"synced once":  func(last gitops.Deployment) []gitops.Deployment { last.ID = 0; return []gitops.Deployment{last} },
	} {
		for _, kind := range []string{"argocd.sync", "argocd.rollback"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				w := inGit(false)
				if kind == "argocd.sync" {
					w.Push("ada", "bigger", map[string]string{"replicas": "4"})
				}
				plan := w.plan(t, kind, nil)
				w.App.History = history(w.App.History[len(w.App.History)-1])
				w.App.Operation = gitops.Operation{}
				o := w.do(t, kind, machine.ActionApply, nil, plan, nil, false)
				if want(t, "apply", o, machine.StatusFailed, "deleted and created again"); o.Reason != fault.Conflict || len(w.Syncs) > 0 {
					t.Errorf("%s, %d syncs", o.Reason, len(w.Syncs))
				}
				want(t, "undo", w.do(t, kind, machine.ActionUndo, nil, plan, nil, false), machine.StatusForeign, "deleted and created again")
			})
		}
	}
}
